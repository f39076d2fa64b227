package kit

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Accumulators returns the given fold (a reduction, as a loop in Go) without its last step, which computes results from
// accumulators: its results are the accumulators.
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
