package sym

// Trend tells how a changes when one symbol grows and the others stay as they are: it never falls (1), it never rises
// (-1), or it does not depend on the symbol (0). ok is false where form and bounds do not tell.
func (a Int) Trend(symbol string) (sign int, ok bool) {
	if a.e == nil {
		return 0, true
	}
	s := a.e.env.symbols[symbol]
	if s.e == nil {
		return 0, true // there is none, or it is a number
	}
	return (&trends{of: s.e.single()}).expr(a.e)
}

// joinedTrend is the trend of what never falls where neither of two does.
func joinedTrend(a, b int) (sign int, ok bool) {
	if a*b < 0 {
		return 0, false
	}
	return a | b, true
}

// trends computes the trends of the parts of an expression, each part once.
type trends struct {
	of    *atom
	known map[*atom]trend
}

type trend struct {
	sign int
	ok   bool
}

func (s *trends) expr(e *expr) (sign int, ok bool) {
	for _, t := range e.terms {
		one, told := s.term(t)
		if t.k < 0 {
			one = -one
		}
		if sign, ok = joinedTrend(sign, one); !ok || !told {
			return 0, false
		}
	}
	return sign, true
}

// term is the trend of a product. A factor rises with the others where none of them is negative.
func (s *trends) term(t term) (sign int, ok bool) {
	negative := false
	for _, a := range t.m {
		one, told := s.atom(a)
		if sign, ok = joinedTrend(sign, one); !ok || !told {
			return 0, false
		}
		negative = negative || a.lo < 0
	}
	return sign, sign == 0 || len(t.m) == 1 || !negative
}

func (s *trends) atom(a *atom) (sign int, ok bool) {
	if a.kind == kindSymbol {
		if a == s.of {
			sign = 1
		}
		return sign, true
	}
	if t, known := s.known[a]; known {
		return t.sign, t.ok
	}
	sign, ok = s.function(a)
	if a.size > fewParts {
		if s.known == nil {
			s.known = map[*atom]trend{}
		}
		s.known[a] = trend{sign, ok}
	}
	return sign, ok
}

func (s *trends) function(a *atom) (sign int, ok bool) {
	if a.kind == kindWhere {
		return 0, false
	}
	x, ok := s.expr(a.args[0])
	for _, e := range a.args[1:] {
		y, told := s.expr(e)
		if !ok || !told {
			return 0, false
		}
		switch {
		case a.kind == kindMax || a.kind == kindMin || a.kind == kindSum:
			x, ok = joinedTrend(x, y)
		case x == 0 && y == 0:
		case a.kind == kindMod || a.kind == kindProduct || e.lo < 1 || y != 0 && a.args[0].lo < 0:
			return 0, false
		default:
			x, ok = joinedTrend(x, -y)
		}
	}
	return x, ok
}
