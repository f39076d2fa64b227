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

// This file rewrites quantized networks that compute with floats: values are dequantized, convolved, clamped and
// quantized again. The rewritten network computes with bytes:
//
//   - Ops that only move elements are applied to bytes. The bits of results do not change.
//   - Products and convolutions multiply bytes. Their sums are exact, whereas sums of floats are rounded after each
//     product. Therefore a result that is almost halfway between two quantized values can differ by one step. Exact
//     plans keep the floats.

// quantizedValues are quantized values with constant scales and zero points, as the operands of dequantize_linear.
type quantizedValues struct {
	bytes, scaleArg, zeroArg graph.Arg      // the three operands
	scale, zero              *tensor.Tensor // the constant operands; zero may be nil
	axis                     int            // the dimension along which scales differ
}

// dequantized returns the operands of the dequantize_linear that computes a. ok is false if another op computes a. The
// scales must be float32 constants, one for each channel or one for all elements. The zero points must have the dtype
// of the quantized values.
func dequantized(a graph.Arg) (l quantizedValues, ok bool) {
	if a.Kind != graph.TensorArg || a.Value.Node == nil {
		return l, false
	}
	at, dequantizes := a.Value.Node.Attrs.(*dequantizeAttrs)
	c := a.Value.Node.Call()
	if !dequantizes || at.BlockSize != 0 || !normalScales(c.Const(1)) || c.Has(2) && c.Const(2) == nil ||
		!sameZeroDType(c, 0, 2) {
		return l, false
	}
	return quantizedValues{bytes: c.In[0], scaleArg: c.In[1], zeroArg: operand(c, 2), scale: c.Const(1), zero: c.Const(2),
		axis: at.Axis}, true
}

// quantizationOf returns the scale and the zero point of a call of quantize_linear. ok is false unless the call
// quantizes float32 numbers to bytes, with one constant scale for all elements.
func quantizationOf(c *graph.Call) (l quantizedValues, ok bool) {
	at := kit.Attrs[quantizeAttrs](c)
	if at.BlockSize != 0 || !isByte(c.Out[0].DType) || c.Type(0).DType != tensor.Float32 || !normalScales(c.Const(1)) ||
		c.Has(2) && c.Const(2) == nil || c.Const(1).Numel() != 1 {
		return l, false
	}
	return quantizedValues{scaleArg: c.In[1], zeroArg: operand(c, 2), scale: c.Const(1), zero: c.Const(2)}, true
}

// operand returns operand i of a call, or a null operand if it is omitted.
func operand(c *graph.Call, i int) graph.Arg {
	if c.Has(i) {
		return c.In[i]
	}
	return graph.Arg{}
}

func isByte(d tensor.DType) bool { return d == tensor.Uint8 || d == tensor.Int8 }

// normalScales reports whether scales are known and between 2^-50 and 2^50. Products of a few such scales and 16-bit
// integers are finite. Sums of these products and quotients of the sums are finite, too. Rounding errors of subnormal
// numbers are far below one quantization step.
func normalScales(t *tensor.Tensor) bool {
	if t == nil || t.DType != tensor.Float32 {
		return false
	}
	ok := true
	kit.EachIndex(t.Shape, func(at []int) {
		v := t.At(at...).Float()
		ok = ok && v > 0x1p-50 && v < 0x1p50
	})
	return ok
}

// firstElement returns the first element of scales or zero points. It returns 0 if t is nil.
//
//go:noinline
func firstElement(t *tensor.Tensor) float64 {
	if t == nil {
		return 0
	}
	return t.At(make([]int, t.Rank())...).Float()
}

// sameParams reports whether both operands have a single scale, and both the scales and the zero points are equal.
func (values quantizedValues) sameParams(m quantizedValues) bool {
	return values.scale.Numel() == 1 && m.scale.Numel() == 1 && firstElement(values.scale) == firstElement(m.scale) &&
		firstElement(values.zero) == firstElement(m.zero)
}

// quantize returns the quantized value, in dtype d, of the number x.
func (values quantizedValues) quantize(d tensor.DType, x float64) int64 {
	return saturate(d, math.RoundToEven(float64(float32(x)/float32(firstElement(values.scale))))+firstElement(values.zero))
}

