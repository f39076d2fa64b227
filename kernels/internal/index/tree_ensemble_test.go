package index_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestTreeEnsemble compares the kernel with the reference on random lists of nodes: children before and after the node,
// outside the list, and equal to it; NaN; operands that are constant and that are not.
func TestTreeEnsemble(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for round := range 60 {
		rows, columns, nodes, trees, weights := 1+r.IntN(40), 1+r.IntN(3), 1+r.IntN(12), 1+r.IntN(4), 1+r.IntN(9)
		ints := func(low, below int, shape ...int) *tensor.Tensor {
			data := make([]int32, tensor.Numel(shape))
			for i := range data {
				data[i] = int32(low + r.IntN(below-low))
			}
			return tensor.Must(tensor.FromSlice(data, shape...))
		}
		floats := func(shape ...int) *tensor.Tensor {
			data := make([]float32, tensor.Numel(shape))
			for i := range data {
				if data[i] = float32(r.IntN(7) - 3); r.IntN(8) == 0 {
					data[i] = float32(math.NaN())
				}
			}
			return tensor.Must(tensor.FromSlice(data, shape...))
		}
		values := kerneltest.Filled(tensor.New(tensor.Float32, weights), kerneltest.NonzeroValues(r))
		in := []*tensor.Tensor{floats(rows, columns), ints(0, nodes, trees), ints(0, columns, nodes), floats(nodes),
			ints(-2, nodes+2, nodes, 2), ints(0, weights+1, nodes+1), ints(0, 2, weights), values}
		if round%2 == 0 {
			in = append(in, ints(-2, nodes+2, nodes))
		}
		var constants []int
		for i := 1; i < len(in) && round%3 > 0; i++ {
			constants = append(constants, i)
		}
		attrs := graph.Attrs{"outputs": 2, "aggregate": []string{"sum", "mean", "amin", "amax"}[r.IntN(4)]}
		kerneltest.CheckKernel(t, "tree_ensemble", attrs, in, constants...)
	}
}
