package sym

// This file finds the direction in which expressions change. An expr is a constant plus terms, a term is a coefficient
// times atoms, and an atom is a symbol or a function of expressions. For N >= 0, for example, 3*N + N//2 has the trend
// 1 in N, 8 - N has the trend -1, and M has the trend 0. The trend of N*N - N is unknown.

// Trend reports whether the expression increases or decreases in one symbol while all other symbols are fixed. sign is
// 1 if it never decreases, -1 if it never increases, and 0 if it does not depend on the symbol. ok is false if the form
// of the expression and the bounds of its symbols do not decide the sign.
func (a Int) Trend(symbol string) (sign int, ok bool) {
	if a.e == nil {
		return 0, true
	}
	symbolExpr := a.e.env.symbols[symbol]
	if symbolExpr.e == nil {
		return 0, true // the symbol is unknown or a number
	}
	return (&trends{symbol: symbolExpr.e.singleAtom()}).expr(a.e)
}

// combineTrends returns the trend of a sum, or of another function that increases with each of its two operands. a and
// b are the trends of the operands. ok is false if the trends are opposite.
func combineTrends(a, b int) (sign int, ok bool) {
	if a*b < 0 {
		return 0, false
	}
	return a | b, true // at least one trend is 0, or both are equal
}

// trends computes how the parts of an expression change with one symbol, as [Int.Trend] does. It memoizes the results
// of large parts.
type trends struct {
	symbol *atom
	memo   map[*atom]trend
}

// trend is a result of [Int.Trend]: the sign, and whether it is known.
type trend struct {
	sign int
	ok   bool
}

// expr returns the trend of an expression.
func (s *trends) expr(e *expr) (sign int, ok bool) {
	for _, t := range e.terms {
		termSign, termOK := s.term(t)
		if t.coeff < 0 {
			termSign = -termSign
		}
		if sign, ok = combineTrends(sign, termSign); !ok || !termOK {
			return 0, false
		}
	}
	return sign, true
}

// term returns the trend of a product without its coefficient. A product of several factors increases with each factor
// if no factor is negative.
func (s *trends) term(t term) (sign int, ok bool) {
	negative := false
	for _, a := range t.atoms {
		atomSign, atomOK := s.atom(a)
		if sign, ok = combineTrends(sign, atomSign); !ok || !atomOK {
			return 0, false
		}
		negative = negative || a.lo < 0
	}
	return sign, sign == 0 || len(t.atoms) == 1 || !negative
}

// atom returns the trend of an atom.
func (s *trends) atom(a *atom) (sign int, ok bool) {
	if a.kind == kindSymbol {
		if a == s.symbol {
			sign = 1
		}
		return sign, true
	}
	if t, known := s.memo[a]; known {
		return t.sign, t.ok
	}
	sign, ok = s.functionAtom(a)
	if a.size > maxUnmemoizedSize {
		if s.memo == nil {
			s.memo = map[*atom]trend{}
		}
		s.memo[a] = trend{sign, ok}
	}
	return sign, ok
}

// functionAtom returns the trend of an atom other than a symbol.
func (s *trends) functionAtom(a *atom) (sign int, ok bool) {
	if a.kind == kindWhere {
		return 0, false
	}
	combined, ok := s.expr(a.args[0])
	for _, arg := range a.args[1:] {
		next, argOK := s.expr(arg)
		if !ok || !argOK {
			return 0, false
		}
		// x//y with y >= 1 increases with x and, if x >= 0, decreases with y.
		isMonotoneQuotient := a.kind == kindDiv && arg.lo >= 1 && (next == 0 || a.args[0].lo >= 0)
		switch {
		case a.kind == kindMax || a.kind == kindMin || a.kind == kindUnexpandedSum:
			combined, ok = combineTrends(combined, next)
		case combined == 0 && next == 0: // the operands do not depend on the symbol
		case isMonotoneQuotient:
			combined, ok = combineTrends(combined, -next)
		default:
			return 0, false
		}
	}
	return combined, ok
}
