package quantized

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file has checks and helpers of several ops. "Bytes" are quantized values of dtype int8 or uint8. A quantized
// value q represents a number:
//
//	(q - zero point) * scale

// checkByteDTypes checks that the operands with the given indices are bytes. name is the name of the op in the error.
func checkByteDTypes(name string, c *graph.Call, operands ...int) error {
	for _, operand := range operands {
		if dtype := c.Type(operand).DType; c.HasOperand(operand) && !kit.IsByte(dtype) {
			return kit.NotImplemented(name, dtype)
		}
	}
	return nil
}

// zeroPointHasOperandDType reports whether the zero point of an operand has the dtype of the operand, or is omitted.
// Products of bytes require this, but the ops allow zero points of other dtypes.
func zeroPointHasOperandDType(c *graph.Call, operand, zeroPoint int) bool {
	return !c.HasOperand(zeroPoint) || c.Type(zeroPoint).DType == c.Type(operand).DType
}

// checkParamCount checks the type of an operand of scales or zero points. If the operand is not omitted, it must have
// one element, or one for each channel. name and operand are the names of the op and of the operand in the error.
func checkParamCount(name, operand string, paramType tensor.Type, channels sym.Int) error {
	count := paramType.Numel()
	if paramType.DType == tensor.Invalid || count.Eq(sym.Of(1)).Or(count.Eq(channels)).Holds() {
		return nil
	}
	return fmt.Errorf("%s: expected %s to have 1 or %v elements, but got shape %s", name, operand, channels,
		tensor.Sizes(paramType.Shape))
}

// quantParams returns parameters with the given names. A question mark before a name marks an optional parameter.
func quantParams(names []string) (params []graph.Param) {
	for _, name := range names {
		isOptional := name[0] == '?'
		if isOptional {
			name = name[1:]
		}
		params = append(params, graph.Param{Name: name, Optional: isOptional})
	}
	return params
}

// minusZeroPoints returns values minus their zero points in float64. zeroPoints has a single zero point, or one for
// each index along dim. It may be nil.
func minusZeroPoints(values, zeroPoints *tensor.Tensor, dim int) *tensor.Tensor {
	differences := tensor.Zeros(tensor.Float64, values.Shape...)
	kit.EachIndex(differences.Shape, func(index []int) {
		point := 0.0
		if zeroPoints != nil {
			point = kit.ElementAlong(zeroPoints, index, dim)
		}
		differences.Set(tensor.FloatScalar(values.At(index...).Float()-point), index...)
	})
	return differences
}

// Indices of operands that qlinear_matmul and qlinear_conv have in common. Operands 0 and 3 are the factors: a and b of
// qlinear_matmul, x and w of qlinear_conv.
const (
	xScaleOperand      = 1
	wScaleOperand      = 4
	resultScaleOperand = 6
	resultZeroOperand  = 7
	biasOperand        = 8
)

// checkBias checks that the bias is omitted, or is an int32 vector with an element for each channel. name is the name
// of the op in the error.
func checkBias(name string, c *graph.Call, channels sym.Int) error {
	bias := c.Type(biasOperand)
	if !c.HasOperand(biasOperand) ||
		bias.DType == tensor.Int32 && bias.Rank() == 1 && !bias.Shape[0].Ne(channels).Holds() {
		return nil
	}
	return fmt.Errorf("%s: expected bias to be int32 [%v], but got %v %s", name, channels, bias.DType,
		tensor.Sizes(bias.Shape))
}

// isQuantizableFloat reports whether numbers of a dtype can be quantized. As in ONNX, float64 numbers cannot be
// quantized.
func isQuantizableFloat(dtype tensor.DType) bool { return dtype.IsFloat() && dtype != tensor.Float64 }

// bounds returns the least and the greatest value of an integer dtype.
func bounds(dtype tensor.DType) (lower, upper float64) {
	bits := 8 * dtype.Size()
	if dtype.IsSigned() {
		return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
	}
	return 0, math.Ldexp(1, bits) - 1
}

// saturate clamps x to the range of an integer dtype. x is an integer or NaN. NaN becomes 0.
func saturate(dtype tensor.DType, x float64) int64 {
	lower, upper := bounds(dtype)
	if x != x {
		return 0
	}
	return int64(min(max(x, lower), upper))
}

// maxTerms is the maximum number of terms of an int32 sum that must not wrap. A term is a product of two bytes minus
// their zero points, with a magnitude of at most 255*255. With a bias of at most 1<<30, the magnitude of the sum is
// less than 1<<31.
const maxTerms = 1 << 14

// magnitudesAtMost reports whether no element of a constant has a magnitude above limit. It returns false if the
// constant is nil, which stands for an operand with unknown elements.
func magnitudesAtMost(constant *tensor.Tensor, limit int64) bool {
	if constant == nil {
		return false
	}
	allSmall := true
	kit.EachIndex(constant.Shape, func(index []int) {
		element := constant.At(index...).Int()
		allSmall = allSmall && -limit <= element && element <= limit
	})
	return allSmall
}

type quantizeAttrs struct {
	Axis      int          `attr:"axis" default:"1" doc:"dimension along which scales differ"`
	BlockSize int          `attr:"block_size" default:"0" doc:"number of adjacent elements along axis that share a scale; 0: no blocks (one scale in all, or one for each index along axis)"`
	DType     tensor.DType `attr:"dtype" default:"none" doc:"dtype of the result without a zero_point; none: uint8"`
}

type dequantizeAttrs struct {
	Axis      int `attr:"axis" default:"1" doc:"dimension along which scales differ"`
	BlockSize int `attr:"block_size" default:"0" doc:"number of adjacent elements along axis that share a scale; 0: no blocks (one scale in all, or one for each index along axis)"`
}
