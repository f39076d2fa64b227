package quantized

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/tensor"
)

// This file rewrites quantizations as loops over elements. A quantized value is an integer q that stands for the number
// (q - zero point) * scale. For example, relu followed by a quantization to uint8 with the zero point 3 becomes
//
//	v = x / scale; minimum(maximum(int32(rint(v)) + 3, 3), 255)

// QuotientText is an expression that computes v = x / scale in float32 from the reciprocal of the scale, which is
// several times faster than a division. The error of the product q is below two units in the last place. After the
// first correction, the error of p is below one unit. After the second correction, v is the correctly rounded quotient
// (Markstein 1990).
const QuotientText = "q = x * reciprocal; p = fma(fma(-q, scale, x), reciprocal, q); " +
	"v = fma(fma(-p, scale, x), reciprocal, p)"

// Magnitudes of quantized values before saturation, in quantization steps.
const (
	// maxExactLevel: if the magnitude of a value is smaller, the sum of the value and any zero point fits int32.
	maxExactLevel = 1 << 29
	// saturatingLevel: values of this magnitude saturate for every zero point.
	saturatingLevel = 1 << 20
)

// rewriteAsLoop rewrites a quantization as one loop over elements. Clamping ops before the quantization become part of
// the loop, which clamps the quantized values. The results are the same, because quantization is monotonic. Numbers
// that may be large or infinite are clamped before the division. NaN becomes 0.
func (q *quantizeRewriter) rewriteAsLoop() (rewrite graph.Rewrite, err error) {
	value, lower, upper := q.skipClamps()
	input, scale := graph.ArgOf(value), firstElement(q.result.scale)
	rewrite.Replaced = value.Node
	isFinite := magnitudeBound(input, boundDepth)/scale < maxExactLevel
	if isFinite {
		if rewrite.Results, err = q.rewritePair(value.Node, lower, upper); rewrite.Results != nil || err != nil {
			rewrite.Why = fmt.Sprintf("%s is computed from quantized values", value.Node.Name)
			return rewrite, err
		}
	}
	scaleArg := q.Convert(tensor.Float32, q.BroadcastAlong(q.result.scaleArg, 0, 0))
	computation := formula{text: QuotientText, names: []string{"x", "reciprocal", "scale"},
		zeroPoint: firstElement(q.result.zero), lowerBound: lower, upperBound: upper}
	in := []graph.Arg{input, q.Add(pointwise.Reciprocal, nil, scaleArg), scaleArg}
	if !isFinite {
		computation.text, computation.condition = "x = minimum(maximum(number, -far), far); "+QuotientText, "number == number"
		computation.names, in = append(computation.names, "far"), append(in, q.constant(scale*saturatingLevel))
		computation.names[0] = "number"
	}
	rewrite.Why = "by the reciprocal of the scale"
	rewrite.Results, err = q.addFormula(computation, in...)
	return rewrite, err
}

// rewritePair rewrites the quantization of the result of node, a sum or a product of two dequantized operands. The
// rewritten graph computes the quantized result directly from the quantized operands. rewritePair returns nil for other
// nodes, and in plans that require exact results, because the computation from quantized operands rounds differently.
func (q *quantizeRewriter) rewritePair(node *graph.Node, lower, upper float64) ([]*graph.Value, error) {
	if q.Exact || node == nil || node.Op != pointwise.Mul && !pointwise.IsPlainAdd(node) {
		return nil, nil
	}
	var operands [2]quantizedValues
	for i := range operands {
		var ok bool
		operands[i], ok = dequantized(node.In[i])
		if !ok || operands[i].scale.Numel() != 1 || !kit.IsByte(operands[i].bytes.Type().DType) {
			return nil, nil
		}
	}
	a, b, resultScale := operands[0], operands[1], firstElement(q.result.scale)
	// Ties round to even. Only an even number may be added before rounding: adding 1 would exchange even and odd
	// neighbours. The zero point is therefore divided into evenPart, which v includes, and remainder, 0 or 1.
	remainder := math.Abs(math.Mod(firstElement(q.result.zero), 2))
	evenPart := firstElement(q.result.zero) - remainder
	loop := formula{zeroPoint: remainder, lowerBound: lower, upperBound: upper}
	if node.Op == pointwise.Mul {
		loop.text = "v = fma((float32(x) - xzero) * (float32(y) - yzero), scale, zero)"
		loop.names = []string{"x", "y", "xzero", "yzero", "scale", "zero"}
		return q.addFormula(loop, a.bytes, b.bytes, q.constant(firstElement(a.zero)), q.constant(firstElement(b.zero)),
			q.constant(firstElement(a.scale)*firstElement(b.scale)/resultScale), q.constant(evenPart))
	}
	loop.text = "v = fma(float32(x), xscale, fma(float32(y), yscale, zero))"
	loop.names = []string{"x", "y", "xscale", "yscale", "zero"}
	aFactor, bFactor := firstElement(a.scale)/resultScale, firstElement(b.scale)/resultScale
	return q.addFormula(loop, a.bytes, b.bytes, q.constant(aFactor), q.constant(bFactor),
		q.constant(evenPart-float64(aFactor*firstElement(a.zero))-float64(bFactor*firstElement(b.zero))))
}

