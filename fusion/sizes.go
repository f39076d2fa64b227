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

// Sizes implements [graph.SizedAttributes]: for each part, the sizes in its attributes and in the shapes of its
// results.
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
	shapes, names := make([][]int, len(f.Parts)), make([]string, len(f.Parts))
	for i := range bound.Parts {
		part := &bound.Parts[i]
		names[i] = part.Name
		var err error
		if part.Attrs, err = graph.AttrsAtSizes(part.Attrs, nil, take(part.sizes)); err != nil {
			return nil, err
		}
		for k, result := range part.results {
			meta, known := result.Meta()
			if !known {
				shape := make([]int, len(result.Shape))
				for dim, size := range result.Shape {
					if shape[dim], known = size.Known(); !known {
						shape[dim] = take(1)[0]
					}
				}
				if &part.results[0] == &f.Parts[i].results[0] {
					part.results = slices.Clone(part.results)
				}
				meta = tensor.New(result.DType, shape...)
				part.results[k] = meta.Type()
			}
			if k == 0 {
				shapes[i] = meta.Shape
			}
		}
	}
	sameCode := true
	values := make([][]*graph.Value, len(f.Parts)) // by part: its results; nil until a part needs them
	for i := range bound.Parts {
		part := &bound.Parts[i]
		// The expression of an element depends on dtypes and attributes alone, that of a row program also on the sizes of
		// the folded dimensions.
		if bound.isReadAs(i) || part.sizes == 0 && (part.rows == nil ||
			slices.Equal(part.folded, foldedSizes(part.rows, bound.shapeOfOperand(i, in)))) {
			continue
		}
		if err := part.setCode(bound.node(i, in, values), f.Mask != nil, rowsOf, expressionOf); err != nil {
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

// Like implements [graph.SizedAttributes].
func (f *Fusion) Like(other any) bool {
	o, ok := other.(*Fusion)
	if !ok || f == nil || o == nil || f.DifferenceOf(o) != nil || !slices.Equal(f.Results, o.Results) {
		return false
	}
	sameShape := func(a, b tensor.Type) bool {
		return a.DType == b.DType && slices.EqualFunc(a.Shape, b.Shape, sym.Int.Same)
	}
	for i := range f.Parts {
		if !slices.EqualFunc(f.Parts[i].results, o.Parts[i].results, sameShape) {
			return false
		}
	}
	return true
}

// WithNamesOf implements [graph.SizedAttributes].
func (f *Fusion) WithNamesOf(other any) any {
	o, ok := other.(*Fusion)
	if f == nil || !ok || o == nil {
		return f
	}
	renamed := *f
	renamed.names = o.Names()
	return &renamed
}

// shapeOfOperand returns the shape of the first operand of part i. in has the operands of the fused node.
func (f *Fusion) shapeOfOperand(i int, in []graph.Arg) []int {
	arg := f.Parts[i].In[0]
	switch {
	case arg.Number.IsSet():
		return nil
	case arg.Part < 0:
		return in[arg.Index].Meta().Shape
	}
	meta, _ := f.Parts[arg.Part].results[arg.Index].Meta()
	return meta.Shape
}

// node returns part i as a node. in has the operands of the fused node, and values the results of parts that it made
// before.
func (f *Fusion) node(i int, in []graph.Arg, values [][]*graph.Value) *graph.Node {
	part := &f.Parts[i]
	n := &graph.Node{Name: part.Name, Op: part.Op, Attrs: part.Attrs, In: make([]graph.Arg, len(part.In))}
	for k, arg := range part.In {
		switch {
		case arg.Number.IsSet():
			n.In[k] = graph.Arg{Kind: graph.NumberArg, Number: arg.Number}
		case arg.Part >= 0:
			if values[arg.Part] == nil {
				f.node(arg.Part, in, values)
			}
			n.In[k] = graph.ArgOf(values[arg.Part][arg.Index])
		case arg.Index >= 0:
			n.In[k] = in[arg.Index]
		}
	}
	for k, result := range part.results {
		meta, _ := result.Meta()
		n.Out = append(n.Out, &graph.Value{Name: part.Name, Node: n, Index: k, Meta: meta, Type: result})
	}
	values[i] = n.Out
	return n
}

// DifferenceOf returns the first difference of two fusions of the same parts, or nil.
func (f *Fusion) DifferenceOf(other *Fusion) error {
	if other == nil || len(f.Parts) != len(other.Parts) {
		return fmt.Errorf("a fusion of other parts")
	}
	for i := range f.Parts {
		part, otherPart := &f.Parts[i], &other.Parts[i]
		sameOperands := graph.SameAttrs(&graph.Node{Attrs: part.In}, &graph.Node{Attrs: otherPart.In})
		if part.Op != otherPart.Op || !sameOperands || part.ResultCount != otherPart.ResultCount {
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
