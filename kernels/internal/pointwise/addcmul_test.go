package pointwise_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestAddcmulRoundsTwice has the results of PyTorch 1.13 with ATEN_CPU_CAPABILITY=default: the product is rounded
// before it is added, so that an overflowing product and the opposite infinity give NaN. PyTorch's loops for AVX2 and
// AVX-512, in which a C compiler contracted the operations, give inf, -inf, m, and eps/2 for the first four float32
// cases.
func TestAddcmulRoundsTwice(t *testing.T) {
	inf, nan, zero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	for _, f := range []struct {
		dtype               tensor.DType
		big, eps            float64
		near, square, three float64 // -1 + (1+eps) * (1-eps/2), (1+eps) + (1+eps)^2, 1 + (1+eps) * 3 * 0.5
	}{
		{tensor.Float32, float64(float32(3e38)), 0x1p-23, 0, 2.000000476837158, 2.500000238418579},
		{tensor.Float64, 1.5e308, 0x1p-52, 0, 2.000000000000001, 2.5000000000000004},
		{tensor.BFloat16, 3.00405527047391e+38, 0x1p-7, 0.003875732421875, 2.03125, 2.515625},
	} {
		m, more := f.big, 1+f.eps
		for _, c := range []struct{ self, a, b, value, want float64 }{
			{inf, -m, m, 1, nan}, {-inf, m, m, 1, nan}, {-m, m, 2, 1, inf}, {-1, more, 1 - f.eps/2, 1, f.near},
			{inf, m, -2, 2, nan}, {-inf, m, m, -1, -inf}, {inf, m, m, 1, inf}, {0, inf, 0, 1, nan}, {zero, -1, 0, 1, zero},
			{0, -1, 0, 1, 0}, {1, inf, 1, 0, nan}, {more, more, more, 1, f.square}, {1, more, 3, 0.5, f.three},
			{nan, 1, 1, 1, nan},
		} {
			for _, n := range []int{1, 33} {
				got, want := runAddcmul(t, f.dtype, c.value, n, c.self, c.a, c.b)
				for i := range n {
					for _, x := range []float64{got.At(i).Float(), want.At(i).Float()} { // by loop and by reference
						if math.IsNaN(c.want) {
							require.True(t, math.IsNaN(x), "%v %+v gives %v", f.dtype, c, x)
							continue
						}
						require.Equal(t, c.want, x, "%v %+v", f.dtype, c)
						require.Equal(t, math.Signbit(c.want), math.Signbit(x), "%v %+v", f.dtype, c)
					}
				}
			}
		}
	}
}

// TestComplexStepsAreRounded checks that the kernel and the reference round the complex result of each step to the
// dtype.
func TestComplexStepsAreRounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"addcmul", "lerp"} {
		op, n := kernels.Lookup(name), 200
		in, metas := make([]*tensor.Tensor, 3), make([]tensor.Meta, 3)
		for k := range in {
			in[k] = tensor.Empty(tensor.New(tensor.Complex64, n))
			metas[k] = in[k].Meta
			for i := range n {
				in[k].SetFlat(i, tensor.ComplexScalar(complex(rng.NormFloat64(), rng.NormFloat64())))
			}
		}
		c, err := kerneltest.CallOf(op, nil, metas)
		require.NoError(t, err)
		_, err = kerneltest.Infer(op, c)
		require.NoError(t, err)
		want, err := op.Ref(c, in)
		require.NoError(t, err)
		got, err := kerneltest.RunCall(op, c, in)
		require.NoError(t, err)
		require.Equal(t, want[0].Storage().Bytes(), got[0].Storage().Bytes(), name)
	}
}

// runAddcmul computes n equal elements by the kernel and by the reference.
func runAddcmul(t *testing.T, d tensor.DType, value float64, n int, operands ...float64) (got, want *tensor.Tensor) {
	op, in := kernels.Lookup("addcmul"), make([]*tensor.Tensor, len(operands))
	var metas []tensor.Meta
	for k, x := range operands {
		in[k] = tensor.Empty(tensor.New(d, n))
		metas = append(metas, in[k].Meta)
		for i := range n {
			in[k].SetFlat(i, tensor.FloatScalar(x))
		}
	}
	call, err := kerneltest.CallOf(op, graph.Attrs{"value": value}, metas)
	require.NoError(t, err)
	out, err := kerneltest.RunCall(op, call, in)
	require.NoError(t, err)
	ref, err := op.Ref(call, in)
	require.NoError(t, err)
	return out[0], ref[0]
}
