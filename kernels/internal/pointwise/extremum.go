package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

func extremumPart(name string, t bodies) *graph.Pointwise {
	return &graph.Pointwise{Config: realOnly(binary, name+" not implemented for complex tensors."), Body: fixed(name, t)}
}

func extremumRef(i func(a, b int64) int64, u func(a, b uint64) uint64,
	f func(a, b float64) float64) func(*graph.Call) kit.ScalarFunc {
	return kit.Always(kit.Unsigned(
		func(x []uint64) uint64 { return u(x[0], x[1]) },
		kit.ByKind(
			func(x []int64) int64 { return i(x[0], x[1]) },
			func(x []float64) float64 { return f(x[0], x[1]) }, nil)))
}

var (
	greater = join(bodiesOf(formula("maximum(x, y)"), integers, floats), bodiesOf(formula("x | y"), boolean))
	lesser  = join(bodiesOf(formula("minimum(x, y)"), integers, floats), bodiesOf(formula("x & y"), boolean))
)

// greatest and least mirror [expr.Max] and [expr.Min]. They return a if a is NaN or strictly greater (lesser) than b,
// else b. Of two zeros they return b.
func greatest[T int64 | uint64 | float64](a, b T) T {
	if a != a || a > b {
		return a
	}
	return b
}

func least[T int64 | uint64 | float64](a, b T) T {
	if a != a || a < b {
		return a
	}
	return b
}
