package sym

// This file simplifies expressions by facts: guards, assumptions and hypotheses about the symbols. An expr is a
// constant plus terms, a term is a coefficient times atoms, and an atom is a symbol or a function of expressions.
// Examples:
//
//	before             after      given
//	x*Max(1, y) + 2    x*y + 2    y >= 1
//	x*Max(1, y) + 2    4*y + 2    y >= 1 and x = 4
//	6*(x//2)           3*x        x % 2 = 0 (expandQuotients)

// simplify returns e with its atoms simplified under the facts. The result equals e for sizes that satisfy the facts.
func (env *Env) simplify(e *expr) *expr {
	if !env.facts.active() || len(e.terms) == 0 {
		return e
	}
	state := env.facts.state() // key of the cached result: the facts, and whether over half of the steps are used
	if e.simplifiedState == state {
		return e.simplified
	}
	if !env.facts.spendSteps(len(e.terms)) { // a question has a budget of steps (budget.go); none are left
		return e
	}
	simplified := e
	if lo, hi := env.bounds(e); lo == hi {
		simplified = env.constant(lo)
	} else if env.isSimplifiable(e) {
		simplified = env.simplifyAtoms(e)
	}
	simplified = env.expandQuotients(simplified)
	// A result is not cached if the steps ran out, or if the second half of them began, in which conditions are decided
	// without hypotheses. A question with more steps may find a simpler result.
	if state == env.facts.state() && env.facts.stepsLeft > 0 {
		e.simplifiedState, e.simplified = state, simplified
	}
	return simplified
}

// isSimplifiable reports whether an atom of e is simpler under the facts.
func (env *Env) isSimplifiable(e *expr) bool {
	for _, t := range e.terms {
		for _, a := range t.atoms {
			if env.simplifyAtom(a) != a.asExpr {
				return true
			}
		}
	}
	return false
}

// simplifyAtoms replaces each atom of e by its simplified form.
func (env *Env) simplifyAtoms(e *expr) *expr {
	sum := env.constant(e.constant)
	for _, t := range e.terms {
		product := env.constant(t.coeff)
		for _, a := range t.atoms {
			product = env.multiply(product, env.simplifyAtom(a))
		}
		sum = env.addMultiple(sum, product, 1)
	}
	return sum
}

// simplifyAtom returns the atom, simplified under the facts.
func (env *Env) simplifyAtom(a *atom) *expr {
	if lo, hi := env.atomBounds(a); lo == hi {
		return env.constant(lo)
	}
	if a.replacement != nil { // a fact says that the atom equals this expression
		return env.simplify(a.replacement)
	}
	if a.kind == kindSymbol {
		return a.asExpr
	}
	args := make([]*expr, len(a.args))
	for i, e := range a.args {
		args[i] = env.simplify(e)
	}
	switch a.kind {
	case kindDiv:
		if lo, hi := env.bounds(args[1]); lo > 0 || hi < 0 {
			return env.floorQuotient(args[0], args[1])
		}
		return a.asExpr // the divisor may be 0
	case kindMod:
		lo, hi := env.bounds(args[1])
		if lo <= 0 && hi >= 0 { // the divisor may be 0
			return a.asExpr
		}
		if modulus, remainder := env.atomResidue(a); modulus == 0 { // the atom is the number remainder
			return env.constant(remainder)
		}
		return env.floorRemainder(args[0], args[1])
	case kindWhere:
		if truth, known := env.condTruth(a.cond); known {
			if truth {
				return args[0]
			}
			return args[1]
		}
		if args[0] == args[1] {
			return args[0]
		}
		return env.atomWithCond(kindWhere, a.cond, args...)
	case kindUnexpandedSum:
		return env.addMultiple(args[0], args[1], 1)
	case kindUnexpandedProduct:
		return env.multiply(args[0], args[1])
	}
	return env.extreme(a.kind, args...) // Max or Min
}

// expandQuotients rewrites each k*(x//y) in e as (k//y)*(x - x%y), if x%y is a known number and y divides k.
func (env *Env) expandQuotients(e *expr) *expr {
	for _, t := range e.terms {
		for _, a := range t.atoms {
			if a.kind != kindDiv {
				continue
			}
			factor, divides := env.factorWithoutQuotient(t, a)
			if !divides {
				continue
			}
			x, y := a.args[0], a.args[1]
			modulus, remainder := env.residue(env.floorRemainder(x, y))
			if modulus != 0 {
				continue
			}
			// The modulus 0 means that x%y is the number remainder (see Env.residue). Then y*(x//y) = x - remainder.
			expanded := env.multiply(factor, env.addMultiple(x, env.constant(remainder), -1))
			return env.expandQuotients(env.addMultiple(env.addMultiple(e, env.termExpr(t), -1), expanded, 1))
		}
	}
	return e
}

// factorWithoutQuotient returns k//y for the product k*(x//y), where quotient is the atom x//y. divides is false if y
// does not divide k.
func (env *Env) factorWithoutQuotient(product term, quotient *atom) (factor *expr, divides bool) {
	divisor := quotient.args[1]
	remaining, _ := withoutAtoms(product.atoms, []*atom{quotient})
	switch {
	case len(divisor.terms) == 0 && divisor.constant != 0 && product.coeff%divisor.constant == 0: // a number
		return env.termExpr(term{product.coeff / divisor.constant, remaining}), true
	// A single term, such as 2*n, whose atoms must also be factors of k.
	case len(divisor.terms) == 1 && divisor.constant == 0 && product.coeff%divisor.terms[0].coeff == 0:
		if remaining, ok := withoutAtoms(remaining, divisor.terms[0].atoms); ok {
			return env.termExpr(term{product.coeff / divisor.terms[0].coeff, remaining}), true
		}
	}
	return nil, false
}
