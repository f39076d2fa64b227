package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The greater and the lesser of two: maximum and minimum hand a NaN on, fmax and fmin
// take the other operand.
var (
	Maximum = extremum("maximum", "Takes the greater of self and other. A NaN in either makes the result NaN.", maxBodies,
		func(a, b int64) int64 { return max(a, b) }, math.Max)
	Minimum = extremum("minimum", "Takes the lesser of self and other. A NaN in either makes the result NaN.", minBodies,
		func(a, b int64) int64 { return min(a, b) }, math.Min)
	Fmax = extremum("fmax", "Takes the greater of self and other. Of a number and a NaN it is the number.",
		join(maxBodies, floats2(fmaxSlice, fmaxSlice)),
		func(a, b int64) int64 { return max(a, b) }, numberFirst(math.Max))
	Fmin = extremum("fmin", "Takes the lesser of self and other. Of a number and a NaN it is the number.",
		join(minBodies, floats2(fminSlice, fminSlice)),
		func(a, b int64) int64 { return min(a, b) }, numberFirst(math.Min))
)

func extremum(name, doc string, t bodies, i func(a, b int64) int64, f func(a, b float64) float64) *graph.Op {
	return elementwise[kit.None](name, doc, binary2, extremumPart(name, t), extremumRef(i, f), kit.ExBinary,
		kit.ExIntegers)
}

// numberFirst makes f take the operand that is a number where the other is not.
func numberFirst(f func(a, b float64) float64) func(a, b float64) float64 {
	return func(a, b float64) float64 {
		switch {
		case a != a:
			return b
		case b != b:
			return a
		}
		return f(a, b)
	}
}

func fmaxSlice[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i], b[i]
		if x > y || y != y {
			y = x
		}
		dst[i] = y
	}
}

func fminSlice[T float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := a[i], b[i]
		if x < y || y != y {
			y = x
		}
		dst[i] = y
	}
}
