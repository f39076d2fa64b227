package sym

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// This file has arithmetic that detects overflows of an int. Operations of [Int] on two known numbers panic if the
// result overflows, and [Catch] recovers the panic. Values of expressions are first computed with ints, by a
// [valuation]. If an intermediate result overflows, a bigValuation computes the value again: for N = 2^62, the value of
// 4*N - 3*N fits an int, but 4*N does not.

// addFits returns a + b, and whether it fits an int.
func addFits(a, b int) (int, bool) {
	// On overflow the sum wraps around: it is then less than a if b > 0, and greater than a if b < 0.
	sum := a + b
	return sum, (sum > a) == (b > 0)
}

// subFits returns a - b, and whether it fits an int.
func subFits(a, b int) (int, bool) {
	difference := a - b
	return difference, (difference < a) == (b > 0)
}

// mulFits returns a * b, and whether it fits an int.
func mulFits(a, b int) (int, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	limit := uint64(math.MaxInt) // the greatest magnitude; 1 more for a negative product
	if (a < 0) != (b < 0) {
		limit++
	}
	return a * b, high == 0 && low <= limit
}

// overflowPanic is the panic value of an operation on two numbers that overflows an int.
type overflowPanic struct{ text string }

// overflow returns the panic value for the operation a op b.
func overflow(op string, a, b int) *overflowPanic {
	return &overflowPanic{fmt.Sprintf("%d %s %d does not fit %d bits", a, op, b, strconv.IntSize)}
}

// Error returns the text that Go prints if nothing recovers the panic.
func (p *overflowPanic) Error() string { return "sym: " + p.text }

// Catch recovers the panic of an operation on two numbers that overflows an int, and of a division by zero, and sets
// err to an error that names the operation. Other panics continue. Use it as defer Catch(&err).
func Catch(err *error) {
	recovered := recover()
	overflow, overflows := recovered.(*overflowPanic)
	switch {
	case recovered == nil:
	case overflows:
		*err = errors.New(overflow.text)
	case recovered == any(zeroDivision):
		*err = errDivisionByZero
	default:
		panic(recovered)
	}
}

// checkedArithmetic computes with ints. It sets overflowed if a result overflows.
type checkedArithmetic struct{ overflowed bool }

// sum returns a + b.
func (x *checkedArithmetic) sum(a, b int) int {
	result, fits := addFits(a, b)
	x.overflowed = x.overflowed || !fits
	return result
}

// product returns a * b.
func (x *checkedArithmetic) product(a, b int) int {
	result, fits := mulFits(a, b)
	x.overflowed = x.overflowed || !fits
	return result
}

// overflowError returns the error for a value that overflows an int.
func overflowError(n *big.Int) error {
	return fmt.Errorf("%v does not fit %d bits", n, strconv.IntSize)
}

// bigValuation is [valuation] in big integers, for expressions whose intermediate results overflow an int.
type bigValuation struct {
	binding Binding
	memo    map[*atom]*big.Int
}

// expr returns the value of an expression.
func (w *bigValuation) expr(e *expr) (*big.Int, error) {
	sum := big.NewInt(int64(e.constant))
	for _, t := range e.terms {
		product := big.NewInt(int64(t.coeff))
		for _, a := range t.atoms {
			factor, err := w.atom(a)
			if err != nil {
				return nil, err
			}
			if product.Mul(product, factor); product.BitLen() > maxBits {
				return nil, errTooManyBits
			}
		}
		sum.Add(sum, product)
	}
	return sum, nil
}

// maxBits bounds the bits of intermediate results, and thereby the time and memory of an evaluation.
const maxBits = 1 << 16

// errTooManyBits is the error for an intermediate result of more than maxBits bits.
var errTooManyBits = fmt.Errorf("more than %d bits", maxBits)

// atom returns the value of an atom.
func (w *bigValuation) atom(a *atom) (*big.Int, error) {
	if a.kind == kindSymbol {
		value, ok := w.binding[a.name]
		if !ok {
			return nil, fmt.Errorf("symbol %s has no value", a.name)
		}
		return big.NewInt(int64(value)), nil
	}
	if value, ok := w.memo[a]; ok {
		return value, nil
	}
	value, err := w.function(a)
	if err == nil && a.size > maxUnmemoizedSize {
		if w.memo == nil {
			w.memo = map[*atom]*big.Int{}
		}
		w.memo[a] = value
	}
	return value, err
}

// function computes an atom other than a symbol.
func (w *bigValuation) function(a *atom) (*big.Int, error) {
	if a.kind == kindWhere {
		holds, err := (&valuation{binding: w.binding}).cond(a.cond) // computes with big integers if an int overflows
		if err != nil {
			return nil, err
		} else if holds {
			return w.expr(a.args[0])
		}
		return w.expr(a.args[1])
	}
	result, err := w.expr(a.args[0])
	if err != nil {
		return nil, err
	}
	for _, arg := range a.args[1:] {
		operand, err := w.expr(arg)
		if err != nil {
			return nil, err
		}
		if result, err = bigFunction(a.kind, result, operand); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// bigFunction computes a function of two operands.
func bigFunction(kind kind, x, y *big.Int) (*big.Int, error) {
	switch kind {
	case kindMax:
		if x.Cmp(y) > 0 {
			return x, nil
		}
		return y, nil
	case kindMin:
		if x.Cmp(y) > 0 {
			return y, nil
		}
		return x, nil
	case kindUnexpandedSum:
		return new(big.Int).Add(x, y), nil
	case kindUnexpandedProduct:
		product := new(big.Int).Mul(x, y)
		if product.BitLen() > maxBits {
			return nil, errTooManyBits
		}
		return product, nil
	}
	// The remaining kinds are divisions: kindDiv and kindMod.
	if y.Sign() == 0 {
		return nil, errDivisionByZero
	}
	return bigFloorDiv(kind == kindMod, x, y), nil
}

// bigFloorDiv returns a // b. If wantsRemainder is set, it returns a % b instead.
func bigFloorDiv(wantsRemainder bool, a, b *big.Int) *big.Int {
	quotient, remainder := new(big.Int).QuoRem(a, b, new(big.Int)) // rounds toward 0
	if remainder.Sign() != 0 && (remainder.Sign() < 0) != (b.Sign() < 0) {
		quotient.Sub(quotient, big.NewInt(1))
		remainder.Add(remainder, b)
	}
	if wantsRemainder {
		return remainder
	}
	return quotient
}
