package quantized

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/conv"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/tensor"
)

// ConvInteger and QLinearConv are ONNX's operators. They convolve over one to three dimensions. With zero points zx, zw
// and zy, and scales sx, sw and sy, they compute
//
//	conv_integer:  sum = conv(x - zx, w - zw)
//	qlinear_conv:  saturate(round((sum + bias) * sx * sw / sy) + zy), with the sum of conv_integer
//
// A quantConv (conv_bytes.go) has the name of an op, the indices of its operands w, x_zero_point and w_zero_point, and
// isScaled, which is true for qlinear_conv. A quantBuilder (builder.go) adds the nodes into which a call decomposes.
// xOperand, biasOperand and similar constants are indices of operands. anyDim is the argument dim for an operand with
// one element.
var (
	ConvInteger = quantConvOp("conv_integer", "Convolves `x` [n, c, ...] with `w` [o, c/groups, ...], both of "+
		"bytes, after subtracting their zero points. The result is int32. `x_zero_point` has one element. "+
		"`w_zero_point` has one element, or one for each output channel. An omitted zero point is 0.",
		quantConv{name: "conv_integer", weight: 1, xZero: 2, wZero: 3}, "x", "w", "?x_zero_point", "?w_zero_point")
	QLinearConv = quantConvOp("qlinear_conv", "Convolves quantized values `x` [n, c, ...] and `w` [o, c/groups, "+
		"...], and quantizes the result. `w_scale` and `w_zero_point` have one element or one for each output "+
		"channel; `bias` is int32 [o].",
		quantConv{name: "qlinear_conv", weight: 3, xZero: 2, wZero: 5, isScaled: true},
		"x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "?bias")
)

// quantConvOp defines an op that convolves quantized values, with the given names of operands.
func quantConvOp(name, doc string, q quantConv, operands ...string) *graph.Op {
	u8, f32 := func(shape ...int) tensor.Meta { return tensor.New(tensor.Uint8, shape...) }, tensor.New(tensor.Float32)
	example := graph.Example{In: []tensor.Meta{u8(1, 2, 5, 4), tensor.New(tensor.Int8, 3, 2, 3, 3), u8(),
		tensor.New(tensor.Int8, 3)}, Attrs: graph.Attrs{"padding": []int{1, 0, 1, 1}}}
	if q.isScaled {
		example = graph.Example{In: []tensor.Meta{u8(1, 2, 5), f32, u8(), u8(4, 1, 3), tensor.New(tensor.Float32, 4), u8(4),
			f32, u8(), tensor.New(tensor.Int32, 4)}, Attrs: graph.Attrs{"groups": 2}}
	}
	return kit.Define[*quantConvAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: quantParams(operands),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				resultType, err := q.resultType(c)
				return c.NewResult(resultType), err
			},
			Ref:      q.ref,
			Examples: []graph.Example{example},
		},
		Lowerings: graph.Lowerings{Decompose: q.decompose},
	})
}

// resultType infers the type of the result.
func (q *quantConv) resultType(call *graph.Call) (tensor.Type, error) {
	if err := checkByteDTypes(q.name, call, xOperand, q.weight, q.xZero, q.wZero); err != nil {
		return tensor.Type{}, err
	}
	op, in, err := q.floatCall(call, tensor.Float32)
	if err != nil {
		return tensor.Type{}, err
	}
	sums, err := op.Infer(in)
	if err != nil {
		return tensor.Type{}, err
	}
	result := tensor.NewType(tensor.Int32, sums[0].Type.Shape...)
	if err := q.checkParamCounts(call); err != nil {
		return result, err
	}
	if call.HasOperand(q.xZero) && !kit.HaveOneElement(call, q.xZero) {
		return result, fmt.Errorf("%s: expected x_zero_point to have 1 element, but got shape %s", q.name,
			tensor.Sizes(call.Type(q.xZero).Shape))
	}
	if q.isScaled {
		if err := checkByteDTypes(q.name, call, resultZeroOperand); err != nil {
			return result, err
		}
		if !kit.HaveOneElement(call, xScaleOperand, resultScaleOperand, resultZeroOperand) {
			return result, fmt.Errorf("%s: expected x_scale, y_scale and y_zero_point to have 1 element each", q.name)
		}
		if err := checkBias(q.name, call, result.Shape[1]); err != nil {
			return result, err
		}
		result.DType = call.Type(resultZeroOperand).DType
	}
	return result, nil
}

// checkParamCounts checks that the weight has a single zero point or one for each output channel, and the same for
// scales.
func (q *quantConv) checkParamCounts(c *graph.Call) error {
	outputs := c.Type(q.weight).Shape[0]
	if err := checkParamCount(q.name, "w_zero_point", c.Type(q.wZero), outputs); err != nil || !q.isScaled {
		return err
	}
	return checkParamCount(q.name, "w_scale", c.Type(wScaleOperand), outputs)
}

