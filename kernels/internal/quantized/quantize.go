package quantized

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/compose"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/reduce"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

var (
	optZeroPoint = graph.Param{Name: "zero_point", Optional: true}
	scaleOperand = graph.Param{Name: "scale"}
)

// QuantizeLinear is ONNX's operator QuantizeLinear: clamp(round(input / scale) + zero_point).
var QuantizeLinear = kit.Define[*quantizeAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "quantize_linear",
		Doc: "Divides `input` by `scale`, rounds half to even, adds `zero_point` and clamps to the dtype of " +
			"`zero_point`, or to `dtype`. `scale` and `zero_point` have one element, or one for each index of " +
			"`axis`, or one for each block along `axis`.",
		Params: []graph.Param{kit.Input, scaleOperand, optZeroPoint},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, inputType := kit.Attrs[*quantizeAttrs](call), call.Type(0)
			if err := checkScales(call, attrs.Axis, attrs.BlockSize); err != nil {
				return nil, fmt.Errorf("quantize_linear: %w", err)
			}
			if !isQuantizableFloat(inputType.DType) && inputType.DType != tensor.Int32 {
				return nil, kit.NotImplemented("quantize_linear", inputType.DType)
			}
			if !isQuantizableFloat(call.Type(scaleIndex).DType) {
				return nil, kit.NotImplemented("quantize_linear", call.Type(scaleIndex).DType)
			}
			dtype := quantDType(call, attrs.DType)
			if !isQuantizedDType(dtype) {
				return nil, kit.NotImplemented("quantize_linear", dtype)
			}
			return call.NewResult(inputType.RowMajor().WithDType(dtype)), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*quantizeAttrs](c)
			dtype := quantDType(c, attrs.DType)
			return quantReference(c, in, attrs.Axis, attrs.BlockSize, dtype, func(x, scale, zeroPoint float64) tensor.Scalar {
				return tensor.IntScalar(saturate(dtype, math.RoundToEven(float64(float32(x)/float32(scale)))+zeroPoint))
			})
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3).WithStrides([]int{1, 2}), tensor.New(tensor.Float32, 3),
				tensor.New(tensor.Int8, 3)}},
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5), tensor.New(tensor.Float32, 2, 2),
				tensor.New(tensor.Int16, 2, 2)}, Attrs: graph.Attrs{"block_size": 3}},
		},
	},
	Lowerings: graph.Lowerings{
		Decompose: func(parts *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			builder, attrs := quantBuilder{compose.NewBuilder(parts, c)}, kit.Attrs[*quantizeAttrs](c)
			scale := builder.Convert(tensor.Float32, builder.broadcastParam(scaleIndex, attrs.Axis, attrs.BlockSize))
			zeroPoint := graph.Arg{}
			if c.HasOperand(zeroIndex) {
				zeroPoint = builder.broadcastParam(zeroIndex, attrs.Axis, attrs.BlockSize)
			}
			x := builder.Add(pointwise.Div, nil, builder.Convert(tensor.Float32, c.In[0]), scale)
			return builder.Result(builder.quantize(x, zeroPoint, c.Out[0].DType))
		},
		Rewrite: rewriteQuantize,
	},
})

// DequantizeLinear is ONNX's operator DequantizeLinear: (input - zero_point) * scale.
var DequantizeLinear = kit.Define[*dequantizeAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "dequantize_linear",
		Doc: "Subtracts `zero_point` from integers and multiplies by `scale`. The result has the dtype of `scale`. " +
			"`scale` and `zero_point` have one element, or one for each index of `axis`, or one for each block " +
			"along `axis`.",
		Params: []graph.Param{kit.Input, scaleOperand, optZeroPoint},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, inputType := kit.Attrs[*dequantizeAttrs](call), call.Type(0)
			if err := checkScales(call, attrs.Axis, attrs.BlockSize); err != nil {
				return nil, fmt.Errorf("dequantize_linear: %w", err)
			}
			if !isQuantizedDType(inputType.DType) {
				return nil, kit.NotImplemented("dequantize_linear", inputType.DType)
			}
			if !isQuantizableFloat(call.Type(scaleIndex).DType) {
				return nil, kit.NotImplemented("dequantize_linear", call.Type(scaleIndex).DType)
			}
			return call.NewResult(inputType.RowMajor().WithDType(call.Type(scaleIndex).DType)), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs, dtype := kit.Attrs[*dequantizeAttrs](c), c.Meta(scaleIndex).DType
			return quantReference(c, in, attrs.Axis, attrs.BlockSize, dtype, func(x, scale, zeroPoint float64) tensor.Scalar {
				return tensor.FloatScalar((x - zeroPoint) * scale)
			})
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Int8, 2, 3), tensor.New(tensor.Float32)}},
			{In: []tensor.Meta{tensor.New(tensor.Uint8, 3, 2), tensor.New(tensor.Float16, 3), tensor.New(tensor.Uint8, 3)},
				Attrs: graph.Attrs{"axis": 0}},
		},
	},
	Lowerings: graph.Lowerings{
		Decompose: func(parts *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			builder, attrs, x := quantBuilder{compose.NewBuilder(parts, c)}, kit.Attrs[*dequantizeAttrs](c), c.In[0]
			dtype := tensor.Float32 // differences of 16-bit integers are exact in float32
			if x.Type().DType.Size() > 2 {
				dtype = tensor.Int64
			}
			if c.HasOperand(zeroIndex) {
				x = builder.Add(pointwise.Sub, nil, builder.Convert(dtype, x),
					builder.Convert(dtype, builder.broadcastParam(zeroIndex, attrs.Axis, attrs.BlockSize)))
			}
			return builder.Result(builder.Add(pointwise.Mul, nil, builder.Convert(tensor.Float32, x),
				builder.Convert(tensor.Float32, builder.broadcastParam(scaleIndex, attrs.Axis, attrs.BlockSize))))
		},
	},
})