// quantizeRewriter rewrites one call of quantize_linear. Its methods add the nodes of the rewritten graph.
type quantizeRewriter struct {
	quantBuilder
	graph.RewriteContext
	into   *graph.Parts
	result quantizedValues // the scale and the zero point of the call
}

// rewriteQuantize rewrites a quantization by the first of these rules that applies:
//
//   - If the operand was dequantized with the same scale and zero point, the result is the original bytes.
//   - If the operand is the result of an op that only moves elements, the quantization moves before that op.
//   - If the operand is a maximum, a convolution or a product of dequantized numbers, this op is computed with bytes.
//   - Otherwise the quantization becomes one loop over elements.
func rewriteQuantize(into *graph.Parts, call *graph.Call, a graph.RewriteContext) (rewrite graph.Rewrite, err error) {
	to, ok := quantizationOf(call)
	if !ok || call.In[0].Kind != graph.TensorArg {
		return rewrite, nil
	}
	q := &quantizeRewriter{quantBuilder{compose.NewBuilder(into, call)}, a, into, to}
	n := call.In[0].Value.Node
	if n == nil {
		return q.rewriteAsLoop()
	}
	if from, ok := dequantized(call.In[0]); ok && from.sameParams(to) && from.bytes.Type().DType == call.Out[0].DType {
		rewrite.Replaced, rewrite.Why = n, "it has the same scale and zero point"
		rewrite.Results, err = q.Result(q.Add(view.Clone, nil, from.bytes))
		return rewrite, err
	}
	if q.isMoveOp(n) {
		return q.quantizeBefore(n)
	}
	if rewrite, err = q.rewriteMaxPool(n); err != nil || rewrite.Results != nil {
		return rewrite, err
	}
	if rewrite, err = q.rewriteProduct(); err != nil || rewrite.Results != nil || rewrite.Why != "" {
		return rewrite, err
	}
	return q.rewriteAsLoop()
}

// isMoveOp reports whether a node computes the operand of the quantization by moving elements only, and can be applied
// to bytes.
func (q *quantizeRewriter) isMoveOp(node *graph.Node) bool {
	views := node.Op.Kind == graph.View && !node.Op.ReadsStorage && node.Op.Expression == nil
	if !views && !node.Op.SelectsElements || len(node.Out) != 1 || !q.UsedOnlyHere(node.Out[0]) || len(node.In) == 0 {
		return false
	}
	elements := 0
	for _, a := range q.movedOperands(node) {
		if a.Kind != graph.TensorArg || a.Type().DType != tensor.Float32 {
			return false
		}
		if _, ok := dequantized(a); !ok {
			elements += a.Meta().Numel()
		}
	}
	if elements > node.Out[0].Meta.Numel() {
		return false // the rewritten graph would quantize more elements
	}
	types := make([]tensor.Type, len(node.In))
	for i, a := range node.In {
		types[i] = a.Type()
		if i < len(q.movedOperands(node)) {
			types[i] = types[i].WithDType(q.Call.Out[0].DType)
		}
	}
	t, err := kit.InferredType(node.Op, node.Attrs, types...)
	return err == nil && t.DType == q.Call.Out[0].DType
}

// movedOperands returns the operands from which a node moves elements.
func (q *quantizeRewriter) movedOperands(n *graph.Node) []graph.Arg {
	if n.Op.Params[0].Variadic {
		return n.In
	}
	return n.In[:1]
}

// quantizeBefore quantizes the operands of a node that only moves elements, and applies the node to the bytes.
func (q *quantizeRewriter) quantizeBefore(node *graph.Node) (rewrite graph.Rewrite, err error) {
	in := slices.Clone(node.In)
	for i, a := range q.movedOperands(node) {
		args := append([]graph.Arg{a}, q.Call.In[1:]...)
		out, err := q.into.Repeat(q.into.Whole(), args...)
		if err != nil {
			return rewrite, err
		}
		in[i] = graph.Of(out[0])
	}
	out, err := q.into.Repeat(node, in...)
	if err != nil {
		return rewrite, err
	}
	rewrite.Replaced, rewrite.Why = node, fmt.Sprintf("%s moves numbers, which are quantized before it", node.Name)
	y := graph.Of(out[0])
	if out[0].Alias != nil { // a result of quantize_linear must not alias an operand
		y = q.Add(view.Clone, nil, y)
	}
	rewrite.Results, err = q.Result(y)
	return rewrite, err
}

