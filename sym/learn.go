package sym

import (
	"math"
	"slices"
)

// learn adds a condition and its immediate consequences to the facts.
func (v *Env) learn(c *cond) {
	generation := v.facts.generation
	defer func() { v.facts.reuseGeneration(transition{generation, c, true, v.facts.hypotheses}) }()
	v.assume(c)
	for learned := true; learned && !v.facts.contradiction && v.facts.stepsLeft > 0; {
		learned = false
		// A disjunction with a single undecided operand implies that operand (unit propagation).
		for i := 0; i < len(v.facts.clauses) && !v.facts.contradiction; i++ {
			candidate, undecided := v.undecidedOperands(v.facts.clauses[i])
			switch {
			case undecided == 0:
				v.contradict()
			case undecided == 1 && !candidate.isFact:
				// Even after candidate is a fact, bounds may not show that it holds. The test of isFact prevents a second
				// assumption.
				v.assume(candidate)
				learned = true
			}
		}
	}
}

// undecidedOperands returns one of the undecided operands of a disjunction, and their number. If the disjunction is
// known to hold, or if an operand is not a relation, the number is 2 or more, so that the caller draws no conclusion.
func (v *Env) undecidedOperands(c *cond) (operand *cond, undecided int) {
	for _, p := range c.args {
		if p.kind >= condAnd {
			return nil, len(c.args) + 1
		}
		switch truth, known := v.relationKnown(p); {
		case known && truth:
			return nil, len(c.args) + 1
		case !known:
			operand = p
			undecided++
		}
	}
	return operand, undecided
}

// markTrue marks a condition as true.
func (v *Env) markTrue(c *cond) {
	if !c.isFact {
		generation := v.facts.generation
		c.isFact = true
		v.facts.trail = append(v.facts.trail, change{c: c})
		v.facts.newGeneration()
		v.facts.reuseGeneration(transition{generation, c, false, v.facts.hypotheses})
	}
}

func (v *Env) contradict() {
	v.facts.contradiction = true
	v.facts.newGeneration()
}

// assume adds a condition to the facts, with the bounds that follow from it.
func (v *Env) assume(c *cond) {
	v.markTrue(c)
	v.facts.spendSteps(1)
	switch {
	case v.facts.contradiction:
	case c.kind == condAnd:
		for _, p := range c.args {
			v.assume(p)
		}
	case c.kind == condOr:
		v.facts.clauses = append(v.facts.clauses, c)
		v.facts.newGeneration()
	default:
		v.facts.trueRelations = append(v.facts.trueRelations, c)
		simplified := v.simplify(c.difference)
		v.assumeRelation(c.kind, c.difference)
		if simplified != c.difference {
			v.assumeRelation(c.kind, simplified)
		}
		if c.kind == condEq {
			v.substitute(simplified)
		}
	}
}

// assumeRelation adds d = 0, d != 0 or d >= 0 to the facts.
func (v *Env) assumeRelation(k condKind, d *expr) {
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
		v.propagateZero(d)
	default:
		v.exclude(d)
	}
}

// narrow adds the fact that e is from lo to hi.
func (v *Env) narrow(e *expr, lo, hi int) {
	if len(e.terms) == 0 {
		if e.c < lo || e.c > hi {
			v.contradict()
		}
		return
	}
	v.facts.spendSteps(1)
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
	oldBounds := [2]int{f.lo, f.hi}
	f.lo, f.hi = max(f.lo, lo), min(f.hi, hi)
	f.tighten()
	switch {
	case f.lo > f.hi:
		v.contradict()
	case oldBounds != [2]int{f.lo, f.hi}:
		v.setFact(p, f)
		v.propagate(p, f.lo, f.hi)
	}
}

// exclude adds the fact that d is not 0.
func (v *Env) exclude(d *expr) {
	p, k, c := v.linear(d)
	if len(d.terms) == 1 && c == 0 && len(d.terms[0].atoms) > 1 {
		// No factor of a non-zero product is 0.
		for _, a := range d.terms[0].atoms {
			v.exclude(a.asExpr)
		}
	}
	if c%k != 0 {
		return
	}
	f := v.factOf(p)
	oldBounds := [2]int{f.lo, f.hi}
	f.excluded = append(slices.Clone(f.excluded), -c/k)
	f.tighten()
	v.setFact(p, f)
	switch {
	case f.lo > f.hi:
		v.contradict()
	case oldBounds != [2]int{f.lo, f.hi}:
		v.propagate(p, f.lo, f.hi)
	}
}

