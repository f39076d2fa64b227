package expr

import "errors"

// Overlap returns the code of all sweeps as one, for a loop in which each goes over a row of its own: the processor
// then waits for memory that one reads or writes while it computes another. [Place.Element] is the sweep. The folds, of
// all sweeps in order, are those of the outputs that are stored nowhere, which come last.
func (s *Sweeps) Overlap() (c *Code, folds []Fold, in, out []Place, err error) {
	b := NewBuilder()
	var stored, folded []Output
	for k := range s.Steps {
		w := &s.Steps[k]
		if w.Code == nil {
			return nil, nil, nil, nil, errors.New("expr: a sweep that goes over nothing")
		}
		first := len(in)
		for n, p := range w.In {
			p.Element = k
			in, b.code.In = append(in, p), append(b.code.In, w.Code.In[n])
		}
		made := b.Inline(w.Code, func(n, part int) Value { return b.load(first+n, uint64(part)) })
		for n, p := range w.Out {
			if p.Kind == Nowhere {
				folded = append(folded, made[n])
				continue
			}
			p.Element = k
			stored, out = append(stored, made[n]), append(out, p)
		}
		folds = append(folds, w.Folds...)
	}
	if c, err = b.Build(append(stored, folded...)...); err != nil {
		return nil, nil, nil, nil, err
	}
	for n := range folds {
		folds[n].V = c.Out[len(stored)+n].Re
		out = append(out, Place{})
	}
	return c, folds, in, out, nil
}
