package view_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestCircularPads holds the third source against numbers from PyTorch 1.13: the
// reference shares the tables of indices with the kernel.
func TestCircularPads(t *testing.T) {
	x := tensor.Must(tensor.FromSlice([]float64{0, 1, 2, 3, 4}, 1, 1, 5))
	op := kernels.Lookup("pad")
	for _, tc := range []struct {
		mode          string
		before, after int
		want          []float64
	}{
		{"circular", 2, 1, []float64{3, 4, 0, 1, 2, 3, 4, 0}},
		{"circular", -3, 3, []float64{3, 4, 3, 4, 3}},
		{"reflect", 2, 3, []float64{2, 1, 0, 1, 2, 3, 4, 3, 2, 1}},
		{"reflect", -3, 3, []float64{3, 4, 3, 2, 1}},
		{"replicate", 1, 2, []float64{0, 0, 1, 2, 3, 4, 4, 4}},
		{"replicate", -3, 3, []float64{3, 4, 4, 4, 4}},
	} {
		c, err := kerneltest.CallOf(op, graph.Attrs{"pad": []int{tc.before, tc.after}, "mode": tc.mode},
			[]tensor.Meta{x.Meta})
		require.NoError(t, err)
		out, err := kerneltest.RunCall(op, c, []*tensor.Tensor{x})
		require.NoError(t, err, "%s %d, %d", tc.mode, tc.before, tc.after)
		got, err := tensor.ToSlice[float64](out[0])
		require.NoError(t, err)
		require.Equal(t, tc.want, got, "%s %d, %d", tc.mode, tc.before, tc.after)
	}
}
