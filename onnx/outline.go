package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// A value whose shape depends on data has an outline: its dtype and the known sizes. Converters use only rank
// and sizes, so they treat such values like any other.

// outline records the outlines of an op's results if inference cannot determine their shapes.
func (n *node) outline(out []*val, o *graph.Op, attrs graph.Attrs, operands []any) {
	found := n.outlines(o, attrs, operands)
	for i, x := range out {
		if len(found) == len(out) {
			x.outline = found[i]
		} else {
			x.outline.DType = n.plainDType(attrs, operands)
		}
	}
}

func (n *node) outlines(o *graph.Op, attrs graph.Attrs, operands []any) []graph.Outline {
	in := make([]graph.Outlined, len(operands))
	for i, a := range operands {
		x, ok := a.(*val)
		switch {
		case !ok && a == nil || ok && x == nil:
		case !ok:
			in[i].Arg, _, _ = knownArg(a)
		default:
			in[i] = n.outlined(x)
		}
	}
	return o.Outline(in, attrs, n.refElements, n.symbols)
}

// outlined returns what is known of an operand for all sizes.
func (n *node) outlined(x *val) graph.Outlined {
	if x.data != nil || x.elements == nil && n.static(x) {
		arg := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.meta(), Const: x.data}}
		return graph.Outlined{Arg: arg}
	}
	return graph.Outlined{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: n.outlineOf(x)}
}

// outlineOf returns dtype and known sizes of a tensor, for all values of symbols.
func (n *node) outlineOf(x *val) graph.Outline {
	if x.dynamic() {
		return graph.Outline{DType: x.dtype(), Sizes: x.outline.Sizes}
	}
	return graph.Outline{DType: x.dtype(), Sizes: append([]int{}, plainSizes(n.shapeOf(x))...)}
}

// reference returns an attribute that is read from x when the graph runs.
func (n *node) reference(x *val) graph.Ref {
	v := n.value(x)
	n.read[v] = x
	return graph.Ref{Value: v}
}

// refElements returns the known shape and elements of a value that an attribute is read from.
func (n *node) refElements(v *graph.Value) (shape []int, elements []any, ok bool) {
	x := n.read[v]
	if x == nil {
		return nil, nil, false
	}
	shape = n.outlineOf(x).Sizes
	if shape == nil || slices.Contains(shape, -1) || tensor.Numel(shape) > foldLimit {
		return nil, nil, false
	}
	elements = make([]any, tensor.Numel(shape))
	if e := n.elementsOf(x, false); e != nil && e.dtype == tensor.Int64 {
		for i := range e.list {
			if k, known := e.list[i].n.Known(); known {
				elements[i] = int64(k)
			}
		}
	}
	return shape, elements, true
}

// plainDType returns the dtype of a result without an outline: the attribute dtype, or for an op with
// computed attributes, the dtype of its first operand.
func (n *node) plainDType(attrs graph.Attrs, operands []any) tensor.DType {
	if d, ok := attrs["dtype"].(tensor.DType); ok {
		return d
	}
	for _, a := range attrs {
		if _, ok := a.(graph.Ref); ok && len(operands) > 0 {
			if x, ok := operands[0].(*val); ok && x != nil {
				return x.dtype()
			}
		}
	}
	return tensor.Invalid
}
