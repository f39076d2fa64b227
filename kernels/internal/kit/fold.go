package kit

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Accumulators returns a fold (a reduction, as a loop in Go) whose results are the accumulators of f. The last step of
// f, which computes results from accumulators, is omitted.
func Accumulators[A tensor.Element](f *iter.Fold) *iter.Fold {
	return iter.WithResult(f, func(dst, a []A) { copy(dst, a) })
}

// LoopDType returns the dtype in which loops compute with elements of dtype d. It is float32 for 16-bit floats, int64
// for integers and bool, and d otherwise.
func LoopDType(d tensor.DType) tensor.DType {
	if d.IsIntegral(true) {
		return tensor.Int64
	}
	return d.OpMath()
}
