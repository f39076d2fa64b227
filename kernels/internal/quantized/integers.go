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
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// This file rewrites quantized networks that dequantize values, compute with floats and quantize the results. The
// rewritten network computes with bytes, which are quantized values of dtype int8 or uint8. "Numbers" are the floats
// for which quantized values stand. For example:
//
//	quantize(relu(conv2d(dequantize(x), dequantize(w))))   becomes   clamp(conv_bytes(x, w, ...))
//
// The operands of quantize_linear and dequantize_linear are the values, the scales (scaleIndex) and the optional zero
// points (zeroIndex). The type quantizedValues has these operands, and the type bias has the bias of a convolution or
// product (values.go). RewriteContext.UsedOnlyHere reports whether all readers of a value are nodes that the rewrite
// removes.
//
// Sums of products of bytes are exact, whereas sums of floats are rounded after each product. Therefore a result that
// is almost halfway between two quantized values can differ by one step. Plans that require exact results keep the
// floats.

// dequantized returns the operands of the dequantize_linear that computes arg. ok is false if another op computes arg.
// The scales must be float32 constants, one for each channel or one for all elements. The zero points must have the
// dtype of the quantized values.
func dequantized(arg graph.Arg) (values quantizedValues, ok bool) {
	if arg.Kind != graph.TensorArg || arg.Value.Node == nil {
		return values, false
	}
	attrs, isDequantize := arg.Value.Node.Attrs.(*dequantizeAttrs)
	call := arg.Value.Node.Call()
	hasUnknownZero := call.HasOperand(zeroIndex) && call.Const(zeroIndex) == nil
	if !isDequantize || attrs.BlockSize != 0 || hasUnknownZero {
		return values, false
	}
	if !areNormalScales(call.Const(scaleIndex)) || !zeroPointHasOperandDType(call, 0, zeroIndex) {
		return values, false
	}
	return quantizedValues{quantized: call.In[0], scaleArg: call.In[scaleIndex], zeroArg: operand(call, zeroIndex),
		scale: call.Const(scaleIndex), zero: call.Const(zeroIndex), axis: attrs.Axis}, true
}

// quantizationOf returns the scale and the zero point of a call of quantize_linear. ok is true if the call quantizes
// float32 numbers to bytes, with one constant scale for all elements.
func quantizationOf(c *graph.Call) (values quantizedValues, ok bool) {
	attrs := kit.Attrs[*quantizeAttrs](c)
	hasUnknownZero := c.HasOperand(zeroIndex) && c.Const(zeroIndex) == nil
	if attrs.BlockSize != 0 || !kit.IsByte(c.Out[0].DType) || c.Type(0).DType != tensor.Float32 {
		return values, false
	}
	if hasUnknownZero || !areNormalScales(c.Const(scaleIndex)) || c.Const(scaleIndex).Numel() != 1 {
		return values, false
	}
	return quantizedValues{scaleArg: c.In[scaleIndex], zeroArg: operand(c, zeroIndex), scale: c.Const(scaleIndex),
		zero: c.Const(zeroIndex)}, true
}

// quantizeRewriter rewrites one call of quantize_linear. Its methods add the nodes of the rewritten graph. The embedded
// quantBuilder adds nodes (Add), and returns the call's new result (Result).
type quantizeRewriter struct {
	quantBuilder
	graph.RewriteContext
	newNodes *graph.Parts    // the nodes that replace the call's node
	result   quantizedValues // the scale and the zero point of the call
}

// rewriteQuantize rewrites a quantization by the first of these rules that applies:
//
//   - If the operand was dequantized with the same scale and zero point, the result is the original bytes.
//   - If the operand is the result of an op that only moves elements, the quantization moves before that op.
//   - If the operand is a max pooling, a convolution or a product of dequantized numbers, that op computes with bytes.
//   - Otherwise the quantization becomes one loop over elements.
func rewriteQuantize(parts *graph.Parts, call *graph.Call, context graph.RewriteContext) (rewrite graph.Rewrite,
	err error) {
	result, ok := quantizationOf(call)
	if !ok || call.In[0].Kind != graph.TensorArg {
		return rewrite, nil
	}
	rewriter := &quantizeRewriter{quantBuilder: quantBuilder{compose.NewBuilder(parts, call)}, RewriteContext: context,
		newNodes: parts, result: result}
	node := call.In[0].Value.Node
	if node == nil {
		return rewriter.rewriteAsLoop()
	}
	if input, ok := dequantized(call.In[0]); ok && input.sameParams(result) &&
		input.quantized.Type().DType == call.Out[0].DType {
		rewrite.Replaced, rewrite.Why = node, "it has the same scale and zero point"
		rewrite.Results, err = rewriter.Result(rewriter.Add(view.Clone, nil, input.quantized))
		return rewrite, err
	}
	if rewriter.isMoveOp(node) {
		return rewriter.quantizeBefore(node)
	}
	if rewrite, err = rewriter.rewriteMaxPool(node); err != nil || rewrite.Results != nil {
		return rewrite, err
	}
	// If Why is set but Results is not, Why is the reason why a product keeps the floats.
	if rewrite, err = rewriter.rewriteProduct(); err != nil || rewrite.Results != nil || rewrite.Why != "" {
		return rewrite, err
	}
	return rewriter.rewriteAsLoop()
}