// constant returns a float32 constant.
func (q *quantizeRewriter) constant(value float64) graph.Arg {
	return q.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": value, "dtype": tensor.Float32})
}

// formula describes the computation of quantized values. An expression computes a number v. The number is rounded half
// to even, the zero point is added, and the sum is clamped.
type formula struct {
	text                   string   // the expression that computes v
	names                  []string // names of the operands in the expression
	zeroPoint              float64  // zero point
	lowerBound, upperBound float64  // numbers; the sum is clamped to their quantized values
	condition              string   // condition; if it does not hold, the result is 0. Empty if there is no condition
}

// addFormula returns the quantized values that a formula computes from operands.
func (q *quantizeRewriter) addFormula(computation formula, operands ...graph.Arg) ([]*graph.Value, error) {
	dtype := q.Call.Out[0].DType
	quantizedText := "int32(rint(v))"
	if computation.zeroPoint != 0 {
		quantizedText += fmt.Sprintf(" + %v", computation.zeroPoint)
	}
	quantizedText = fmt.Sprintf("minimum(maximum(%s, %d), %d)", quantizedText,
		q.result.quantize(dtype, computation.lowerBound), q.result.quantize(dtype, computation.upperBound))
	if computation.condition != "" {
		quantizedText = fmt.Sprintf("where(%s, %s, 0)", computation.condition, quantizedText)
	}
	text := computation.text + "; " + quantizedText
	y := q.Add(pointwise.PointwiseExpression, graph.Attrs{"expr": text, "params": computation.names}, operands...)
	return q.Result(q.Convert(dtype, y))
}

// boundDepth is the depth to which magnitudeBound follows operands.
const boundDepth = 8

// maxInspected is the number of elements from which a constant is too large for magnitudeBound to inspect.
const maxInspected = 1 << 16

// magnitudeBound returns an upper bound of the magnitudes of a value's elements, or infinity if it finds no bound. It
// finds bounds of constants and of dequantized numbers. It also finds bounds of sums, products, minima and maxima of
// values that have bounds. depth is the number of ops that it may still follow. A value with a finite bound has no NaN.
func magnitudeBound(arg graph.Arg, depth int) float64 {
	unknown := math.Inf(1)
	if arg.Kind != graph.TensorArg || depth == 0 {
		return unknown
	}
	constant := arg.Value.Const
	if constant != nil && constant.DType == tensor.Float32 && constant.Numel() < maxInspected {
		return greatestMagnitude(constant)
	}
	if arg.Value.Node == nil {
		return unknown
	}
	if values, ok := dequantized(arg); ok {
		return values.magnitudeBound()
	}
	node := arg.Value.Node
	if lower, upper, ok := pointwise.ClampRange(node); ok {
		bound := magnitudeBound(node.In[0], depth-1)
		for _, limit := range []float64{lower, upper} {
			if !math.IsInf(limit, 0) {
				bound = max(bound, math.Abs(limit))
			}
		}
		return bound
	}
	if node.Op != pointwise.Mul && !pointwise.IsPlainAdd(node) {
		return unknown
	}
	first, second := magnitudeBound(node.In[0], depth-1), magnitudeBound(node.In[1], depth-1)
	bound := first + second
	if node.Op == pointwise.Mul {
		bound = first * second
	}
	if bound > math.MaxFloat32/2 { // some elements might be infinite
		return unknown
	}
	return bound
}

// greatestMagnitude returns the greatest magnitude of an element, or NaN if an element is NaN.
func greatestMagnitude(constant *tensor.Tensor) float64 {
	greatest := 0.0
	kit.EachIndex(constant.Shape, func(index []int) {
		greatest = max(greatest, math.Abs(constant.At(index...).Float())) // max propagates NaN
	})
	return greatest
}

// magnitudeBound returns an upper bound of the magnitudes of the dequantized numbers. The zero point is in the range of
// the dtype.
func (values quantizedValues) magnitudeBound() float64 {
	lower, upper := bounds(values.bytes.Type().DType)
	bound := 0.0
	kit.EachIndex(values.scale.Shape, func(index []int) {
		bound = max(bound, values.scale.At(index...).Float()*(upper-lower))
	})
	return bound
}
