package sym

import (
	"math"
	"slices"
)

// This file derives facts from conditions that are assumed to be true. Examples of the types:
//
//	expr   x*y + 2*z - 6   a constant plus terms
//	term   2*z             a coefficient times atoms
//	atom   z, Max(x, y)    a symbol, or a function of exprs
//	cond   x - y >= 0      compares an expr, its difference, with 0 (a relation); or joins conds by "and" or "or"
//	fact   1 <= x <= 7     bounds lo and hi of an expr, its residue rem modulo mod, and excluded values
//
// For example, let x, y and z be at least 1, and let x + 2*y <= 9 and y = z + 1 be learned. The first condition gives
// the bounds x <= 7 and y <= 4 (narrow, propagateSum). The second is solved for its newest symbol, say z: y - 1
// replaces z, so that z is at most 3 (substitute). For each Max, Where, quotient or remainder that gets new bounds,
// propagateAtom derives bounds of its operands, for example x <= 4 and y <= 4 from Max(x, y) <= 4.

// learn adds a condition and its immediate consequences to the facts. A limited number of steps (facts.stepsLeft) ends
// propagation that does not converge.
//
// Each set of facts has a number, its generation, and answers are cached by generation. A transition leads from one
// generation to another: to the facts with c alone (in markTrue), or to the facts with c and its consequences (learned,
// in learn). If a transition occurs again, reuseGeneration restores the generation to which it led before, whose cached
// answers are then valid again. This is frequent for hypotheses, which are facts that hold for a limited time. For
// example, hypothesis c changes generation 3 to 4. After its end, the generation is 3 again. If c is learned again, the
// generation is 4 again.
func (env *Env) learn(c *cond) {
	generation := env.facts.generation
	defer func() {
		env.facts.reuseGeneration(transition{from: generation, cond: c, learned: true,
			hypotheses: env.facts.hypotheses})
	}()
	env.assume(c)
	for env.facts.stepsLeft > 0 && env.propagateUnits() {
		// The assumed conditions may decide operands of further disjunctions.
	}
}

// propagateUnits assumes the operands that follow from the disjunctions: a disjunction with a single undecided operand
// implies that operand (unit propagation). It reports whether it assumed a condition.
func (env *Env) propagateUnits() (assumed bool) {
	for i := 0; i < len(env.facts.clauses) && !env.facts.contradiction; i++ { // assume may add clauses
		candidate, undecidedCount := env.undecidedOperands(env.facts.clauses[i])
		switch {
		case undecidedCount == 0:
			env.contradict()
		case undecidedCount == 1 && !candidate.isFact:
			// A condition can remain undecided after it is assumed, because the bounds do not always imply it. The test
			// of isFact keeps learn from assuming it again and again.
			env.assume(candidate)
			assumed = true
		}
	}
	return assumed
}

// assume adds a condition to the facts, with the bounds that follow from it.
func (env *Env) assume(c *cond) {
	env.markTrue(c)
	env.facts.spendSteps(1)
	switch {
	case env.facts.contradiction:
	case c.kind == condAnd:
		for _, part := range c.args {
			env.assume(part)
		}
	case c.kind == condOr:
		env.facts.clauses = append(env.facts.clauses, c)
		env.facts.beginGeneration()
	default:
		env.facts.trueRelations = append(env.facts.trueRelations, c)
		simplified := env.simplify(c.difference)
		env.assumeRelation(c.kind, c.difference)
		if simplified != c.difference {
			env.assumeRelation(c.kind, simplified)
		}
		if c.kind == condEq {
			env.substitute(simplified)
		}
	}
}

// markTrue marks a condition as true.
func (env *Env) markTrue(c *cond) {
	if !c.isFact {
		generation := env.facts.generation
		c.isFact = true
		env.facts.trail = append(env.facts.trail, change{cond: c}) // for Env.reset, which undoes changes
		env.facts.beginGeneration()
		env.facts.reuseGeneration(transition{from: generation, cond: c, hypotheses: env.facts.hypotheses})
	}
}

// undecidedOperands returns one of the undecided operands of a disjunction, and the number of undecided operands. If an
// operand is known to be true, or is not a relation, no operand follows. undecidedCount is then greater than 1.
func (env *Env) undecidedOperands(c *cond) (operand *cond, undecidedCount int) {
	noConclusion := len(c.args) + 1 // a number greater than 1
	for _, part := range c.args {
		if part.isJunction() {
			return nil, noConclusion
		}
		switch truth, known := env.relationKnown(part); {
		case known && truth:
			return nil, noConclusion
		case !known:
			operand = part
			undecidedCount++
		} // a false operand does not decide the disjunction
	}
	return operand, undecidedCount
}

