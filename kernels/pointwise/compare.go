package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Comparisons are made in the promoted dtype and yield bool. A NaN is unequal to
// everything and is in no order.
var (
	Eq = comparing("eq", "Tells where self equals other.",
		join(compareReals(eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice, eqSlice),
			compareComplex(eqSlice, eqSlice)),
		boolRef(func(x []int64) bool {
			return x[0] == x[1]
		}, func(x []float64) bool { return x[0] == x[1] }, func(x []complex128) bool { return x[0] == x[1] }))
	Ne = comparing("ne", "Tells where self differs from other.",
		join(compareReals(neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice, neSlice),
			compareComplex(neSlice, neSlice)),
		boolRef(func(x []int64) bool {
			return x[0] != x[1]
		}, func(x []float64) bool { return x[0] != x[1] }, func(x []complex128) bool { return x[0] != x[1] }))
	Lt = comparing("lt", "Tells where self is less than other. Complex numbers have no order.",
		compareReals(ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice, ltSlice),
		boolRef(func(x []int64) bool { return x[0] < x[1] }, func(x []float64) bool { return x[0] < x[1] }, nil))
	Le = comparing("le", "Tells where self is at most other. Complex numbers have no order.",
		compareReals(leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice, leSlice),
		boolRef(func(x []int64) bool { return x[0] <= x[1] }, func(x []float64) bool { return x[0] <= x[1] }, nil))
	Gt = comparing("gt", "Tells where self is greater than other. Complex numbers have no order.",
		compareReals(gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice, gtSlice),
		boolRef(func(x []int64) bool { return x[0] > x[1] }, func(x []float64) bool { return x[0] > x[1] }, nil))
	Ge = comparing("ge", "Tells where self is at least other. Complex numbers have no order.",
		compareReals(geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice, geSlice),
		boolRef(func(x []int64) bool { return x[0] >= x[1] }, func(x []float64) bool { return x[0] >= x[1] }, nil))
)

func comparing(name, doc string, t bodies, ref kit.ScalarFunc) *graph.Op {
	return elementwise[kit.None](name, doc, numbers2, &graph.Pointwise{Config: comparison, Body: fixed(name, t)},
		kit.Always(ref), kit.ExBinary, kit.ExIntegers)
}

func eqSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

func neSlice[T number](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}

func ltSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func leSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func gtSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] > b[i]
	}
}

func geSlice[T ordered](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] >= b[i]
	}
}
