package sym

import (
	"math"
	"slices"
)

// effort bounds how many sums one proof looks at, proofDepth how far it follows functions and facts.
const (
	effort     = 40
	proofDepth = 3
)

// proves reports whether d >= 0 is seen to hold by form, bounds and, under facts, by these. Where it is false d may
// be so all the same.
func (v *Env) proves(d *expr) bool {
	if lo, hi := v.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0
	}
	v.facts.effort = effort
	for depth := range proofDepth + 1 {
		left := v.facts.effort
		if v.atLeast0(d, depth) {
			return true
		}
		if v.facts.effort < 0 || depth > 0 && v.facts.effort == left-1 {
			return false // there is nothing to go deeper into, or no more patience
		}
	}
	return false
}

func (v *Env) atLeast0(d *expr, depth int) bool {
	lo, hi := v.bounds(d)
	if lo >= 0 || hi < 0 || len(d.terms) == 1 && d.c == 0 && len(d.terms[0].m) == 1 && d.terms[0].m[0].kind == kindSymbol {
		return lo >= 0
	}
	if v.facts.effort--; v.facts.effort < 0 || v.facts.live() && !v.facts.takes(1) {
		return false
	}
	if v.shifted(d) || v.byFactors(d, depth) {
		return true
	}
	return depth > 0 && (v.byFunction(d, depth-1) || v.byFact(d, depth-1))
}

// byFactors looks at factors that all terms have in common and that are not negative: m*rest + c is not negative
// where rest is at least -c divided by the least m.
func (v *Env) byFactors(d *expr, depth int) bool {
	m := d.shared()
	if len(m) == 0 {
		return false
	}
	least := 1
	for _, a := range m {
		lo, _ := v.atomBounds(a)
		if lo < 0 {
			return false
		}
		least = satMul(least, lo)
	}
	rest := v.over(v.plus(d, v.constant(d.c), -1), m)
	switch {
	case d.c >= 0:
		return v.atLeast0(rest, depth)
	case least == 0:
		return false
	}
	return v.atLeast0(v.plus(rest, v.constant(floorDiv(d.c, least)), 1), depth)
}

// shared returns the atoms that all of several terms have in common.
func (e *expr) shared() []*atom {
	if len(e.terms) < 2 {
		return nil
	}
	m := e.terms[0].m
	for _, t := range e.terms[1:] {
		m = meet(m, t.m)
	}
	return m
}

// over divides each term by atoms that it has.
func (v *Env) over(e *expr, m []*atom) *expr {
	if len(m) == 0 {
		return e
	}
	var terms []term
	c := 0
	for _, t := range e.terms {
		if left, _ := quotient(t.m, m); len(left) > 0 {
			terms = append(terms, term{t.k, left})
		} else {
			c += t.k
		}
	}
	return v.sum(terms, c)
}

// maxShifted bounds the terms of a shifted sum.
const maxShifted = 64

// shifted writes every atom as its least value and what it is above it, which is not negative: where the terms with
// negative coefficients are then outweighed by the constant, the sum is not negative. So are found products that grow
// with their factors: x*y - x for y from 1 on.
func (v *Env) shifted(d *expr) bool {
	var out []term
	c := d.c
	for _, t := range d.terms {
		parts := []term{{t.k, nil}}
		for _, a := range t.m {
			lo, _ := v.atomBounds(a)
			if lo == math.MinInt || len(parts) > maxShifted {
				return false
			}
			for _, p := range parts {
				p.m = append(slices.Clone(p.m), a)
				parts = append(parts, p)
			}
			for i := range len(parts) / 2 {
				parts[i].k = satMul(parts[i].k, lo)
			}
			parts = slices.DeleteFunc(parts, func(p term) bool { return p.k == 0 })
		}
		out = append(out, parts...)
	}
	slices.SortFunc(out, compareTerms)
	for i := 0; i < len(out); {
		k, j := 0, i
		for ; j < len(out) && compareTerms(out[i], out[j]) == 0; j++ {
			k = satAdd(k, out[j].k)
		}
		if k == math.MinInt || k == math.MaxInt {
			return false
		}
		switch least := k; {
		case len(out[i].m) == 0:
			c = addLower(c, k)
		case k < 0:
			for _, a := range out[i].m {
				lo, hi := v.atomBounds(a)
				least = satMul(least, addUpper(hi, satNeg(lo)))
			}
			c = addLower(c, least)
		}
		if c == math.MinInt {
			return false
		}
		i = j
	}
	return c >= 0
}

// byFunction puts bounds by its operands in the place of the first function in d that has such: a Max is one of its
// operands and none of them is above it, y*(x//y) is x or up to y-1 less.
func (v *Env) byFunction(d *expr, depth int) bool {
	for _, t := range d.terms {
		for _, a := range t.m {
			if a.kind == kindSymbol || a.kind == kindMod || a.unexpanded() {
				continue
			}
			times, rest, ok := v.split(d, a)
			if !ok {
				continue
			}
			lo, hi := v.bounds(times)
			if a.kind == kindDiv {
				if v.byQuotient(a, times, rest, depth) {
					return true
				}
				continue
			}
			one := a.kind == kindMax && lo >= 0 || a.kind == kindMin && hi <= 0
			proved := 0
			for _, e := range a.args {
				if v.sumAtLeast0(times, e, rest, depth) {
					proved++
				} else if !one {
					break
				}
			}
			if proved == len(a.args) || one && proved > 0 {
				return true
			}
		}
	}
	return false
}