// skipClamps follows the operand of the quantization over ops that clamp, such as relu, if no other op reads their
// results. It returns the value v that the skipped ops clamp, and their bounds.
func (q *quantizeRewriter) skipClamps() (v *graph.Value, lower, upper float64) {
	v, lower, upper = q.Call.In[0].Value, math.Inf(-1), math.Inf(1)
	for {
		n := v.Node
		nodeLower, nodeUpper, ok := pointwise.ClampRange(n)
		if !ok || !q.UsedOnlyHere(v) || n.In[0].Kind != graph.TensorArg || n.In[0].Value.Node == nil {
			return v, lower, upper
		}
		lower, upper = min(max(nodeLower, lower), upper), min(max(nodeUpper, lower), upper)
		v = n.In[0].Value
	}
}

// rewriteProduct rewrites a convolution or a matrix product of dequantized numbers as a product of bytes. Clamping ops
// between the product and the quantization become a clamp of the quantized values.
func (q *quantizeRewriter) rewriteProduct() (rewrite graph.Rewrite, err error) {
	v, lower, upper := q.skipClamps()
	node := v.Node
	form := q.byteFormOf(node)
	if form == nil {
		return rewrite, nil
	}
	x, ok := dequantized(node.In[0])
	if !ok || x.scale.Numel() != 1 || !isByte(x.bytes.Type().DType) {
		return rewrite, nil
	}
	rewrite.Replaced = node
	w, ok := dequantized(node.In[1])
	b := bias{operand: operand(node.Call(), 2)}
	switch {
	case q.Exact:
		rewrite.Why = "integers would round differently from floats"
	case !q.UsedOnlyHere(v):
		rewrite.Why = "its float result has other readers"
	case !ok || !isByte(w.bytes.Type().DType) || w.scale.Numel() > 1 && w.axis != form.axis:
		rewrite.Why = "its weight is not quantized to bytes per output channel or per tensor"
	case !b.isInt32Constant(x, w):
		rewrite.Why = "its bias is not constant, or too large for int32"
	default:
		rewrite.Why = form.unsupported(x, w)
	}
	if rewrite.Why != "" {
		return rewrite, nil
	}
	rewrite.Why = fmt.Sprintf("%s multiplies bytes", node.Name)
	rewrite.Results, err = q.Result(q.clamp(form.build(x, w, b), lower, upper))
	return rewrite, err
}

// byteForm describes how a node that multiplies operand 0 by a weight is computed with bytes.
type byteForm struct {
	axis int // dimension of the output channels in the weight
	// unsupported returns the reason why bytes x and w cannot be multiplied. It returns "" if they can be multiplied.
	unsupported func(x, w quantizedValues) string
	// build adds the byte op that computes the product and returns its result.
	build func(x, w quantizedValues, b bias) graph.Arg
}

// byteFormOf returns the byte form of a node, or nil if the node does not multiply by a weight.
func (q *quantizeRewriter) byteFormOf(n *graph.Node) *byteForm {
	switch n.Op {
	case conv.Conv2d:
		return q.convolution(n)
	case product.Linear:
		return q.linear(n, 0)
	case product.Matmul:
		return q.linear(n, 1)
	}
	return nil
}

// convolution returns the byte form of a convolution of images.
func (q *quantizeRewriter) convolution(n *graph.Node) *byteForm {
	var at graph.Attrs
	return &byteForm{unsupported: func(x, w quantizedValues) (why string) {
		supported := false
		at, supported = conv.InBytes(n.Call(), x.bytes.Type().DType, tensor.Int8)
		switch {
		case !w.fitsInt8():
			return "its weight minus its zero points does not fit int8"
		case !supported:
			return "no machine code multiplies bytes of such shapes"
		}
		return ""
	}, build: func(x, w quantizedValues, b bias) graph.Arg { return q.addConvolution(n, at, x, w, b) }}
}

