package index_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestFillOverflow checks that a value that overflows the dtype is rejected as in PyTorch, whatever index and self are,
// and that other values are accepted.
func TestFillOverflow(t *testing.T) {
	op := kernels.Lookup("index_fill")
	for _, shape := range [][]int{{3, 2}, {0, 2}, {3, 0}} {
		for _, positions := range []int{0, min(1, shape[0])} {
			in := []*tensor.Tensor{tensor.Zeros(tensor.Uint8, shape...), tensor.Zeros(tensor.Int64, positions),
				tensor.Zeros(tensor.Float32)}
			c, err := kerneltest.CallOf(op, map[string]any{"dim": 0}, []tensor.Meta{in[0].Meta, in[1].Meta, in[2].Meta})
			require.NoError(t, err)
			for value, fits := range map[float64]bool{255: true, 256: false, -1000: false} {
				in[2].Set(tensor.FloatScalar(value))
				_, err := kerneltest.RunCall(op, c, in)
				if fits {
					require.NoError(t, err, "%v by %d", shape, positions)
				} else {
					require.ErrorContains(t, err, "without overflow", "%v by %d", shape, positions)
				}
			}
		}
	}
}
