package sym

import (
	"encoding/binary"
	"math"
	"slices"
)

// kind tells what an atom is.
type kind uint8

const (
	kindSymbol kind = iota
	kindDiv
	kindMod
	kindMax
	kindMin
)

// atom is what a product is made of: a symbol, or a function of expressions that is no sum of
// products itself.
type atom struct {
	kind   kind
	name   string // of a symbol
	args   []*expr
	id     int
	lo, hi int
	hint   int
}

// atom returns the one atom with the given parts as an expression.
func (v *Env) atom(k kind, args ...*expr) *expr {
	key := []byte{byte(k)}
	for _, e := range args {
		key = binary.AppendVarint(key, int64(e.id))
	}
	a := v.atoms[string(key)]
	if a == nil {
		a = &atom{kind: k, args: args, id: len(v.symbols) + len(v.atoms)}
		a.bound()
		v.atoms[string(key)] = a
	}
	return v.sum([]term{{1, []*atom{a}}}, 0)
}

// bound computes bounds and hint from those of the operands.
func (a *atom) bound() {
	x, y := a.args[0], a.args[1]
	switch a.kind {
	case kindDiv:
		a.lo, a.hi = divRange(x.lo, x.hi, y.lo, y.hi)
		a.hint = floorDiv(x.hint, y.hint)
	case kindMod:
		a.lo, a.hi = math.MinInt, math.MaxInt
		if y.lo > 0 {
			a.lo, a.hi = 0, satAdd(y.hi, -1)
			if x.lo >= 0 {
				a.hi = min(a.hi, x.hi)
			}
		}
		a.hint = x.hint - y.hint*floorDiv(x.hint, y.hint)
	default:
		a.lo, a.hi, a.hint = x.lo, x.hi, x.hint
		pick := func(x, y int) int { return max(x, y) }
		if a.kind == kindMin {
			pick = func(x, y int) int { return min(x, y) }
		}
		for _, e := range a.args[1:] {
			a.lo, a.hi, a.hint = pick(a.lo, e.lo), pick(a.hi, e.hi), pick(a.hint, e.hint)
		}
	}
}

// single returns the atom that e consists of; nil if it is more or less than one.
func (e *expr) single() *atom {
	if e.c == 0 && len(e.terms) == 1 && e.terms[0].k == 1 && len(e.terms[0].m) == 1 {
		return e.terms[0].m[0]
	}
	return nil
}

//go:noinline
func greater(a, b Int) Int { return extreme(kindMax, a, b) }

//go:noinline
func lesser(a, b Int) Int { return extreme(kindMin, a, b) }

// extreme returns the greatest or the least of two operands. An operand that the bounds show never to
// win is dropped.
func extreme(k kind, a, b Int) Int {
	v := envOf(a, b)
	var args []*expr
	for _, e := range []*expr{v.of(a), v.of(b)} {
		if s := e.single(); s != nil && s.kind == k {
			args = append(args, s.args...)
		} else {
			args = append(args, e)
		}
	}
	sign := 1
	if k == kindMin {
		sign = -1
	}
	var kept []*expr
	for i, e := range args {
		beaten := slices.ContainsFunc(kept, func(o *expr) bool { return v.never(e, o, sign) })
		for _, o := range args[i+1:] {
			// Of two that are always equal one stays.
			beaten = beaten || v.never(e, o, sign)
		}
		if !beaten {
			kept = append(kept, e)
		}
	}
	if len(kept) == 1 {
		return kept[0].int()
	}
	// Constants first, as in Max(1, x).
	slices.SortFunc(kept, func(a, b *expr) int {
		if (len(a.terms) == 0) != (len(b.terms) == 0) {
			return len(a.terms) - len(b.terms)
		}
		return a.id - b.id
	})
	return v.atom(k, kept...).int()
}

// never reports whether sign*e is at most sign*o for all sizes.
func (v *Env) never(e, o *expr, sign int) bool {
	d := v.plus(o, e, -1)
	if sign < 0 {
		return d.hi <= 0
	}
	return d.lo >= 0
}
