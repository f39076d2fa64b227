package kit

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// LinspaceElement returns the function that computes element i of linspace with n elements: n numbers at equal
// distances from `from` to `to`. As in PyTorch, numbers are first converted to dtype, and the second half is computed
// backward from the last element, so that this element is exact:
//
//	step = (to - from) / (n-1)
//	element i = from + step*i        for i < n/2, and for n = 1
//	element i = to - step*(n-1-i)    for the others
//
// The rounding depends on the dtype. For complex and 16-bit dtypes, each product and each sum is rounded. Other dtypes
// use fused multiply-adds.
func LinspaceElement(from, to tensor.Scalar, n int, dtype tensor.DType) func(i int) tensor.Scalar {
	half := n / 2
	first, last := from.Tensor(dtype).At(), to.Tensor(dtype).At()
	switch {
	case dtype.IsComplex():
		start, end := first.Complex(), last.Complex()
		step := (end - start) / complex(float64(max(n-1, 1)), 0)
		return func(i int) tensor.Scalar {
			if i < half || n == 1 {
				return tensor.ComplexScalar(start + MulComplex(step, complex(float64(i), 0)))
			}
			return tensor.ComplexScalar(end - MulComplex(step, complex(float64(n-i-1), 0)))
		}
	case dtype == tensor.Float32:
		start, end := float32(first.Float()), float32(last.Float())
		step := (end - start) / float32(max(n-1, 1))
		return func(i int) tensor.Scalar {
			if i < half || n == 1 {
				return tensor.FloatScalar(math.FMA(float64(step), float64(i), float64(start)))
			}
			return tensor.FloatScalar(math.FMA(-float64(step), float64(n-i-1), float64(end)))
		}
	case dtype.IsReducedFloat():
		round := func(x float64) float64 { return tensor.FloatScalar(x).Tensor(dtype).At().Float() }
		start, end := first.Float(), last.Float()
		step := round(round(end-start) / float64(max(n-1, 1)))
		return func(i int) tensor.Scalar {
			if i < half || n == 1 { // the sum is rounded when the element is stored
				return tensor.FloatScalar(start + round(step*round(float64(i))))
			}
			return tensor.FloatScalar(end - round(step*round(float64(n-i-1))))
		}
	default:
		start, end := first.Float(), last.Float()
		step := (end - start) / float64(max(n-1, 1))
		return func(i int) tensor.Scalar {
			if i < half || n == 1 {
				return tensor.FloatScalar(math.FMA(step, float64(i), start))
			}
			return tensor.FloatScalar(math.FMA(-step, float64(n-i-1), end))
		}
	}
}