func (v *Env) byQuotient(a *atom, times, rest *expr, depth int) bool {
	x, y := a.args[0], a.args[1]
	if l, _ := v.bounds(y); l < 1 {
		return false
	}
	switch lo, hi := v.bounds(times); {
	case hi <= 0:
	case lo >= 0:
		x = v.plus(v.plus(x, y, -1), v.constant(1), 1)
	default:
		return false
	}
	return v.sumAtLeast0(times, x, v.times(y, rest), depth)
}

// sumAtLeast0 is atLeast0 of a*b + c.
func (v *Env) sumAtLeast0(a, b, c *expr, depth int) bool {
	return v.atLeast0(v.plus(v.times(a, b), c, 1), depth)
}

// split returns times and rest with d = times*a + rest, neither of which holds a.
func (v *Env) split(d *expr, a *atom) (times, rest *expr, ok bool) {
	var with, without []term
	c := 0
	for _, t := range d.terms {
		switch m, has := quotient(t.m, []*atom{a}); {
		case !has:
			without = append(without, t)
		case slices.Contains(m, a):
			return nil, nil, false
		case len(m) == 0:
			c += t.k
		default:
			with = append(with, term{t.k, m})
		}
	}
	return v.sum(with, c), v.sum(without, d.c), true
}

// byFact uses what is known of sums: it takes away one that is not negative, if that leaves no more terms than there
// were, or puts the bound that it is for one of its atoms in the place of that.
func (v *Env) byFact(d *expr, depth int) bool {
	if !v.facts.live() {
		return false
	}
	for _, c := range v.facts.held {
		if c.kind == condNe || len(c.d.terms) < 2 {
			continue
		}
		if less := v.plus(d, c.d, -1); len(less.terms) <= len(d.terms) && v.atLeast0(less, depth) {
			return true
		}
		if c.kind == condEq {
			if more := v.plus(d, c.d, 1); len(more.terms) <= len(d.terms) && v.atLeast0(more, depth) {
				return true
			}
		}
		if v.byBound(d, c, depth) {
			return true
		}
	}
	return false
}

// byBound puts in the place of an atom what a fact says that it is not below, or not above where it is taken away.
func (v *Env) byBound(d *expr, c *cond, depth int) bool {
	for _, t := range c.d.terms {
		if len(t.m) != 1 || t.k != 1 && t.k != -1 || !d.within(t.m[0]) {
			continue
		}
		times, rest, ok := v.split(d, t.m[0])
		if !ok {
			continue
		}
		lo, hi := v.bounds(times)
		if lo < 0 && hi > 0 || c.kind == condGe && (t.k > 0 && lo < 0 || t.k < 0 && hi > 0) {
			continue
		}
		bound := v.plus(t.m[0].self, c.d, -t.k)
		if v.sumAtLeast0(times, bound, rest, depth) {
			return true
		}
	}
	return false
}

// within reports whether an atom is a factor of a term.
func (e *expr) within(a *atom) bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return slices.Contains(t.m, a) })
}

// relationKnown returns the truth of a relation, where it is seen.
func (v *Env) relationKnown(c *cond) (truth, known bool) {
	if !v.facts.takes(1) {
		return false, false
	}
	plain := v.simplify(c.d)
	if c.kind == condGe {
		if lo, hi := v.bounds(c.d); lo >= 0 || hi < 0 {
			return lo >= 0, true
		}
		return v.notNegative(plain)
	}
	truth, known = v.nearly(c.d)
	if !known {
		truth, known = v.vanishes(plain)
	}
	return truth == (c.kind == condEq), known
}

func (v *Env) notNegative(d *expr) (truth, known bool) {
	if lo, hi := v.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0, true
	}
	if v.proves(d) {
		return true, true
	}
	return false, v.proves(v.gap(d, v.constant(0)))
}

// nearly returns whether d is 0, where bounds, residues and exclusions tell.
func (v *Env) nearly(d *expr) (truth, known bool) {
	lo, hi := v.bounds(d)
	if lo > 0 || hi < 0 || lo == 0 && hi == 0 {
		return lo == 0 && hi == 0, true
	}
	if m, r := v.residue(d); m > 1 && r != 0 {
		return false, true
	}
	if v.facts.live() && len(d.terms) > 0 {
		if p, k, c := v.linear(d); p.fact != nil && c%k == 0 && slices.Contains(p.fact.not, -c/k) {
			return false, true
		}
	}
	return false, false
}

func (v *Env) vanishes(d *expr) (truth, known bool) {
	if truth, known = v.nearly(d); known {
		return truth, known
	}
	if len(d.terms) == 1 && d.c == 0 && len(d.terms[0].m) > 1 {
		for _, a := range d.terms[0].m {
			if t, ok := v.vanishes(a.self); !ok || t {
				return t, ok
			}
		}
		return false, true
	}
	return false, v.proves(v.plus(d, v.constant(1), -1)) || v.proves(v.gap(d, v.constant(0)))
}