// propagateZero draws conclusions from d = 0. If d is a product and only one factor can be 0, that factor is 0.
func (v *Env) propagateZero(d *expr) {
	if len(d.terms) != 1 || d.c != 0 || len(d.terms[0].atoms) < 2 {
		return
	}
	var possiblyZero []*expr
	for i, a := range d.terms[0].atoms {
		if lo, hi := v.atomBounds(a); lo <= 0 && hi >= 0 && (i == 0 || a != d.terms[0].atoms[i-1]) {
			possiblyZero = append(possiblyZero, a.asExpr)
		}
	}
	switch len(possiblyZero) {
	case 0:
		v.contradict()
	case 1:
		v.narrow(possiblyZero[0], 0, 0)
	}
}

// propagate derives bounds of the parts of p from the fact that p is between lo and hi.
func (v *Env) propagate(p *expr, lo, hi int) {
	switch {
	case len(p.terms) > 1:
		v.propagateSum(p, lo, hi)
	case len(p.terms[0].atoms) > 1:
		v.propagateProduct(p.terms[0].atoms, lo, hi)
	case p.terms[0].atoms[0].kind != kindSymbol:
		v.propagateAtom(p.terms[0].atoms[0], lo, hi)
	}
}

// propagateSum narrows each term of p, which is between lo and hi, by the bounds of the other terms.
func (v *Env) propagateSum(p *expr, lo, hi int) {
	for i, t := range p.terms {
		restLo, restHi := 0, 0
		for j, o := range p.terms {
			if i != j {
				l, h := v.termBounds(o)
				restLo, restHi = addLower(restLo, l), addUpper(restHi, h)
			}
		}
		lower, upper := addLower(lo, satNeg(restHi)), addUpper(hi, satNeg(restLo))
		if lower > math.MinInt || upper < math.MaxInt {
			v.narrow(v.termExpr(t), lower, upper)
		}
	}
}

// propagateProduct narrows the factors of a product without negative factors.
func (v *Env) propagateProduct(m []*atom, lo, hi int) {
	others := make([]int, len(m)) // for each factor, a lower bound of the product of the other factors
	for i := range m {
		others[i] = 1
		for j, b := range m {
			l, _ := v.atomBounds(b)
			if l < 0 {
				return
			}
			if i != j {
				// Each factor of a positive product is at least 1.
				others[i] = satMul(others[i], max(l, min(lo, 1)))
			}
		}
	}
	for i, a := range m {
		lower, upper := math.MinInt, math.MaxInt
		if lo >= 1 {
			lower = 1
		}
		if others[i] >= 1 && hi < math.MaxInt {
			upper = hi / others[i]
		}
		if lower > math.MinInt || upper < math.MaxInt {
			v.narrow(a.asExpr, lower, upper)
		}
	}
}

// propagateAtom derives bounds of the operands of a function from its bounds lo and hi.
func (v *Env) propagateAtom(a *atom, lo, hi int) {
	switch a.kind {
	case kindMax, kindMin:
		v.propagateExtreme(a, lo, hi)
	case kindDiv:
		if y := a.args[1]; len(y.terms) == 0 && y.c > 0 {
			lo, hi = mulRange(lo, hi, y.c, y.c)
			v.narrow(a.args[0], lo, addUpper(hi, y.c-1))
		}
	case kindMod:
		if y := a.args[1]; len(y.terms) == 0 && y.c > 0 && y.c < maxModulus && lo == hi {
			v.narrowResidue(a.args[0], y.c, lo)
		}
	case kindWhere:
		for i, e := range a.args {
			if l, h := v.bounds(e); l > hi || h < lo {
				c := a.cond
				if i == 0 {
					c = c.not()
				}
				v.assume(c)
				v.narrow(a.args[1-i], lo, hi)
				return
			}
		}
	}
}