// isMoveOp reports whether a node only moves elements, can be applied to bytes, and has a single result, the operand of
// the quantization. It returns false if more elements would be quantized before the node than after the node.
func (q *quantizeRewriter) isMoveOp(node *graph.Node) bool {
	isView := node.Op.Kind == graph.View && !node.Op.ReadsStorage && node.Op.Expression == nil
	movesElements := isView || node.Op.SelectsElements
	if !movesElements || len(node.Out) != 1 || !q.UsedOnlyHere(node.Out[0]) || len(node.In) == 0 {
		return false
	}
	quantizedElements := 0 // number of elements that are quantized before the node
	for _, operand := range q.movedOperands(node) {
		if operand.Kind != graph.TensorArg || operand.Type().DType != tensor.Float32 {
			return false
		}
		if _, ok := dequantized(operand); !ok {
			quantizedElements += operand.Meta().Numel()
		}
	}
	return quantizedElements <= node.Out[0].Meta.Numel() && q.canMoveBytes(node)
}

// canMoveBytes reports whether a node that moves elements can be applied to the quantized elements.
func (q *quantizeRewriter) canMoveBytes(node *graph.Node) bool {
	dtype := q.Call.Out[0].DType
	types := make([]tensor.Type, len(node.In))
	for i, operand := range node.In {
		types[i] = operand.Type()
		if i < len(q.movedOperands(node)) {
			types[i] = types[i].WithDType(dtype)
		}
	}
	resultType, err := kit.InferredType(node.Op, node.Attrs, types...)
	return err == nil && resultType.DType == dtype
}

// movedOperands returns the operands from which a node moves elements: the first, or all of a concatenation.
func (q *quantizeRewriter) movedOperands(node *graph.Node) []graph.Arg {
	if node.Op.Params[0].Variadic {
		return node.In
	}
	return node.In[:1]
}

// quantizeBefore quantizes the operands of a node that only moves elements, and applies the node to the bytes.
func (q *quantizeRewriter) quantizeBefore(node *graph.Node) (rewrite graph.Rewrite, err error) {
	in := slices.Clone(node.In)
	for i, operand := range q.movedOperands(node) {
		// A copy of the replaced quantize_linear quantizes the operand.
		args := append([]graph.Arg{operand}, q.Call.In[1:]...)
		bytes, err := q.newNodes.Repeat(q.newNodes.ReplacedNode(), args...)
		if err != nil {
			return rewrite, err
		}
		in[i] = graph.ArgOf(bytes[0])
	}
	out, err := q.newNodes.Repeat(node, in...)
	if err != nil {
		return rewrite, err
	}
	rewrite.Replaced, rewrite.Why = node, fmt.Sprintf("%s moves numbers, which are quantized before it", node.Name)
	result := graph.ArgOf(out[0])
	if out[0].Alias != nil { // a result of quantize_linear must not alias an operand
		result = q.Add(view.Clone, nil, result)
	}
	rewrite.Results, err = q.Result(result)
	return rewrite, err
}

// skipClamps skips ops before the quantization that clamp, such as relu, if no other op reads their results. It returns
// the value that the skipped ops clamp, and the combined bounds of all skipped ops.
func (q *quantizeRewriter) skipClamps() (clamped *graph.Value, lower, upper float64) {
	clamped, lower, upper = q.Call.In[0].Value, math.Inf(-1), math.Inf(1)
	for {
		node := clamped.Node
		nodeLower, nodeUpper, ok := pointwise.ClampRange(node)
		if !ok || !q.UsedOnlyHere(clamped) || node.In[0].Kind != graph.TensorArg || node.In[0].Value.Node == nil {
			return clamped, lower, upper
		}
		lower, upper = min(max(nodeLower, lower), upper), min(max(nodeUpper, lower), upper)
		clamped = node.In[0].Value
	}
}

