package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The greater and the lesser of two: maximum and minimum hand a NaN on, fmax and fmin
// take the other operand, and of two zeros self.
var (
	Maximum = extremum("maximum", "Takes the greater of self and other. A NaN in either makes the result NaN.",
		greater,
		greatest[int64], greatest[uint64], greatest[float64])
	Minimum = extremum("minimum", "Takes the lesser of self and other. A NaN in either makes the result NaN.",
		lesser,
		least[int64], least[uint64], least[float64])
	Fmax = extremum("fmax", "Takes the greater of self and other. Of a number and a NaN it is the number.",
		join(greater, stated(formula("where(y > x or x != x, y, x)"), floats)),
		greatest[int64], greatest[uint64], func(a, b float64) float64 {
			if b > a || a != a {
				return b
			}
			return a
		})
	Fmin = extremum("fmin", "Takes the lesser of self and other. Of a number and a NaN it is the number.",
		join(lesser, stated(formula("where(y < x or x != x, y, x)"), floats)),
		least[int64], least[uint64], func(a, b float64) float64 {
			if b < a || a != a {
				return b
			}
			return a
		})
)

func extremum(name, doc string, t bodies, i func(a, b int64) int64, u func(a, b uint64) uint64,
	f func(a, b float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, binary2, extremumPart(name, t), extremumRef(i, u, f), kit.ExBinary,
		kit.ExIntegers)
}
