package view

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
)

// This file describes nodes and values in the text and the details of boxes.

// operandDetails returns the details of the results and operands of a node.
func operandDetails(n *graph.Node) (list []detail) {
	for i, v := range n.Out {
		name := "makes"
		if len(n.Out) > 1 {
			name = fmt.Sprintf("makes %d", i)
		}
		list = append(list, valueDetails(name, v)...)
	}
	for _, arg := range n.In {
		switch {
		case arg.Kind == graph.TensorArg && arg.Value.Const != nil:
			list = append(list, valueDetails("constant", arg.Value)...)
		case arg.Kind == graph.TensorArg:
			list = append(list, valueDetails("reads", arg.Value)...)
		case arg.Kind == graph.NumberArg:
			list = append(list, detail{"number", arg.Number.String()})
		}
	}
	return list
}

// measuredText formats a measured time (in nanoseconds) and its ratio to the predicted time.
func measuredText(measured, predicted float64) string {
	text := format.Nanoseconds(measured)
	if predicted > 0 {
		text += fmt.Sprintf(", %.2f × predicted", measured/predicted)
	}
	return text
}

// typeText returns the dtype and the shape of a value.
func typeText(v *graph.Value) string {
	switch {
	case !v.Meta.DType.Valid():
		return "type depends on data"
	case v.Dynamic:
		return v.Meta.DType.String() + ", shape depends on data"
	}
	return v.Meta.DType.String() + " " + format.Ints(v.Meta.Shape)
}

// valueDetails returns a list of one detail with the given name and valueText.
func valueDetails(name string, v *graph.Value) []detail { return []detail{{name, valueText(v)}} }

// valueText returns the name, dtype, shape, strides, layout and size of a value.
func valueText(v *graph.Value) string {
	text := v.Name + ": " + typeText(v)
	if !v.Dynamic && v.Meta.DType.Valid() {
		text += " by " + format.Ints(v.Meta.Strides)
		if v.Meta.Offset != 0 {
			text += fmt.Sprintf(" from %d on", v.Meta.Offset)
		}
		text += ", " + inspect.LayoutName(v.Meta) + ", " + format.Bytes(v.Meta.Bytes())
	}
	return text
}

// opsOf returns the op of a node, or the ops of all nodes that were fused into it, such as "conv2d + relu×2".
func opsOf(n *graph.Node) string {
	attrs, fused := n.Attrs.(*fusion.Fusion)
	if !fused {
		return n.Op.Name
	}
	var list []string
	for i := 0; i < len(attrs.Parts); {
		op, first := attrs.Parts[i].Op.Name, i
		for i < len(attrs.Parts) && attrs.Parts[i].Op.Name == op {
			i++
		}
		if i > first+1 {
			op = fmt.Sprintf("%s×%d", op, i-first)
		}
		list = append(list, op)
	}
	return strings.Join(list, " + ")
}

// fusedNames returns the names of the nodes that were fused into a node, or the node's own name.
func fusedNames(n *graph.Node) []string {
	if f, fused := n.Attrs.(*fusion.Fusion); fused {
		return f.Names()
	}
	return []string{n.Name}
}
