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

// This file rewrites quantizations as loops over elements. A quantized value is an integer that stands for the number
// (value - zero point) * scale. For a dequantization, a quantizedValues has the quantized values (bytes), the constant
// scales and the zero points. For a quantization, it has only scales and zero points. For example, relu followed by a
// quantization to uint8 with the zero point 3 becomes
//
//	v = x / scale; minimum(maximum(int32(rint(v)) + 3, 3), 255)

// QuotientText is an expression that computes v = x / scale in float32 from the reciprocal of the scale. This is
// several times faster than a division. The expression corrects the product "estimate" twice. The error of estimate is
// below two units in the last place, and the error of "corrected" is below one unit. v is the correctly rounded
// quotient (Markstein 1990).
const QuotientText = "estimate = x * reciprocal; corrected = fma(fma(-estimate, scale, x), reciprocal, estimate); " +
	"v = fma(fma(-corrected, scale, x), reciprocal, corrected)"

// Magnitudes of quotients x / scale.
const (
	// Quotients below unclampedLimit are not clamped, because the sum of such a quotient and any zero point fits int32.
	unclampedLimit = 1 << 29
	// Other quotients are clamped to +-clampLimit. The sum of a clamped quotient and any zero point still saturates the
	// quantized dtype.
	clampLimit = 1 << 20
)

// rewriteAsLoop rewrites a quantization as one loop over elements. Clamping ops before the quantization become part of
// the loop. Clamping the quantized values gives the same results, because quantization is monotonic. Numbers that may
// be large, infinite or NaN are clamped before the division, and NaN becomes 0.
func (q *quantizeRewriter) rewriteAsLoop() (rewrite graph.Rewrite, err error) {
	value, lower, upper := q.skipClamps()
	input, scale := graph.ArgOf(value), firstElement(q.result.scale)
	rewrite.Replaced = value.Node
	// If isBounded is true, quotients need not be clamped, and no number is NaN.
	isBounded := magnitudeBound(input, boundDepth)/scale < unclampedLimit
	if isBounded { // rewritePair does not clamp quotients
		if rewrite.Results, err = q.rewritePair(value.Node, lower, upper); rewrite.Results != nil || err != nil {
			rewrite.Why = fmt.Sprintf("%s is computed from quantized values", value.Node.Name)
			return rewrite, err
		}
	}
	rewrite.Why = "by the reciprocal of the scale"
	const dim, rank = 0, 0 // the scale becomes a 0-dimensional operand
	scaleArg := q.Convert(tensor.Float32, q.BroadcastAlong(q.result.scaleArg, dim, rank))
	reciprocal := q.Add(pointwise.Reciprocal, nil, scaleArg)
	formula := elementFormula{zeroPoint: firstElement(q.result.zero), lowerBound: lower, upperBound: upper}
	if isBounded {
		formula.text, formula.names = QuotientText, []string{"x", "reciprocal", "scale"}
		rewrite.Results, err = q.addFormula(formula, input, reciprocal, scaleArg)
		return rewrite, err
	}
	formula.text = "x = minimum(maximum(number, -far), far); " + QuotientText
	formula.names = []string{"number", "reciprocal", "scale", "far"}
	formula.condition = "number == number" // not NaN
	rewrite.Results, err = q.addFormula(formula, input, reciprocal, scaleArg, q.constant(scale*clampLimit))
	return rewrite, err
}

// rewritePair rewrites the quantization of the result of node, a sum or a product of two dequantized operands. The
// rewritten graph computes the quantized result directly from the quantized operands. rewritePair returns nil for other
// nodes, and in plans that require exact results, because the computation from quantized operands rounds differently.
func (q *quantizeRewriter) rewritePair(node *graph.Node, lower, upper float64) ([]*graph.Value, error) {
	if q.Exact || node == nil || node.Op.Base() != pointwise.Mul && !pointwise.IsPlainAdd(node) {
		return nil, nil
	}
	var operands [2]quantizedValues
	for i := range operands {
		values, ok := dequantized(node.In[i])
		if !ok || values.scale.Numel() != 1 || !kit.IsByte(values.quantized.Type().DType) {
			return nil, nil
		}
		operands[i] = values
	}
	a, b, resultScale := operands[0], operands[1], firstElement(q.result.scale)
	// Ties round to even. Only even numbers may be added before rounding, because adding 1 would exchange even and odd
	// neighbours. The zero point is therefore divided into evenPart, which v includes, and remainder, 0 or 1. For
	// example, the zero point 3 has the evenPart 2 and the remainder 1.
	remainder := math.Abs(math.Mod(firstElement(q.result.zero), 2))
	evenPart := firstElement(q.result.zero) - remainder
	formula := elementFormula{zeroPoint: remainder, lowerBound: lower, upperBound: upper}
	if node.Op.Base() == pointwise.Mul {
		formula.text = "v = fma((float32(x) - xzero) * (float32(y) - yzero), scale, zero)"
		formula.names = []string{"x", "y", "xzero", "yzero", "scale", "zero"}
		return q.addFormula(formula, a.quantized, b.quantized,
			q.constant(firstElement(a.zero)), q.constant(firstElement(b.zero)),
			q.constant(firstElement(a.scale)*firstElement(b.scale)/resultScale), q.constant(evenPart))
	}
	formula.text = "v = fma(float32(x), xscale, fma(float32(y), yscale, zero))"
	formula.names = []string{"x", "y", "xscale", "yscale", "zero"}
	xScale, yScale := firstElement(a.scale)/resultScale, firstElement(b.scale)/resultScale
	// The conversions to float64 prevent fused multiply-subtracts, so that all processors compute the same constant.
	zero := evenPart - float64(xScale*firstElement(a.zero)) - float64(yScale*firstElement(b.zero))
	return q.addFormula(formula, a.quantized, b.quantized, q.constant(xScale), q.constant(yScale), q.constant(zero))
}

