package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts the elements of operands between the dtype in memory (Meta.DType) and the dtype in which a loop
// computes (TargetDType). If an operand has a Cast, its elements are rounded to this dtype on the way.

// roundBlock rounds n results in a block to operand.Cast. PyTorch computes such results in a temporary of this dtype,
// and then copies them to an output of another dtype.
func roundBlock(operand *rule.Resolved, block unsafe.Pointer, n int) {
	size := operand.TargetDType.Size()
	roundingConverters[[2]tensor.DType{operand.Cast, operand.TargetDType}](block, block, size, size, n)
}

// inputConversion returns the conversion of an input for the loop. If PyTorch promotes the input to a 16-bit float, the
// conversion rounds to that dtype first, although loops compute in a wider dtype.
func inputConversion(operand *rule.Resolved) strided.Elem {
	if operand.Cast == tensor.Invalid {
		return conversion(operand.TargetDType, operand.Meta.DType)
	}
	round := roundingConverters[[2]tensor.DType{operand.Cast, operand.Meta.DType}]
	return strided.ConverterOf(operand.TargetDType.Size(), operand.Meta.DType.Size(), round)
}

// conversion returns the conversion between two dtypes. Between equal dtypes it is a move, because the converter from
// bool to bool would normalize every byte.
func conversion(dst, src tensor.DType) strided.Elem {
	if dst == src {
		return strided.MoverOf(dst.Size())
	}
	return strided.ConverterOf(dst.Size(), src.Size(), tensor.Converter(dst, src))
}

// roundingConverters maps {half, from} to the conversion from dtype `from` to float32 that first rounds to the 16-bit
// float `half`. The second step of the conversion works in place, so both steps use the strides of the result.
var roundingConverters = func() map[[2]tensor.DType]tensor.ConvertFunc {
	converters := map[[2]tensor.DType]tensor.ConvertFunc{}
	for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		widen := tensor.Converter(half.OpMath(), half)
		for _, from := range tensor.DTypes() {
			narrow := tensor.Converter(half, from)
			converters[[2]tensor.DType{half, from}] = func(dst, src unsafe.Pointer, dstStride, srcStride, n int) {
				narrow(dst, src, dstStride, srcStride, n)
				widen(dst, dst, dstStride, dstStride, n)
			}
		}
	}
	return converters
}()
