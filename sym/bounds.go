package sym

import (
	"math"
	"math/bits"
)

// This file computes the bounds of sums, products and quotients. For x in [1, 8] and y in [-2, 3], for example, x+y is
// in [-1, 11], x*y is in [-16, 24], and y//x is in [-2, 3]. If x has no upper bound, x+y and x*y have no upper bound.
//
// A lower bound of math.MinInt and an upper bound of math.MaxInt mean no bound. Lower bounds are at most maxLower, and
// upper bounds at least minUpper. Otherwise a lower bound of math.MaxInt could equal an upper bound of math.MaxInt,
// which means no bound, and the value would seem known. With these limits, two equal bounds always equal the value. A
// lower bound that overflows an int is rounded down, and an upper bound is rounded up.

const (
	maxLower = math.MaxInt - 1
	minUpper = -maxLower
)

// constantRange returns the bounds of a number.
func constantRange(n int) (lo, hi int) { return min(n, maxLower), max(n, minUpper) }

// addLower returns the lower bound of a sum from the lower bounds of its terms. math.MinInt means no bound. An overflow
// gives a weaker bound: no bound, or maxLower.
func addLower(a, b int) int {
	sum, fits := addFits(a, b)
	switch {
	case a == math.MinInt || b == math.MinInt || !fits && a < 0:
		return math.MinInt
	case !fits:
		return maxLower
	}
	return min(sum, maxLower)
}

// addUpper returns the upper bound of a sum from the upper bounds of its terms: the negated lower bound of the negated
// sum.
func addUpper(a, b int) int { return satNeg(addLower(satNeg(a), satNeg(b))) }

// satNeg negates a bound. The negation of a lower bound is an upper bound, and vice versa.
func satNeg(a int) int {
	switch a {
	case math.MinInt:
		return math.MaxInt
	case math.MaxInt:
		return math.MinInt
	}
	return -a
}

// mulRange returns the bounds of x * y for x in [xLo, xHi] and y in [yLo, yHi].
func mulRange(xLo, xHi, yLo, yHi int) (lo, hi int) {
	a, b, c, d := satMul(xLo, yLo), satMul(xLo, yHi), satMul(xHi, yLo), satMul(xHi, yHi)
	return min(a, b, c, d, maxLower), max(a, b, c, d, minUpper)
}

// divRange returns the bounds of x // y for x in [xLo, xHi] and y in [yLo, yHi]. If y may be 0 or negative, there are
// no bounds.
func divRange(xLo, xHi, yLo, yHi int) (lo, hi int) {
	if yLo <= 0 {
		return math.MinInt, math.MaxInt
	}
	return min(satFloorDiv(xLo, yLo), satFloorDiv(xLo, yHi)), max(satFloorDiv(xHi, yLo), satFloorDiv(xHi, yHi))
}

// satFloorDiv divides a bound by a positive number. math.MinInt and math.MaxInt are infinite bounds.
func satFloorDiv(bound, divisor int) int {
	if bound == math.MinInt || bound == math.MaxInt {
		return bound
	}
	return floorDiv(bound, divisor)
}

// satMul multiplies bounds. math.MinInt and math.MaxInt are infinite bounds and also the results of an overflow. 0
// times an infinite bound is 0.
func satMul(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	negative := (a < 0) != (b < 0)
	switch {
	case hi == 0 && lo <= math.MaxInt && a != math.MinInt && b != math.MinInt && a != math.MaxInt && b != math.MaxInt:
		return a * b
	case negative:
		return math.MinInt
	}
	return math.MaxInt
}

// magnitude returns the absolute value of a.
func magnitude(a int) uint64 {
	if a < 0 {
		return uint64(-(a + 1)) + 1
	}
	return uint64(a)
}

// satMagnitude returns the absolute value of a, or math.MaxInt if that overflows an int.
func satMagnitude(a int) int { return int(min(magnitude(a), math.MaxInt)) }

// satAdd adds hints, sizes or coefficients. math.MinInt and math.MaxInt mark an overflow, in operands and results.
func satAdd(a, b int) int {
	switch sum := a + b; {
	case a == math.MinInt || b == math.MinInt:
		return math.MinInt
	case a == math.MaxInt || b == math.MaxInt:
		return math.MaxInt
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt
	default:
		return sum
	}
}
