package onnx

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// A value whose shape depends on data has an outline: dtype, and sizes as far as they are
// known. Converters ask for ranks and sizes, never for more, so that they do not tell such
// values from others.

// outline notes what follows for the results of an op of which the graph cannot tell the
// shapes.
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
	return o.Outline(in, attrs, n.refElements, numbers(n.importer.sizes))
}

// tighten finds the results of which nothing seemed to be known under other sizes of the
// operands, but whose shape is the same whatever those are.
func (n *node) tighten(out []*val, o *graph.Op, attrs graph.Attrs, operands []any) {
	open := func(x *val) bool {
		m, ok := n.other[x.v]
		return ok && m == nil && !x.dynamic()
	}
	if !slices.ContainsFunc(out, open) {
		return
	}
	found := n.outlines(o, attrs, operands)
	if len(found) != len(out) {
		return
	}
	for i, x := range out {
		if open(x) && found[i].Sizes != nil && slices.Equal(found[i].Sizes, x.v.Meta.Shape) {
			delete(n.other, x.v)
		}
	}
}

// outlined is what is known of an operand under any binding of symbols.
func (n *node) outlined(x *val) graph.Outlined {
	if x.data != nil || x.dual == nil && n.static(x) {
		arg := graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: x.name, Meta: x.meta(), Const: x.data}}
		return graph.Outlined{Arg: arg}
	}
	return graph.Outlined{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: n.outlineOf(x)}
}

// outlineOf returns what is known of any tensor under any binding of symbols.
func (n *node) outlineOf(x *val) graph.Outline {
	if x.dynamic() {
		return graph.Outline{DType: x.dtype(), Sizes: x.outline.Sizes}
	}
	return graph.Outline{DType: x.dtype(), Sizes: append([]int{}, n.sizes(x)...)}
}

// reference is an attribute that is read from x when the graph runs.
func (n *node) reference(x *val) graph.Ref {
	v := n.value(x)
	n.read[v] = x
	return graph.Ref{Value: v}
}

// refElements tells what is known of a value that an attribute is read from.
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
	if t := partlyOf(x); t != nil && t.DType == tensor.Int64 {
		for i, e := range ints(t) {
			if e != unknownElement {
				elements[i] = int64(e)
			}
		}
	}
	return shape, elements, true
}

// plainDType is the dtype of a result where inference does not tell: ops that read shapes
// and places from the graph keep their operand's, or are told one.
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
