package sym

import "errors"

// Arithmetic computes expressions with values of type T, such as nodes of a graph: see [Translate]. Apply computes a
// function of its operands: "add", "mul", "floor_div", "mod", "max", "min" and "where", and the conditions "eq", "ne"
// and "ge" (comparisons of one operand with 0), "and" and "or". Except for where and comparisons, functions have two
// operands.
type Arithmetic[T any] struct {
	Number func(n int) T
	Symbol func(name string) (T, error)
	Apply  func(function string, operands ...T) T
}

var errTooLarge = errors.New("sym: the expression is too large to translate")

// maxTranslated is the greatest [Int.Size] of an expression that is translated.
const maxTranslated = 256

// Translate computes an expression by the given arithmetic. It fails if Symbol fails, or if the expression is large.
func Translate[T any](a Int, arithmetic Arithmetic[T]) (value T, err error) {
	if arithmetic.Number == nil || arithmetic.Symbol == nil || arithmetic.Apply == nil {
		panic("sym: Translate needs all functions of the arithmetic")
	}
	if a.Size() > maxTranslated {
		return value, errTooLarge
	}
	t := &translation[T]{Arithmetic: arithmetic}
	if a.e == nil {
		return t.Number(a.n), nil
	}
	return t.expr(a.e), t.err
}

// translation is the state of [Translate].
type translation[T any] struct {
	Arithmetic[T]
	err error // the first error of Symbol
}

func (t *translation[T]) expr(e *expr) T {
	var operands []T
	for _, term := range e.terms {
		var factors []T
		if term.coeff != 1 {
			factors = append(factors, t.Number(term.coeff))
		}
		for _, a := range term.atoms {
			factors = append(factors, t.atom(a))
		}
		operands = append(operands, t.join("mul", factors))
	}
	if e.constant != 0 || len(operands) == 0 {
		operands = append(operands, t.Number(e.constant))
	}
	return t.join("add", operands)
}

func (t *translation[T]) join(function string, operands []T) T {
	joined := operands[0]
	for _, operand := range operands[1:] {
		joined = t.Apply(function, joined, operand)
	}
	return joined
}

func (t *translation[T]) atom(a *atom) T {
	if a.kind == kindSymbol {
		value, err := t.Symbol(a.name)
		if t.err == nil {
			t.err = err
		}
		return value
	}
	operands := make([]T, len(a.args))
	for i, arg := range a.args {
		operands[i] = t.expr(arg)
	}
	switch a.kind {
	case kindDiv:
		return t.Apply("floor_div", operands...)
	case kindMod:
		return t.Apply("mod", operands...)
	case kindWhere:
		return t.Apply("where", append([]T{t.cond(a.cond)}, operands...)...)
	case kindMax:
		return t.join("max", operands)
	case kindMin:
		return t.join("min", operands)
	case kindUnexpandedProduct:
		return t.join("mul", operands)
	}
	return t.join("add", operands) // kindUnexpandedSum
}

func (t *translation[T]) cond(c *cond) T {
	if !c.isJunction() {
		return t.Apply(map[condKind]string{condEq: "eq", condNe: "ne", condGe: "ge"}[c.kind], t.expr(c.difference))
	}
	operands := make([]T, len(c.args))
	for i, arg := range c.args {
		operands[i] = t.cond(arg)
	}
	return t.join(map[condKind]string{condAnd: "and", condOr: "or"}[c.kind], operands)
}
