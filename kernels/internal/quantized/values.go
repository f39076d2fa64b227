package quantized

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Indices of operands of quantize_linear and dequantize_linear. Operand 0 is the input.
const (
	scaleIndex = 1
	zeroIndex  = 2
)

// quantizedValues has the operands of a dequantize_linear with constant scales and zero points. For a quantize_linear,
// it has only the scales and the zero points.
type quantizedValues struct {
	quantized, scaleArg, zeroArg graph.Arg      // the quantized values, the scales and the zero points
	scale, zero                  *tensor.Tensor // the constants scaleArg and zeroArg; zero may be nil
	axis                         int            // the dimension along which scales differ
}

// operand returns operand i of a call, or a null operand if it is omitted.
func operand(c *graph.Call, i int) graph.Arg {
	if c.HasOperand(i) {
		return c.In[i]
	}
	return graph.Arg{}
}

// areNormalScales reports whether scales are known float32 numbers between 2^-50 and 2^50. Products and quotients of a
// few such scales and 16-bit integers do not overflow. The rounding error of a subnormal result is far below one
// quantization step.
func areNormalScales(scales *tensor.Tensor) bool {
	if scales == nil || scales.DType != tensor.Float32 {
		return false
	}
	areNormal := true
	kit.EachIndex(scales.Shape, func(coords []int) {
		scale := scales.At(coords...).Float()
		areNormal = areNormal && scale > 0x1p-50 && scale < 0x1p50
	})
	return areNormal
}

// firstElement returns the first element of scales or zero points. It returns 0 if params is nil.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func firstElement(params *tensor.Tensor) float64 {
	if params == nil {
		return 0
	}
	return params.At(make([]int, params.Rank())...).Float()
}

// sameParams reports whether both operands have a single scale, the scales are equal, and the zero points are equal.
func (values quantizedValues) sameParams(other quantizedValues) bool {
	return values.scale.Numel() == 1 && other.scale.Numel() == 1 &&
		firstElement(values.scale) == firstElement(other.scale) &&
		firstElement(values.zero) == firstElement(other.zero)
}

// quantize returns the quantized value of a number, in the given dtype.
func (values quantizedValues) quantize(dtype tensor.DType, number float64) int64 {
	quotient := float32(number) / float32(firstElement(values.scale))
	return saturate(dtype, math.RoundToEven(float64(quotient))+firstElement(values.zero))
}

// fitsInt8 reports whether a weight minus its zero points fits int8. An int8 weight with zero points 0 always fits.
func (values quantizedValues) fitsInt8() bool {
	return values.quantized.Type().DType == tensor.Int8 && values.hasZeroPointsOf0() || values.elementsFitInt8()
}

// hasZeroPointsOf0 reports whether all zero points are 0.
func (values quantizedValues) hasZeroPointsOf0() bool {
	return values.zero == nil || magnitudesAtMost(values.zero, 0)
}

// elementsFitInt8 computes fitsInt8 without the shortcut for int8 weights. It checks each element or, if the elements
// are unknown, the bounds of the dtype.
func (values quantizedValues) elementsFitInt8() bool {
	dtype := values.quantized.Type().DType
	lower, upper := bounds(dtype)
	weight := values.quantized.Value.Const
	fitInt8 := func(least, greatest, zero float64) bool {
		return least-zero >= math.MinInt8 && greatest-zero <= math.MaxInt8
	}
	allFit := true
	if weight == nil { // the weight is computed, possibly from constants
		if values.zero == nil {
			return fitInt8(lower, upper, 0)
		}
		kit.EachIndex(values.zero.Shape, func(coords []int) {
			allFit = allFit && fitInt8(lower, upper, values.zero.At(coords...).Float())
		})
		return allFit
	}
	kit.EachIndex(weight.Shape, func(coords []int) {
		element, zero := weight.At(coords...).Float(), 0.0
		if values.zero != nil {
			zero = kit.ElementAlong(values.zero, coords, 0) // of the output channel, dimension 0 of the weight
		}
		allFit = allFit && fitInt8(element, element, zero)
	})
	return allFit
}

// bias is the bias of a convolution or product: a constant that is added to the sums. The constant is float, or is
// dequantized from int32.
type bias struct {
	operand graph.Arg       // the operand of the convolution or product; null if there is no bias
	values  quantizedValues // the operands of dequantize_linear, if that op computes the bias
	// hasSumScale is set if the bias has the scale of the sums, so its int32 values can be added to the sums unchanged.
	hasSumScale bool
}

// setInt32Values sets b.values and b.hasSumScale. It reports whether the bias can be an int32 constant. This is the
// case if the bias is omitted. Otherwise the bias must be a constant, and bias / sumScale must be in half of the range
// of int32 for each channel. sumScale, the scale of the sums, is the scale of the input times the scale of the weight.
// If the result is false, b must not be used.
func (b *bias) setInt32Values(input, weight quantizedValues) bool {
	if b.operand.Kind == graph.Null {
		return true
	}
	sumScaleOf := func(channel int) float64 {
		// The conversion of the product to float64 prevents a fused multiply-subtract in the comparison of scales.
		return float64(firstElement(input.scale) * kit.ElementAlong(weight.scale, []int{channel}, 0))
	}
	// The bias of a channel is data[channel] * scaleOf(channel).
	data, scaleOf := b.operand.Value.Const, func(int) float64 { return 1 }
	values, ok := dequantized(b.operand)
	isInt32 := ok && values.quantized.Type().DType == tensor.Int32 && values.hasZeroPointsOf0()
	if isInt32 {
		b.values, data = values, values.quantized.Value.Const
		scaleOf = func(channel int) float64 { return kit.ElementAlong(values.scale, []int{channel}, 0) }
	}
	if data == nil || data.Rank() != 1 {
		return false
	}
	allFit, sameScales := true, true
	for channel := range data.Shape[0] {
		scale, sumScale := scaleOf(channel), sumScaleOf(channel)
		sameScales = sameScales && math.Abs(scale-sumScale) <= 1e-6*sumScale
		allFit = allFit && math.Abs(data.At(channel).Float()*scale) <= sumScale*(math.MaxInt32/2)
	}
	b.hasSumScale = isInt32 && sameScales
	return allFit
}
