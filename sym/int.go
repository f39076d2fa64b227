package sym

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Int is an integer: a number, or an expression over symbols. The zero value is the number 0. For a symbol N, for
// example, N.Mul(Of(2)).Add(N) is the expression 3*N, and N.Sub(N) is the number 0. A symbol has a hint, which is a
// typical size. A guard is a recorded condition on the symbols: results are valid for sizes that satisfy all guards.
//
// The first field takes no space. It makes == and the use of an Int as a map key compile-time errors. Arithmetic on two
// numbers panics if the result overflows an int. [Catch] turns this panic into an error. Expressions are exact: if a
// coefficient would overflow an int, the sum or product is not expanded. [Parse] rejects an expression with such a
// coefficient, and [Int.At] rejects a value that overflows an int.
type Int struct {
	_ [0]func()
	n int   // the number if e is nil, else the constant exprMark
	e *expr // never a constant
}

// exprMark is the field n of every expression. It is negative, so that a.n|b.n >= 0 only if a and b are natural
// numbers.
const exprMark = math.MinInt

// Of returns a number as an Int.
func Of(n int) Int { return Int{n: n} }

// Ints returns numbers as Ints.
func Ints(numbers ...int) []Int {
	out := make([]Int, len(numbers))
	for i, n := range numbers {
		out[i].n = n
	}
	return out
}

// The inlined fast paths add natural numbers of up to addBits bits and multiply natural numbers of up to mulBits bits.
// The results fit an int.
const (
	addBits = strconv.IntSize - 2
	mulBits = strconv.IntSize/2 - 1
)

// Add returns a + b.
func (a Int) Add(b Int) Int {
	if uint(a.n|b.n) < 1<<addBits {
		return Int{n: a.n + b.n}
	}
	return add(a, b)
}

// Sub returns a - b.
func (a Int) Sub(b Int) Int {
	if a.n|b.n >= 0 {
		return Int{n: a.n - b.n}
	}
	return sub(a, b)
}

// Mul returns a * b.
func (a Int) Mul(b Int) Int {
	if uint(a.n|b.n) < 1<<mulBits {
		return Int{n: a.n * b.n}
	}
	return mul(a, b)
}

// Div returns the floor of a / b, as Python's // does. It panics if b is the number 0. For a symbolic b, it records the
// guard that b is not 0.
func (a Int) Div(b Int) Int {
	if a.e == nil && b.e == nil {
		if a.n == math.MinInt && b.n == -1 {
			panic(overflow("//", a.n, b.n))
		}
		return Int{n: floorDiv(a.n, b.n)}
	}
	return div(a, b)
}

// Mod returns a - b*a.Div(b), which has the sign of b, as Python's % does. It panics if b is the number 0. For a
// symbolic b, it records the guard that b is not 0.
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
	return maxOf(a, b)
}

// Min returns the lesser of a and b.
func (a Int) Min(b Int) Int {
	if a.e == nil && b.e == nil {
		return Int{n: min(a.n, b.n)}
	}
	return minOf(a, b)
}

// Known returns the value and true for a number, and the hint and false for an expression.
func (a Int) Known() (n int, ok bool) { return a.Hint(), a.e == nil }

// KnownOrMinusOne returns sizes as numbers, with -1 for each size that is not known to be a number.
func KnownOrMinusOne(sizes []Int) []int {
	numbers := make([]int, len(sizes))
	for i, size := range sizes {
		number, known := size.Known()
		if !known {
			number = -1
		}
		numbers[i] = number
	}
	return numbers
}

// Hint returns the value at the hints of the symbols. The hint of a number is the number. Hints are for display and
// cost estimates, never for a decision.
func (a Int) Hint() int {
	if a.e != nil {
		return a.e.hint
	}
	return a.n
}

// Specialize returns the hint, and records the guard that the size equals the hint. It is for ops that need a number.
// For a known number it records no guard. A [Fork], which explores both outcomes of conditions, has one case for the
// hint and one case for all other values. The second case fails with [ErrNumber].
func (a Int) Specialize() int {
	number := a.Hint()
	if a.e != nil && !a.Eq(Of(number)).Holds() {
		panic(ErrNumber)
	}
	return number
}

// ErrNumber is the error of a [Fork] case in which [Int.Specialize] is called for a size that differs from its hint.
// Specialize panics with this value, and Fork recovers the panic.
var ErrNumber = errors.New("a size must be a known number")

// Bounds returns a lower and an upper bound of the size. They follow from the bounds of the symbols and from the
// recorded guards. math.MinInt and math.MaxInt mean that there is no bound. The bounds need not be attained.
func (a Int) Bounds() (lo, hi int) {
	if a.e == nil {
		return a.n, a.n
	}
	defer a.e.env.beginQuestion()() // begins the question here, and ends it at the return
	return a.e.env.bounds(a.e)
}

// Simplify returns the expression in a form that is simplified under the recorded guards. For example, "Max(1, N)"
// becomes "N" if N is known to be positive, and a Where with a known condition becomes an operand. The result equals
// the expression only for sizes that satisfy the guards.
func (a Int) Simplify() Int {
	if a.e == nil {
		return a
	}
	defer a.e.env.beginQuestion()()
	return a.e.env.simplify(a.e).int()
}

// Same reports whether a and b are the same number or the same expression, and therefore equal for all sizes. Different
// expressions may also be equal for all sizes; see [Int.Eq].
func (a Int) Same(b Int) bool {
	return a.e == b.e && (a.e != nil || a.n == b.n)
}

// Size returns the number of symbols and numbers in the printed form. Evaluation takes time proportional to the number
// of distinct parts, which may be far smaller than Size, because expressions share parts.
func (a Int) Size() int {
	if a.e == nil {
		return 1
	}
	return a.e.size
}

// At returns the value for the given values of symbols. It fails if a symbol has no value, on a division by zero, or if
// the value overflows an int. Intermediate results may overflow.
func (a Int) At(b Binding) (int, error) {
	if a.e == nil {
		return a.n, nil
	}
	number, err := (&valuation{binding: b}).value(a.e)
	if err != nil {
		return 0, fmt.Errorf("sym: %v: %w", a, err)
	}
	return number, nil
}

// String returns the number or the expression, in Python's syntax: "5*Max(1, x)".
func (a Int) String() string {
	if a.e == nil {
		return strconv.Itoa(a.n)
	}
	return a.e.String()
}

// floorDiv returns the floor of a / b. It panics if b is 0.
func floorDiv(a, b int) int {
	if b == 0 {
		panic(zeroDivision)
	}
	quotient := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		quotient--
	}
	return quotient
}
