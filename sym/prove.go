package sym

import (
	"math"
	"slices"
)

// maxProofSteps bounds the number of sums that one proof examines, and maxProofDepth the nesting of substitutions.
const (
	maxProofSteps = 40
	maxProofDepth = 3
)

// proves reports whether d >= 0 can be proved by form, bounds and, if in use, facts. It may return false although d is
// never negative. The proof search is an iterative deepening.
func (v *Env) proves(d *expr) bool {
	if lo, hi := v.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0
	}
	v.facts.proofSteps = maxProofSteps
	for depth := range maxProofDepth + 1 {
		savedSteps := v.facts.proofSteps
		if v.provesAtDepth(d, depth) {
			return true
		}
		if v.facts.proofSteps < 0 || depth > 0 && v.facts.proofSteps == savedSteps-1 {
			return false // a deeper search finds nothing new, or no steps are left
		}
	}
	return false
}

func (v *Env) provesAtDepth(d *expr, depth int) bool {
	lo, hi := v.bounds(d)
	if lo >= 0 || hi < 0 {
		return lo >= 0
	}
	if len(d.terms) == 1 && d.c == 0 && len(d.terms[0].atoms) == 1 && d.terms[0].atoms[0].kind == kindSymbol {
		return false // the bounds of a symbol decide
	}
	if v.facts.proofSteps--; v.facts.proofSteps < 0 || v.facts.active() && !v.facts.spendSteps(1) {
		return false
	}
	if v.provesByShift(d) || v.provesByFactors(d, depth) {
		return true
	}
	return depth > 0 && (v.provesByFunction(d, depth-1) || v.provesByFact(d, depth-1))
}

// provesByFactors proves m*rest + c >= 0. m is the product of the factors that all terms share, and must not be
// negative. It suffices that rest is at least -c divided by minFactor, the least value of m.
func (v *Env) provesByFactors(d *expr, depth int) bool {
	m := d.commonFactors()
	if len(m) == 0 {
		return false
	}
	minFactor := 1
	for _, a := range m {
		lo, _ := v.atomBounds(a)
		if lo < 0 {
			return false
		}
		minFactor = satMul(minFactor, lo)
	}
	rest := v.divideTerms(v.addMultiple(d, v.constant(d.c), -1), m)
	switch {
	case d.c >= 0:
		return v.provesAtDepth(rest, depth)
	case minFactor == 0:
		return false
	}
	return v.provesAtDepth(v.addMultiple(rest, v.constant(floorDiv(d.c, minFactor)), 1), depth)
}

// commonFactors returns the atoms that all terms have in common, for at least two terms.
func (e *expr) commonFactors() []*atom {
	if len(e.terms) < 2 {
		return nil
	}
	m := e.terms[0].atoms
	for _, t := range e.terms[1:] {
		m = commonAtoms(m, t.atoms)
	}
	return m
}

// divideTerms divides each term by the product of the atoms m. Each term must have all these atoms.
func (v *Env) divideTerms(e *expr, m []*atom) *expr {
	if len(m) == 0 {
		return e
	}
	var terms []term
	c := 0
	for _, t := range e.terms {
		if atoms, _ := withoutAtoms(t.atoms, m); len(atoms) > 0 {
			terms = append(terms, term{t.coeff, atoms})
		} else {
			c += t.coeff
		}
	}
	return v.sum(terms, c)
}

// maxShiftedTerms bounds the number of terms to which provesByShift expands a product.
const maxShiftedTerms = 64

