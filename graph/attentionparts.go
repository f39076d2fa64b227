package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// attention puts the parts of an attention together: see [Fuser.Attends]. Batches that parts see in several shapes
// are seen in the finest one, which is a view of any.
func (w *whole) attention(f *Fuser, parts []*Node, keep func(*Value) bool) error {
	first, last := parts[0], parts[len(parts)-1]
	if err := betweenProducts(parts); err != nil {
		return err
	}
	fine, err := fineBatch(parts)
	if err != nil {
		return err
	}
	w.node.Op = last.Op.attending()
	w.fusion.Head = 3
	w.node.In = []Arg{first.In[0], first.In[1], last.In[1]}
	if err := attendable(append(slices.Clone(w.node.In), Of(first.Out[0]), last.In[0])); err != nil {
		return err
	}
	scores, folds := first.Out[0].Meta.Shape, false
	for i, v := range []*Value{first.Out[0], first.Out[0], last.Out[0]} {
		if err := w.sees(i, v.Meta.Shape, fine); err != nil {
			return err
		}
	}
	for i, m := range parts {
		local := m.Out[0].Meta.Shape
		switch between, err := f.between(m, scores); {
		case i == 0 || i == len(parts)-1:
			w.product(i, m, keep)
			continue
		case err != nil:
			return fmt.Errorf("%q %w", m.Name, err)
		case between:
			folds, local = true, m.In[0].Meta().Shape
		}
		if err := w.add(i, m, func(int) bool { return false }, keep); err != nil {
			return err
		}
		if showsAlike(m) && w.fusion.Parts[i].In[0].Part < 0 {
			return fmt.Errorf("%q shows nothing that the first product makes", m.Name)
		}
		for _, a := range w.fusion.Parts[i].In {
			if a.Part >= 0 || a.Number.IsSet() {
				continue
			}
			if err := w.sees(a.Place, local, fine); err != nil {
				return err
			}
		}
	}
	if w.fusion.Parts[len(parts)-1].In[0].Part < 0 || !folds {
		return errors.New("nothing folds rows between the products")
	}
	rank := last.Out[0].Meta.Rank()
	w.fusion.Seen = append(w.fusion.Seen, append(slices.Clone(fine), last.Out[0].Meta.Shape[rank-2:]...))
	w.fusion.Mask = make([]bool, len(fine)+2)
	w.fusion.Mask[len(fine)+1] = true
	return nil
}

// betweenProducts tells why the first and the last part are not the two products of an attention.
func betweenProducts(parts []*Node) error {
	first, last := parts[0], parts[len(parts)-1]
	switch {
	case !loops.Compiles():
		return errors.New("no machine code is made of loops")
	case !first.Op.Attends() || !last.Op.Attends() || len(first.Out) != 1 || len(first.In) != 2 || len(last.In) != 2:
		return errors.New("it does not begin and end with products of matrices")
	case slices.ContainsFunc(parts, func(m *Node) bool { return slices.Contains(m.Out, last.In[1].Value) }):
		return fmt.Errorf("needs %q as a whole, by which weights are multiplied", last.In[1].Value.Name)
	}
	return nil
}

// attendable tells why values are not for the products of an attention: query, key, value, scores, weights.
func attendable(values []Arg) error {
	d := values[0].Meta().DType
	for i, a := range values {
		m := a.Meta()
		switch {
		case a.Kind != TensorArg || m.Rank() < 2:
			return errors.New("a product in it is not of two matrices")
		case m.Numel() == 0:
			return errors.New("a matrix in it has no elements")
		case m.DType != d || d != tensor.Float32 && d != tensor.Float64:
			return fmt.Errorf("it multiplies matrices of %v, which products compute in another dtype", m.DType)
		case i < 3 && a.Value.Const != nil:
			return fmt.Errorf("%q is constant, and better packed once", a.Value.Name)
		}
	}
	return nil
}

// product adds the first or the last part.
func (w *whole) product(i int, m *Node, keep func(*Value) bool) {
	in := []FusedArg{{Part: -1, Place: 0}, {Part: -1, Place: 1}}
	if i > 0 {
		in[1].Place = 2
		made, inner := w.at[m.In[0].Value]
		if in[0] = (FusedArg{Part: made[0], Place: made[1]}); !inner {
			in[0] = FusedArg{Part: -1, Place: -1}
		}
	}
	w.makes(i, m, keep)
	w.fusion.Parts = append(w.fusion.Parts, FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, In: in, Outs: 1})
}

