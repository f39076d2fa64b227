package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// open is an operand of which dtype and some sizes are known.
func open(d tensor.DType, sizes ...int) graph.OutlinedArg {
	return graph.OutlinedArg{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: graph.PartialType{DType: d, Sizes: sizes}}
}

// whole is an operand whose meta is known.
func whole(d tensor.DType, sizes ...int) graph.OutlinedArg {
	return graph.OutlinedArg{Arg: graph.Arg{Kind: graph.TensorArg,
		Value: &graph.Value{Name: "whole", Meta: tensor.New(d, sizes...)}}}
}

// TestOutline checks what follows from partly known shapes: sizes of results that are the same for all sizes that the
// op accepts.
func TestOutline(t *testing.T) {
	unknown := graph.OutlinedArg{Arg: graph.Arg{Kind: graph.TensorArg}, Outline: graph.PartialType{DType: tensor.Float32}}
	for _, c := range []struct {
		name  string
		op    string
		attrs graph.Attrs
		in    []graph.OutlinedArg
		dtype tensor.DType
		sizes []int // nil: the rank is unknown
	}{
		{"broadcast", "add", nil, []graph.OutlinedArg{open(tensor.Float32, -1, 4), whole(tensor.Float32, 4)}, tensor.Float32,
			[]int{-1, 4}},
		{"promotion", "add", nil, []graph.OutlinedArg{open(tensor.Int64, -1), whole(tensor.Float32)}, tensor.Float32,
			[]int{-1}},
		{"comparison", "eq", nil, []graph.OutlinedArg{open(tensor.Float32, -1), open(tensor.Float32, -1)}, tensor.Bool,
			[]int{-1}},
		{"product", "matmul", nil, []graph.OutlinedArg{open(tensor.Float32, -1, 4), whole(tensor.Float32, 4, 7)},
			tensor.Float32, []int{-1, 7}},
		{"inner size", "matmul", nil, []graph.OutlinedArg{open(tensor.Float32, -1, -1), whole(tensor.Float32, 4, 7)},
			tensor.Float32, []int{-1, 7}},
		{"clamped slice", "slice", graph.Attrs{"dim": 0, "start": 0, "end": 10},
			[]graph.OutlinedArg{open(tensor.Float32, -1, 3)}, tensor.Float32, []int{-1, 3}},
		{"far slice", "slice", graph.Attrs{"dim": 0, "start": 5000, "end": 5010},
			[]graph.OutlinedArg{open(tensor.Float32, -1)}, tensor.Float32, []int{-1}},
		{"squeeze of any", "squeeze", nil, []graph.OutlinedArg{open(tensor.Float32, -1, 3)}, tensor.Float32, nil},
		{"places", "gather_nd", nil, []graph.OutlinedArg{whole(tensor.Float32, 5, 6, 4), open(tensor.Int64, -1, 2)},
			tensor.Float32, []int{-1, 4}},
		{"convolution", "conv2d", nil,
			[]graph.OutlinedArg{open(tensor.Float32, -1, 3, 8, -1), whole(tensor.Float32, 6, 3, 3, 3)}, tensor.Float32,
			[]int{-1, 6, 6, -1}},
		{"parts that add up", "split_with_sizes", graph.Attrs{"split_sizes": []int{2, 9}, "dim": 0},
			[]graph.OutlinedArg{open(tensor.Int32, -1)}, tensor.Int32, []int{2}},
		{"rank of the shape", "_shape_as_tensor", nil, []graph.OutlinedArg{open(tensor.Float32, -1, -1, -1)},
			tensor.Int64, []int{3}},
		{"no rank", "relu", nil, []graph.OutlinedArg{unknown}, tensor.Float32, nil},
		{"flat", "reshape", graph.Attrs{"shape": []int{-1}}, []graph.OutlinedArg{unknown}, tensor.Float32, []int{-1}},
	} {
		out := kernels.Lookup(c.op).Outline(c.in, c.attrs, nil, nil)
		require.NotEmpty(t, out, c.name)
		require.Equal(t, c.dtype, out[0].DType, c.name)
		require.Equal(t, c.sizes, out[0].Sizes, c.name)
	}
}

// TestOutlineOfNothingTaken wants no outline if the op rejects all sizes.
func TestOutlineOfNothingTaken(t *testing.T) {
	in := []graph.OutlinedArg{open(tensor.Float32, -1, 3), whole(tensor.Float32, 4, 7)}
	require.Nil(t, kernels.Lookup("matmul").Outline(in, nil, nil, nil))
}

func TestJoinAndStack(t *testing.T) {
	a := graph.PartialType{DType: tensor.Float32, Sizes: []int{2, 3}}
	require.Equal(t, []int{2, -1}, a.Join(graph.PartialType{DType: tensor.Float32, Sizes: []int{2, 4}}).Sizes)
	require.Nil(t, a.Join(graph.PartialType{DType: tensor.Float32, Sizes: []int{2}}).Sizes)
	require.Equal(t, tensor.Invalid, a.Join(graph.PartialType{DType: tensor.Int64}).DType)
	require.Equal(t, []int{2, 3, -1}, a.Stacked(-1).Sizes)
	require.Equal(t, []int{-1, 2, 3}, a.Stacked(0).Sizes)
}
