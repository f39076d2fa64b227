package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The greater and the lesser of two: maximum and minimum hand a NaN on, fmax and fmin
// take the other operand.
var (
	Maximum = extremum("maximum", "Takes the greater of self and other. A NaN in either makes the result NaN.",
		greater,
		func(a, b int64) int64 { return max(a, b) }, math.Max)
	Minimum = extremum("minimum", "Takes the lesser of self and other. A NaN in either makes the result NaN.",
		lesser,
		func(a, b int64) int64 { return min(a, b) }, math.Min)
	Fmax = extremum("fmax", "Takes the greater of self and other. Of a number and a NaN it is the number.",
		join(greater, stated(formula("where(x > y or y != y, x, y)"), floats)),
		func(a, b int64) int64 { return max(a, b) }, numberFirst(math.Max))
	Fmin = extremum("fmin", "Takes the lesser of self and other. Of a number and a NaN it is the number.",
		join(lesser, stated(formula("where(x < y or y != y, x, y)"), floats)),
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
