package expr

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Overlap returns the code of all sweeps as one, for a loop in which each goes over a row of its own: the processor
// then waits for memory that one reads or writes while it computes another. [Place.Element] is the sweep. The folds, of
// all sweeps in order, are those of the outputs that are stored nowhere, which come last.
func (s *Sweeps) Overlap() (c *Code, folds []Fold, in, out []Place, err error) {
	o := overlapping{s: s, b: NewBuilder(), group: 1}
	return o.build(o.load)
}

// Pipeline is Overlap with what is computed once a row as part of the code: each sweep computes it of the folds of the
// sweeps before, so that one loop can go over many rows and stop between none. Each sweep goes over so many rows
// together: [Place.Element] counts the rows of the first, then those of the next, and operands that are the same for
// all rows (still) are read once. The code is nil where what is computed once a row would be stored, or take a loop of
// float32 half as many elements at a time: by functions, or as float64.
func (s *Sweeps) Pipeline(group int, still func(operand int) bool) (c *Code, folds []Fold, in, out []Place, err error) {
	if group < 1 || still == nil {
		return nil, nil, nil, nil, errors.New("expr: a pipeline of no rows, or of operands of which nothing is told")
	}
	wide := false
	for k := range s.Steps {
		wide = wide || s.Steps[k].Code != nil && s.Steps[k].Code.wide()
	}
	for k := range s.Steps {
		w := &s.Steps[k]
		stored := slices.ContainsFunc(w.AfterOut, func(p Place) bool { return p.Kind != AtNumber })
		if stored || w.After != nil && (w.After.wide() && !wide || w.After.calls()) {
			return nil, nil, nil, nil, nil
		}
	}
	o := overlapping{s: s, b: NewBuilder(), group: group, still: still, made: map[Place][]Output{}}
	return o.build(o.number)
}

// calls reports whether there are functions.
func (c *Code) calls() bool {
	return slices.ContainsFunc(c.Insts, func(i Inst) bool { return !i.Op.Primitive() })
}

// wide reports whether there are values of 64 bits.
func (c *Code) wide() bool {
	return slices.ContainsFunc(c.Insts, func(i Inst) bool { return i.DType.Size() > 4 })
}

// overlapping makes the code of sweeps that go over rows at once.
type overlapping struct {
	s     *Sweeps
	b     *Builder
	group int
	still func(operand int) bool
	in    []Place
	// made is what is computed after a sweep (N) for another (Element).
	made map[Place][]Output
}

// build makes the code, in which from gives part 0 or 1 of what a sweep finds at a place.
func (o *overlapping) build(from func(p Place, d tensor.DType, part int) Value) (c *Code, folds []Fold, in, out []Place,
	err error) {
	var stored, folded []Output
	for e := range o.group * len(o.s.Steps) {
		w := &o.s.Steps[e/o.group]
		if w.Code == nil {
			return nil, nil, nil, nil, errors.New("expr: a sweep that goes over nothing")
		}
		made := o.b.Inline(w.Code, func(n, part int) Value {
			p := w.In[n]
			p.Element = e
			return from(p, w.Code.In[n], part)
		})
		for n, p := range w.Out {
			if p.Kind == Nowhere {
				folded = append(folded, made[n])
				continue
			}
			p.Element = e
			stored, out = append(stored, made[n]), append(out, p)
		}
		folds = append(folds, w.Folds...)
	}
	if c, err = o.b.Build(append(stored, folded...)...); err != nil {
		return nil, nil, nil, nil, err
	}
	for n := range folds {
		folds[n].V = c.Out[len(stored)+n].Re
		out = append(out, Place{})
	}
	return c, folds, o.in, out, nil
}

// load returns a part of what lies at a place.
func (o *overlapping) load(p Place, d tensor.DType, part int) Value {
	n := slices.Index(o.in, p)
	if n < 0 {
		n = len(o.in)
		o.in, o.b.code.In = append(o.in, p), append(o.b.code.In, d)
	}
	return o.b.load(n, uint64(part))
}

// number is load of anything but what is computed once a row, which it has computed: once for each sweep.
func (o *overlapping) number(p Place, d tensor.DType, part int) Value {
	k, n := o.after(p)
	if p.Kind == AtOperand && o.still(p.N) {
		p.Element = 0
	}
	if n < 0 {
		return o.load(p, d, part)
	}
	w, at := &o.s.Steps[k], Place{N: k, Element: p.Element}
	if o.made[at] == nil {
		o.made[at] = o.b.Inline(w.After, func(n, part int) Value {
			q := w.AfterIn[n]
			q.Element = p.Element
			return o.number(q, w.After.In[n], part)
		})
	}
	return o.made[at][n].Re
}

// after returns the sweep after which a number is computed, and its place among what is.
func (o *overlapping) after(p Place) (k, n int) {
	if p.Kind == AtNumber {
		for k := range o.s.Steps {
			if n := slices.Index(o.s.Steps[k].AfterOut, Place{Kind: AtNumber, N: p.N}); n >= 0 {
				return k, n
			}
		}
	}
	return -1, -1
}
