package kit

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Accumulators returns a fold (a reduction, as a loop in Go) whose results are the accumulators of the given fold. It
// omits the last step, such as the division of a mean.
func Accumulators[A tensor.Element](fold *iter.Fold) *iter.Fold {
	return iter.WithResult(fold, func(dst, accumulators []A) { copy(dst, accumulators) })
}

// LoopDType returns the dtype in which loops compute with elements of a dtype: float32 for 16-bit floats, int64 for
// integers and bool, and the dtype itself otherwise.
func LoopDType(dtype tensor.DType) tensor.DType {
	if dtype.IsIntegral(true) {
		return tensor.Int64
	}
	return dtype.OpMath()
}
