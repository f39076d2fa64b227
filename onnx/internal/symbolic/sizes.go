package symbolic

import "github.com/graphrun/graphrun/sym"

// Known returns sizes as numbers. ok is false if a size is symbolic.
func Known(sizes []sym.Int) (numbers []int, ok bool) {
	numbers = make([]int, len(sizes))
	for i, s := range sizes {
		if numbers[i], ok = s.Known(); !ok {
			return nil, false
		}
	}
	return numbers, true
}

// Product returns the number of elements of a shape.
func Product(sizes []sym.Int) sym.Int {
	p := sym.Of(1)
	for _, s := range sizes {
		p = p.Mul(s)
	}
	return p
}

// Positive reports whether a is at least 1 for all sizes of its symbols.
func Positive(a sym.Int) bool { lower, _ := a.Bounds(); return lower >= 1 }

// NotNegative reports whether a is at least 0 for all sizes of its symbols.
func NotNegative(a sym.Int) bool { lower, _ := a.Bounds(); return lower >= 0 }

// IsMinusOne reports whether s is -1, which stands for the size that reshape computes from the other sizes.
func IsMinusOne(s sym.Int) bool { return s.Same(sym.Of(-1)) }
