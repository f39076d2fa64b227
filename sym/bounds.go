package sym

import (
	"math"
	"math/bits"
)

// Bounds are saturated: math.MinInt and math.MaxInt stand for what has none, and what passes
// them.

func satAdd(a, b int) int {
	switch s := a + b; {
	case a == math.MinInt || b == math.MinInt:
		return math.MinInt
	case a == math.MaxInt || b == math.MaxInt:
		return math.MaxInt
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt
	default:
		return s
	}
}

// satMul takes 0 times anything unbounded as 0.
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

func magnitude(a int) uint64 {
	if a < 0 {
		return uint64(-(a + 1)) + 1
	}
	return uint64(a)
}

func satMagnitude(a int) int { return int(min(magnitude(a), math.MaxInt)) }

// mulRange returns the bounds of products of what is within [a, b] and [c, d].
func mulRange(a, b, c, d int) (lo, hi int) {
	w, x, y, z := satMul(a, c), satMul(a, d), satMul(b, c), satMul(b, d)
	return min(w, x, y, z), max(w, x, y, z)
}

// divRange returns the bounds of floors of quotients; only positive divisors are looked at closely.
func divRange(a, b, c, d int) (lo, hi int) {
	if c <= 0 {
		return math.MinInt, math.MaxInt
	}
	quotient := func(x, y int) int {
		if x == math.MinInt || x == math.MaxInt {
			return x
		}
		return floorDiv(x, y)
	}
	return min(quotient(a, c), quotient(a, d)), max(quotient(b, c), quotient(b, d))
}
