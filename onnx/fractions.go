package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Exporters scale sizes in floating point: they convert a size to a float, multiply or divide it, round it down and
// convert it back. This equals integer division for all sizes that the floating-point dtype represents exactly. The
// importer therefore writes it as an integer expression, and bounds the symbols to these sizes. A caller with larger
// sizes must give them when the model is read; they are then computed in floating point.

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

// exactInt is an integer that a floating-point dtype must represent exactly.
type exactInt struct {
	n sym.Int
	d tensor.DType
}

// requireExact returns x with the additional requirement that d represents a exactly. It returns false if this would
// bound symbols to unreasonably small sizes, or if a depends on data.
func (x symElement) requireExact(n *node, a sym.Int, d tensor.DType) (symElement, bool) {
	if _, ok := n.limitsFor(a, digits(d)); !ok {
		return x, false
	}
	x.exact = append(slices.Clip(x.exact), exactInt{a, d})
	return x, true
}

// limitsFor returns bounds of symbols under which a has at most the given number of binary digits.
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
			return nil, false // it depends on data
		}
		if fits(b) {
			return limits, true
		}
	}
	return nil, false
}

// bound bounds the symbols so that the requirements of an element hold.
func (im *importer) bound(x symElement) {
	for _, h := range x.exact {
		limits, _ := im.limitsFor(h.n, digits(h.d))
		for name, limit := range limits {
			if old, ok := im.limits[name]; !ok || limit < old {
				im.limits[name] = limit
			}
		}
	}
}