// sees notes in which shape operand k is seen, which is broadcast to a shape of the parts.
func (w *whole) sees(k int, local, fine []int) error {
	seen, ok := seenAs(w.node.In[k].Meta().Shape, local, fine)
	switch known := k < len(w.fusion.Seen); {
	case !ok || known && !slices.Equal(w.fusion.Seen[k], seen):
		return fmt.Errorf("%q lies along other dimensions", w.node.In[k].Value.Name)
	case !known:
		w.fusion.Seen = append(w.fusion.Seen, seen)
	}
	return nil
}

// between tells why a node cannot be between the products of an attention whose first one makes a value of that shape.
// It reports whether the node folds rows.
func (f *Fuser) between(m *Node, scores []int) (folds bool, err error) {
	if len(m.Out) != 1 || !alikeScores(m.Out[0].Meta.Shape, scores) {
		return false, errors.New("makes something else than rows of scores")
	}
	if showsAlike(m) {
		return false, nil
	}
	if r := f.Rows(m); r != nil && r.Code.Compilable() {
		shape := m.In[0].Meta().Shape
		rank := len(shape)
		ok := r.Split == 0 && len(r.Mask) == rank && r.Mask[rank-1] && !slices.Contains(r.Mask[:rank-1], true) &&
			r.Fits(shape) && !slices.Contains(r.Channels, true)
		if !ok || len(m.Out[0].Meta.Shape) != rank {
			return false, errors.New("folds along other dimensions than rows of scores")
		}
		return true, nil
	}
	c, err := f.Expression(m)
	switch {
	case err != nil:
		return false, err
	case !c.Compilable():
		return false, errors.New("calls functions that only Go has")
	}
	return false, nil
}

// alikeScores reports whether a shape is one of scores, or of one number for each row of them, whatever the shape of
// their batch.
func alikeScores(shape, scores []int) bool {
	a, b := len(shape), len(scores)
	if a < 2 || b < 2 || shape[a-2] != scores[b-2] || shape[a-1] != scores[b-1] && shape[a-1] != 1 {
		return false
	}
	return tensor.Numel(shape[:a-2]) == tensor.Numel(scores[:b-2])
}

// showsAlike reports whether a node shows its operand's elements in the same order, in another shape.
func showsAlike(m *Node) bool {
	if len(m.Out) != 1 || m.Out[0].Alias == nil || len(m.In) == 0 || m.In[0].Kind != TensorArg {
		return false
	}
	from, to := m.In[0].Meta(), m.Out[0].Meta
	a, b := from.Rank(), to.Rank()
	return from.IsContiguous() && to.IsContiguous() && from.Numel() == to.Numel() && from.Offset == to.Offset &&
		a >= 2 && b >= 2 && slices.Equal(from.Shape[a-2:], to.Shape[b-2:])
}

// fineBatch is the coarsest shape that the batches of all parts are views of: it has no sizes of 1.
func fineBatch(parts []*Node) ([]int, error) {
	batch := func(shape []int) []int { return shape[:max(0, len(shape)-2)] }
	whole := tensor.Numel(batch(parts[0].Out[0].Meta.Shape))
	if whole == 0 {
		return nil, errors.New("there are no matrices in it")
	}
	ends := []int{1} // products of sizes, from the last on
	for _, m := range parts {
		if len(m.Out) != 1 {
			return nil, fmt.Errorf("%q makes several values", m.Name)
		}
		shape := batch(m.Out[0].Meta.Shape)
		if tensor.Numel(shape) != whole {
			return nil, fmt.Errorf("%q makes another batch of matrices", m.Name)
		}
		n := 1
		for _, size := range slices.Backward(shape) {
			n *= size
			ends = append(ends, n)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var fine []int
	for i := len(ends) - 1; i > 0; i-- {
		if ends[i]%ends[i-1] != 0 {
			return nil, errors.New("batches are cut in ways that do not fit together")
		}
		fine = append(fine, ends[i]/ends[i-1])
	}
	return fine, nil
}

// seenAs is the shape in which an operand that is broadcast to a shape is seen where the batch of that is seen as fine;
// false where its sizes do not fit.
func seenAs(shape, local, fine []int) ([]int, bool) {
	pad, at := len(local)-len(shape), len(fine)
	if pad < 0 {
		return nil, false
	}
	size := func(d int) int {
		if d < pad {
			return 1
		}
		return shape[d-pad]
	}
	seen := append(slices.Repeat([]int{1}, len(fine)), size(len(local)-2), size(len(local)-1))
	for d := len(local) - 3; d >= 0; d-- {
		if size(d) != 1 && size(d) != local[d] {
			return nil, false
		}
		for n := local[d]; n > 1; n /= fine[at] {
			if at--; at < 0 || n%fine[at] != 0 {
				return nil, false
			}
			if size(d) != 1 {
				seen[at] = fine[at]
			}
		}
	}
	return seen, true
}
