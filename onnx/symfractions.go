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
// such sizes. For larger sizes, the caller must fix the sizes with [Options.Dims]. The import then computes the scaled
// sizes in floating point.

// digits returns the number of binary digits of the integers that a dtype represents exactly.
func digits(d tensor.DType) int {
	switch d {
	case tensor.Float32:
		return 24
	case tensor.Float64:
		return 53
	}
	return 0
}

// exactInt is the condition that dtype d represents the integer n exactly.
type exactInt struct {
	n sym.Int
	d tensor.DType
}

// withExact returns x with the additional condition that d represents a exactly. It returns false if a depends on
// data, or if the condition would exclude realistic sizes.
func (x symElement) withExact(n *node, a sym.Int, d tensor.DType) (symElement, bool) {
	if _, ok := n.limitsFor(a, digits(d)); !ok {
		return x, false
	}
	x.exact = append(slices.Clip(x.exact), exactInt{a, d})
	return x, true
}

// limitsFor returns upper bounds of symbols under which a has at most the given number of binary digits. ok is false if
// a depends on data, or if the bounds would exclude realistic sizes.
func (im *importer) limitsFor(a sym.Int, digits int) (limits map[string]int, ok bool) {
	most := 1 << digits
	fits := func(a sym.Int) bool {
		lo, hi := a.Bounds()
		return lo >= -most && hi <= most
	}
	if digits == 0 || fits(a) {
		return nil, digits > 0
	}
	// Bounds below 2^16 would reject realistic sizes.
	for limit := most; limit >= 1<<16; limit >>= 4 {
		env := sym.NewEnv()
		limits := map[string]int{}
		b, err := sym.Parse(a.String(), func(name string) (sym.Int, bool) {
			if _, ok := im.symbols[name]; !ok {
				return sym.Int{}, false
			}
			limits[name] = limit
			s, err := env.Symbol(name, 0, limit, 1)
			return s, err == nil
		})
		if err != nil {
			return nil, false // a depends on data
		}
		if fits(b) {
			return limits, true
		}
	}
	return nil, false
}

// applyLimits lowers im.limits so that the conditions of an element hold.
func (im *importer) applyLimits(x symElement) {
	for _, h := range x.exact {
		limits, _ := im.limitsFor(h.n, digits(h.d))
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
		b, err := sym.ParseBool(c.String(), func(name string) (sym.Int, bool) {
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
		if holds, known := b.Known(); holds || !known {
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
	over := 1
	for ; f != math.Trunc(f); f *= 2 {
		if over *= 2; over > 1<<30 {
			return symElement{}, false
		}
	}
	if math.Abs(f) > 1<<53 || math.IsNaN(f) {
		return symElement{}, false
	}
	return symElement{n: sym.Of(int(f)), denominator: over}, true
}

// reduced cancels common factors of 2. It finds a factor of the numerator only if the expression simplifies.
func (x symElement) reduced() symElement {
	for x.denominator%2 == 0 && x.n.Mod(sym.Of(2)).Same(sym.Of(0)) {
		x.n, x.denominator = x.n.Div(sym.Of(2)), x.denominator/2
	}
	return x
}

// maxDenominator bounds denominators, so that their products fit in 64 bits.
const maxDenominator = 1 << 20

// float applies an operation to fractions, in floating-point dtype d.
func (e *evaluation) float(op expr.Op, d tensor.DType, x []symElement) symElement {
	a, b := x[0], x[len(x)-1]
	switch op {
	case expr.Floor, expr.Ceil, expr.Trunc:
		return e.round(op, a)
	}
	if a.rounded || b.rounded || max(a.denominator, b.denominator) > maxDenominator {
		return e.fail()
	}
	over := sym.Of(b.denominator)
	left, right := a.n.Mul(over), b.n.Mul(sym.Of(a.denominator)) // over a common denominator
	y := symElement{denominator: a.denominator * b.denominator, exact: slices.Concat(a.exact, b.exact)}
	switch op {
	case expr.Add:
		y.n = left.Add(right)
	case expr.Sub:
		y.n = left.Sub(right)
	case expr.Mul:
		y.n = a.n.Mul(b.n)
	case expr.Div:
		return e.quotient(d, a, b)
	case expr.Neg:
		a.n = a.n.Neg()
		return a
	case expr.Eq, expr.Ne, expr.Lt, expr.Le:
		e.n.applyLimits(y)
		return symElement{b: related(op, left, right)}
	default:
		return e.fail()
	}
	y = y.reduced()
	return e.withExact(y, y.n, d)
}

// withExact returns x with the additional condition that d represents n exactly.
func (e *evaluation) withExact(x symElement, n sym.Int, d tensor.DType) symElement {
	x, ok := x.withExact(e.n, n, d)
	if !ok {
		return e.fail()
	}
	return x
}

// quotient divides fraction a by number b. If the denominator y of the result x/y is not a power of 2, floating-point
// division rounds the result. It never rounds up to the next integer k, because x/y is at least 1/y below k, and only a
// result within k/2^digits of k is rounded to k. Therefore rounding down x/y gives the exact integer.
func (e *evaluation) quotient(d tensor.DType, a, b symElement) symElement {
	by, isNumber := b.n.Known()
	if !isNumber || by <= 0 || by > maxDenominator {
		return e.fail()
	}
	y := symElement{n: a.n.Mul(sym.Of(b.denominator)), denominator: a.denominator * by, exact: a.exact}.reduced()
	if y.rounded = y.denominator&(y.denominator-1) != 0; y.rounded {
		return e.withExact(y, y.n.Add(sym.Of(y.denominator)), d)
	}
	return e.withExact(y, y.n, d)
}

// round rounds a fraction to an integer, by Floor, Ceil or Trunc.
func (e *evaluation) round(op expr.Op, x symElement) symElement {
	over := sym.Of(x.denominator)
	switch {
	case op == expr.Ceil:
		return symElement{n: x.n.Neg().Div(over).Neg(), denominator: 1, exact: x.exact}
	case op == expr.Floor || notNegative(x.n):
		return symElement{n: x.n.Div(over), denominator: 1, exact: x.exact}
	}
	return e.fail()
}

// convert converts an element to another dtype.
func (e *evaluation) convert(from, to tensor.DType, x symElement) symElement {
	switch {
	case from == to || e.failed:
		return x
	case to == tensor.Bool && x.rounded || to.IsFloat() && x.rounded:
		return e.fail()
	case to == tensor.Bool:
		e.n.applyLimits(x)
		return symElement{b: x.n.Ne(sym.Int{})}
	case from == tensor.Bool:
		return symElement{n: sym.Where(x.b, sym.Of(1), sym.Int{}), denominator: 1}
	case to.IsFloat():
		x.denominator = max(x.denominator, 1)
		return e.withExact(x, x.n, to)
	case to != tensor.Int64 && to != tensor.Int32:
		return e.fail() // the size may overflow
	case from.IsFloat() && x.denominator > 1 && !notNegative(x.n):
		return e.fail()
	case from.IsFloat():
		e.n.applyLimits(x)
		return symElement{n: x.n.Div(sym.Of(x.denominator))}
	}
	return symElement{n: x.n}
}