// provesByShift replaces every atom by its least value plus a non-negative difference, and expands the products. If the
// constant outweighs the terms with negative coefficients, the sum is not negative. This proves, for example, x*y - x
// >= 0 for x >= 0 and y >= 1.
func (v *Env) provesByShift(d *expr) bool {
	var out []term
	c := d.c
	for _, t := range d.terms {
		parts := []term{{t.coeff, nil}}
		for _, a := range t.atoms {
			lo, _ := v.atomBounds(a)
			if lo == math.MinInt || len(parts) > maxShiftedTerms {
				return false
			}
			for _, p := range parts {
				p.atoms = append(slices.Clone(p.atoms), a)
				parts = append(parts, p)
			}
			for i := range len(parts) / 2 {
				parts[i].coeff = satMul(parts[i].coeff, lo)
			}
			parts = slices.DeleteFunc(parts, func(p term) bool { return p.coeff == 0 })
		}
		out = append(out, parts...)
	}
	slices.SortFunc(out, compareTerms)
	for i := 0; i < len(out); {
		k, j := 0, i
		for ; j < len(out) && compareTerms(out[i], out[j]) == 0; j++ {
			k = satAdd(k, out[j].coeff)
		}
		if k == math.MinInt || k == math.MaxInt {
			return false
		}
		switch bound := k; {
		case len(out[i].atoms) == 0:
			c = addLower(c, k)
		case k < 0:
			for _, a := range out[i].atoms {
				lo, hi := v.atomBounds(a)
				bound = satMul(bound, addUpper(hi, satNeg(lo)))
			}
			c = addLower(c, bound)
		}
		if c == math.MinInt {
			return false
		}
		i = j
	}
	return c >= 0
}

// provesByFunction replaces a function in d by bounds in terms of its operands. A Max is at least every operand and
// equals one operand. y*(x//y) is from x-y+1 to x.
func (v *Env) provesByFunction(d *expr, depth int) bool {
	for _, t := range d.terms {
		for _, a := range t.atoms {
			if a.kind == kindSymbol || a.kind == kindMod || a.isUnexpanded() {
				continue
			}
			multiplier, rest, ok := v.splitByAtom(d, a)
			if !ok {
				continue
			}
			proves := v.provesByOperands
			if a.kind == kindDiv {
				proves = v.provesByQuotient
			}
			if proves(a, multiplier, rest, depth) {
				return true
			}
		}
	}
	return false
}

// provesByOperands proves multiplier*a + rest >= 0 for a Max or a Min with all operands of a in place of a, or with one
// operand if it gives a lower bound.
func (v *Env) provesByOperands(a *atom, multiplier, rest *expr, depth int) bool {
	lo, hi := v.bounds(multiplier)
	oneSuffices := a.kind == kindMax && lo >= 0 || a.kind == kindMin && hi <= 0
	for _, e := range a.args {
		if v.provesSum(multiplier, e, rest, depth) == oneSuffices {
			return oneSuffices
		}
	}
	return !oneSuffices
}

// provesByQuotient proves multiplier*a + rest >= 0 for a quotient a = x//y with y >= 1.
func (v *Env) provesByQuotient(a *atom, multiplier, rest *expr, depth int) bool {
	x, y := a.args[0], a.args[1]
	if l, _ := v.bounds(y); l < 1 {
		return false
	}
	switch lo, hi := v.bounds(multiplier); {
	case hi <= 0:
	case lo >= 0:
		x = v.addMultiple(v.addMultiple(x, y, -1), v.constant(1), 1)
	default:
		return false
	}
	return v.provesSum(multiplier, x, v.multiply(y, rest), depth)
}

// provesSum proves a*b + c >= 0.
func (v *Env) provesSum(a, b, c *expr, depth int) bool {
	return v.provesAtDepth(v.addMultiple(v.multiply(a, b), c, 1), depth)
}

// splitByAtom returns multiplier and rest such that d = multiplier*a + rest. multiplier and rest do not contain the
// factor a. ok is false if d has a higher power of a.
func (v *Env) splitByAtom(d *expr, a *atom) (multiplier, rest *expr, ok bool) {
	var multiples, others []term
	c := 0
	for _, t := range d.terms {
		switch m, has := withoutAtoms(t.atoms, []*atom{a}); {
		case !has:
			others = append(others, t)
		case slices.Contains(m, a):
			return nil, nil, false
		case len(m) == 0:
			c += t.coeff
		default:
			multiples = append(multiples, term{t.coeff, m})
		}
	}
	return v.sum(multiples, c), v.sum(others, d.c), true
}