// constant returns a float32 constant.
func (q *quantizeRewriter) constant(value float64) graph.Arg {
	return q.Add(view.Full, graph.Attrs{"size": []int{}, "fill_value": value, "dtype": tensor.Float32})
}

// elementFormula describes the computation of quantized values. An expression computes a number v. v is rounded half to
// even, the zero point is added, and the sum is clamped.
type elementFormula struct {
	text                   string   // the expression that computes v
	names                  []string // names of the operands
	zeroPoint              float64
	lowerBound, upperBound float64 // numbers; the sum is clamped to their quantized values
	condition              string  // expression; the result is 0 if it is false. Empty means true
}

// addFormula adds the loop of a formula, and returns the results of the quantization. operands has an operand for each
// of formula.names.
func (q *quantizeRewriter) addFormula(formula elementFormula, operands ...graph.Arg) ([]*graph.Value, error) {
	dtype := q.Call.Out[0].DType
	quantizedText := "int32(rint(v))"
	if formula.zeroPoint != 0 {
		quantizedText += fmt.Sprintf(" + %v", formula.zeroPoint)
	}
	quantizedText = fmt.Sprintf("minimum(maximum(%s, %d), %d)", quantizedText,
		q.result.quantize(dtype, formula.lowerBound), q.result.quantize(dtype, formula.upperBound))
	if formula.condition != "" {
		quantizedText = fmt.Sprintf("where(%s, %s, 0)", formula.condition, quantizedText)
	}
	text := formula.text + "; " + quantizedText
	y := q.Add(pointwise.PointwiseExpression, graph.Attrs{"expr": text, "params": formula.names}, operands...)
	return q.Result(q.Convert(dtype, y))
}

// Limits of the time of magnitudeBound.
const (
	boundDepth   = 8       // maximum number of values on a path through operands
	inspectLimit = 1 << 16 // constants of at least this many elements are not inspected
)

// magnitudeBound returns an upper bound of the magnitudes of a value's elements. It returns infinity or NaN if it finds
// no bound. It finds bounds of constants and of dequantized numbers, and bounds of sums, products and clamped values
// from the bounds of their operands. depth limits the length of the path to operands. A value with a finite bound has
// no NaN.
func magnitudeBound(arg graph.Arg, depth int) float64 {
	unknown := math.Inf(1)
	if arg.Kind != graph.TensorArg || depth == 0 {
		return unknown
	}
	constant := arg.Value.Const
	if constant != nil && constant.DType == tensor.Float32 && constant.Numel() < inspectLimit {
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
	if node.Op.Base() != pointwise.Mul && !pointwise.IsPlainAdd(node) {
		return unknown
	}
	first, second := magnitudeBound(node.In[0], depth-1), magnitudeBound(node.In[1], depth-1)
	bound := first + second
	if node.Op.Base() == pointwise.Mul {
		bound = first * second
	}
	if bound > math.MaxFloat32/2 { // elements might overflow float32
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

// magnitudeBound returns an upper bound of the magnitudes of the dequantized numbers.
func (values quantizedValues) magnitudeBound() float64 {
	lower, upper := bounds(values.quantized.Type().DType)
	bound := 0.0
	kit.EachIndex(values.scale.Shape, func(index []int) {
		// The zero point, too, is between lower and upper.
		bound = max(bound, values.scale.At(index...).Float()*(upper-lower))
	})
	return bound
}
