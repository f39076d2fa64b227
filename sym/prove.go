package sym

import (
	"math"
	"slices"
)

// This file proves that differences of sizes are not negative, by the bounds of symbols and the known facts. Proofs are
// limited in steps, so that their outcome is the same everywhere. An expr is a constant plus terms, a term is a
// coefficient times atoms, and an atom is a symbol or a function of expressions. A relation is a condition that
// compares an expr, its difference, with 0: condEq, condNe or condGe.
//
// Four rules prove d >= 0. Examples, for x and y of at least 1:
//
//	x*y - x >= 0             provesByShift: with x = 1 + x' and y = 1 + y', it is x'*y' + y' >= 0
//	x*Max(x, y) - x*y >= 0   provesByFactors: Max(x, y) - y >= 0
//	Max(x, y) - y >= 0       provesByFunction: Max(x, y) is at least y
//	x - y >= 0               provesByFact: x - z >= 0 is a fact, and z - y >= 0 can be proved

// maxProofSteps bounds the number of differences that one proof examines, and maxProofDepth the nesting of
// substitutions.
const (
	maxProofSteps = 40
	maxProofDepth = 3
)

// provesNonNegative reports whether d >= 0 can be proved by its form, by bounds and by enabled facts. It may return
// false although d is never negative. The proof search deepens iteratively: the maximum depth of substitutions grows
// until a proof is found or the steps are spent.
func (env *Env) provesNonNegative(d *expr) bool {
	if lo, hi := env.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0
	}
	env.facts.proofSteps = maxProofSteps
	for depth := range maxProofDepth + 1 {
		stepsBefore := env.facts.proofSteps
		if env.provesAtDepth(d, depth) {
			return true
		}
		examined := stepsBefore - env.facts.proofSteps
		hasNoSubstitution := depth > 0 && examined == 1 // only d was examined; greater depths examine nothing else
		if env.facts.proofSteps < 0 || hasNoSubstitution {
			return false
		}
	}
	return false
}

// provesAtDepth is provesNonNegative with at most depth nested substitutions.
func (env *Env) provesAtDepth(d *expr, depth int) bool {
	lo, hi := env.bounds(d)
	if lo >= 0 || hi < 0 {
		return lo >= 0
	}
	if len(d.terms) == 1 && d.constant == 0 && len(d.terms[0].atoms) == 1 && d.terms[0].atoms[0].kind == kindSymbol {
		return false // the bounds of a symbol already decide
	}
	// proofSteps limits this proof. spendSteps limits all proofs of a question that use facts (budget.go).
	if env.facts.proofSteps--; env.facts.proofSteps < 0 || env.facts.active() && !env.facts.spendSteps(1) {
		return false
	}
	if env.provesByShift(d) || env.provesByFactors(d, depth) {
		return true
	}
	return depth > 0 && (env.provesByFunction(d, depth-1) || env.provesByFact(d, depth-1))
}

// provesByFactors proves p*quotient + c >= 0. p is the product of the factors that all terms share, and must not be
// negative. If c >= 0, quotient >= 0 suffices. Otherwise quotient + floor(c/minFactor) >= 0 suffices, where minFactor
// is the least value of p, because p*floor(c/minFactor) <= c.
func (env *Env) provesByFactors(d *expr, depth int) bool {
	factors := d.commonFactors()
	if len(factors) == 0 {
		return false
	}
	minFactor := 1
	for _, a := range factors {
		lo, _ := env.atomBounds(a)
		if lo < 0 {
			return false
		}
		minFactor = satMul(minFactor, lo)
	}
	quotient := env.divideTerms(env.addMultiple(d, env.constant(d.constant), -1), factors)
	switch {
	case d.constant >= 0:
		return env.provesAtDepth(quotient, depth)
	case minFactor == 0:
		return false
	}
	return env.provesAtDepth(env.addMultiple(quotient, env.constant(floorDiv(d.constant, minFactor)), 1), depth)
}