// floatCall returns the op of floatConv, and a call of this op with operands of the given dtype and without results.
func (q *quantConv) floatCall(call *graph.Call, dtype tensor.DType) (*graph.Op, *graph.Call, error) {
	op, convAttrs, err := q.floatConv(call)
	if err != nil {
		return nil, nil, err
	}
	attrs, err := op.Schema.Decode(convAttrs, nil)
	if err != nil {
		return nil, nil, err
	}
	withoutResults := &graph.Call{}
	return op, kit.DelegatedCall(withoutResults, attrs, tensor.NewType(dtype, call.Type(xOperand).Shape...),
		tensor.NewType(dtype, call.Type(q.weight).Shape...)), nil
}

// floatConv returns the op that convolves floats of the rank of x, and the attributes for a call of this op.
func (q *quantConv) floatConv(c *graph.Call) (op *graph.Op, convAttrs graph.Attrs, err error) {
	attrs, rank := kit.Attrs[*quantConvAttrs](c), c.Type(xOperand).Rank()
	if rank < 3 || rank > 5 {
		return nil, nil, fmt.Errorf("%s: expected x to have 3 to 5 dimensions, but got %d", q.name, rank)
	}
	op = []*graph.Op{conv.Conv1d, conv.Conv2d, conv.Conv3d}[rank-3]
	return op, graph.Attrs{"stride": attrs.Stride, "padding": attrs.Padding, "dilation": attrs.Dilation,
		"groups": attrs.Groups}, nil
}

// decompose adds a convolution of bytes if there is machine code for the operands, else a convolution of floats whose
// sums are exact.
func (q *quantConv) decompose(parts *graph.Parts, call *graph.Call) ([]*graph.Value, error) {
	op, convAttrs, err := q.floatConv(call)
	if err != nil {
		return nil, err
	}
	builder := quantBuilder{compose.NewBuilder(parts, call)}
	if q.usesBytes(call) {
		return builder.Result(builder.bytesConv(q))
	}
	weight := call.Meta(q.weight)
	terms := tensor.Numel(weight.Shape[1:])
	dtype := q.sumDType(call, op, terms)
	sums := builder.Add(op, convAttrs, builder.minusZeroPoint(xOperand, q.xZero, anyDim, dtype),
		builder.minusZeroPoint(q.weight, q.wZero, weightChannelDim, dtype))
	if !q.isScaled {
		return builder.Result(builder.toInt32(sums, terms))
	}
	rank := weight.Rank()
	if call.HasOperand(biasOperand) {
		bias := builder.vector(biasOperand, resultChannelDim, rank, tensor.Float64)
		sums = builder.Add(pointwise.Add, nil, sums, bias)
	}
	return builder.Result(builder.requantize(sums, builder.vector(xScaleOperand, anyDim, rank, tensor.Float32),
		builder.vector(wScaleOperand, resultChannelDim, rank, tensor.Float32)))
}

// sumDType returns a dtype in which op computes sums of the given number of terms exactly.
func (q *quantConv) sumDType(call *graph.Call, op *graph.Op, terms int) tensor.DType {
	weight := call.Meta(q.weight)
	isInexact := func(impl graph.Impl) bool { return impl.Inexact }
	isPointwise := terms == weight.Shape[1] // each window has one element
	groups := kit.Attrs[*quantConvAttrs](call).Groups
	if groups == 1 && !isPointwise && slices.ContainsFunc(op.Impls, isInexact) {
		return tensor.Float64 // float32 convolutions of one group may use Winograd's formula, whose sums are rounded
	}
	return exactDType(terms, call.Meta(xOperand).DType, weight.DType)
}

// ref computes the result of the op by its definition. It convolves the operands minus their zero points in float64.
func (q *quantConv) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	resultType, err := q.resultType(c)
	if err != nil {
		return nil, err
	}
	result, _ := resultType.Meta()
	in = slices.Concat(in, make([]*tensor.Tensor, 1+biasOperand-len(in))) // nil for omitted operands
	op, call, err := q.floatCall(c, tensor.Float64)
	if err != nil {
		return nil, err
	}
	sums, err := op.Ref(call, []*tensor.Tensor{minusZeroPoints(in[xOperand], in[q.xZero], anyDim),
		minusZeroPoints(in[q.weight], in[q.wZero], weightChannelDim)})
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(result.DType, result.Shape...)
	kit.EachIndex(result.Shape, func(index []int) {
		sum := sums[0].At(index...).Float()
		element := int64(sum)
		if q.isScaled {
			element = quantizedSum(in, index, sum, result.DType)
		}
		out.Set(tensor.IntScalar(element), index...)
	})
	return []*tensor.Tensor{out}, nil
}

// quantizedSum returns an element of the result of qlinear_conv. sum is the element of conv_integer at the same index.
func quantizedSum(operands []*tensor.Tensor, index []int, sum float64, dtype tensor.DType) int64 {
	if bias := operands[biasOperand]; bias != nil {
		sum += bias.At(index[resultChannelDim]).Float()
	}
	wScale := float32(kit.ElementAlong(operands[wScaleOperand], index, resultChannelDim))
	scale := float32(kit.ElementAlong(operands[xScaleOperand], index, anyDim)) * wScale /
		float32(kit.ElementAlong(operands[resultScaleOperand], index, anyDim))
	zero := kit.ElementAlong(operands[resultZeroOperand], index, anyDim)
	return saturate(dtype, math.RoundToEven(float64(float32(sum)*scale))+zero)
}
