package view_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestTensorSplitByConstant compares the parts of a split by a constant with PyTorch's, in a program, and checks the
// errors of other operands.
func TestTensorSplitByConstant(t *testing.T) {
	ints := func(shape []int, values ...int64) *tensor.Tensor {
		return tensor.Must(tensor.FromSlice(values, shape...))
	}
	x := tensor.Zeros(tensor.Float32, 6, 2)
	for i := range 6 {
		x.Set(tensor.FloatScalar(float64(i)), i, 0)
	}
	for _, c := range []struct {
		by   *tensor.Tensor
		rows []int // of the parts
	}{
		{ints(nil, 4), []int{2, 2, 1, 1}},
		{ints([]int{2}, 1, 3), []int{1, 2, 3}},
		{ints([]int{3}, -4, 1<<62, -1<<62), []int{2, 4, 0, 6}},
		{ints([]int{0}), []int{6}},
	} {
		g := graph.New("g", kernels.Lookup)
		in := g.Input("x", x.DType, 6, 2)
		parts := g.Apply("tensor_split", nil, in, g.Constant("by", c.by))
		require.NoError(t, g.Err())
		require.Len(t, parts, len(c.rows))
		for _, v := range parts {
			g.Output(v.Name, v)
		}
		p, err := exec.Compile(g, exec.Options{})
		require.NoError(t, err)
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": x})
		require.NoError(t, err)
		for i, v := range parts {
			assert.Equal(t, []int{c.rows[i], 2}, out[v.Name].Shape, "part %d by %v", i, c.by)
		}
	}
	for want, by := range map[string]*tensor.Tensor{
		"have dtype of long, but got Int":                 tensor.Zeros(tensor.Int32, 2),
		"zero-dimensional or one-dimensional tensor":      ints([]int{1, 2}, 1, 3),
		"number of sections must be larger than 0, got 0": ints(nil, 0),
		"split at 1048576 indices: at most 1048576 parts": tensor.Zeros(tensor.Int64, 1<<20),
	} {
		_, _, err := kerneltest.NewCall("tensor_split", nil, []*tensor.Tensor{x, by}, 1)
		assert.ErrorContains(t, err, want)
	}
	_, _, err := kerneltest.NewCall("tensor_split", nil, []*tensor.Tensor{x, ints(nil, 4)})
	assert.ErrorContains(t, err, "as a constant")
	_, _, err = kerneltest.NewCall("tensor_split", graph.Attrs{"sections": 2}, []*tensor.Tensor{x, ints(nil, 4)}, 1)
	assert.ErrorContains(t, err, "so is an attribute")
}
