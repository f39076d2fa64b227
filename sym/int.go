package sym

import (
	"errors"
	"fmt"
	"strconv"
)

// Int is an integer: a number, or an expression over symbols. The zero value is the number 0.
//
// The first field takes no space. It makes comparison by == and use as a map key compile errors.
// Arithmetic on two numbers wraps around as Go's does. An expression is exact: where no int holds a coefficient, the
// sum or product stays as written. [Parse] refuses such an expression, and [Int.At] a value that no int holds.
type Int struct {
	_ [0]func()
	n int   // the number, where e is nil; else the hint
	e *expr // never a constant
}

// Of returns a number as an Int.
func Of(n int) Int { return Int{n: n} }

// Ints returns numbers as Ints.
func Ints(v ...int) []Int {
	out := make([]Int, len(v))
	for i, n := range v {
		out[i].n = n
	}
	return out
}

// Add returns a + b.
func (a Int) Add(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: a.n + b.n}
	}
	return add(a, b)
}

// Sub returns a - b.
func (a Int) Sub(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: a.n - b.n}
	}
	return sub(a, b)
}

// Mul returns a * b.
func (a Int) Mul(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: a.n * b.n}
	}
	return mul(a, b)
}

// Div returns the largest integer that is at most a / b, as Python's // does. It panics where b is
// the number 0.
func (a Int) Div(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: floorDiv(a.n, b.n)}
	}
	return div(a, b)
}

// Mod returns a - b*a.Div(b), which has the sign of b, as Python's % does. It panics where b is the
// number 0.
func (a Int) Mod(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: a.n - b.n*floorDiv(a.n, b.n)}
	}
	return mod(a, b)
}

// Neg returns -a.
func (a Int) Neg() Int { return Int{}.Sub(a) }

// Max returns the greater of a and b.
func (a Int) Max(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: max(a.n, b.n)}
	}
	return greater(a, b)
}

// Min returns the lesser of a and b.
func (a Int) Min(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: min(a.n, b.n)}
	}
	return lesser(a, b)
}

// Known returns the number, and whether a is one.
func (a Int) Known() (n int, ok bool) { return a.n, a.e == nil }

// Hint returns the value of a for the hints of its symbols: for display and for prices, never for
// a decision. A number is its own hint.
func (a Int) Hint() int { return a.n }

// Specialize returns the hint and records the guard that a equals it: for an op that needs a
// number. A number costs nothing. In a [Fork] all other values are one case, whose error is [ErrNumber].
func (a Int) Specialize() int {
	if a.e != nil && !a.Eq(Of(a.n)).Holds() {
		panic(ErrNumber)
	}
	return a.n
}

// ErrNumber is what [Int.Specialize] panics with, and so the error, of a case of a [Fork] in which something is not the
// number that alone will do.
var ErrNumber = errors.New("a number is needed for what is not known")

// Bounds returns the least and the greatest value that a can have by the bounds of its symbols and the guards
// so far; math.MinInt and math.MaxInt where there is none. They need not be reached.
func (a Int) Bounds() (lo, hi int) {
	if a.e == nil {
		return a.n, a.n
	}
	defer a.e.env.asking()()
	return a.e.env.bounds(a.e)
}

// Simplify returns what is left of a once the guards so far are used: "N" of "Max(1, N)" where N was found to be
// positive, one of the two sides of a Where. It equals a wherever the guards hold, and nowhere else.
func (a Int) Simplify() Int {
	if a.e == nil {
		return a
	}
	defer a.e.env.asking()()
	return a.e.env.simplify(a.e).int()
}

// Same reports whether a and b are the same number or the same expression: equal for all sizes.
// Where it is false they may be equal all the same; see [Int.Eq].
func (a Int) Same(b Int) bool {
	return a.e == b.e && (a.e != nil || a.n == b.n)
}

// Size returns how many symbols and numbers a is printed with. Expressions share parts: evaluating one takes time in
// proportion to its different parts, which may be far fewer.
func (a Int) Size() int {
	if a.e == nil {
		return 1
	}
	return a.e.size
}

// At returns the value of a where symbols have the given values. The error names a symbol without a value, a division
// by zero, or a value that no int holds; intermediate results may exceed an int.
func (a Int) At(b Binding) (int, error) {
	if a.e == nil {
		return a.n, nil
	}
	n, err := (&valuation{at: b}).value(a.e)
	if err != nil {
		return 0, fmt.Errorf("sym: %v: %w", a, err)
	}
	return n, nil
}

// String returns the number or the expression, in Python's syntax: "5*Max(1, x)".
func (a Int) String() string {
	if a.e == nil {
		return strconv.Itoa(a.n)
	}
	return a.e.String()
}

func floorDiv(a, b int) int {
	if b == 0 {
		panic(zeroDivision)
	}
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
