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
	first, last := from.Tensor(dtype).At(), to.Tensor(dtype).At()
	// afterFirst and beforeLast compute the element that is k steps after the first or before the last.
	var afterFirst, beforeLast func(k int) tensor.Scalar
	switch {
	case dtype.IsComplex():
		start, end := first.Complex(), last.Complex()
		step := (end - start) / complex(float64(max(n-1, 1)), 0)
		distance := func(k int) complex128 { return MulComplex(step, complex(float64(k), 0)) }
		afterFirst = func(k int) tensor.Scalar { return tensor.ComplexScalar(start + distance(k)) }
		beforeLast = func(k int) tensor.Scalar { return tensor.ComplexScalar(end - distance(k)) }
	case dtype.IsReducedFloat():
		round := func(x float64) float64 { return tensor.FloatScalar(x).Tensor(dtype).At().Float() }
		start, end := first.Float(), last.Float()
		step := round(round(end-start) / float64(max(n-1, 1)))
		distance := func(k int) float64 { return round(step * round(float64(k))) }
		afterFirst = func(k int) tensor.Scalar { return tensor.FloatScalar(start + distance(k)) }
		beforeLast = func(k int) tensor.Scalar { return tensor.FloatScalar(end - distance(k)) }
	default:
		start, end := first.Float(), last.Float()
		step := (end - start) / float64(max(n-1, 1))
		if dtype == tensor.Float32 {
			step = float64((float32(end) - float32(start)) / float32(max(n-1, 1)))
		}
		afterFirst = func(k int) tensor.Scalar { return tensor.FloatScalar(math.FMA(step, float64(k), start)) }
		beforeLast = func(k int) tensor.Scalar { return tensor.FloatScalar(math.FMA(-step, float64(k), end)) }
	}
	return func(i int) tensor.Scalar {
		if i < n/2 || n == 1 {
			return afterFirst(i)
		}
		return beforeLast(n - 1 - i)
	}
}