// commonFactors returns the atoms that all terms have in common, for at least two terms.
func (e *expr) commonFactors() []*atom {
	if len(e.terms) < 2 {
		return nil
	}
	factors := e.terms[0].atoms
	for _, t := range e.terms[1:] {
		factors = commonAtoms(factors, t.atoms)
	}
	return factors
}

// divideTerms divides each term by the product of the given atoms. Each term must have all these atoms.
func (env *Env) divideTerms(e *expr, factors []*atom) *expr {
	if len(factors) == 0 {
		return e
	}
	var terms []term
	constant := 0
	for _, t := range e.terms {
		if atoms, _ := withoutAtoms(t.atoms, factors); len(atoms) > 0 {
			terms = append(terms, term{t.coeff, atoms})
		} else {
			constant += t.coeff
		}
	}
	return env.sum(terms, constant)
}

// maxShiftedTerms bounds the number of terms to which provesByShift expands a product.
const maxShiftedTerms = 64

// provesByShift replaces every atom a by its least value plus a', a non-negative difference, and expands the products.
// If the constant outweighs the terms with negative coefficients, the sum is not negative. This proves, for example,
// x*y - x >= 0 for x >= 0 and y >= 1.
func (env *Env) provesByShift(d *expr) bool {
	expanded, ok := env.shiftedTerms(d)
	if !ok {
		return false
	}
	constant := d.constant // plus the lower bounds of the terms so far
	slices.SortFunc(expanded, compareTerms)
	for i := 0; i < len(expanded); {
		// The terms from i to end-1 have equal products. coeff is the sum of their coefficients.
		coeff, end := 0, i
		for ; end < len(expanded) && compareTerms(expanded[i], expanded[end]) == 0; end++ {
			coeff = satAdd(coeff, expanded[end].coeff)
		}
		if coeff == math.MinInt || coeff == math.MaxInt {
			return false
		}
		switch {
		case len(expanded[i].atoms) == 0:
			constant = addLower(constant, coeff)
		case coeff > 0: // the term is at least 0
		case coeff < 0: // each a' is at most hi - least
			bound := coeff
			for _, a := range expanded[i].atoms {
				least, hi := env.atomBounds(a)
				bound = satMul(bound, addUpper(hi, satNeg(least)))
			}
			constant = addLower(constant, bound)
		}
		if constant == math.MinInt {
			return false
		}
		i = end
	}
	return constant >= 0
}

// shiftedTerms expands the terms of d, in which each atom a is least + a', its least value plus a difference. An atom
// in the result stands for a'. ok is false if an atom has no least value or if there are too many terms.
func (env *Env) shiftedTerms(d *expr) (expanded []term, ok bool) {
	for _, t := range d.terms {
		parts := []term{{coeff: t.coeff}} // the expansion of coeff*a*b*... up to the current atom
		for _, a := range t.atoms {
			least, _ := env.atomBounds(a)
			if least == math.MinInt || len(parts) > maxShiftedTerms {
				return nil, false
			}
			for i, product := range parts { // product*(least + a') = product*least + product*a'
				parts[i].coeff = satMul(product.coeff, least)
				parts = append(parts, term{product.coeff, append(slices.Clone(product.atoms), a)})
			}
			parts = slices.DeleteFunc(parts, func(product term) bool { return product.coeff == 0 })
		}
		expanded = append(expanded, parts...)
	}
	return expanded, true
}

// provesByFunction replaces a function in d by bounds in terms of its operands. A Max is at least each operand and
// equals one of them; y*(x//y) is between x-y+1 and x.
func (env *Env) provesByFunction(d *expr, depth int) bool {
	for _, t := range d.terms {
		for _, a := range t.atoms {
			if a.kind == kindSymbol || a.kind == kindMod || a.isUnexpanded() {
				continue // no bounds in terms of operands are used
			}
			multiplier, addend, ok := env.splitByAtom(d, a)
			if !ok {
				continue
			}
			proves := env.provesByOperands
			if a.kind == kindDiv {
				proves = env.provesByQuotient
			}
			if proves(a, multiplier, addend, depth) {
				return true
			}
		}
	}
	return false
}