// contradict records that no sizes satisfy the facts.
func (env *Env) contradict() {
	env.facts.contradiction = true
	env.facts.beginGeneration()
}

// assumeRelation adds d = 0 (condEq), d != 0 (condNe) or d >= 0 (condGe) to the facts.
func (env *Env) assumeRelation(kind condKind, d *expr) {
	if len(d.terms) == 0 {
		holds := d.constant >= 0
		if kind != condGe {
			holds = (d.constant == 0) == (kind == condEq)
		}
		if !holds {
			env.contradict()
		}
		return
	}
	switch kind {
	case condGe:
		env.narrow(d, 0, math.MaxInt)
	case condEq:
		env.narrow(d, 0, 0)
		env.propagateZero(d)
	default:
		env.exclude(d)
	}
}

// narrow adds the fact that e is from lo to hi; math.MinInt and math.MaxInt mean no bound. fact.tighten then narrows
// these bounds by the residue and the excluded values of e. Facts are stored in the primitive expression of e, which
// lacks the constant and the common divisor of e: 3*x + 6*y + 1 has the primitive expression x + 2*y (primitiveForm).
func (env *Env) narrow(e *expr, lo, hi int) {
	if len(e.terms) == 0 {
		if e.constant < lo || e.constant > hi {
			env.contradict()
		}
		return
	}
	env.facts.spendSteps(1)
	// e = factor*primitive + constant. For a negative factor, take -e, which is from -hi to -lo. Then primitive is from
	// ceil((lo-constant)/factor) to floor((hi-constant)/factor). For example, 3*x + 1 from 2 to 11 gives x from 1 to 3.
	primitive, factor, constant := env.primitiveForm(e)
	if factor < 0 {
		lo, hi, factor, constant = satNeg(hi), satNeg(lo), -factor, -constant
	}
	lo, hi = addLower(lo, -constant), addUpper(hi, -constant)
	if lo != math.MinInt {
		lo = -floorDiv(-lo, factor)
	}
	if hi != math.MaxInt {
		hi = floorDiv(hi, factor)
	}
	updated := env.factOf(primitive)
	oldBounds := [2]int{updated.lo, updated.hi}
	updated.lo, updated.hi = max(updated.lo, lo), min(updated.hi, hi)
	updated.tighten()
	switch {
	case updated.lo > updated.hi:
		env.contradict()
	case oldBounds != [2]int{updated.lo, updated.hi}:
		env.setFact(primitive, updated)
		env.propagate(primitive, updated.lo, updated.hi)
	}
}

// exclude adds the fact that d is not 0.
func (env *Env) exclude(d *expr) {
	primitive, factor, constant := env.primitiveForm(d)
	if len(d.terms) == 1 && constant == 0 && len(d.terms[0].atoms) > 1 {
		// No factor of a non-zero product is 0.
		for _, a := range d.terms[0].atoms {
			env.exclude(a.asExpr)
		}
	}
	// d = factor*primitive + constant is 0 only if primitive is -constant/factor, which must be an integer. Thus
	// 3*x - 6 excludes 2 from the values of x, and 3*x - 7 excludes no value.
	if constant%factor != 0 {
		return
	}
	updated := env.factOf(primitive)
	oldBounds := [2]int{updated.lo, updated.hi}
	updated.excluded = append(slices.Clone(updated.excluded), -constant/factor)
	updated.tighten()
	env.setFact(primitive, updated)
	switch {
	case updated.lo > updated.hi:
		env.contradict()
	case oldBounds != [2]int{updated.lo, updated.hi}:
		env.propagate(primitive, updated.lo, updated.hi)
	}
}

// propagateZero draws conclusions from d = 0. If d is a product and only one factor can be 0, that factor is 0.
func (env *Env) propagateZero(d *expr) {
	if len(d.terms) != 1 || d.constant != 0 || len(d.terms[0].atoms) < 2 {
		return
	}
	var possiblyZero []*expr
	for i, a := range d.terms[0].atoms {
		isRepeated := i > 0 && a == d.terms[0].atoms[i-1] // equal factors are adjacent
		if lo, hi := env.atomBounds(a); lo <= 0 && hi >= 0 && !isRepeated {
			possiblyZero = append(possiblyZero, a.asExpr)
		}
	}
	switch len(possiblyZero) {
	case 0:
		env.contradict()
	case 1:
		env.narrow(possiblyZero[0], 0, 0)
	}
}