// DynamicQuantizeLinear is ONNX's operator DynamicQuantizeLinear.
var DynamicQuantizeLinear = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "dynamic_quantize_linear",
		Doc: "Quantizes float32 to uint8. The scale and the zero point are chosen so that the quantized values span the " +
			"range of the elements and 0. The results are the quantized values, the scale and the zero point.",
		Params:  []graph.Param{kit.Input},
		Outputs: []string{"y", "y_scale", "y_zero_point"},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			inputType := c.Type(0)
			if inputType.DType != tensor.Float32 {
				return nil, kit.NotImplemented("dynamic_quantize_linear", inputType.DType)
			}
			fresh := func(dtype tensor.DType, shape ...sym.Int) graph.Result {
				return graph.Result{Type: tensor.NewType(dtype, shape...), Alias: graph.NoAlias}
			}
			return []graph.Result{fresh(tensor.Uint8, inputType.Shape...), fresh(tensor.Float32), fresh(tensor.Uint8)}, nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			lower, upper := 0.0, 0.0
			kit.EachIndex(in[0].Shape, func(index []int) {
				element := in[0].At(index...).Float()
				lower, upper = min(lower, element), max(upper, element)
			})
			quantized := tensor.Zeros(tensor.Uint8, in[0].Shape...)
			scaleResult, zeroResult := tensor.Zeros(tensor.Float32), tensor.Zeros(tensor.Uint8)
			scale, zero := rangeScale(float32(lower), float32(upper))
			scaleResult.Set(tensor.FloatScalar(float64(scale)))
			zeroResult.Set(tensor.IntScalar(int64(zero)))
			kit.EachIndex(in[0].Shape, func(index []int) {
				quotient := math.RoundToEven(float64(float32(in[0].At(index...).Float()) / scale))
				quantized.Set(tensor.IntScalar(saturate(tensor.Uint8, quotient+float64(zero))), index...)
			})
			return []*tensor.Tensor{quantized, scaleResult, zeroResult}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 3, 4).WithStrides([]int{1, 3})}}},
	},
	Lowerings: graph.Lowerings{Decompose: dynamicQuantizeParts},
})

// rangeScale returns a scale and a zero point such that uint8 values cover the numbers from lower to upper.
func rangeScale(lower, upper float32) (scale float32, zeroPoint int32) {
	if scale = (upper - lower) / 255; scale == 0 {
		scale = 1
	}
	return scale, int32(saturate(tensor.Uint8, math.RoundToEven(float64(-lower/scale))))
}

// dynamicQuantizeParts decomposes dynamic_quantize_linear.
func dynamicQuantizeParts(parts *graph.Parts, call *graph.Call) ([]*graph.Value, error) {
	builder := quantBuilder{compose.NewBuilder(parts, call)}
	zero := builder.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": 0, "dtype": tensor.Float32})
	lower, upper := zero, zero
	if call.Meta(0).Numel() > 0 {
		lower = builder.Add(pointwise.Minimum, nil, builder.Add(reduce.Amin, nil, call.In[0]), zero)
		upper = builder.Add(pointwise.Maximum, nil, builder.Add(reduce.Amax, nil, call.In[0]), zero)
	}
	scale := builder.Add(pointwise.Div, nil, builder.Add(pointwise.Sub, nil, upper, lower), compose.Number(255))
	scale = builder.Add(pointwise.Where, nil, builder.Add(pointwise.Eq, nil, scale, compose.Number(0)),
		compose.Number(1), scale)
	zeroPoint := builder.quantize(builder.Add(pointwise.Div, nil, builder.Add(pointwise.Neg, nil, lower), scale),
		graph.Arg{}, tensor.Uint8)
	quantized := builder.quantize(builder.Add(pointwise.Div, nil, call.In[0], scale), zeroPoint, tensor.Uint8)
	return builder.Result(quantized, scale, zeroPoint)
}

// quantDType returns the dtype of a quantized result. It is the dtype of the zero point if there is one. Otherwise it
// is the attribute dtype (attr), or uint8 if this attribute is not given.
func quantDType(c *graph.Call, attr tensor.DType) tensor.DType {
	switch {
	case c.HasOperand(zeroIndex):
		return c.Type(zeroIndex).DType
	case attr != tensor.Invalid:
		return attr
	}
	return tensor.Uint8
}

