package fusion

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file gives a fusion other sizes. A fusion depends on sizes in three ways: by the attributes of its parts, by
// numbers in their expressions, such as the count of a mean, and by the views of an attention.

// Sizes implements [graph.SizedAttributes]: for each part, the sizes in its attributes and in the shapes of its results.
func (f *Fusion) Sizes() []sym.Int {
	var list []sym.Int
	for i := range f.Parts {
		part := &f.Parts[i]
		list = append(list, graph.SizesInAttrs(part.Attrs)...)
		for _, result := range part.results {
			for _, size := range result.Shape {
				if _, known := size.Known(); !known {
					list = append(list, size)
				}
			}
		}
	}
	return list
}

// AtSizes implements [graph.SizedAttributes].
func (f *Fusion) AtSizes(in []graph.Arg, sizes []int) (any, error) {
	bound := *f
	bound.Parts = slices.Clone(f.Parts)
	take := func(n int) []int {
		taken := sizes[:n:n]
		sizes = sizes[n:]
		return taken
	}
	values := make([][]*graph.Value, len(f.Parts)) // by part: its results
	shapes, names := make([][]int, len(f.Parts)), make([]string, len(f.Parts))
	sameCode := true
	for i := range bound.Parts {
		part := &bound.Parts[i]
		n := &graph.Node{Name: part.Name, Op: part.Op, In: make([]graph.Arg, len(part.In))}
		for k, arg := range part.In {
			switch {
			case arg.Number.IsSet():
				n.In[k] = graph.Arg{Kind: graph.NumberArg, Number: arg.Number}
			case arg.Part >= 0:
				n.In[k] = graph.ArgOf(values[arg.Part][arg.Index])
			case arg.Index >= 0:
				n.In[k] = in[arg.Index]
			}
		}
		var err error
		if n.Attrs, err = graph.AttrsAtSizes(part.Attrs, n.In, take(part.sizes)); err != nil {
			return nil, err
		}
		part.Attrs, part.results = n.Attrs, slices.Clone(part.results)
		for k := range part.results {
			shape := make([]int, len(part.results[k].Shape))
			for dim, size := range part.results[k].Shape {
				var known bool
				if shape[dim], known = size.Known(); !known {
					shape[dim] = take(1)[0]
				}
			}
			meta := tensor.New(part.results[k].DType, shape...)
			part.results[k] = meta.Type()
			n.Out = append(n.Out, &graph.Value{Name: part.Name, Node: n, Index: k, Meta: meta, Type: part.results[k]})
		}
		values[i], shapes[i], names[i] = n.Out, n.Out[0].Meta.Shape, part.Name
		// The expression of an element depends on dtypes and attributes alone, that of a row program also on the sizes of
		// the folded dimensions.
		if bound.isReadAs(i) || part.sizes == 0 && (part.rows == nil ||
			slices.Equal(part.folded, foldedSizes(part.rows, n.In[0].Meta().Shape))) {
			continue
		}
		if err := part.setCode(n, f.Mask != nil, rowsOf, expressionOf); err != nil {
			return nil, fmt.Errorf("%q: %w", part.Name, err)
		}
		if part.code.Key() == f.Parts[i].code.Key() {
			part.code = f.Parts[i].code // which keeps what is derived from it
		}
		sameCode = sameCode && part.code == f.Parts[i].code
	}
	if f.isAttention() {
		batch, err := finestBatch(shapes, names)
		if err != nil {
			return nil, err
		}
		if err := bound.setViews(in, shapes, batch); err != nil {
			return nil, err
		}
	}
	if sameCode {
		return &bound, nil
	}
	return &bound, bound.inline(in)
}

// DifferenceOf returns the first difference of two fusions of the same parts, or nil.
func (f *Fusion) DifferenceOf(other *Fusion) error {
	if other == nil || len(f.Parts) != len(other.Parts) {
		return fmt.Errorf("a fusion of other parts")
	}
	for i := range f.Parts {
		part, otherPart := &f.Parts[i], &other.Parts[i]
		if part.Op != otherPart.Op || !slices.Equal(part.In, otherPart.In) || part.ResultCount != otherPart.ResultCount {
			return fmt.Errorf("part %s or %s", part.Name, otherPart.Name)
		}
		if !graph.SameAttrs(&graph.Node{Attrs: part.Attrs}, &graph.Node{Attrs: otherPart.Attrs}) {
			return fmt.Errorf("part %s has the attributes %+v or %+v", part.Name, part.Attrs, otherPart.Attrs)
		}
	}
	sameViews := slices.EqualFunc(f.ViewShapes, other.ViewShapes, slices.Equal[[]int])
	switch {
	case !sameViews || !slices.Equal(f.Mask, other.Mask) || f.Split != other.Split ||
		!slices.Equal(f.Channels, other.Channels) || f.AnchorOperands != other.AnchorOperands:
		return fmt.Errorf("views %v, mask %v, split %d or views %v, mask %v, split %d", f.ViewShapes, f.Mask, f.Split,
			other.ViewShapes, other.Mask, other.Split)
	case f.code.Key() != other.code.Key():
		return fmt.Errorf("expression %v or %v", f.code, other.code)
	}
	return nil
}
