package sym

import "math"

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

// quotientOf returns a // b and records no guard.
func quotientOf(a, b Int) Int {
	env := envOf(a, b)
	defer env.withFacts(false)()
	x, y := env.exprOf(a), env.exprOf(b)
	return env.memoized('/', x, y, func() *expr { return env.floorQuotient(x, y) }).int()
}

// remainderOf returns a % b and records no guard.
func remainderOf(a, b Int) Int {
	env := envOf(a, b)
	defer env.withFacts(false)()
	x, y := env.exprOf(a), env.exprOf(b)
	return env.memoized('%', x, y, func() *expr { return env.remainder(x, y) }).int()
}

// zeroDivision is the value of the panic of a division by zero.
const zeroDivision = "sym: division by zero"

// guardNonZero records the guard that b is not 0, if this is unknown. It panics if b is 0.
func (env *Env) guardNonZero(b Int) {
	if !b.Ne(Int{}).Holds() {
		panic(zeroDivision)
	}
}

// floorQuotient returns a // b, simplified.
func (env *Env) floorQuotient(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return env.floorConstant(a, b.constant)
	}
	if quotient, ok := env.exactQuotient(a, b); ok {
		return quotient
	}
	if len(b.terms) == 1 && b.constant == 0 {
		// (quotient*b + r) // b = quotient + r // b
		quotient, r := env.splitMultiples(a, b.terms[0])
		dividend, divisor := env.cancel(r, b)
		return env.addMultiple(quotient, env.quotientAtom(dividend, divisor), 1)
	}
	dividend, divisor := env.cancel(a, b)
	return env.quotientAtom(dividend, divisor)
}

// quotientAtom returns a // b, which the caller has simplified: 0 if 0 <= a < b can be proved, else an atom. If b is a
// constant, it is floorConstant.
func (env *Env) quotientAtom(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return env.floorConstant(a, b.constant)
	}
	if env.proves(a) && env.proves(env.strictDifference(a, b)) {
		return env.constant(0)
	}
	return env.atom(kindDiv, a, b)
}

// floorConstant returns a // c.
func (env *Env) floorConstant(a *expr, c int) *expr {
	switch {
	case c == 0 || c == math.MinInt:
		// Divisions by 0 and by math.MinInt are not simplified. Divisions by 0 occur only in parts that are never
		// evaluated. math.MinInt has no negation.
		return env.atom(kindDiv, a, env.constant(c))
	case c < 0:
		return env.floorConstant(env.addMultiple(env.constant(0), a, -1), -c)
	}
	q, r := env.splitCoefficients(a, c)
	switch lo, hi := env.bounds(r); {
	case lo >= 0 && hi < c:
		return q
	case len(r.terms) == 0:
		return env.addMultiple(q, env.constant(floorDiv(r.constant, c)), 1)
	}
	// (g*y + k) // (g*d) = (y + k//g) // d
	if common := gcd(r.gcd(), c); common > 1 {
		r, c = env.dividedBy(r, common, floorDiv(r.constant, common)), c/common
		if c == 1 {
			return env.addMultiple(q, r, 1)
		}
	}
	// (y // d) // c = y // (d*c) for positive d
	if inner := r.single(); inner != nil && inner.kind == kindDiv && len(inner.args[1].terms) == 0 &&
		inner.args[1].constant > 0 &&
		inner.args[1].constant <= math.MaxInt/c {
		return env.addMultiple(q, env.floorConstant(inner.args[0], inner.args[1].constant*c), 1)
	}
	return env.addMultiple(q, env.atom(kindDiv, r, env.constant(c)), 1)
}

// splitCoefficients returns q and r with a = c*q + r, where the coefficients of r are from 0 to c-1.
func (env *Env) splitCoefficients(a *expr, c int) (q, r *expr) {
	var quotient, remainder []term
	for _, t := range a.terms {
		quotientCoeff := floorDiv(t.coeff, c)
		if quotientCoeff != 0 {
			quotient = append(quotient, term{quotientCoeff, t.atoms})
		}
		if coeff := t.coeff - quotientCoeff*c; coeff != 0 {
			remainder = append(remainder, term{coeff, t.atoms})
		}
	}
	quotientConstant := floorDiv(a.constant, c)
	return env.sum(quotient, quotientConstant), env.sum(remainder, a.constant-quotientConstant*c)
}

// splitMultiples returns q and r with a = q*d + r, where no term of r is a multiple of d.
func (env *Env) splitMultiples(a *expr, d term) (q, r *expr) {
	var quotient, remainder []term
	constant := 0
	for _, t := range a.terms {
		remaining, ok := withoutAtoms(t.atoms, d.atoms)
		switch {
		case !ok || t.coeff%d.coeff != 0:
			remainder = append(remainder, t)
		case len(remaining) == 0:
			constant += t.coeff / d.coeff
		default:
			quotient = append(quotient, term{t.coeff / d.coeff, remaining})
		}
	}
	return env.sum(quotient, constant), env.sum(remainder, a.constant)
}

// exactQuotient divides polynomials. ok reports whether b divides a, with a quotient of at most as many terms as a has,
// constants included.
func (env *Env) exactQuotient(a, b *expr) (q *expr, ok bool) {
	q = env.constant(0)
	for steps := len(a.terms) + 1; a.constant != 0 || len(a.terms) > 0; steps-- {
		dividend, divisor := a.leadingTerm(), b.leadingTerm()
		remaining, divides := withoutAtoms(dividend.atoms, divisor.atoms)
		if !divides || dividend.coeff%divisor.coeff != 0 || steps == 0 {
			return nil, false
		}
		t := env.termExpr(term{dividend.coeff / divisor.coeff, remaining})
		q, a = env.addMultiple(q, t, 1), env.addMultiple(a, env.multiply(t, b), -1)
	}
	return q, true
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
	divided := func(operand *expr) *expr {
		var terms []term
		constant := 0
		for _, t := range operand.terms {
			if remaining, _ := withoutAtoms(t.atoms, common); len(remaining) > 0 {
				terms = append(terms, term{t.coeff / divisor, remaining})
			} else {
				constant += t.coeff / divisor
			}
		}
		return env.sum(terms, constant)
	}
	return divided(a), divided(b)
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

// remainder returns a % b. Multiples of b are first removed from a.
func (env *Env) remainder(a, b *expr) *expr {
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
	if env.proves(a) && env.proves(env.strictDifference(a, b)) { // 0 <= a < b
		return a
	}
	return env.atom(kindMod, a, b)
}
