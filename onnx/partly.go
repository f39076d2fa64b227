package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// A shape that depends on data is known in part: exporters pick one size of it, or join it
// with others, and what they pick may be known. So integers that are computed keep what is
// known of them as long as they are only moved about.

// unknownElement stands for an element that is not known. No size is as small.
const unknownElement = math.MinInt64 + 1

// movers are ops that give elements of their operands and nothing else.
var movers = []string{"select", "slice", "narrow", "index_select", "index", "gather", "cat", "stack", "reshape",
	"unsqueeze", "squeeze",
	"flatten", "permute", "transpose", "t", "flip", "expand", "alias"}

// partlyOf returns the elements of a value that are known, nil if none are.
func partlyOf(x *val) *tensor.Tensor {
	if x.data != nil {
		return x.data
	}
	return x.partly
}

// movePartly applies an op to what is known of its operands. It returns nil if that is
// nothing, or no matter of moving elements.
func (n *node) movePartly(o *graph.Op, attrs graph.Attrs, operands []any) []*tensor.Tensor {
	if !slices.Contains(movers, o.Name) {
		return nil
	}
	args := slices.Clone(operands)
	some := false
	for i, a := range args {
		x, ok := a.(*val)
		if !ok || x == nil || x.partly == nil {
			continue
		}
		if i > 0 && !variadic(o, i) {
			return nil // an index that is not known
		}
		args[i] = known(x.partly)
		some = true
	}
	if !some {
		return nil
	}
	out := n.foldKnown(o, attrs, args)
	var list []*tensor.Tensor
	for _, x := range out {
		if x.data.DType != tensor.Int64 {
			return nil
		}
		list = append(list, x.data.Contiguous())
	}
	return list
}

func variadic(o *graph.Op, i int) bool { return o.Params[min(i, len(o.Params)-1)].Variadic }

// settledBy turns elements into a known value, if all are known.
func settledBy(t *tensor.Tensor) *val {
	if slices.Contains(ints(t), unknownElement) {
		return nil
	}
	return known(t)
}

// withPartly notes what is known of the results of an op. If that is all, they are no values
// of the graph.
func (n *node) withPartly(parts []*tensor.Tensor, emit func() []*val) []*val {
	out := make([]*val, len(parts))
	for i, t := range parts {
		out[i] = settledBy(t)
	}
	if !slices.Contains(out, nil) {
		return out
	}
	made := emit()
	for i, x := range made {
		if i >= len(parts) || !x.dynamic() {
			continue
		}
		x.partly = parts[i]
		x.outline = graph.Outline{DType: tensor.Int64, Sizes: append([]int{}, parts[i].Shape...)}
	}
	return made
}

// sizesPartly returns the sizes of a value of a shape that is computed, -1 for those not
// known; nil if not even their number is. A size 0 may stand for another.
func (n *node) sizesPartly(shape *val) []int {
	length := n.lengthOf(shape)
	if length < 0 {
		return nil
	}
	sizes := slices.Repeat([]int{-1}, length)
	if t := partlyOf(shape); t != nil {
		for i, s := range ints(t) {
			if s > 0 {
				sizes[i] = s
			}
		}
	}
	return sizes
}
