package onnx

import (
	"math"
	"slices"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Exporters scale sizes in floating point: they convert a size, multiply or divide it, round down and convert back.
// That is a quotient of integers for all sizes that a floating-point number holds exactly, and for no others. So
// where an expression stands for such a computation, the sizes that it holds for become bounds of the symbols in
// it: who has larger ones gives them when the model is read, and has them computed as the model says.

// digits is the number of binary digits of the integers that a dtype holds exactly.
func digits(d tensor.DType) int {
	switch d {
	case tensor.Float32:
		return 24
	case tensor.Float64:
		return 53
	}
	return 0
}

// held is an integer that numbers of a floating-point dtype must hold exactly.
type held struct {
	n sym.Int
	d tensor.DType
}

// holding returns the entry with one more integer that must be held; false where no sizes that people have see to it.
func (x entry) holding(n *node, a sym.Int, d tensor.DType) (entry, bool) {
	if _, ok := n.within(a, digits(d)); !ok {
		return x, false
	}
	x.held = append(slices.Clip(x.held), held{a, d})
	return x, true
}

// within returns the bounds of symbols for which a has at most so many binary digits.
func (im *importer) within(a sym.Int, digits int) (limits map[string]int, ok bool) {
	most := 1 << digits
	fits := func(a sym.Int) bool {
		lo, hi := a.Bounds()
		return lo >= -most && hi <= most
	}
	if digits == 0 || fits(a) {
		return nil, digits > 0
	}
	// Bounds below 2^16 would refuse sizes that people have.
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
			return nil, false // data decide it
		}
		if fits(b) {
			return limits, true
		}
	}
	return nil, false
}

// bound bounds symbols such that what an expression holds for is all that they may be.
func (im *importer) bound(x entry) {
	for _, h := range x.held {
		limits, _ := im.within(h.n, digits(h.d))
		for name, limit := range limits {
			if old, ok := im.limits[name]; !ok || limit < old {
				im.limits[name] = limit
			}
		}
	}
}

// beyond reports whether a condition holds only where symbols have larger values than people have, and bounds them
// such that it does not.
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
			return false // data decide it
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

// fraction returns a number of moderate size as an element.
func fraction(f float64) (entry, bool) {
	over := 1
	for ; f != math.Trunc(f); f *= 2 {
		if over *= 2; over > 1<<30 {
			return entry{}, false
		}
	}
	if math.Abs(f) > 1<<53 || math.IsNaN(f) {
		return entry{}, false
	}
	return entry{n: sym.Of(int(f)), over: over}, true
}

// fractionOf returns an element of operand i as one of a floating-point dtype.
func (c *computation) fractionOf(i int, x entry) (entry, bool) {
	switch d := c.in[i].dtype; {
	case d.IsFloat():
		return x, true
	case !d.IsIntegral(false):
		return x, false
	}
	d := c.out[0].DType
	if !d.IsFloat() {
		d = tensor.Float32 // a comparison, which is no stricter in other dtypes
	}
	return entry{n: x.n, over: 1}.holding(c.n, x.n, d)
}

// reduced divides the fraction by what both of its parts are multiples of, where that is plain.
func (x entry) reduced() entry {
	for x.over%2 == 0 && x.n.Mod(sym.Of(2)).Same(sym.Of(0)) {
		x.n, x.over = x.n.Div(sym.Of(2)), x.over/2
	}
	return x
}

// sum is x + sign*y.
func sum(sign int) func(c *computation, x []entry) (entry, bool) {
	return func(c *computation, x []entry) (entry, bool) {
		d := c.out[0].DType
		if alpha, ok := c.attrs["alpha"]; ok && alpha != 1 {
			return entry{}, false
		}
		if d.IsIntegral(false) && c.in[0].dtype != tensor.Bool && c.in[1].dtype != tensor.Bool {
			return entry{n: x[0].n.Add(x[1].n.Mul(sym.Of(sign)))}, true
		}
		a, okA := c.fractionOf(0, x[0])
		b, okB := c.fractionOf(1, x[1])
		if !okA || !okB || a.rounded || b.rounded || max(a.over, b.over) > 1<<20 {
			return entry{}, false
		}
		y := entry{n: a.n.Mul(sym.Of(b.over)).Add(b.n.Mul(sym.Of(sign * a.over))), over: a.over * b.over,
			held: slices.Concat(a.held, b.held)}.reduced()
		return y.holding(c.n, y.n, d)
	}
}

