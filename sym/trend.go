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
	return a.e.trend(s.e.single())
}

// joinedTrend is the trend of what never falls where neither of two does.
func joinedTrend(a, b int) (sign int, ok bool) {
	if a*b < 0 {
		return 0, false
	}
	return a | b, true
}

func (e *expr) trend(s *atom) (sign int, ok bool) {
	for _, t := range e.terms {
		one, told := t.trend(s)
		if t.k < 0 {
			one = -one
		}
		if sign, ok = joinedTrend(sign, one); !ok || !told {
			return 0, false
		}
	}
	return sign, true
}

// trend is that of the product. A factor rises with the others where none of them is negative.
func (t term) trend(s *atom) (sign int, ok bool) {
	negative := false
	for _, a := range t.m {
		one, told := a.trend(s)
		if sign, ok = joinedTrend(sign, one); !ok || !told {
			return 0, false
		}
		negative = negative || a.lo < 0
	}
	return sign, sign == 0 || len(t.m) == 1 || !negative
}

func (a *atom) trend(s *atom) (sign int, ok bool) {
	if a.kind == kindSymbol {
		if a == s {
			sign = 1
		}
		return sign, true
	}
	if a.kind == kindWhere {
		return 0, false
	}
	x, ok := a.args[0].trend(s)
	for _, e := range a.args[1:] {
		y, told := e.trend(s)
		if !ok || !told {
			return 0, false
		}
		switch {
		case a.kind == kindMax || a.kind == kindMin:
			x, ok = joinedTrend(x, y)
		case x == 0 && y == 0:
		case a.kind == kindMod || e.lo < 1 || y != 0 && a.args[0].lo < 0:
			return 0, false
		default:
			x, ok = joinedTrend(x, -y)
		}
	}
	return x, ok
}
