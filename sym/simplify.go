package sym

// simplify returns e with what facts say of its atoms put in their place. What comes out equals e where the facts hold.
func (v *Env) simplify(e *expr) *expr {
	if !v.facts.live() || len(e.terms) == 0 {
		return e
	}
	state := v.facts.state()
	if e.plainState == state {
		return e.plain
	}
	if !v.facts.takes(len(e.terms)) {
		return e
	}
	out := e
	if lo, hi := v.bounds(e); lo == hi {
		out = v.constant(lo)
	} else if v.stale(e) {
		out = v.constant(e.c)
		for _, t := range e.terms {
			p := v.constant(t.k)
			for _, a := range t.m {
				p = v.times(p, v.simplifyAtom(a))
			}
			out = v.plus(out, p, 1)
		}
	}
	out = v.undivided(out)
	if state == v.facts.state() && v.facts.left > 0 {
		e.plainState, e.plain = state, out
	}
	return out
}

// stale reports whether an atom of e is told more simply under the facts.
func (v *Env) stale(e *expr) bool {
	for _, t := range e.terms {
		for _, a := range t.m {
			if v.simplifyAtom(a) != a.self {
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
	if a.stands != nil {
		return v.simplify(a.stands)
	}
	if a.kind == kindSymbol {
		return a.self
	}
	args := make([]*expr, len(a.args))
	for i, e := range a.args {
		args[i] = v.simplify(e)
	}
	switch a.kind {
	case kindDiv:
		if l, h := v.bounds(args[1]); l > 0 || h < 0 {
			return v.floor(args[0], args[1])
		}
		return a.self
	case kindMod:
		l, h := v.bounds(args[1])
		if l <= 0 && h >= 0 {
			return a.self
		}
		if m, r := v.atomResidue(a); m == 0 {
			return v.constant(r)
		}
		return v.remainder(args[0], args[1])
	case kindWhere:
		if truth, known := v.chosen(a.cond); known {
			if truth {
				return args[0]
			}
			return args[1]
		}
		if args[0] == args[1] {
			return args[0]
		}
		return v.atomIf(kindWhere, a.cond, args...)
	case kindSum:
		return v.plus(args[0], args[1], 1)
	case kindProduct:
		return v.times(args[0], args[1])
	}
	return v.extreme(a.kind, args...)
}

// undivided writes k*(x//y) as k//y*(x - x % y) where x % y is known and y divides k.
func (v *Env) undivided(e *expr) *expr {
	for _, t := range e.terms {
		for _, a := range t.m {
			if a.kind != kindDiv {
				continue
			}
			rest, ok := v.without(t, a)
			if !ok {
				continue
			}
			x, y := a.args[0], a.args[1]
			m, r := v.residue(v.remainder(x, y))
			if m != 0 {
				continue
			}
			whole := v.times(rest, v.plus(x, v.constant(r), -1))
			return v.undivided(v.plus(v.plus(e, v.termExpr(t), -1), whole, 1))
		}
	}
	return e
}

// without returns a term divided by a, which is x//y, and multiplied by 1/y; false: y is no factor of the term.
func (v *Env) without(t term, a *atom) (*expr, bool) {
	y := a.args[1]
	m, _ := quotient(t.m, []*atom{a})
	switch {
	case len(y.terms) == 0 && y.c != 0 && t.k%y.c == 0:
		return v.termExpr(term{t.k / y.c, m}), true
	case len(y.terms) == 1 && y.c == 0 && t.k%y.terms[0].k == 0:
		if m, ok := quotient(m, y.terms[0].m); ok {
			return v.termExpr(term{t.k / y.terms[0].k, m}), true
		}
	}
	return nil, false
}
