package sym

import (
	"errors"
	"fmt"
	"math"
	"math/big"
)

// This file evaluates expressions. An expr is a constant plus terms, a term is a coefficient times atoms, and an atom
// is a symbol or a function of expressions. At N = 10, for example, 2*N + N//4 is 22. At N = 0, 8//N is an error, but
// Where(Eq(N, 0), 1, 8//N) is 1, because only the selected operand of a Where is evaluated.

// valuation evaluates expressions at a binding. Shared parts of large expressions are computed once.
type valuation struct {
	binding Binding
	memo    map[*atom]int
}

// value returns the value of an expression. It fails if the value overflows an int. It does not fail if only an
// intermediate result overflows.
func (w *valuation) value(e *expr) (int, error) {
	result, err := w.expr(e)
	if err != errOverflow {
		return result, err
	}
	exact, err := (&bigValuation{binding: w.binding}).expr(e)
	switch {
	case err != nil:
		return 0, err
	case !exact.IsInt64() || int64(int(exact.Int64())) != exact.Int64():
		return 0, overflowError(exact)
	}
	return int(exact.Int64()), nil
}

// expr returns the value of an expression, or errOverflow if an intermediate result overflows an int.
func (w *valuation) expr(e *expr) (int, error) {
	sum := e.constant
	for _, t := range e.terms {
		product := t.coeff
		for _, a := range t.atoms {
			factor, err := w.atom(a)
			if err != nil {
				return 0, err
			}
			var fits bool
			if product, fits = mulFits(product, factor); !fits {
				return 0, errOverflow
			}
		}
		var fits bool
		if sum, fits = addFits(sum, product); !fits {
			return 0, errOverflow
		}
	}
	return sum, nil
}

// atom is expr for an atom.
func (w *valuation) atom(a *atom) (int, error) {
	if a.kind == kindSymbol {
		value, ok := w.binding[a.name]
		if !ok {
			return 0, fmt.Errorf("symbol %s has no value", a.name)
		}
		return value, nil
	}
	if result, ok := w.memo[a]; ok {
		return result, nil
	}
	result, err := w.function(a)
	if err == nil && a.size > maxUnmemoizedSize { // smaller atoms are computed again
		if w.memo == nil {
			w.memo = map[*atom]int{}
		}
		w.memo[a] = result
	}
	return result, err
}

// function computes an atom other than a symbol.
func (w *valuation) function(a *atom) (int, error) {
	if a.kind == kindWhere {
		holds, err := w.cond(a.cond)
		if err != nil {
			return 0, err
		} else if holds {
			return w.expr(a.args[0])
		}
		return w.expr(a.args[1])
	}
	result, err := w.expr(a.args[0])
	if err != nil {
		return 0, err
	}
	for _, arg := range a.args[1:] {
		operand, err := w.expr(arg)
		if err != nil {
			return 0, err
		}
		if result, err = apply(a.kind, result, operand); err != nil {
			return 0, err
		}
	}
	return result, nil
}

// apply applies a function, other than Where, to two operands.
func apply(function kind, x, y int) (result int, err error) {
	fits := true
	switch function {
	case kindMax:
		return max(x, y), nil
	case kindMin:
		return min(x, y), nil
	case kindUnexpandedSum:
		result, fits = addFits(x, y)
	case kindUnexpandedProduct:
		result, fits = mulFits(x, y)
	default: // kindDiv or kindMod
		if y == 0 {
			return 0, errDivisionByZero
		}
		if y == -1 && x == math.MinInt {
			return 0, errOverflow
		}
		result = floorDiv(x, y)
		if function == kindMod {
			result = x - y*result
		}
	}
	if !fits {
		return 0, errOverflow
	}
	return result, nil
}

// cond returns the truth of a condition. It stops at the first operand that decides the truth.
func (w *valuation) cond(c *cond) (bool, error) {
	if c.isJunction() {
		for _, part := range c.args {
			if truth, err := w.cond(part); err != nil || truth == (c.kind == condOr) {
				return truth, err
			}
		}
		return c.kind == condAnd, nil
	}
	difference, err := w.expr(c.difference)
	if err == errOverflow { // only the sign of the difference matters
		var exact *big.Int
		if exact, err = (&bigValuation{binding: w.binding}).expr(c.difference); err == nil {
			difference = exact.Sign()
		}
	}
	switch c.kind {
	case condEq:
		return err == nil && difference == 0, err
	case condNe:
		return err == nil && difference != 0, err
	}
	return err == nil && difference >= 0, err // condGe
}

// errDivisionByZero is the error for a quotient or remainder with the divisor 0.
var errDivisionByZero = errors.New("division by zero")

// errOverflow is the error for an intermediate result that overflows an int. A [bigValuation] then computes the value.
var errOverflow = errors.New("an intermediate result does not fit an int")
