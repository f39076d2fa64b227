package sym

import (
	"math"
	"slices"
)

// learn enters a condition that holds, with what follows from it at once.
func (v *Env) learn(c *cond) {
	from := v.facts.gen
	defer func() { v.facts.named(step{from, c, true, v.facts.hypotheses}) }()
	v.enterCond(c)
	for again := true; again && !v.facts.contradiction && v.facts.left > 0; {
		again = false
		// An alternative of which but one side is left open says that this side holds.
		for i := 0; i < len(v.facts.clauses) && !v.facts.contradiction; i++ {
			open, sides := v.openSides(v.facts.clauses[i])
			switch {
			case sides == 0:
				v.contradict()
			case sides == 1 && !open.settled:
				// Bounds need not tell that it holds even when it was entered: once is enough.
				v.enterCond(open)
				again = true
			}
		}
	}
}

// openSides returns how many relations of an alternative may hold and do not surely, and one of them; 2 or more also
// where the alternative is known to hold.
func (v *Env) openSides(c *cond) (open *cond, sides int) {
	for _, p := range c.args {
		if p.kind >= condAnd {
			return nil, len(c.args) + 1
		}
		switch truth, known := v.relationKnown(p); {
		case known && truth:
			return nil, len(c.args) + 1
		case !known:
			open = p
			sides++
		}
	}
	return open, sides
}

// settle marks a condition as true.
func (v *Env) settle(c *cond) {
	if !c.settled {
		from := v.facts.gen
		c.settled = true
		v.facts.trail = append(v.facts.trail, change{c: c})
		v.facts.changed()
		v.facts.named(step{from, c, false, v.facts.hypotheses})
	}
}

func (v *Env) contradict() {
	v.facts.contradiction = true
	v.facts.changed()
}

func (v *Env) enterCond(c *cond) {
	v.settle(c)
	v.facts.takes(1)
	switch {
	case v.facts.contradiction:
	case c.kind == condAnd:
		for _, p := range c.args {
			v.enterCond(p)
		}
	case c.kind == condOr:
		v.facts.clauses = append(v.facts.clauses, c)
		v.facts.changed()
	default:
		v.facts.held = append(v.facts.held, c)
		plain := v.simplify(c.d)
		v.hold(c.kind, c.d)
		if plain != c.d {
			v.hold(c.kind, plain)
		}
		if c.kind == condEq {
			v.replace(plain)
		}
	}
}

// hold enters d = 0, d != 0 or d >= 0.
func (v *Env) hold(k condKind, d *expr) {
	if len(d.terms) == 0 {
		if k == condEq && d.c != 0 || k == condNe && d.c == 0 || k == condGe && d.c < 0 {
			v.contradict()
		}
		return
	}
	switch k {
	case condGe:
		v.narrow(d, 0, math.MaxInt)
	case condEq:
		v.narrow(d, 0, 0)
		v.oneVanishes(d)
	default:
		v.exclude(d)
	}
}

// narrow enters that e is from lo to hi.
func (v *Env) narrow(e *expr, lo, hi int) {
	if len(e.terms) == 0 {
		if e.c < lo || e.c > hi {
			v.contradict()
		}
		return
	}
	v.facts.takes(1)
	p, k, c := v.linear(e)
	if k < 0 {
		lo, hi, k, c = satNeg(hi), satNeg(lo), -k, -c
	}
	lo, hi = addLower(lo, -c), addUpper(hi, -c)
	if lo != math.MinInt {
		lo = -floorDiv(-lo, k)
	}
	if hi != math.MaxInt {
		hi = floorDiv(hi, k)
	}
	f := v.factOf(p)
	was := [2]int{f.lo, f.hi}
	f.lo, f.hi = max(f.lo, lo), min(f.hi, hi)
	f.tighten()
	switch {
	case f.lo > f.hi:
		v.contradict()
	case was != [2]int{f.lo, f.hi}:
		v.enter(p, f)
		v.spread(p, f.lo, f.hi)
	}
}

