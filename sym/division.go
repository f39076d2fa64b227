package sym

import "math"

// This file simplifies quotients a // b, which are rounded down, and remainders a % b. An expr is a constant plus
// terms, a term is a coefficient times atoms, and an atom is a symbol or a function of expressions. Examples, for
// positive symbols:
//
//	(6*x*y) // (2*x) = 3*y          exactQuotient
//	(4*x + 7) // 4   = x + 1        splitCoefficients; the remainder 3 is less than 4
//	(x*y + z) // y   = x + z//y     splitMultiples
//	(x // 2) // 3    = x // 6       floorByConstant
//	(5*x + 3) % 5    = 3            floorRemainder
//
// div and mod guard against a divisor of 0 and call quotientOf and remainderOf. These memoize floorQuotient and
// floorRemainder, which simplify. An operation that cannot be simplified becomes an atom of kindDiv or kindMod.

// div returns a // b. It cancels common factors of a and b, so that equal quotients are often the same expression. If
// it is unknown whether b is 0, div records the guard that b is not 0.
func div(a, b Int) Int {
	envOf(a, b).guardNonZero(b)
	return quotientOf(a, b)
}

// mod returns a % b, with the guard of div.
func mod(a, b Int) Int {
	envOf(a, b).guardNonZero(b)
	return remainderOf(a, b)
}

// guardNonZero records the guard that b is not 0, if this is unknown. It panics if b is 0.
func (env *Env) guardNonZero(b Int) {
	if !b.Ne(Int{}).Holds() { // Holds records the guard
		panic(zeroDivision)
	}
}

// zeroDivision is the value of the panic of a division by zero.
const zeroDivision = "sym: division by zero"

// quotientOf returns a // b and records no guard.
func quotientOf(a, b Int) Int {
	env := envOf(a, b)
	defer env.withFacts(false)() // the form must not depend on recorded facts
	x, y := env.exprOf(a), env.exprOf(b)
	return env.memoized('/', x, y, func() *expr { return env.floorQuotient(x, y) }).int()
}

// remainderOf returns a % b and records no guard.
func remainderOf(a, b Int) Int {
	env := envOf(a, b)
	defer env.withFacts(false)() // the form must not depend on recorded facts
	x, y := env.exprOf(a), env.exprOf(b)
	return env.memoized('%', x, y, func() *expr { return env.floorRemainder(x, y) }).int()
}

// floorQuotient returns a // b, simplified.
func (env *Env) floorQuotient(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return env.floorByConstant(a, b.constant)
	}
	if quotient, ok := env.exactQuotient(a, b); ok {
		return quotient
	}
	if len(b.terms) == 1 && b.constant == 0 {
		// (quotient*b + remainder) // b = quotient + remainder // b
		quotient, remainder := env.splitMultiples(a, b.terms[0])
		dividend, divisor := env.cancel(remainder, b)
		return env.addMultiple(quotient, env.quotientAtom(dividend, divisor), 1)
	}
	dividend, divisor := env.cancel(a, b)
	return env.quotientAtom(dividend, divisor)
}

// exactQuotient divides the polynomial a by b, as by hand: it divides the leading (first) terms, and subtracts this
// quotient times b from a, until a is 0. ok is false if b does not divide a, or if the quotient has more terms than a.
// The constant counts as a term, the last one.
func (env *Env) exactQuotient(a, b *expr) (quotient *expr, ok bool) {
	quotient = env.constant(0)
	for stepsLeft := len(a.terms) + 1; a.constant != 0 || len(a.terms) > 0; stepsLeft-- {
		dividend, divisor := a.leadingTerm(), b.leadingTerm()
		remaining, divides := withoutAtoms(dividend.atoms, divisor.atoms) // the quotient of the two products
		if !divides || dividend.coeff%divisor.coeff != 0 || stepsLeft == 0 {
			return nil, false
		}
		factor := env.termExpr(term{dividend.coeff / divisor.coeff, remaining})
		quotient, a = env.addMultiple(quotient, factor, 1), env.addMultiple(a, env.multiply(factor, b), -1)
	}
	return quotient, true
}

// splitMultiples returns expressions with a = quotientExpr*divisor + remainderExpr, where no term of remainderExpr is a
// multiple of divisor.
func (env *Env) splitMultiples(a *expr, divisor term) (quotientExpr, remainderExpr *expr) {
	var quotient, remainder []term
	constant := 0
	for _, t := range a.terms {
		remaining, ok := withoutAtoms(t.atoms, divisor.atoms)
		switch {
		case !ok || t.coeff%divisor.coeff != 0:
			remainder = append(remainder, t)
		case len(remaining) == 0:
			constant += t.coeff / divisor.coeff
		default:
			quotient = append(quotient, term{t.coeff / divisor.coeff, remaining})
		}
	}
	return env.sum(quotient, constant), env.sum(remainder, a.constant)
}

// cancel divides a and b by the atoms and the integer factor that all their terms share. The caller has recorded that
// b, and thus each factor of b, is not 0.
func (env *Env) cancel(a, b *expr) (*expr, *expr) {
	if a.constant != 0 || b.constant != 0 || len(a.terms) == 0 {
		return a, b
	}
	common := b.terms[0].atoms
	for _, operand := range []*expr{a, b} {
		for _, t := range operand.terms {
			common = commonAtoms(common, t.atoms)
		}
	}
	divisor := gcd(a.gcd(), b.gcd())
	if len(common) == 0 && divisor == 1 {
		return a, b
	}
	return env.dividedByTerm(a, term{divisor, common}), env.dividedByTerm(b, term{divisor, common})
}

