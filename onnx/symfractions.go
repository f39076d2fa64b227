package onnx

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
// such sizes. A caller with larger sizes must fix them with [Options.Dims]. The import then computes the scaled sizes
// in floating point.

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

// exactInt is the condition that dtype d represents an integer exactly.
type exactInt struct {
	size  sym.Int
	dtype tensor.DType
}

// withExact returns x with the additional condition that dtype represents the integer size exactly. It returns false if
// size depends on data, or if the condition would exclude realistic sizes. A fraction (symElement) collects the
// conditions of the operations that computed it. When it becomes an integer or a bool, applyLimits applies them.
func (x symElement) withExact(n *node, size sym.Int, dtype tensor.DType) (symElement, bool) {
	if _, ok := n.limitsFor(size, exactBits(dtype)); !ok {
		return x, false
	}
	x.exact = append(slices.Clip(x.exact), exactInt{size, dtype})
	return x, true
}

// limitsFor returns upper bounds of the symbols. Under these bounds, size has at most the given number of binary
// digits. All symbols get the same bound, the greatest that suffices. ok is false if size depends on data, or if the
// bound would exclude realistic sizes.
func (im *importer) limitsFor(size sym.Int, digits int) (limits map[string]int, ok bool) {
	maxInt := 1 << digits
	fits := func(x sym.Int) bool {
		lo, hi := x.Bounds()
		return lo >= -maxInt && hi <= maxInt
	}
	if digits == 0 || fits(size) {
		return nil, digits > 0
	}
	// Bounds below 2^16 would reject realistic sizes.
	for limit := maxInt; limit >= 1<<16; limit >>= 4 {
		env := sym.NewEnv()
		limits := map[string]int{}
		bounded, err := sym.Parse(size.String(), func(name string) (sym.Int, bool) {
			if _, ok := im.symbols[name]; !ok {
				return sym.Int{}, false
			}
			limits[name] = limit
			s, err := env.Symbol(name, 0, limit, 1)
			return s, err == nil
		})
		if err != nil {
			return nil, false // size depends on data
		}
		if fits(bounded) {
			return limits, true
		}
	}
	return nil, false
}

// applyLimits lowers im.limits, the bounds of the symbols, so that the conditions of a fraction hold.
func (im *importer) applyLimits(x symElement) {
	for _, c := range x.exact {
		limits, _ := im.limitsFor(c.size, exactBits(c.dtype))
		for name, limit := range limits {
			if old, ok := im.limits[name]; !ok || limit < old {
				im.limits[name] = limit
			}
		}
	}
}

// excludeUnrealistic reports whether a condition is false for all realistic sizes. If so, it bounds the symbols to
// sizes for which the condition is false.
func (im *importer) excludeUnrealistic(c sym.Bool) bool {
	for limit := 1 << 24; limit >= 1<<16; limit >>= 4 {
		env := sym.NewEnv()
		var names []string
		condition, err := sym.ParseBool(c.String(), func(name string) (sym.Int, bool) {
			if _, ok := im.symbols[name]; !ok {
				return sym.Int{}, false
			}
			names = append(names, name)
			s, err := env.Symbol(name, 0, limit, 1)
			return s, err == nil
		})
		if err != nil {
			return false // c depends on data
		}
		if holds, known := condition.Known(); holds || !known {
			continue
		}
		for _, name := range names {
			if old, ok := im.limits[name]; !ok || limit < old {
				im.limits[name] = limit
			}
			if im.env.Assume(im.symbols[name].Le(sym.Of(limit))) != nil {
				return false
			}
		}
		return true
	}
	return false
}

// fraction returns a number as a fraction. It returns false if the numerator exceeds 2^53 or the denominator 2^30.
func fraction(f float64) (symElement, bool) {
	denominator := 1
	for ; f != math.Trunc(f); f *= 2 {
		if denominator *= 2; denominator > 1<<30 {
			return symElement{}, false
		}
	}
	if math.Abs(f) > 1<<53 || math.IsNaN(f) {
		return symElement{}, false
	}
	return symElement{numerator: sym.Of(int(f)), denominator: denominator}, true
}

// reduced cancels common factors of 2. It recognizes an even numerator only if its remainder modulo 2 simplifies to 0.
func (x symElement) reduced() symElement {
	for x.denominator%2 == 0 && x.numerator.Mod(sym.Of(2)).Same(sym.Of(0)) {
		x.numerator, x.denominator = x.numerator.Div(sym.Of(2)), x.denominator/2
	}
	return x
}

// maxDenominator bounds denominators, so that their products fit in 64 bits.
const maxDenominator = 1 << 20

