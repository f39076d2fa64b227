package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

func extremumPart(name string, t bodies) *graph.Pointwise {
	return &graph.Pointwise{Config: realOnly(binary, name+" not implemented for complex tensors."), Body: fixed(name, t)}
}

func extremumRef(i func(a, b int64) int64, f func(a, b float64) float64) func(*graph.Call) kit.ScalarFunc {
	return kit.Always(kit.ByKind(
		func(x []int64) int64 { return i(x[0], x[1]) },
		func(x []float64) float64 { return f(x[0], x[1]) }, nil))
}

var (
	maxBodies = boolAsByte(join(
		signed2(maxSlice, maxSlice, maxSlice, maxSlice), unsigned2(maxSlice, maxSlice, maxSlice, maxSlice),
		floats2(maxSlice, maxSlice)))
	minBodies = boolAsByte(join(
		signed2(minSlice, minSlice, minSlice, minSlice), unsigned2(minSlice, minSlice, minSlice, minSlice),
		floats2(minSlice, minSlice)))
)

func maxSlice[T ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minSlice[T ordered](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}
