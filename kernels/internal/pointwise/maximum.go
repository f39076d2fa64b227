package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The greater and the lesser of two numbers: maximum and minimum propagate NaN; fmax and fmin ignore it. Of two zeros,
// fmax and fmin return self.
var (
	Maximum = extremum("maximum", "Returns the greater of self and other. NaN propagates.",
		greater,
		greatest[int64], greatest[uint64], greatest[float64])
	Minimum = extremum("minimum", "Returns the lesser of self and other. NaN propagates.",
		lesser,
		least[int64], least[uint64], least[float64])
	Fmax = extremum("fmax", "Returns the greater of self and other. NaN is ignored if the other is a number.",
		join(greater, bodiesOf(formula("where(y > x or x != x, y, x)"), floats)),
		greatest[int64], greatest[uint64], func(a, b float64) float64 {
			if b > a || a != a {
				return b
			}
			return a
		})
	Fmin = extremum("fmin", "Returns the lesser of self and other. NaN is ignored if the other is a number.",
		join(lesser, bodiesOf(formula("where(y < x or x != x, y, x)"), floats)),
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