// float applies an operation to fractions, in a floating-point dtype. The result is exact if dtype represents its
// numerator, because a denominator that is a power of 2 only affects the exponent. This condition is added to the
// conditions of the operands.
func (e *evaluation) float(op expr.Op, dtype tensor.DType, x []symElement) symElement {
	a, b := x[0], x[len(x)-1]
	switch op {
	case expr.Floor, expr.Ceil, expr.Trunc:
		return e.round(op, a)
	}
	if a.rounded || b.rounded || max(a.denominator, b.denominator) > maxDenominator {
		return e.fail()
	}
	// left and right are the numerators of a and b over a common denominator.
	left, right := a.numerator.Mul(sym.Of(b.denominator)), b.numerator.Mul(sym.Of(a.denominator))
	result := symElement{denominator: a.denominator * b.denominator, exact: slices.Concat(a.exact, b.exact)}
	switch op {
	case expr.Add:
		result.numerator = left.Add(right)
	case expr.Sub:
		result.numerator = left.Sub(right)
	case expr.Mul:
		result.numerator = a.numerator.Mul(b.numerator)
	case expr.Div:
		return e.quotient(dtype, a, b)
	case expr.Neg:
		a.numerator = a.numerator.Neg()
		return a
	case expr.Eq, expr.Ne, expr.Lt, expr.Le:
		e.node.applyLimits(result)
		return symElement{condition: compareInts(op, left, right)}
	default:
		return e.fail()
	}
	result = result.reduced()
	return e.withExact(result, result.numerator, dtype)
}

// withExact is [symElement.withExact]; the evaluation fails instead of returning false.
func (e *evaluation) withExact(x symElement, size sym.Int, dtype tensor.DType) symElement {
	x, ok := x.withExact(e.node, size, dtype)
	if !ok {
		return e.fail()
	}
	return x
}

// quotient divides fraction a by number b. If the denominator y of the result x/y is not a power of 2, floating-point
// division rounds the result. The rounded quotient never reaches the next integer k, so that its floor is exact. Proof,
// with digits = exactBits(dtype): x/y is at least 1/y below k, and only numbers within k/2^digits of k are rounded to
// k. The condition of the result is x+y <= 2^digits. If x/y is not an integer, (k-1)*y < x. Therefore k*y < 2^digits,
// so k/2^digits is less than 1/y.
func (e *evaluation) quotient(dtype tensor.DType, a, b symElement) symElement {
	divisor, isNumber := b.numerator.Known()
	if !isNumber || divisor <= 0 || divisor > maxDenominator {
		return e.fail()
	}
	result := symElement{numerator: a.numerator.Mul(sym.Of(b.denominator)), denominator: a.denominator * divisor,
		exact: a.exact}
	result = result.reduced()
	if result.rounded = result.denominator&(result.denominator-1) != 0; result.rounded {
		return e.withExact(result, result.numerator.Add(sym.Of(result.denominator)), dtype)
	}
	return e.withExact(result, result.numerator, dtype)
}

// round rounds a fraction to an integer, by Floor, Ceil or Trunc.
func (e *evaluation) round(op expr.Op, x symElement) symElement {
	denominator := sym.Of(x.denominator)
	switch {
	case op == expr.Ceil:
		return symElement{numerator: x.numerator.Neg().Div(denominator).Neg(), denominator: 1, exact: x.exact}
	case op == expr.Floor || notNegative(x.numerator):
		return symElement{numerator: x.numerator.Div(denominator), denominator: 1, exact: x.exact}
	}
	return e.fail()
}

// convert converts an element to another dtype. A conversion of a fraction to an integer rounds towards 0.
func (e *evaluation) convert(from, to tensor.DType, x symElement) symElement {
	switch {
	case from == to || e.failed:
		return x
	case to == tensor.Bool && x.rounded || to.IsFloat() && x.rounded:
		return e.fail()
	case to == tensor.Bool:
		e.node.applyLimits(x)
		return symElement{condition: x.numerator.Ne(sym.Int{})}
	case from == tensor.Bool:
		return symElement{numerator: sym.Where(x.condition, sym.Of(1), sym.Int{}), denominator: 1}
	case to.IsFloat():
		x.denominator = max(x.denominator, 1) // an integer has no denominator
		return e.withExact(x, x.numerator, to)
	case to != tensor.Int64 && to != tensor.Int32:
		return e.fail() // the size may overflow
	case from.IsFloat() && x.denominator > 1 && !notNegative(x.numerator):
		return e.fail()
	case from.IsFloat():
		e.node.applyLimits(x)
		return symElement{numerator: x.numerator.Div(sym.Of(x.denominator))}
	}
	return symElement{numerator: x.numerator}
}