// exclude enters that d is not 0.
func (v *Env) exclude(d *expr) {
	p, k, c := v.linear(d)
	if len(d.terms) == 1 && c == 0 && len(d.terms[0].m) > 1 {
		// No factor of a product that is not 0 is 0.
		for _, a := range d.terms[0].m {
			v.exclude(a.self)
		}
	}
	if c%k != 0 {
		return
	}
	f := v.factOf(p)
	was := [2]int{f.lo, f.hi}
	f.not = append(slices.Clone(f.not), -c/k)
	f.tighten()
	v.enter(p, f)
	switch {
	case f.lo > f.hi:
		v.contradict()
	case was != [2]int{f.lo, f.hi}:
		v.spread(p, f.lo, f.hi)
	}
}

// oneVanishes enters for a product of 0 that one of its factors is 0.
func (v *Env) oneVanishes(d *expr) {
	if len(d.terms) != 1 || d.c != 0 || len(d.terms[0].m) < 2 {
		return
	}
	var open []*expr
	for i, a := range d.terms[0].m {
		if lo, hi := v.atomBounds(a); lo <= 0 && hi >= 0 && (i == 0 || a != d.terms[0].m[i-1]) {
			open = append(open, a.self)
		}
	}
	switch len(open) {
	case 0:
		v.contradict()
	case 1:
		v.narrow(open[0], 0, 0)
	}
}

// spread enters what bounds of p say of its parts.
func (v *Env) spread(p *expr, lo, hi int) {
	switch {
	case len(p.terms) > 1:
		v.spreadSum(p, lo, hi)
	case len(p.terms[0].m) > 1:
		v.spreadProduct(p.terms[0].m, lo, hi)
	case p.terms[0].m[0].kind != kindSymbol:
		v.spreadAtom(p.terms[0].m[0], lo, hi)
	}
}

// spreadSum gives each term what the bounds of the others leave.
func (v *Env) spreadSum(p *expr, lo, hi int) {
	for i, t := range p.terms {
		restLo, restHi := 0, 0
		for j, o := range p.terms {
			if i != j {
				l, h := v.termBounds(o)
				restLo, restHi = addLower(restLo, l), addUpper(restHi, h)
			}
		}
		least, most := addLower(lo, satNeg(restHi)), addUpper(hi, satNeg(restLo))
		if least > math.MinInt || most < math.MaxInt {
			v.narrow(v.termExpr(t), least, most)
		}
	}
}

// spreadProduct gives the factors of a product that has no negative ones their bounds.
func (v *Env) spreadProduct(m []*atom, lo, hi int) {
	others := make([]int, len(m)) // the least product of the others
	for i := range m {
		others[i] = 1
		for j, b := range m {
			l, _ := v.atomBounds(b)
			if l < 0 {
				return
			}
			if i != j {
				others[i] = satMul(others[i], max(l, min(lo, 1)))
			}
		}
	}
	for i, a := range m {
		least, most := math.MinInt, math.MaxInt
		if lo >= 1 {
			least = 1
		}
		if others[i] >= 1 && hi < math.MaxInt {
			most = hi / others[i]
		}
		if least > math.MinInt || most < math.MaxInt {
			v.narrow(a.self, least, most)
		}
	}
}

// spreadAtom enters what bounds of a function say of its operands.
func (v *Env) spreadAtom(a *atom, lo, hi int) {
	switch a.kind {
	case kindMax, kindMin:
		v.spreadExtreme(a, lo, hi)
	case kindDiv:
		if y := a.args[1]; len(y.terms) == 0 && y.c > 0 {
			lo, hi = mulRange(lo, hi, y.c, y.c)
			v.narrow(a.args[0], lo, addUpper(hi, y.c-1))
		}
	case kindMod:
		if y := a.args[1]; len(y.terms) == 0 && y.c > 0 && y.c < maxModulus && lo == hi {
			v.congruent(a.args[0], y.c, lo)
		}
	case kindWhere:
		for i, e := range a.args {
			if l, h := v.bounds(e); l > hi || h < lo {
				c := a.cond
				if i == 0 {
					c = c.not()
				}
				v.enterCond(c)
				v.narrow(a.args[1-i], lo, hi)
				return
			}
		}
	}
}