// linear returns the byte form of a product by a matrix. axis is the dimension of the output channels in the matrix.
func (q *quantizeRewriter) linear(node *graph.Node, axis int) *byteForm {
	return &byteForm{axis: axis, unsupported: func(x, w quantizedValues) string {
		m := node.In[1].Meta()
		if !product.MultipliesBytes() || m.Rank() != 2 || node.In[0].Type().Rank() < 2 || m.Shape[1-axis] > maxTerms {
			return "no machine code multiplies bytes of such shapes"
		}
		return ""
	}, build: func(x, w quantizedValues, b bias) graph.Arg {
		bytes := w.bytes
		if axis == 0 {
			bytes = q.Add(view.Transpose, graph.Attrs{"dim0": 0, "dim1": 1}, bytes)
		}
		sums := q.Add(pointwise.Mul, nil, q.asVector(x.scaleArg), q.asVector(w.scaleArg))
		zeros := func(l quantizedValues) graph.Arg {
			if l.zero == nil || magnitudesAtMost(l.zero, 0) {
				return graph.Arg{}
			}
			return q.asVector(l.zeroArg)
		}
		added := graph.Arg{}
		if b.operand.Kind != graph.Null {
			added = q.biasOf(b, sums, node.In[1].Meta().Shape[axis])
		}
		return q.Add(product.MatmulBytes, nil, x.bytes, bytes, zeros(x), zeros(w), added,
			q.Add(pointwise.Div, nil, sums, q.asVector(q.result.scaleArg)),
			q.asVector(q.zeroPointArg(q.result.zeroArg, q.Call.Out[0].DType)))
	}}
}

// zeroPointArg returns zero point a, or a constant 0 of dtype d if a is omitted.
func (q *quantizeRewriter) zeroPointArg(a graph.Arg, d tensor.DType) graph.Arg {
	if a.Kind == graph.Null {
		return q.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": 0, "dtype": d})
	}
	return a
}

// addConvolution adds the convolution of bytes that computes node n and quantizes the sums.
func (q *quantizeRewriter) addConvolution(n *graph.Node, attrs graph.Attrs, x, w quantizedValues, b bias) graph.Arg {
	o := n.In[1].Meta().Shape[0]
	sums := q.Add(pointwise.Mul, nil, q.asVector(x.scaleArg), q.asVector(w.scaleArg))
	scale := q.Add(pointwise.Div, nil, sums, q.asVector(q.result.scaleArg))
	scale = q.Add(view.Expand, graph.Attrs{"size": []int{o}}, scale)
	zero := func(a graph.Arg, d tensor.DType) graph.Arg { return q.BroadcastAlong(q.zeroPointArg(a, d), 0, 0) }
	return q.Add(conv.ConvBytes, attrs, x.bytes, q.int8Weight(w), q.biasOf(b, sums, o), scale,
		zero(x.zeroArg, x.bytes.Type().DType), zero(q.result.zeroArg, q.Call.Out[0].DType))
}

// asVector returns scales or zero points as a vector.
func (q *quantizeRewriter) asVector(a graph.Arg) graph.Arg { return q.BroadcastAlong(a, 0, 1) }

// clamp clamps quantized values y to the quantized values of the numbers lower and upper. It adds no op if the
// quantized bounds are the bounds of the dtype.
func (q *quantizeRewriter) clamp(y graph.Arg, lower, upper float64) graph.Arg {
	d := q.Call.Out[0].DType
	lo, hi := q.result.quantize(d, lower), q.result.quantize(d, upper)
	dtypeLower, dtypeUpper := bounds(d)
	if float64(lo) == dtypeLower && float64(hi) == dtypeUpper {
		return y
	}
	return q.Add(pointwise.Clamp, graph.Attrs{"min": int(lo), "max": int(hi)}, y)
}

// fitsInt8 reports whether a weight minus its zero points fits int8. An int8 weight with zero points 0 always fits.
func (values quantizedValues) fitsInt8() bool {
	if values.zero == nil || magnitudesAtMost(values.zero, 0) {
		return values.bytes.Type().DType == tensor.Int8 || values.elementsFitInt8()
	}
	return values.elementsFitInt8()
}

