package sym

// simplify returns e with its atoms simplified under the facts. The result equals e for sizes that satisfy the facts.
func (v *Env) simplify(e *expr) *expr {
	if !v.facts.active() || len(e.terms) == 0 {
		return e
	}
	state := v.facts.state()
	if e.simplifiedState == state {
		return e.simplified
	}
	if !v.facts.spendSteps(len(e.terms)) {
		return e
	}
	out := e
	if lo, hi := v.bounds(e); lo == hi {
		out = v.constant(lo)
	} else if v.isSimplifiable(e) {
		out = v.constant(e.c)
		for _, t := range e.terms {
			p := v.constant(t.coeff)
			for _, a := range t.atoms {
				p = v.multiply(p, v.simplifyAtom(a))
			}
			out = v.addMultiple(out, p, 1)
		}
	}
	out = v.expandQuotients(out)
	if state == v.facts.state() && v.facts.stepsLeft > 0 {
		e.simplifiedState, e.simplified = state, out
	}
	return out
}

// isSimplifiable reports whether an atom of e is simpler under the facts.
func (v *Env) isSimplifiable(e *expr) bool {
	for _, t := range e.terms {
		for _, a := range t.atoms {
			if v.simplifyAtom(a) != a.asExpr {
				return true
			}
		}
	}
	return false
}

func (v *Env) simplifyAtom(a *atom) *expr {
	if lo, hi := v.atomBounds(a); lo == hi {
		return v.constant(lo)
	}
	if a.replacement != nil {
		return v.simplify(a.replacement)
	}
	if a.kind == kindSymbol {
		return a.asExpr
	}
	args := make([]*expr, len(a.args))
	for i, e := range a.args {
		args[i] = v.simplify(e)
	}
	switch a.kind {
	case kindDiv:
		if lo, hi := v.bounds(args[1]); lo > 0 || hi < 0 {
			return v.floorQuotient(args[0], args[1])
		}
		return a.asExpr
	case kindMod:
		lo, hi := v.bounds(args[1])
		if lo <= 0 && hi >= 0 {
			return a.asExpr
		}
		if m, r := v.atomResidue(a); m == 0 {
			return v.constant(r)
		}
		return v.remainder(args[0], args[1])
	case kindWhere:
		if truth, known := v.condTruth(a.cond); known {
			if truth {
				return args[0]
			}
			return args[1]
		}
		if args[0] == args[1] {
			return args[0]
		}
		return v.atomIf(kindWhere, a.cond, args...)
	case kindUnexpandedSum:
		return v.addMultiple(args[0], args[1], 1)
	case kindUnexpandedProduct:
		return v.multiply(args[0], args[1])
	}
	return v.extreme(a.kind, args...)
}

// expandQuotients rewrites k*(x//y) as k//y*(x - x % y) if x % y is known and y divides k.
func (v *Env) expandQuotients(e *expr) *expr {
	for _, t := range e.terms {
		for _, a := range t.atoms {
			if a.kind != kindDiv {
				continue
			}
			rest, ok := v.divideOut(t, a)
			if !ok {
				continue
			}
			x, y := a.args[0], a.args[1]
			m, r := v.residue(v.remainder(x, y))
			if m != 0 {
				continue
			}
			multiple := v.multiply(rest, v.addMultiple(x, v.constant(r), -1))
			return v.expandQuotients(v.addMultiple(v.addMultiple(e, v.termExpr(t), -1), multiple, 1))
		}
	}
	return e
}

// divideOut removes the factor a = x//y from the term t, and divides the rest of the term by y. It returns false if y
// does not divide the rest.
func (v *Env) divideOut(t term, a *atom) (*expr, bool) {
	y := a.args[1]
	m, _ := withoutAtoms(t.atoms, []*atom{a})
	switch {
	case len(y.terms) == 0 && y.c != 0 && t.coeff%y.c == 0:
		return v.termExpr(term{t.coeff / y.c, m}), true
	case len(y.terms) == 1 && y.c == 0 && t.coeff%y.terms[0].coeff == 0:
		if m, ok := withoutAtoms(m, y.terms[0].atoms); ok {
			return v.termExpr(term{t.coeff / y.terms[0].coeff, m}), true
		}
	}
	return nil, false
}