// spreadExtreme: no operand of a Max is above it, and one reaches it.
func (v *Env) spreadExtreme(a *atom, lo, hi int) {
	var reach []*expr
	for _, e := range a.args {
		l, h := v.bounds(e)
		if a.kind == kindMax {
			v.narrow(e, math.MinInt, hi)
			if h >= lo {
				reach = append(reach, e)
			}
			continue
		}
		v.narrow(e, lo, math.MaxInt)
		if l <= hi {
			reach = append(reach, e)
		}
	}
	if len(reach) == 1 {
		v.narrow(reach[0], lo, hi)
	}
}

// congruent enters that e is r modulo m.
func (v *Env) congruent(e *expr, m, r int) {
	p, k, c := v.linear(e)
	if k != 1 && k != -1 || max(c, -c) > maxModulus {
		return
	}
	m, r = modulo(m, k*(r-c))
	f := v.factOf(p)
	if (r-f.rem)%gcd(m, f.mod) != 0 {
		v.contradict()
		return
	}
	if f.mod%m == 0 || f.mod > maxModulus/m {
		return
	}
	// The residue modulo the least common multiple, by the Chinese remainder theorem.
	g := gcd(m, f.mod)
	n := f.mod / g
	_, times := modulo(n, (f.rem-r)/g)
	_, times = modulo(n, times*inverse(m/g, n))
	f.mod, f.rem = m*n, r+m*times
	f.tighten()
	if f.lo > f.hi {
		v.contradict()
		return
	}
	v.enter(p, f)
	v.spread(p, f.lo, f.hi)
}

// inverse returns b from 0 to n-1 with a*b = 1 modulo n, where a and n have no common divisor.
func inverse(a, n int) int {
	b, next := 0, 1
	for r, rest := n, a%n; rest != 0; {
		q := r / rest
		r, rest = rest, r-q*rest
		b, next = next, b-q*next
	}
	_, b = modulo(n, b)
	return b
}

// replace enters for d = 0 that an atom of it stands for the rest, if there is one that is a term by itself: the
// youngest one, so that strides are told by sizes, and what was derived by what it was derived from.
func (v *Env) replace(d *expr) {
	var which *atom
	var sign int
	for i, t := range d.terms {
		if len(t.m) != 1 || t.k != 1 && t.k != -1 || which != nil && which.id > t.m[0].id {
			continue
		}
		apart := true
		for j, o := range d.terms {
			apart = apart && (i == j || !slices.ContainsFunc(o.m, func(a *atom) bool { return a.holds(t.m[0]) }))
		}
		if apart {
			which, sign = t.m[0], t.k
		}
	}
	if which == nil || v.facts.contradiction {
		return
	}
	lo, hi := v.atomBounds(which)
	which.stands = v.plus(which.self, d, -sign)
	v.facts.trail = append(v.facts.trail, change{a: which})
	v.facts.changed()
	v.narrow(which.stands, lo, hi)
	for _, c := range slices.Clone(v.facts.held) {
		if plain := v.simplify(c.d); plain != c.d {
			v.hold(c.kind, plain)
		}
	}
}

// holds reports whether b is part of a.
func (a *atom) holds(b *atom) bool { return (&search{b: b}).atom(a) }

// search looks for an atom in an expression. Large shared parts are searched once.
type search struct {
	b    *atom
	seen map[any]bool
}

// again reports whether a part, an atom or a condition, was searched before.
func (s *search) again(part any) bool {
	if s.seen == nil {
		s.seen = map[any]bool{}
	}
	before := s.seen[part]
	s.seen[part] = true
	return before
}

func (s *search) atom(a *atom) bool {
	if a.id <= s.b.id || a.kind == kindSymbol {
		return a == s.b // parts have lower numbers
	}
	if a.size > fewParts && s.again(a) {
		return false
	}
	return a.cond != nil && s.cond(a.cond) || slices.ContainsFunc(a.args, s.expr)
}

func (s *search) expr(e *expr) bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return slices.ContainsFunc(t.m, s.atom) })
}

func (s *search) cond(c *cond) bool {
	if c.size > fewParts && c.kind >= condAnd && s.again(c) {
		return false
	}
	return c.d != nil && s.expr(c.d) || slices.ContainsFunc(c.args, s.cond)
}

// fewParts is the size up to which shared parts are walked repeatedly.
const fewParts = 32