// elementsFitInt8 is fitsInt8 without the shortcut for int8 weights. It checks each element or, if the elements are
// unknown, the bounds of the dtype.
func (values quantizedValues) elementsFitInt8() bool {
	d := values.bytes.Type().DType
	lower, upper := bounds(d)
	data := values.bytes.Value.Const
	fits := func(lo, hi, zero float64) bool { return lo-zero >= math.MinInt8 && hi-zero <= math.MaxInt8 }
	ok := true
	if data == nil { // the weight is computed, possibly from constants
		if values.zero == nil {
			return fits(lower, upper, 0)
		}
		kit.EachIndex(values.zero.Shape, func(at []int) { ok = ok && fits(lower, upper, values.zero.At(at...).Float()) })
		return ok
	}
	kit.EachIndex(data.Shape, func(at []int) {
		v, z := data.At(at...).Float(), 0.0
		if values.zero != nil {
			z = kit.ElementAlong(values.zero, at, 0)
		}
		ok = ok && fits(v, v, z)
	})
	return ok
}

// int8Weight returns the weight minus its zero points as int8. The differences must fit int8.
func (q *quantizeRewriter) int8Weight(w quantizedValues) graph.Arg {
	if w.bytes.Type().DType == tensor.Int8 && (w.zero == nil || magnitudesAtMost(w.zero, 0)) {
		return w.bytes
	}
	differences := q.Convert(tensor.Int16, w.bytes)
	if w.zero != nil {
		differences = q.Add(pointwise.Sub, nil, differences,
			q.Convert(tensor.Int16, q.BroadcastAlong(w.zeroArg, 0, w.bytes.Meta().Rank())))
	}
	return q.Convert(tensor.Int8, differences)
}

// bias is the bias of a convolution or product: a constant that is added to the sums. The constant is float, or it is
// dequantized from int32.
type bias struct {
	operand graph.Arg       // the operand of the convolution or product; null if there is no bias
	values  quantizedValues // the operands of dequantize_linear, if that op computes the bias
	// hasSumScale: the bias has the scale of the sums, so its int32 values can be added to the sums unchanged.
	hasSumScale bool
}

// isInt32Constant reports whether a bias is omitted, or is a constant that fits int32 in units of the sums. The unit of
// the sums is the scale of x times the scale of w. The method also sets b.values and b.hasSumScale.
func (b *bias) isInt32Constant(x, w quantizedValues) bool {
	if b.operand.Kind == graph.Null {
		return true
	}
	step := func(o int) float64 { return firstElement(x.scale) * kit.ElementAlong(w.scale, []int{o}, 0) }
	data, scaleOf := b.operand.Value.Const, func(int) float64 { return 1 }
	if l, ok := dequantized(b.operand); ok && l.bytes.Type().DType == tensor.Int32 && (l.zero == nil ||
		magnitudesAtMost(l.zero, 0)) {
		b.values, b.hasSumScale, data = l, true, l.bytes.Value.Const
		scaleOf = func(o int) float64 { return kit.ElementAlong(l.scale, []int{o}, 0) }
	}
	if data == nil || data.Rank() != 1 {
		return false
	}
	ok := true
	for o := range data.Shape[0] {
		s := scaleOf(o)
		b.hasSumScale = b.hasSumScale && math.Abs(s-float64(step(o))) <= 1e-6*step(o)
		ok = ok && math.Abs(data.At(o).Float()*s) <= step(o)*(math.MaxInt32/2)
	}
	return ok
}

// biasOf returns an int32 bias of o elements in units of the sums, rounded half to even. step has the unit of the sums
// of each output channel, or one unit for all channels.
func (q *quantizeRewriter) biasOf(b bias, step graph.Arg, o int) graph.Arg {
	switch {
	case b.operand.Kind == graph.Null:
		return q.Add(view.Full, graph.Attrs{"size": []int{o}, "fill_value": 0, "dtype": tensor.Int32})
	case b.hasSumScale:
		return b.values.bytes
	}
	const d = tensor.Float64
	v := q.Convert(d, b.operand)
	if b.values.scale != nil {
		v = q.Add(pointwise.Mul, nil, q.Convert(d, b.values.bytes), q.Convert(d, q.asVector(b.values.scaleArg)))
	}
	return q.Convert(tensor.Int32, q.Add(pointwise.Round, nil, q.Add(pointwise.Div, nil, v, q.Convert(d, step))))
}