// dividedByTerm divides the terms of e, which are multiples of divisor. It ignores the constant of e.
func (env *Env) dividedByTerm(e *expr, divisor term) *expr {
	var terms []term
	constant := 0
	for _, t := range e.terms {
		if remaining, _ := withoutAtoms(t.atoms, divisor.atoms); len(remaining) > 0 {
			terms = append(terms, term{t.coeff / divisor.coeff, remaining})
		} else {
			constant += t.coeff / divisor.coeff
		}
	}
	return env.sum(terms, constant)
}

// commonAtoms returns the common atoms of two products.
func commonAtoms(a, b []*atom) []*atom {
	var common []*atom
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			common = append(common, a[0])
			a, b = a[1:], b[1:]
		case a[0].id < b[0].id:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return common
}

// quotientAtom returns a // b for operands without common factors: 0 if 0 <= a < b can be proved, else an atom. For a
// constant b, it returns the result of floorByConstant.
func (env *Env) quotientAtom(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return env.floorByConstant(a, b.constant)
	}
	if env.provesNonNegative(a) && env.provesNonNegative(env.strictDifference(a, b)) { // 0 <= a < b
		return env.constant(0)
	}
	return env.atom(kindDiv, a, b)
}

// floorByConstant returns a // divisor.
func (env *Env) floorByConstant(a *expr, divisor int) *expr {
	switch {
	case divisor == 0 || divisor == math.MinInt:
		// Divisions by 0 and by math.MinInt are not simplified. A parsed expression may contain a division by 0. The
		// negation of math.MinInt overflows.
		return env.atom(kindDiv, a, env.constant(divisor))
	case divisor < 0:
		return env.floorByConstant(env.addMultiple(env.constant(0), a, -1), -divisor)
	}
	quotient, remainder := env.splitCoefficients(a, divisor)
	switch lo, hi := env.bounds(remainder); {
	case lo >= 0 && hi < divisor: // remainder // divisor is 0
		return quotient
	case len(remainder.terms) == 0: // the bounds of a number may be unknown if it is large
		return env.addMultiple(quotient, env.constant(floorDiv(remainder.constant, divisor)), 1)
	}
	// (g*y + k) // (g*d) = (y + k//g) // d
	if common := gcd(remainder.gcd(), divisor); common > 1 {
		remainder, divisor = env.dividedBy(remainder, common, floorDiv(remainder.constant, common)), divisor/common
		if divisor == 1 {
			return env.addMultiple(quotient, remainder, 1)
		}
	}
	// (y // d) // divisor = y // (d*divisor) for positive d
	if y, d, ok := remainder.quotientByConstant(); ok && d > 0 && d <= math.MaxInt/divisor {
		return env.addMultiple(quotient, env.floorByConstant(y, d*divisor), 1)
	}
	return env.addMultiple(quotient, env.atom(kindDiv, remainder, env.constant(divisor)), 1)
}

// quotientByConstant returns the operands of e if it is a quotient with a number as divisor.
func (e *expr) quotientByConstant() (dividend *expr, divisor int, ok bool) {
	quotient := e.singleAtom()
	if quotient == nil || quotient.kind != kindDiv || len(quotient.args[1].terms) > 0 {
		return nil, 0, false
	}
	return quotient.args[0], quotient.args[1].constant, true
}

// splitCoefficients returns expressions with a = divisor*quotientExpr + remainderExpr, where the coefficients of
// remainderExpr are from 0 to divisor-1.
func (env *Env) splitCoefficients(a *expr, divisor int) (quotientExpr, remainderExpr *expr) {
	var quotient, remainder []term
	for _, t := range a.terms {
		quotientCoeff := floorDiv(t.coeff, divisor)
		if quotientCoeff != 0 {
			quotient = append(quotient, term{quotientCoeff, t.atoms})
		}
		if coeff := t.coeff - quotientCoeff*divisor; coeff != 0 {
			remainder = append(remainder, term{coeff, t.atoms})
		}
	}
	quotientConstant := floorDiv(a.constant, divisor)
	return env.sum(quotient, quotientConstant), env.sum(remainder, a.constant-quotientConstant*divisor)
}

// floorRemainder returns a % b, simplified. Multiples of b are first removed from a.
func (env *Env) floorRemainder(a, b *expr) *expr {
	if len(b.terms) == 0 {
		if b.constant > 0 {
			_, a = env.splitCoefficients(a, b.constant)
		}
		if len(a.terms) == 0 {
			return env.constant(a.constant - b.constant*floorDiv(a.constant, b.constant))
		}
	} else if _, ok := env.exactQuotient(a, b); ok {
		return env.constant(0)
	} else if len(b.terms) == 1 && b.constant == 0 {
		_, a = env.splitMultiples(a, b.terms[0])
	}
	if env.provesNonNegative(a) && env.provesNonNegative(env.strictDifference(a, b)) { // 0 <= a < b
		return a
	}
	return env.atom(kindMod, a, b)
}