// provesByOperands proves multiplier*a + addend >= 0 where a is a Max, a Min or a Where. a equals one of its operands,
// so it suffices to prove the inequality with each operand in place of a. A single operand suffices if it cannot
// increase the product: for a Max if multiplier >= 0, and for a Min if multiplier <= 0.
func (env *Env) provesByOperands(a *atom, multiplier, addend *expr, depth int) bool {
	lo, hi := env.bounds(multiplier)
	oneSuffices := a.kind == kindMax && lo >= 0 || a.kind == kindMin && hi <= 0
	for _, e := range a.args {
		// If one suffices, the first success decides; otherwise the first failure decides.
		if env.provesSum(multiplier, e, addend, depth) == oneSuffices {
			return oneSuffices
		}
	}
	return !oneSuffices
}

// provesByQuotient proves multiplier*a + addend >= 0 for a quotient a = x//y with y >= 1. It multiplies by y and
// replaces y*a by a bound: the upper bound x for multiplier <= 0, and the lower bound x-y+1 for multiplier >= 0.
func (env *Env) provesByQuotient(a *atom, multiplier, addend *expr, depth int) bool {
	x, y := a.args[0], a.args[1]
	if lo, _ := env.bounds(y); lo < 1 {
		return false
	}
	switch lo, hi := env.bounds(multiplier); {
	case hi <= 0: // x is the upper bound
	case lo >= 0: // x-y+1
		x = env.addMultiple(env.addMultiple(x, y, -1), env.constant(1), 1)
	default:
		return false
	}
	return env.provesSum(multiplier, x, env.multiply(y, addend), depth)
}

// provesSum proves a*b + c >= 0.
func (env *Env) provesSum(a, b, c *expr, depth int) bool {
	return env.provesAtDepth(env.addMultiple(env.multiply(a, b), c, 1), depth)
}

// splitByAtom returns multiplier and addend, without the factor a, such that d = multiplier*a + addend. ok is false if
// d has a higher power of a.
func (env *Env) splitByAtom(d *expr, a *atom) (multiplier, addend *expr, ok bool) {
	var multiples, others []term
	constant := 0
	for _, t := range d.terms {
		switch remaining, has := withoutAtoms(t.atoms, []*atom{a}); {
		case !has:
			others = append(others, t)
		case slices.Contains(remaining, a):
			return nil, nil, false
		case len(remaining) == 0:
			constant += t.coeff
		default:
			multiples = append(multiples, term{t.coeff, remaining})
		}
	}
	return env.sum(multiples, constant), env.sum(others, d.constant), true
}

// provesByFact uses known facts s >= 0. It tries to prove d - s >= 0 for each s, unless d - s has more terms than d. It
// also tries to replace an atom of d by a bound that follows from s.
func (env *Env) provesByFact(d *expr, depth int) bool {
	if !env.facts.active() {
		return false
	}
	for _, relation := range env.facts.trueRelations {
		if relation.kind == condNe || len(relation.difference.terms) < 2 {
			continue // condNe gives no bound; the bounds of symbols already express a relation with a single term
		}
		difference := env.addMultiple(d, relation.difference, -1)
		if len(difference.terms) <= len(d.terms) && env.provesAtDepth(difference, depth) {
			return true
		}
		if relation.kind == condEq { // s = 0, so that -s >= 0 is a fact, too
			sum := env.addMultiple(d, relation.difference, 1)
			if len(sum.terms) <= len(d.terms) && env.provesAtDepth(sum, depth) {
				return true
			}
		}
		if env.provesByBound(d, relation, depth) {
			return true
		}
	}
	return false
}

