package pointwise_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestAddcmulIsContracted: as in PyTorch 1.13, whose answers these are, the last product is rounded with the sum, and
// where it is too great for the dtype that is no infinity of its own.
func TestAddcmulIsContracted(t *testing.T) {
	inf := math.Inf(1)
	big := map[tensor.DType]float64{tensor.Float32: float64(float32(3e38)), tensor.Float64: 1.5e308}
	for d, m := range big {
		eps := 0x1p-23
		if d == tensor.Float64 {
			eps = 0x1p-52
		}
		for _, n := range []int{1, 33} {
			for _, c := range []struct{ self, a, b, value, want float64 }{
				{inf, -m, m, 1, inf},
				{-inf, m, m, 1, -inf},
				{-m, m, 2, 1, m},
				{-1, 1 + eps, 1 - eps/2, 1, eps/2 - eps*eps/2}, // the product, rounded, would be 1
				{inf, m, -2, 2, math.NaN()},                    // value times tensor1 is rounded before
			} {
				op, in := kernels.Lookup("addcmul"), make([]*tensor.Tensor, 3)
				var metas []tensor.Meta
				for k, x := range []float64{c.self, c.a, c.b} {
					in[k] = tensor.Empty(tensor.New(d, n))
					metas = append(metas, in[k].Meta)
					for i := range n {
						in[k].SetFlat(i, tensor.FloatScalar(x))
					}
				}
				call, err := kerneltest.CallOf(op, graph.Attrs{"value": c.value}, metas)
				require.NoError(t, err)
				got, err := kerneltest.RunCall(op, call, in)
				require.NoError(t, err)
				want, err := op.Ref(call, in)
				require.NoError(t, err)
				for i := range n {
					if math.IsNaN(c.want) {
						require.True(t, math.IsNaN(got[0].At(i).Float()) && math.IsNaN(want[0].At(i).Float()), "%v %+v", d, c)
						continue
					}
					require.Equal(t, c.want, got[0].At(i).Float(), "%v %+v", d, c)
					require.Equal(t, c.want, want[0].At(i).Float(), "%v %+v, by reference", d, c)
				}
			}
		}
	}
}