// propagate derives bounds of the terms, factors or operands of a primitive expression (see primitiveForm) from the
// fact that the expression is from lo to hi.
func (env *Env) propagate(primitive *expr, lo, hi int) {
	switch {
	case len(primitive.terms) > 1:
		env.propagateSum(primitive, lo, hi)
	case len(primitive.terms[0].atoms) > 1:
		env.propagateProduct(primitive.terms[0].atoms, lo, hi)
	case primitive.terms[0].atoms[0].kind != kindSymbol:
		env.propagateAtom(primitive.terms[0].atoms[0], lo, hi)
	}
}

// propagateSum narrows each term of a sum, which is from lo to hi, by the bounds of the other terms.
func (env *Env) propagateSum(primitive *expr, lo, hi int) {
	for i, t := range primitive.terms {
		othersLo, othersHi := 0, 0 // bounds of the sum of the other terms
		for j, other := range primitive.terms {
			if i != j {
				low, high := env.termBounds(other)
				othersLo, othersHi = addLower(othersLo, low), addUpper(othersHi, high)
			}
		}
		// t = sum - others is from lo - othersHi to hi - othersLo.
		lower, upper := addLower(lo, satNeg(othersHi)), addUpper(hi, satNeg(othersLo))
		if lower > math.MinInt || upper < math.MaxInt {
			env.narrow(env.termExpr(t), lower, upper)
		}
	}
}

// propagateProduct narrows the factors of a product, which is from lo to hi. It needs factors that are not negative.
func (env *Env) propagateProduct(factors []*atom, lo, hi int) {
	minOfOthers := make([]int, len(factors)) // for each factor, a lower bound of the product of the other factors
	for i := range factors {
		minOfOthers[i] = 1
		for j, other := range factors {
			low, _ := env.atomBounds(other)
			if low < 0 {
				return
			}
			if i != j {
				if lo >= 1 { // the product is positive, so each factor is at least 1
					low = max(low, 1)
				}
				minOfOthers[i] = satMul(minOfOthers[i], low)
			}
		}
	}
	for i, a := range factors {
		lower, upper := math.MinInt, math.MaxInt
		if lo >= 1 {
			lower = 1
		}
		if minOfOthers[i] >= 1 && hi < math.MaxInt { // factor * minOfOthers[i] <= product <= hi
			upper = hi / minOfOthers[i]
		}
		if lower > math.MinInt || upper < math.MaxInt {
			env.narrow(a.asExpr, lower, upper)
		}
	}
}

// propagateAtom derives bounds of the operands of a function from its bounds lo and hi.
func (env *Env) propagateAtom(a *atom, lo, hi int) {
	switch a.kind {
	case kindMax, kindMin:
		env.propagateExtreme(a, lo, hi)
	case kindDiv:
		if divisor := a.args[1]; len(divisor.terms) == 0 && divisor.constant > 0 {
			// x // c from lo to hi means x from c*lo to c*hi + c-1.
			lo, hi = mulRange(lo, hi, divisor.constant, divisor.constant)
			env.narrow(a.args[0], lo, addUpper(hi, divisor.constant-1))
		}
	case kindMod:
		if divisor := a.args[1]; len(divisor.terms) == 0 && divisor.constant > 0 && divisor.constant < maxModulus &&
			lo == hi { // x % c = lo means that x is lo modulo c
			env.narrowResidue(a.args[0], divisor.constant, lo)
		}
	case kindWhere: // Where(cond, args[0], args[1])
		for i, e := range a.args {
			// An operand outside the bounds is not selected, so the other operand is selected.
			if low, high := env.bounds(e); low > hi || high < lo {
				c := a.cond // selects args[0]
				if i == 0 {
					c = c.not()
				}
				env.assume(c)
				selected := a.args[1-i]
				env.narrow(selected, lo, hi)
				return
			}
		}
	}
}

// propagateExtreme derives bounds of the operands of a Max or Min from its bounds lo and hi. No operand of a Max
// exceeds hi. If only one operand can reach lo, that operand is the maximum. For a Min, the relations are reversed.
func (env *Env) propagateExtreme(a *atom, lo, hi int) {
	var candidates []*expr // the operands that can be the maximum or minimum
	for _, operand := range a.args {
		low, high := env.bounds(operand)
		if a.kind == kindMax {
			env.narrow(operand, math.MinInt, hi)
			if high >= lo {
				candidates = append(candidates, operand)
			}
			continue
		}
		env.narrow(operand, lo, math.MaxInt)
		if low <= hi {
			candidates = append(candidates, operand)
		}
	}
	if len(candidates) == 1 {
		env.narrow(candidates[0], lo, hi)
	}
}