// provesByFact uses known facts s >= 0. It proves d >= 0 by a proof of d - s >= 0, if d - s does not have more terms
// than d. It also tries to replace an atom of d by a bound that follows from s.
func (v *Env) provesByFact(d *expr, depth int) bool {
	if !v.facts.active() {
		return false
	}
	for _, c := range v.facts.trueRelations {
		if c.kind == condNe || len(c.difference.terms) < 2 {
			continue
		}
		difference := v.addMultiple(d, c.difference, -1)
		if len(difference.terms) <= len(d.terms) && v.provesAtDepth(difference, depth) {
			return true
		}
		if c.kind == condEq {
			if sum := v.addMultiple(d, c.difference, 1); len(sum.terms) <= len(d.terms) && v.provesAtDepth(sum, depth) {
				return true
			}
		}
		if v.provesByBound(d, c, depth) {
			return true
		}
	}
	return false
}

// provesByBound replaces an atom of d by its lower bound from a fact, or by its upper bound if its factor is
// negative.
func (v *Env) provesByBound(d *expr, c *cond, depth int) bool {
	for _, t := range c.difference.terms {
		if len(t.atoms) != 1 || t.coeff != 1 && t.coeff != -1 || !d.hasFactor(t.atoms[0]) {
			continue
		}
		multiplier, rest, ok := v.splitByAtom(d, t.atoms[0])
		if !ok {
			continue
		}
		lo, hi := v.bounds(multiplier)
		if lo < 0 && hi > 0 || c.kind == condGe && (t.coeff > 0 && lo < 0 || t.coeff < 0 && hi > 0) {
			continue
		}
		bound := v.addMultiple(t.atoms[0].asExpr, c.difference, -t.coeff)
		if v.provesSum(multiplier, bound, rest, depth) {
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
func (v *Env) relationKnown(c *cond) (truth, known bool) {
	if !v.facts.spendSteps(1) {
		return false, false
	}
	simplified := v.simplify(c.difference)
	if c.kind == condGe {
		if lo, hi := v.bounds(c.difference); lo >= 0 || hi < 0 {
			return lo >= 0, true
		}
		return v.isNonNegative(simplified)
	}
	truth, known = v.zeroByBounds(c.difference)
	if !known {
		truth, known = v.isZero(simplified)
	}
	return truth == (c.kind == condEq), known
}

func (v *Env) isNonNegative(d *expr) (truth, known bool) {
	if lo, hi := v.bounds(d); lo >= 0 || hi < 0 {
		return lo >= 0, true
	}
	if v.proves(d) {
		return true, true
	}
	return false, v.proves(v.strictDifference(d, v.constant(0)))
}

// zeroByBounds returns whether d is 0. known reports whether bounds, residues or exclusions decide this.
func (v *Env) zeroByBounds(d *expr) (truth, known bool) {
	lo, hi := v.bounds(d)
	if lo > 0 || hi < 0 || lo == 0 && hi == 0 {
		return lo == 0 && hi == 0, true
	}
	if m, r := v.residue(d); m > 1 && r != 0 {
		return false, true
	}
	if v.facts.active() && len(d.terms) > 0 {
		if p, k, c := v.linear(d); p.fact != nil && c%k == 0 && slices.Contains(p.fact.excluded, -c/k) {
			return false, true
		}
	}
	return false, false
}

func (v *Env) isZero(d *expr) (truth, known bool) {
	if truth, known = v.zeroByBounds(d); known {
		return truth, known
	}
	if len(d.terms) == 1 && d.c == 0 && len(d.terms[0].atoms) > 1 {
		for _, a := range d.terms[0].atoms {
			if t, ok := v.isZero(a.asExpr); !ok || t {
				return t, ok
			}
		}
		return false, true
	}
	return false, v.proves(v.addMultiple(d, v.constant(1), -1)) || v.proves(v.strictDifference(d, v.constant(0)))
}