// provesByBound replaces an atom a of d = multiplier*a + addend by a bound that follows from a true relation: by a
// lower bound of a if multiplier >= 0, and by an upper bound if multiplier <= 0. For example, let x - y >= 0 be a fact,
// and z >= 0. Then y is a lower bound of x, and z*x - z*y >= 0 follows from z*y - z*y >= 0.
func (env *Env) provesByBound(d *expr, relation *cond, depth int) bool {
	for _, t := range relation.difference.terms {
		if len(t.atoms) != 1 || t.coeff != 1 && t.coeff != -1 || !d.hasFactor(t.atoms[0]) {
			continue
		}
		multiplier, addend, ok := env.splitByAtom(d, t.atoms[0])
		if !ok {
			continue
		}
		lo, hi := env.bounds(multiplier)
		// difference = coeff*a + ... >= 0 gives a >= bound for coeff = 1, and a <= bound for coeff = -1. If difference
		// is 0, a equals bound.
		isLowerBound := t.coeff > 0
		isWrongBound := relation.kind == condGe && (isLowerBound && lo < 0 || !isLowerBound && hi > 0)
		hasUnknownSign := lo < 0 && hi > 0
		if hasUnknownSign || isWrongBound {
			continue
		}
		bound := env.addMultiple(t.atoms[0].asExpr, relation.difference, -t.coeff)
		if env.provesSum(multiplier, bound, addend, depth) {
			return true
		}
	}
	return false
}

// hasFactor reports whether an atom is a factor of a term of e.
func (e *expr) hasFactor(a *atom) bool {
	return slices.ContainsFunc(e.terms, func(t term) bool { return slices.Contains(t.atoms, a) })
}

// relationKnown returns the truth of a relation if it can be proved.
func (env *Env) relationKnown(c *cond) (truth, known bool) {
	if !env.facts.spendSteps(1) {
		return false, false
	}
	simplified := env.simplify(c.difference)
	if c.kind == condGe {
		if lo, hi := env.bounds(c.difference); lo >= 0 || hi < 0 {
			return lo >= 0, true
		}
		return env.isNonNegative(simplified)
	}
	truth, known = env.zeroByBounds(c.difference)
	if !known {
		truth, known = env.isZero(simplified)
	}
	return truth == (c.kind == condEq), known
}

// isNonNegative returns whether d >= 0, if d >= 0 or -d-1 >= 0 can be proved.
func (env *Env) isNonNegative(d *expr) (truth, known bool) {
	if lo, hi := env.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0, true
	}
	if env.provesNonNegative(d) {
		return true, true
	}
	return false, env.provesNonNegative(env.strictDifference(d, env.constant(0))) // -d-1 >= 0
}

// zeroByBounds returns whether d is 0. known reports whether bounds, residues or exclusions decide this.
func (env *Env) zeroByBounds(d *expr) (truth, known bool) {
	lo, hi := env.bounds(d)
	if lo > 0 || hi < 0 || lo == 0 && hi == 0 {
		return lo == 0 && hi == 0, true
	}
	if modulus, remainder := env.residue(d); modulus > 1 && remainder != 0 {
		return false, true
	}
	if env.facts.active() && len(d.terms) > 0 {
		// d = factor*primitive + constant is 0 only if primitive is -constant/factor, which a fact may exclude.
		if primitive, factor, constant := env.primitiveForm(d); primitive.fact != nil && constant%factor == 0 &&
			slices.Contains(primitive.fact.excluded, -constant/factor) {
			return false, true
		}
	}
	return false, false
}

// isZero returns whether d is 0. known reports whether bounds or a proof decide this. A product is 0 if a factor is 0.
// d is not 0 if d-1 >= 0 or -d-1 >= 0 can be proved.
func (env *Env) isZero(d *expr) (truth, known bool) {
	if truth, known = env.zeroByBounds(d); known {
		return truth, known
	}
	if len(d.terms) == 1 && d.constant == 0 && len(d.terms[0].atoms) > 1 {
		for _, a := range d.terms[0].atoms {
			if truth, known := env.isZero(a.asExpr); !known || truth {
				return truth, known
			}
		}
		return false, true
	}
	return false, env.provesNonNegative(env.addMultiple(d, env.constant(1), -1)) ||
		env.provesNonNegative(env.strictDifference(d, env.constant(0)))
}
