package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// TestSelects checks the facts SelectsElements and Fills of every op on its examples: if each element x of the operands
// becomes 1000-x, so does each element of the results, except the constants of Fills.
func TestSelects(t *testing.T) {
	const sum = 1000
	tested := 0
	for _, op := range kernels.All() {
		if !op.SelectsElements && !op.Fills {
			continue
		}
		for i, ex := range op.Examples {
			c, err := kerneltest.CallOf(op, ex.Attrs, ex.In)
			require.NoError(t, err, "%s, example %d", op.Name, i)
			plain, mirrored := make([]*tensor.Tensor, len(ex.In)), make([]*tensor.Tensor, len(ex.In))
			for k, m := range ex.In {
				if m.DType == tensor.Invalid {
					continue
				}
				draw := func(first, step int) *tensor.Tensor {
					number := 0
					return kerneltest.Filled(m, func(tensor.DType) tensor.Scalar {
						number += step
						return tensor.IntScalar(int64(first + number))
					})
				}
				if plain[k], mirrored[k] = draw(0, 1), draw(sum, -1); op.Params[min(k, len(op.Params)-1)].IndexBound != nil {
					plain[k] = draw(0, 0)
					mirrored[k] = plain[k]
				}
			}
			want, err := op.Ref(c, plain)
			require.NoError(t, err, "%s, example %d", op.Name, i)
			got, err := op.Ref(c, mirrored)
			require.NoError(t, err, "%s, example %d", op.Name, i)
			for r := range want {
				kit.EachIndex(want[r].Shape, func(at []int) {
					x, y := want[r].At(at...).Float(), got[r].At(at...).Float()
					require.True(t, y == sum-x || op.Fills && y == x, "%s, example %d: %v at %v becomes %v", op.Name, i, x, at, y)
				})
			}
			tested++
		}
	}
	require.Greater(t, tested, 10)
}