// isQuantizedDType reports whether quantized values may have the given dtype.
func isQuantizedDType(dtype tensor.DType) bool {
	switch dtype {
	case tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32:
		return true
	}
	return false
}

// checkScales checks the shapes of the scale and the zero point. blockSize is the attribute block_size.
func checkScales(c *graph.Call, axis, blockSize int) error {
	input, scale, zeroPoint := c.Type(0), c.Type(scaleIndex), c.Type(zeroIndex)
	hasOneScale := blockSize == 0 && kit.HaveOneElement(c, scaleIndex)
	if c.HasOperand(zeroIndex) && !tensor.SameSizes(zeroPoint.Shape, scale.Shape) &&
		!(hasOneScale && kit.HaveOneElement(c, zeroIndex)) {
		return fmt.Errorf("zero_point has shape %s, scale %s", tensor.Sizes(zeroPoint.Shape), tensor.Sizes(scale.Shape))
	}
	if hasOneScale {
		return nil
	}
	dim, err := tensor.WrapDim(axis, input.Rank())
	if err != nil {
		return err
	}
	if input.Rank() == 0 {
		return errors.New("a 0-dim input has one scale")
	}
	expected := []sym.Int{input.Shape[dim]}
	if blockSize > 0 {
		expected = slices.Clone(input.Shape)
		expected[dim] = input.Shape[dim].Add(sym.Of(blockSize - 1)).Div(sym.Of(blockSize))
	}
	if blockSize < 0 || !tensor.SameSizes(scale.Shape, expected) {
		return fmt.Errorf("expected scale to have shape %s, but got %s", tensor.Sizes(expected), tensor.Sizes(scale.Shape))
	}
	return nil
}

// broadcastParam returns the scales or the zero points (operand) in a shape that broadcasts to operand 0. They differ
// along axis. If blockSize is not 0, each scale or zero point applies to blockSize adjacent elements along axis. For
// example, with blocks of 3 along axis 1 of a 2x5 input, operands of shape [2, 2] are expanded to [2, 2, 3], flattened
// to [2, 6] and narrowed to [2, 5].
func (builder quantBuilder) broadcastParam(operand, axis, blockSize int) graph.Arg {
	param, input := builder.Call.In[operand], builder.Call.Meta(0)
	rank := input.Rank()
	if rank == 0 {
		return builder.BroadcastAlong(param, 0, 0)
	}
	axis = (axis + rank) % rank // a negative axis counts from the end
	if blockSize == 0 {
		return builder.BroadcastAlong(param, axis, rank)
	}
	repeatedShape := slices.Insert(slices.Clone(param.Meta().Shape), axis+1, min(blockSize, max(input.Shape[axis], 1)))
	param = builder.Add(view.Expand, graph.Attrs{"size": repeatedShape},
		builder.Add(view.Unsqueeze, graph.Attrs{"dim": axis + 1}, param))
	param = builder.Add(view.Flatten, graph.Attrs{"start_dim": axis, "end_dim": axis + 1}, param)
	return builder.Add(view.Narrow, graph.Attrs{"dim": axis, "start": 0, "length": input.Shape[axis]}, param)
}

// quantReference computes the results of quantize_linear and dequantize_linear by their definition. compute returns an
// element of the result for an element of the input, its scale and its zero point. dtype is the dtype of the result.
func quantReference(c *graph.Call, in []*tensor.Tensor, axis, blockSize int, dtype tensor.DType,
	compute func(x, scale, zeroPoint float64) tensor.Scalar) ([]*tensor.Tensor, error) {
	if err := checkScales(c, axis, blockSize); err != nil {
		return nil, err
	}
	input := in[0]
	out := tensor.Zeros(dtype, input.Shape...)
	hasOneScale := in[scaleIndex].Numel() == 1 && blockSize == 0
	// paramOf returns the scale (scaleIndex) or the zero point (zeroIndex) of the input's element at an index.
	paramOf := func(operand int, index []int) float64 {
		if hasOneScale { // the zero point and the scale may differ in rank
			return in[operand].At(make([]int, in[operand].Rank())...).Float()
		}
		dim := (axis + len(index)) % len(index) // a negative axis counts from the end
		if blockSize == 0 {
			return in[operand].At(index[dim]).Float()
		}
		paramIndex := slices.Clone(index)
		paramIndex[dim] /= blockSize
		return in[operand].At(paramIndex...).Float()
	}
	kit.EachIndex(input.Shape, func(index []int) {
		zeroPoint := 0.0
		if len(in) > zeroIndex && in[zeroIndex] != nil {
			zeroPoint = paramOf(zeroIndex, index)
		}
		out.Set(compute(input.At(index...).Float(), paramOf(scaleIndex, index), zeroPoint), index...)
	})
	return []*tensor.Tensor{out}, nil
}
