package sym

import "math"

// div returns a // b without common factors, so that equal quotients are often the same expression. If it is unknown
// whether b is 0, div records the guard that b is not 0.
func div(a, b Int) Int {
	envOf(a, b).guardNonZero(b)
	return quotientOf(a, b)
}

func mod(a, b Int) Int {
	envOf(a, b).guardNonZero(b)
	return remainderOf(a, b)
}

// quotientOf is a // b without a guard.
func quotientOf(a, b Int) Int {
	v := envOf(a, b)
	defer v.withFacts(false)()
	x, y := v.exprOf(a), v.exprOf(b)
	return v.memoized('/', x, y, func() *expr { return v.floorQuotient(x, y) }).int()
}

// remainderOf is a % b without a guard.
func remainderOf(a, b Int) Int {
	v := envOf(a, b)
	defer v.withFacts(false)()
	x, y := v.exprOf(a), v.exprOf(b)
	return v.memoized('%', x, y, func() *expr { return v.remainder(x, y) }).int()
}

// zeroDivision is the value of the panic of a division by zero.
const zeroDivision = "sym: division by zero"

func (v *Env) guardNonZero(b Int) {
	if !b.Ne(Int{}).Holds() {
		panic(zeroDivision)
	}
}

func (v *Env) floorQuotient(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return v.floorConstant(a, b.c)
	}
	if q, ok := v.exactQuotient(a, b); ok {
		return q
	}
	if len(b.terms) == 1 && b.c == 0 {
		// (q*b + r) // b = q + r // b
		q, r := v.splitMultiples(a, b.terms[0])
		dividend, divisor := v.cancel(r, b)
		return v.addMultiple(q, v.quotientAtom(dividend, divisor), 1)
	}
	dividend, divisor := v.cancel(a, b)
	return v.quotientAtom(dividend, divisor)
}

// quotientAtom returns 0 if the quotient a // b provably is 0, else an atom.
func (v *Env) quotientAtom(a, b *expr) *expr {
	if len(b.terms) == 0 {
		return v.floorConstant(a, b.c)
	}
	if v.proves(a) && v.proves(v.strictDifference(a, b)) {
		return v.constant(0)
	}
	return v.atom(kindDiv, a, b)
}

// floorConstant is a // c.
func (v *Env) floorConstant(a *expr, c int) *expr {
	switch {
	case c == 0 || c == math.MinInt:
		// Two divisions are not simplified: by 0, which occurs only in parts that are never evaluated, and by math.MinInt,
		// which has no negation.
		return v.atom(kindDiv, a, v.constant(c))
	case c < 0:
		return v.floorConstant(v.addMultiple(v.constant(0), a, -1), -c)
	}
	q, r := v.splitCoefficients(a, c)
	switch lo, hi := v.bounds(r); {
	case lo >= 0 && hi < c:
		return q
	case len(r.terms) == 0:
		return v.addMultiple(q, v.constant(floorDiv(r.c, c)), 1)
	}
	// (g*y + k) // (g*d) = (y + k//g) // d
	if g := gcd(r.gcd(), c); g > 1 {
		r, c = v.dividedBy(r, g, floorDiv(r.c, g)), c/g
		if c == 1 {
			return v.addMultiple(q, r, 1)
		}
	}
	// (y // d) // c = y // (d*c) for positive d
	if s := r.single(); s != nil && s.kind == kindDiv && len(s.args[1].terms) == 0 && s.args[1].c > 0 &&
		s.args[1].c <= math.MaxInt/c {
		return v.addMultiple(q, v.floorConstant(s.args[0], s.args[1].c*c), 1)
	}
	return v.addMultiple(q, v.atom(kindDiv, r, v.constant(c)), 1)
}

// splitCoefficients returns q and r with a = c*q + r, where the coefficients of r are from 0 to c-1.
func (v *Env) splitCoefficients(a *expr, c int) (q, r *expr) {
	var quotient, remainder []term
	for _, t := range a.terms {
		k := floorDiv(t.coeff, c)
		if k != 0 {
			quotient = append(quotient, term{k, t.atoms})
		}
		if coeff := t.coeff - k*c; coeff != 0 {
			remainder = append(remainder, term{coeff, t.atoms})
		}
	}
	k := floorDiv(a.c, c)
	return v.sum(quotient, k), v.sum(remainder, a.c-k*c)
}

// splitMultiples returns q and r with a = q*d + r, where no term of r is a multiple of d.
func (v *Env) splitMultiples(a *expr, d term) (q, r *expr) {
	var quotient, remainder []term
	c := 0
	for _, t := range a.terms {
		m, ok := withoutAtoms(t.atoms, d.atoms)
		switch {
		case !ok || t.coeff%d.coeff != 0:
			remainder = append(remainder, t)
		case len(m) == 0:
			c += t.coeff / d.coeff
		default:
			quotient = append(quotient, term{t.coeff / d.coeff, m})
		}
	}
	return v.sum(quotient, c), v.sum(remainder, a.c)
}

// exactQuotient divides polynomials. ok reports whether b divides a.
func (v *Env) exactQuotient(a, b *expr) (q *expr, ok bool) {
	q = v.constant(0)
	for steps := len(a.terms) + 1; a.c != 0 || len(a.terms) > 0; steps-- {
		dividend, divisor := a.leadingTerm(), b.leadingTerm()
		m, divides := withoutAtoms(dividend.atoms, divisor.atoms)
		if !divides || dividend.coeff%divisor.coeff != 0 || steps == 0 {
			return nil, false
		}
		t := v.termExpr(term{dividend.coeff / divisor.coeff, m})
		q, a = v.addMultiple(q, t, 1), v.addMultiple(a, v.multiply(t, b), -1)
	}
	return q, true
}

// cancel divides a and b by the atoms and the integer factor that all their terms share. Factors of b are not 0.
func (v *Env) cancel(a, b *expr) (*expr, *expr) {
	if a.c != 0 || b.c != 0 || len(a.terms) == 0 {
		return a, b
	}
	common := b.terms[0].atoms
	for _, e := range []*expr{a, b} {
		for _, t := range e.terms {
			common = commonAtoms(common, t.atoms)
		}
	}
	g := gcd(a.gcd(), b.gcd())
	if len(common) == 0 && g == 1 {
		return a, b
	}
	divided := func(e *expr) *expr {
		var terms []term
		c := 0
		for _, t := range e.terms {
			if m, _ := withoutAtoms(t.atoms, common); len(m) > 0 {
				terms = append(terms, term{t.coeff / g, m})
			} else {
				c += t.coeff / g
			}
		}
		return v.sum(terms, c)
	}
	return divided(a), divided(b)
}

// commonAtoms returns the common atoms of two products.
func commonAtoms(a, b []*atom) []*atom {
	var out []*atom
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			out = append(out, a[0])
			a, b = a[1:], b[1:]
		case a[0].id < b[0].id:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return out
}

func (v *Env) remainder(a, b *expr) *expr {
	if len(b.terms) == 0 {
		if b.c > 0 {
			_, a = v.splitCoefficients(a, b.c)
		}
		if len(a.terms) == 0 {
			return v.constant(a.c - b.c*floorDiv(a.c, b.c))
		}
	} else if _, ok := v.exactQuotient(a, b); ok {
		return v.constant(0)
	} else if len(b.terms) == 1 && b.c == 0 {
		_, a = v.splitMultiples(a, b.terms[0])
	}
	if v.proves(a) && v.proves(v.strictDifference(a, b)) {
		return a
	}
	return v.atom(kindMod, a, b)
}