// propagateExtreme derives bounds of the operands of a Max or Min. No operand of a Max exceeds hi. If only one operand
// can reach lo, that operand is the maximum. A Min is the mirror case.
func (v *Env) propagateExtreme(a *atom, lo, hi int) {
	var candidates []*expr
	for _, e := range a.args {
		l, h := v.bounds(e)
		if a.kind == kindMax {
			v.narrow(e, math.MinInt, hi)
			if h >= lo {
				candidates = append(candidates, e)
			}
			continue
		}
		v.narrow(e, lo, math.MaxInt)
		if l <= hi {
			candidates = append(candidates, e)
		}
	}
	if len(candidates) == 1 {
		v.narrow(candidates[0], lo, hi)
	}
}

// narrowResidue adds the fact that e is r modulo m.
func (v *Env) narrowResidue(e *expr, m, r int) {
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
	_, multiple := modulo(n, (f.rem-r)/g)
	_, multiple = modulo(n, multiple*inverse(m/g, n))
	f.mod, f.rem = m*n, r+m*multiple
	f.tighten()
	if f.lo > f.hi {
		v.contradict()
		return
	}
	v.setFact(p, f)
	v.propagate(p, f.lo, f.hi)
}

// inverse returns b from 0 to n-1 with a*b = 1 modulo n. a and n must have no common divisor.
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

// substitute solves d = 0 for an atom of d, and records the solution as the replacement of the atom. The atom must be a
// term by itself and must not occur elsewhere in d. The newest such atom is chosen, so that strides are replaced by
// sizes, and derived symbols are replaced by the symbols from which they were derived.
func (v *Env) substitute(d *expr) {
	var solved *atom
	var sign int
	for i, t := range d.terms {
		if len(t.atoms) != 1 || t.coeff != 1 && t.coeff != -1 || solved != nil && solved.id > t.atoms[0].id {
			continue
		}
		independent := true
		for j, o := range d.terms {
			independent = independent && (i == j ||
				!slices.ContainsFunc(o.atoms, func(a *atom) bool { return a.contains(t.atoms[0]) }))
		}
		if independent {
			solved, sign = t.atoms[0], t.coeff
		}
	}
	if solved == nil || v.facts.contradiction {
		return
	}
	lo, hi := v.atomBounds(solved)
	solved.replacement = v.addMultiple(solved.asExpr, d, -sign)
	v.facts.trail = append(v.facts.trail, change{a: solved})
	v.facts.newGeneration()
	v.narrow(solved.replacement, lo, hi)
	for _, c := range slices.Clone(v.facts.trueRelations) {
		if simplified := v.simplify(c.difference); simplified != c.difference {
			v.assumeRelation(c.kind, simplified)
		}
	}
}

// contains reports whether b occurs in a.
func (a *atom) contains(b *atom) bool { return (&search{target: b}).atom(a) }

// search looks for an atom, the target, in an expression. It visits each large part only once, even if several
// expressions share the part.
type search struct {
	target *atom
	seen   map[any]bool
}

// visited reports whether a part, an atom or a condition, was searched before.
func (s *search) visited(part any) bool {
	if s.seen == nil {
		s.seen = map[any]bool{}
	}
	wasVisited := s.seen[part]
	s.seen[part] = true
	return wasVisited
}

func (s *search) atom(a *atom) bool {
	if a.id <= s.target.id || a.kind == kindSymbol {
		return a == s.target // the parts of an atom have lower ids
	}
	if a.size > maxUnmemoizedSize && s.visited(a) {
		return false
	}
	return a.cond != nil && s.cond(a.cond) || slices.ContainsFunc(a.args, s.expr)
}

func (s *search) expr(e *expr) bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return slices.ContainsFunc(t.atoms, s.atom) })
}

func (s *search) cond(c *cond) bool {
	if c.size > maxUnmemoizedSize && c.kind >= condAnd && s.visited(c) {
		return false
	}
	return c.difference != nil && s.expr(c.difference) || slices.ContainsFunc(c.args, s.cond)
}

// maxUnmemoizedSize is the size above which results for shared parts are memoized. Smaller parts are visited
// repeatedly.
const maxUnmemoizedSize = 32
