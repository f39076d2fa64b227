package symbolic

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes with fractions of sizes. Exporters scale sizes in floating point: they convert a size to a float,
// multiply or divide the float, round it down and convert it back. The result equals an integer division for all sizes
// that the floating-point dtype represents exactly. The importer uses the integer division, and bounds the symbols to
// such sizes. A caller with larger sizes must fix them with Options.Dims of package onnx. The import then computes the
// scaled sizes in floating point.
//
// For example, int(floor(float32(H) * 0.5)) is evaluated as follows: float32(H) is the fraction H/1, with the condition
// that float32 represents H exactly. The product is H/2, and the floor is H // 2, for H up to 2^24.

// maxDenominator bounds denominators, so that their products fit in 64 bits.
const maxDenominator = 1 << 20

// floatOp applies an operation to fractions, in a floating-point dtype. The result is exact if dtype represents its
// numerator, because a denominator that is a power of 2 only affects the exponent. This condition is added to the
// conditions of the operands.
func (e *evaluation) floatOp(op expr.Op, dtype tensor.DType, operands []Element) Element {
	a, b := operands[0], operands[len(operands)-1] // an operation with one operand uses only a
	switch op {
	case expr.Floor, expr.Ceil, expr.Trunc:
		return e.round(op, a)
	}
	if a.rounded || b.rounded || max(a.denominator, b.denominator) > maxDenominator {
		return e.fail()
	}
	switch op {
	case expr.Div:
		return e.quotient(dtype, a, b)
	case expr.Neg:
		a.Numerator = a.Numerator.Neg()
		return a
	}
	// All elements of a floating-point dtype have a denominator of at least 1.
	numeratorA, numeratorB := a.Numerator.Mul(sym.Of(b.denominator)), b.Numerator.Mul(sym.Of(a.denominator))
	result := Element{denominator: a.denominator * b.denominator,
		exactConditions: slices.Concat(a.exactConditions, b.exactConditions)}
	switch op {
	case expr.Add:
		result.Numerator = numeratorA.Add(numeratorB)
	case expr.Sub:
		result.Numerator = numeratorA.Sub(numeratorB)
	case expr.Mul:
		result.Numerator = a.Numerator.Mul(b.Numerator)
	case expr.Eq, expr.Ne, expr.Lt, expr.Le:
		e.symbols.applyLimits(result)
		return Element{Condition: compareInts(op, numeratorA, numeratorB)}
	default:
		return e.fail()
	}
	result = result.reduced()
	return e.withExact(result, result.Numerator, dtype)
}

// quotient divides fraction a by number b. If the denominator y of the result x/y is not a power of 2, floating-point
// division rounds the result. The rounded quotient stays below the next integer k, so the floor of the rounded quotient
// is the floor of x/y. Proof, with digits = exactBits(dtype): let x+y <= 2^digits, which is the condition of the
// result, and let x/y be no integer. Then (k-1)*y < x, so k*y < x+y <= 2^digits and k/2^digits < 1/y. Only numbers
// within k/2^digits of k are rounded to k, but x/y is at least 1/y below k.
func (e *evaluation) quotient(dtype tensor.DType, a, b Element) Element {
	divisor, isNumber := b.Numerator.Known()
	if !isNumber || divisor <= 0 || divisor > maxDenominator {
		return e.fail()
	}
	result := Element{Numerator: a.Numerator.Mul(sym.Of(b.denominator)), denominator: a.denominator * divisor,
		exactConditions: a.exactConditions}
	result = result.reduced()
	if isPowerOf2 := result.denominator&(result.denominator-1) == 0; !isPowerOf2 {
		result.rounded = true
		return e.withExact(result, result.Numerator.Add(sym.Of(result.denominator)), dtype)
	}
	return e.withExact(result, result.Numerator, dtype)
}

// round rounds a fraction to an integer, by Floor, Ceil or Trunc.
func (e *evaluation) round(op expr.Op, x Element) Element {
	denominator := sym.Of(x.denominator)
	switch {
	case op == expr.Ceil:
		return Element{Numerator: x.Numerator.Neg().Div(denominator).Neg(), denominator: 1,
			exactConditions: x.exactConditions}
	case op == expr.Floor || NotNegative(x.Numerator):
		return Element{Numerator: x.Numerator.Div(denominator), denominator: 1, exactConditions: x.exactConditions}
	}
	return e.fail()
}

// convert converts an element to another dtype. A conversion of a fraction to an integer rounds towards 0.
func (e *evaluation) convert(from, to tensor.DType, x Element) Element {
	switch {
	case from == to || e.failed:
		return x
	case x.rounded && (to == tensor.Bool || to.IsFloat()):
		return e.fail()
	case to == tensor.Bool:
		e.symbols.applyLimits(x)
		return Element{Condition: x.Numerator.Ne(sym.Int{})}
	case from == tensor.Bool:
		return Element{Numerator: sym.Where(x.Condition, sym.Of(1), sym.Int{}), denominator: 1}
	case to.IsFloat():
		x.denominator = max(x.denominator, 1) // 0 stands for 1
		return e.withExact(x, x.Numerator, to)
	case to != tensor.Int64 && to != tensor.Int32:
		return e.fail() // the size may overflow
	case from.IsFloat() && x.denominator > 1 && !NotNegative(x.Numerator):
		return e.fail()
	case from.IsFloat():
		e.symbols.applyLimits(x)
		return Element{Numerator: x.Numerator.Div(sym.Of(x.denominator))}
	}
	return Element{Numerator: x.Numerator}
}

// exactInt is the condition that dtype represents the integer size exactly.
type exactInt struct {
	size  sym.Int
	dtype tensor.DType
}

// withExact returns x with the additional condition that dtype represents the integer size exactly. It fails if size
// depends on data, or if the condition would exclude realistic sizes. A fraction (Element) collects the conditions of
// the operations that computed it. When it becomes an integer or a bool, applyLimits applies them.
func (e *evaluation) withExact(x Element, size sym.Int, dtype tensor.DType) Element {
	if _, ok := e.symbols.limitsFor(size, exactBits(dtype)); !ok {
		return e.fail()
	}
	x.exactConditions = append(slices.Clip(x.exactConditions), exactInt{size, dtype})
	return x
}

// exactBits returns the number of binary digits of the integers that a dtype represents exactly.
func exactBits(dtype tensor.DType) int {
	switch dtype {
	case tensor.Float32:
		return 24
	case tensor.Float64:
		return 53
	}
	return 0
}

// fractionOf returns a number as a fraction. It returns false if the numerator exceeds 2^53 or the denominator 2^30.
func fractionOf(f float64) (Element, bool) {
	denominator := 1
	for ; f != math.Trunc(f); f *= 2 {
		if denominator *= 2; denominator > 1<<30 {
			return Element{}, false
		}
	}
	if math.Abs(f) > 1<<53 || math.IsNaN(f) {
		return Element{}, false
	}
	return Element{Numerator: sym.Of(int(f)), denominator: denominator}, true
}

// reduced cancels common factors of 2. It recognizes an even numerator only if its remainder modulo 2 simplifies to 0.
func (x Element) reduced() Element {
	for x.denominator%2 == 0 && x.Numerator.Mod(sym.Of(2)).Same(sym.Of(0)) {
		x.Numerator, x.denominator = x.Numerator.Div(sym.Of(2)), x.denominator/2
	}
	return x
}