func product(c *computation, x []entry) (entry, bool) {
	d := c.out[0].DType
	if d.IsIntegral(false) && c.in[0].dtype != tensor.Bool && c.in[1].dtype != tensor.Bool {
		return entry{n: x[0].n.Mul(x[1].n)}, true
	}
	a, okA := c.fractionOf(0, x[0])
	b, okB := c.fractionOf(1, x[1])
	if !okA || !okB || a.rounded || b.rounded || max(a.over, b.over) > 1<<20 {
		return entry{}, false
	}
	y := entry{n: a.n.Mul(b.n), over: a.over * b.over, held: slices.Concat(a.held, b.held)}.reduced()
	return y.holding(c.n, y.n, d)
}

// quotient divides integers as rounding_mode says, and others by a number: where that is no power of 2, the result
// is rounded, but never as far as to the next integer. For n/over falls short of an integer k by 1/over at least,
// and is rounded to k only if that is at most k/2^digits.
func quotient(c *computation, x []entry) (entry, bool) {
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
		return entry{n: n}, ok
	}
	a, okA := c.fractionOf(0, x[0])
	b, okB := c.fractionOf(1, x[1])
	by, isNumber := b.n.Known()
	if !okA || !okB || a.rounded || b.rounded || !isNumber || by <= 0 || by > 1<<20 || mode != "" ||
		max(a.over, b.over) > 1<<20 {
		return entry{}, false
	}
	y := entry{n: a.n.Mul(sym.Of(b.over)), over: a.over * by, held: a.held}.reduced()
	if y.rounded = y.over&(y.over-1) != 0; y.rounded {
		return y.holding(c.n, y.n.Add(sym.Of(y.over)), d)
	}
	return y.holding(c.n, y.n, d)
}

// rounded takes a fraction to an integer.
func rounded(c *computation, x []entry) (entry, bool) {
	y, over := x[0], sym.Of(max(x[0].over, 1))
	if !c.in[0].dtype.IsFloat() {
		return y, c.out[0].DType == c.in[0].dtype
	}
	switch {
	case c.op.Name == "ceil":
		return entry{n: y.n.Neg().Div(over).Neg(), over: 1, held: y.held}, true
	case c.op.Name == "floor" || notNegative(y.n):
		return entry{n: y.n.Div(over), over: 1, held: y.held}, true
	}
	return entry{}, false
}

// selected is that of where.
func selected(c *computation, x []entry) (entry, bool) {
	cond, a, b := x[0].b, x[1], x[2]
	if c.in[0].dtype != tensor.Bool || c.in[1].dtype != c.in[2].dtype {
		return entry{}, false
	}
	if c.in[1].dtype == tensor.Bool {
		return entry{b: cond.And(a.b).Or(cond.Not().And(b.b))}, true
	}
	return entry{n: sym.Where(cond, a.n, b.n), over: a.over, held: slices.Concat(a.held, b.held)},
		a.over == b.over && !a.rounded && !b.rounded
}

// converted is that of to.
func converted(c *computation, x []entry) (entry, bool) {
	from, to, y := c.in[0].dtype, c.out[0].DType, x[0]
	switch {
	case from == tensor.Bool && to == tensor.Bool:
		return y, true
	case to == tensor.Bool:
		c.n.bound(y)
		return entry{b: y.n.Ne(sym.Int{})}, !y.rounded
	case from == tensor.Bool:
		return entry{n: sym.Where(y.b, sym.Of(1), sym.Int{}), over: 1}, true
	case to.IsFloat() && !from.IsFloat():
		return entry{n: y.n, over: 1}.holding(c.n, y.n, to)
	case to.IsFloat():
		y, ok := y.holding(c.n, y.n, to)
		return y, ok && !y.rounded
	case to != tensor.Int64 && to != tensor.Int32:
		return entry{}, false // a size may not fit
	case from.IsFloat() && y.over > 1 && !notNegative(y.n):
		return entry{}, false
	case from.IsFloat():
		c.n.bound(y)
		return entry{n: y.n.Div(sym.Of(max(y.over, 1)))}, true
	}
	return entry{n: y.n}, true
}