// rewriteProduct rewrites a convolution or a matrix product of dequantized numbers as a product of bytes. Clamping ops
// between the product and the quantization become a clamp of the quantized values. If the product cannot be rewritten,
// Why is the reason, and Results is nil.
func (q *quantizeRewriter) rewriteProduct() (rewrite graph.Rewrite, err error) {
	clamped, lower, upper := q.skipClamps()
	node := clamped.Node
	form := q.byteFormOf(node)
	if form == nil {
		return rewrite, nil
	}
	input, ok := dequantized(node.In[0])
	if !ok || input.scale.Numel() != 1 || !kit.IsByte(input.quantized.Type().DType) {
		return rewrite, nil
	}
	rewrite.Replaced = node
	weight, isDequantized := dequantized(node.In[1])
	hasByteWeight := isDequantized && kit.IsByte(weight.quantized.Type().DType) &&
		(weight.scale.Numel() <= 1 || weight.axis == form.axis)
	const biasIndex = 2 // after the input and the weight
	layerBias := bias{operand: operand(node.Call(), biasIndex)}
	switch {
	case q.Exact:
		rewrite.Why = "integers would round differently from floats"
	case !q.UsedOnlyHere(clamped):
		rewrite.Why = "its float result has other readers"
	case !hasByteWeight:
		rewrite.Why = "its weight is not quantized to bytes per output channel or per tensor"
	case !layerBias.setInt32Values(input, weight):
		rewrite.Why = "its bias is not constant, or too large for int32"
	default:
		rewrite.Why = form.unsupportedReason(input, weight)
	}
	if rewrite.Why != "" {
		return rewrite, nil
	}
	rewrite.Why = fmt.Sprintf("%s multiplies bytes", node.Name)
	rewrite.Results, err = q.Result(q.clamp(form.build(input, weight, layerBias), lower, upper))
	return rewrite, err
}

// byteForm describes how a node that multiplies operand 0 by a weight is computed with bytes. rewriteProduct calls
// unsupportedReason before build.
type byteForm struct {
	axis int // dimension of the output channels in the weight
	// unsupportedReason returns the reason why the bytes of input cannot be multiplied by the bytes of weight. It
	// returns "" if they can.
	unsupportedReason func(input, weight quantizedValues) string
	// build adds the byte op that computes the product and returns its result.
	build func(input, weight quantizedValues, layerBias bias) graph.Arg
}

// byteFormOf returns the byte form of a node, or nil if the node does not multiply by a weight.
func (q *quantizeRewriter) byteFormOf(node *graph.Node) *byteForm {
	switch node.Op.Base() {
	case conv.Conv2d:
		return q.convolution(node)
	case product.Linear:
		return q.linear(node, 0) // weight [out, in]
	case product.Matmul:
		return q.linear(node, 1) // weight [in, out]
	}
	return nil
}

// convolution returns the byte form of a convolution of images.
func (q *quantizeRewriter) convolution(node *graph.Node) *byteForm {
	var attrs graph.Attrs // of the byte op: unsupportedReason sets them, build uses them
	return &byteForm{unsupportedReason: func(input, weight quantizedValues) (why string) {
		var isSupported bool
		attrs, isSupported = conv.InBytes(node.Call(), input.quantized.Type().DType, tensor.Int8)
		switch {
		case !weight.fitsInt8():
			return "its weight minus its zero points does not fit int8"
		case !isSupported:
			return "no machine code multiplies bytes of such shapes"
		}
		return ""
	}, build: func(input, weight quantizedValues, layerBias bias) graph.Arg {
		return q.addConvolution(node, attrs, input, weight, layerBias)
	}}
}

// linear returns the byte form of a product by a matrix. axis is the dimension of the output channels in the matrix.
func (q *quantizeRewriter) linear(node *graph.Node, axis int) *byteForm {
	return &byteForm{axis: axis, unsupportedReason: func(input, weight quantizedValues) string {
		weightMeta := node.In[1].Meta()
		if !product.MultipliesBytes() || weightMeta.Rank() != 2 || node.In[0].Type().Rank() < 2 ||
			weightMeta.Shape[1-axis] > maxTerms {
			return "no machine code multiplies bytes of such shapes"
		}
		return ""
	}, build: func(input, weight quantizedValues, layerBias bias) graph.Arg {
		return q.addLinear(node, axis, input, weight, layerBias)
	}}
}

// addConvolution adds the convolution of bytes that computes the node and quantizes the sums. It returns the quantized
// result.
func (q *quantizeRewriter) addConvolution(node *graph.Node, attrs graph.Attrs, input, weight quantizedValues,
	layerBias bias) graph.Arg {
	outputChannels := node.In[1].Meta().Shape[0]
	sumScale := q.Add(pointwise.Mul, nil, q.asVector(input.scaleArg), q.asVector(weight.scaleArg))
	scale := q.Add(pointwise.Div, nil, sumScale, q.asVector(q.result.scaleArg))
	scale = q.Add(view.Expand, graph.Attrs{"size": []int{outputChannels}}, scale)
	zero := func(arg graph.Arg, dtype tensor.DType) graph.Arg {
		const dim, rank = 0, 0
		return q.BroadcastAlong(q.zeroPointArg(arg, dtype), dim, rank)
	}
	return q.Add(conv.ConvBytes, attrs, input.quantized, q.int8Weight(weight),
		q.biasOf(layerBias, sumScale, outputChannels), scale,
		zero(input.zeroArg, input.quantized.Type().DType), zero(q.result.zeroArg, q.Call.Out[0].DType))
}