// narrowResidue adds the fact that e is residue modulo modulus.
func (env *Env) narrowResidue(e *expr, modulus, residue int) {
	primitive, factor, constant := env.primitiveForm(e)
	if factor != 1 && factor != -1 || max(constant, -constant) > maxModulus { // needs a division, or may overflow
		return
	}
	// e = factor*primitive + constant with factor 1 or -1, so primitive = factor*(e - constant).
	modulus, residue = modulo(modulus, factor*(residue-constant)) // reduces the residue to 0 <= residue < modulus
	updated := env.factOf(primitive)
	if (residue-updated.rem)%gcd(modulus, updated.mod) != 0 { // no number has both residues
		env.contradict()
		return
	}
	isKnown, mayBeTooLarge := updated.mod%modulus == 0, updated.mod > maxModulus/modulus // the new modulus
	if isKnown || mayBeTooLarge {
		return
	}
	updated.mod, updated.rem = combineResidues(modulus, residue, updated.mod, updated.rem)
	updated.tighten()
	if updated.lo > updated.hi {
		env.contradict()
		return
	}
	env.setFact(primitive, updated)
	env.propagate(primitive, updated.lo, updated.hi)
}

// combineResidues returns the modulus and the residue of the numbers that are r1 modulo m1 and r2 modulo m2. At least
// one number must have both residues. By the Chinese remainder theorem, the new modulus is the least common multiple of
// m1 and m2, which is m1*cofactor, and the new residue is r1 + m1*multiple. This residue must be r2 modulo m2, so
// m1*multiple = r2-r1 (mod m2). Division by the common divisor of m1 and m2 gives
//
//	multiple = (r2-r1)/divisor * inverse(m1/divisor) (mod cofactor)
//
// For example, 2 modulo 3 and 3 modulo 4 give the multiple (3-2)/1 * 3 = 3 (mod 4), and thus 2 + 3*3 = 11 modulo 12.
func combineResidues(m1, r1, m2, r2 int) (modulus, residue int) {
	divisor := gcd(m1, m2)
	cofactor := m2 / divisor
	_, multiple := modulo(cofactor, (r2-r1)/divisor)
	_, multiple = modulo(cofactor, multiple*inverse(m1/divisor, cofactor))
	return m1 * cofactor, r1 + m1*multiple
}

// inverse returns b from 0 to n-1 with a*b = 1 modulo n. a and n must have no common divisor.
func inverse(a, n int) int {
	// Euclid's algorithm with remainder = a*b and nextRemainder = a*nextB modulo n. It ends at remainder = 1, the
	// greatest common divisor.
	b, nextB := 0, 1
	for remainder, nextRemainder := n, a%n; nextRemainder != 0; {
		quotient := remainder / nextRemainder
		remainder, nextRemainder = nextRemainder, remainder-quotient*nextRemainder
		b, nextB = nextB, b-quotient*nextB
	}
	_, b = modulo(n, b) // from 0 to n-1
	return b
}

// substitute solves d = 0 for an atom of d, and records the solution as the replacement of the atom. The atom must be a
// term by itself, with coefficient 1 or -1, and must not occur elsewhere in d. If there are several such atoms, the
// newest is replaced. A stride is newer than the sizes, and a derived symbol newer than the original symbols.
func (env *Env) substitute(d *expr) {
	solved, sign := d.newestSolvableAtom()
	if solved == nil || env.facts.contradiction {
		return
	}
	lo, hi := env.atomBounds(solved)
	// d = sign*solved + rest = 0, so the atom equals -sign*rest, which is solved - sign*d.
	solved.replacement = env.addMultiple(solved.asExpr, d, -sign)
	env.facts.trail = append(env.facts.trail, change{atom: solved})
	env.facts.beginGeneration()
	env.narrow(solved.replacement, lo, hi)
	// Learn the earlier relations once more, with the atom replaced.
	for _, c := range slices.Clone(env.facts.trueRelations) {
		if simplified := env.simplify(c.difference); simplified != c.difference {
			env.assumeRelation(c.kind, simplified)
		}
	}
}

// newestSolvableAtom returns the atom for which substitute solves e = 0, and its coefficient; nil if there is none.
func (e *expr) newestSolvableAtom() (solved *atom, sign int) {
	for i, t := range e.terms {
		isPlainTerm := len(t.atoms) == 1 && (t.coeff == 1 || t.coeff == -1)
		if !isPlainTerm || solved != nil && solved.id > t.atoms[0].id {
			continue
		}
		isIndependent := true
		for j, other := range e.terms {
			isIndependent = isIndependent && (i == j ||
				!slices.ContainsFunc(other.atoms, func(a *atom) bool { return a.contains(t.atoms[0]) }))
		}
		if isIndependent {
			solved, sign = t.atoms[0], t.coeff
		}
	}
	return solved, sign
}
