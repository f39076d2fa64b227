package onnx

import (
	"github.com/graphrun/graphrun/graph"
)

// A value whose shape depends on data has an outline: dtype, and sizes as far as they are
// known. Converters ask for ranks and sizes, never for more, so that they do not tell such
// values from others.

// outline notes what follows for the results of an op of which the graph cannot tell the
// shapes.
func (n *node) outline(out []*val, o *graph.Op, attrs graph.Attrs, operands []any) {
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
	found := o.Outline(in, attrs, n.refOutline, n.importer.sizes)
	if len(found) != len(out) {
		return
	}
	for i, x := range out {
		x.outline = found[i]
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

// refOutline is the outline of a value that an attribute is read from.
func (n *node) refOutline(v *graph.Value) graph.Outline {
	if x := n.read[v]; x != nil {
		return n.outlineOf(x)
	}
	return graph.Outline{DType: v.Meta.DType}
}