// beyond reports whether a condition holds only for unrealistically large symbols, and bounds them to exclude
// it.
func (im *importer) beyond(c sym.Bool) bool {
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
			return false // it depends on data
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

// fraction returns a number as a fraction. It returns false if numerator or denominator would be too large.
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

// fractionOf returns an element of operand i in the result's floating-point dtype.
func (c *computation) fractionOf(i int, x symElement) (symElement, bool) {
	switch d := c.in[i].dtype; {
	case d.IsFloat():
		return x, true
	case !d.IsIntegral(false):
		return x, false
	}
	d := c.out[0].DType
	if !d.IsFloat() {
		d = tensor.Float32 // of a comparison: the requirement of float32 is the strictest
	}
	return symElement{n: x.n, denominator: 1}.requireExact(c.n, x.n, d)
}

// reduced cancels factors of 2 that the form of the fraction shows.
func (x symElement) reduced() symElement {
	for x.denominator%2 == 0 && x.n.Mod(sym.Of(2)).Same(sym.Of(0)) {
		x.n, x.denominator = x.n.Div(sym.Of(2)), x.denominator/2
	}
	return x
}

// sum is x + sign*y.
func sum(sign int) func(c *computation, x []symElement) (symElement, bool) {
	return func(c *computation, x []symElement) (symElement, bool) {
		d := c.out[0].DType
		if alpha, ok := c.attrs["alpha"]; ok && alpha != 1 {
			return symElement{}, false
		}
		if d.IsIntegral(false) && c.in[0].dtype != tensor.Bool && c.in[1].dtype != tensor.Bool {
			return symElement{n: x[0].n.Add(x[1].n.Mul(sym.Of(sign)))}, true
		}
		a, okA := c.fractionOf(0, x[0])
		b, okB := c.fractionOf(1, x[1])
		if !okA || !okB || a.rounded || b.rounded || max(a.denominator, b.denominator) > 1<<20 {
			return symElement{}, false
		}
		y := symElement{n: a.n.Mul(sym.Of(b.denominator)).Add(b.n.Mul(sym.Of(sign * a.denominator))),
			denominator: a.denominator * b.denominator, exact: slices.Concat(a.exact, b.exact)}.reduced()
		return y.requireExact(c.n, y.n, d)
	}
}

func product(c *computation, x []symElement) (symElement, bool) {
	d := c.out[0].DType
	if d.IsIntegral(false) && c.in[0].dtype != tensor.Bool && c.in[1].dtype != tensor.Bool {
		return symElement{n: x[0].n.Mul(x[1].n)}, true
	}
	a, okA := c.fractionOf(0, x[0])
	b, okB := c.fractionOf(1, x[1])
	if !okA || !okB || a.rounded || b.rounded || max(a.denominator, b.denominator) > 1<<20 {
		return symElement{}, false
	}
	y := symElement{n: a.n.Mul(b.n), denominator: a.denominator * b.denominator,
		exact: slices.Concat(a.exact, b.exact)}.reduced()
	return y.requireExact(c.n, y.n, d)
}

// quotient divides integers by rounding_mode, and fractions by a number. If the denominator d of the result n/d is not
// a power of 2, floating-point division rounds the result, but never up to the next integer k: n/d is at least 1/d
// below k, and would be rounded to k only if the distance were at most k/2^digits.
func quotient(c *computation, x []symElement) (symElement, bool) {
	d, mode := c.out[0].DType, c.text("rounding_mode")
	if d.IsIntegral(false) {
		var n sym.Int
		ok := positive(x[1].n)
		switch {
		case c.in[0].dtype == tensor.Bool || c.in[1].dtype == tensor.Bool || mode == "":
			ok = false
		case mode == "trunc":
			n, ok = truncated(x[0].n, x[1].n)
		case ok:
			n = x[0].n.Div(x[1].n)
		}
		return symElement{n: n}, ok
	}
	a, okA := c.fractionOf(0, x[0])
	b, okB := c.fractionOf(1, x[1])
	by, isNumber := b.n.Known()
	if !okA || !okB || a.rounded || b.rounded || !isNumber || by <= 0 || by > 1<<20 || mode != "" ||
		max(a.denominator, b.denominator) > 1<<20 {
		return symElement{}, false
	}
	y := symElement{n: a.n.Mul(sym.Of(b.denominator)), denominator: a.denominator * by, exact: a.exact}.reduced()
	if y.rounded = y.denominator&(y.denominator-1) != 0; y.rounded {
		return y.requireExact(c.n, y.n.Add(sym.Of(y.denominator)), d)
	}
	return y.requireExact(c.n, y.n, d)
}

// rounded rounds a fraction to an integer.
func rounded(c *computation, x []symElement) (symElement, bool) {
	y, over := x[0], sym.Of(max(x[0].denominator, 1))
	if !c.in[0].dtype.IsFloat() {
		return y, c.out[0].DType == c.in[0].dtype
	}
	switch {
	case c.op.Name == "ceil":
		return symElement{n: y.n.Neg().Div(over).Neg(), denominator: 1, exact: y.exact}, true
	case c.op.Name == "floor" || notNegative(y.n):
		return symElement{n: y.n.Div(over), denominator: 1, exact: y.exact}, true
	}
	return symElement{}, false
}

// selected is the formula of where.
func selected(c *computation, x []symElement) (symElement, bool) {
	cond, a, b := x[0].b, x[1], x[2]
	if c.in[0].dtype != tensor.Bool || c.in[1].dtype != c.in[2].dtype {
		return symElement{}, false
	}
	if c.in[1].dtype == tensor.Bool {
		return symElement{b: cond.And(a.b).Or(cond.Not().And(b.b))}, true
	}
	return symElement{n: sym.Where(cond, a.n, b.n), denominator: a.denominator, exact: slices.Concat(a.exact, b.exact)},
		a.denominator == b.denominator && !a.rounded && !b.rounded
}

// converted is the formula of to.
func converted(c *computation, x []symElement) (symElement, bool) {
	from, to, y := c.in[0].dtype, c.out[0].DType, x[0]
	switch {
	case from == tensor.Bool && to == tensor.Bool:
		return y, true
	case to == tensor.Bool:
		c.n.bound(y)
		return symElement{b: y.n.Ne(sym.Int{})}, !y.rounded
	case from == tensor.Bool:
		return symElement{n: sym.Where(y.b, sym.Of(1), sym.Int{}), denominator: 1}, true
	case to.IsFloat() && !from.IsFloat():
		return symElement{n: y.n, denominator: 1}.requireExact(c.n, y.n, to)
	case to.IsFloat():
		y, ok := y.requireExact(c.n, y.n, to)
		return y, ok && !y.rounded
	case to != tensor.Int64 && to != tensor.Int32:
		return symElement{}, false // a size may overflow
	case from.IsFloat() && y.denominator > 1 && !notNegative(y.n):
		return symElement{}, false
	case from.IsFloat():
		c.n.bound(y)
		return symElement{n: y.n.Div(sym.Of(max(y.denominator, 1)))}, true
	}
	return symElement{n: y.n}, true
}