// addLinear adds the product of bytes that computes the node and quantizes the sums. It returns the quantized result.
func (q *quantizeRewriter) addLinear(node *graph.Node, axis int, input, weight quantizedValues,
	layerBias bias) graph.Arg {
	bytes := weight.quantized
	if axis == 0 {
		bytes = q.Add(view.Transpose, graph.Attrs{"dim0": 0, "dim1": 1}, bytes)
	}
	sumScale := q.Add(pointwise.Mul, nil, q.asVector(input.scaleArg), q.asVector(weight.scaleArg))
	zeros := func(values quantizedValues) graph.Arg {
		if values.hasZeroPointsOf0() {
			return graph.Arg{}
		}
		return q.asVector(values.zeroArg)
	}
	biasArg := graph.Arg{}
	if layerBias.operand.Kind != graph.Null {
		biasArg = q.biasOf(layerBias, sumScale, node.In[1].Meta().Shape[axis])
	}
	return q.Add(product.MatmulBytes, nil, input.quantized, bytes, zeros(input), zeros(weight), biasArg,
		q.Add(pointwise.Div, nil, sumScale, q.asVector(q.result.scaleArg)),
		q.asVector(q.zeroPointArg(q.result.zeroArg, q.Call.Out[0].DType)))
}

// zeroPointArg returns a zero point. If zero is null, it returns a constant 0 of the given dtype.
func (q *quantizeRewriter) zeroPointArg(zero graph.Arg, dtype tensor.DType) graph.Arg {
	if zero.Kind == graph.Null {
		return q.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": 0, "dtype": dtype})
	}
	return zero
}

// asVector returns scales or zero points as a vector.
func (q *quantizeRewriter) asVector(arg graph.Arg) graph.Arg {
	const dim, rank = 0, 1
	return q.BroadcastAlong(arg, dim, rank)
}

// clamp clamps quantized values to the quantized values of the numbers lower and upper. It adds no op if the quantized
// bounds are the bounds of the dtype.
func (q *quantizeRewriter) clamp(quantized graph.Arg, lower, upper float64) graph.Arg {
	dtype := q.Call.Out[0].DType
	least, greatest := q.result.quantize(dtype, lower), q.result.quantize(dtype, upper)
	dtypeLower, dtypeUpper := bounds(dtype)
	if float64(least) == dtypeLower && float64(greatest) == dtypeUpper {
		return quantized
	}
	return q.Add(pointwise.Clamp, graph.Attrs{"min": int(least), "max": int(greatest)}, quantized)
}

// int8Weight returns the weight minus its zero points as int8. The differences must fit int8.
func (q *quantizeRewriter) int8Weight(weight quantizedValues) graph.Arg {
	if weight.quantized.Type().DType == tensor.Int8 && weight.hasZeroPointsOf0() {
		return weight.quantized
	}
	differences := q.Convert(tensor.Int16, weight.quantized)
	if weight.zero != nil {
		differences = q.Add(pointwise.Sub, nil, differences,
			q.Convert(tensor.Int16, q.BroadcastAlong(weight.zeroArg, 0, weight.quantized.Meta().Rank())))
	}
	return q.Convert(tensor.Int8, differences)
}

// biasOf returns an int32 bias for the given number of output channels. It divides the bias by the scale of the sums
// and rounds half to even. sumScale has one scale for each output channel, or one for all channels.
func (q *quantizeRewriter) biasOf(layerBias bias, sumScale graph.Arg, channels int) graph.Arg {
	switch {
	case layerBias.operand.Kind == graph.Null:
		return q.Add(view.Full, graph.Attrs{"size": []int{channels}, "fill_value": 0, "dtype": tensor.Int32})
	case layerBias.hasSumScale:
		return layerBias.values.quantized
	}
	const computeDType = tensor.Float64
	numbers := q.Convert(computeDType, layerBias.operand)
	if layerBias.values.scale != nil {
		numbers = q.Add(pointwise.Mul, nil, q.Convert(computeDType, layerBias.values.quantized),
			q.Convert(computeDType, q.asVector(layerBias.values.scaleArg)))
	}
	return q.Convert(tensor.Int32, q.Add(pointwise.Round, nil, q.Add(pointwise.Div, nil, numbers,
		q.Convert(computeDType, sumScale))))
}
