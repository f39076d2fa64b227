package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Comparisons compute in the promoted dtype and return bool. A NaN is unequal to everything, and all orders with it are
// false.
var (
	Eq = comparing("eq", "Returns whether self equals other.",
		"x == y", complexes,
		boolRef(func(x []int64) bool {
			return x[0] == x[1]
		}, func(x []float64) bool { return x[0] == x[1] }, func(x []complex128) bool { return x[0] == x[1] }))
	Ne = comparing("ne", "Returns whether self differs from other.",
		"x != y", complexes,
		boolRef(func(x []int64) bool {
			return x[0] != x[1]
		}, func(x []float64) bool { return x[0] != x[1] }, func(x []complex128) bool { return x[0] != x[1] }))
	Lt = comparing("lt", "Returns whether self is less than other. Complex numbers have no order.",
		"x < y", nil,
		ordered(func(x []int64) bool { return x[0] < x[1] }, func(x []uint64) bool { return x[0] < x[1] },
			func(x []float64) bool { return x[0] < x[1] }))
	Le = comparing("le", "Returns whether self is at most other. Complex numbers have no order.",
		"x <= y", nil,
		ordered(func(x []int64) bool { return x[0] <= x[1] }, func(x []uint64) bool { return x[0] <= x[1] },
			func(x []float64) bool { return x[0] <= x[1] }))
	Gt = comparing("gt", "Returns whether self is greater than other. Complex numbers have no order.",
		"x > y", nil,
		ordered(func(x []int64) bool { return x[0] > x[1] }, func(x []uint64) bool { return x[0] > x[1] },
			func(x []float64) bool { return x[0] > x[1] }))
	Ge = comparing("ge", "Returns whether self is at least other. Complex numbers have no order.",
		"x >= y", nil,
		ordered(func(x []int64) bool { return x[0] >= x[1] }, func(x []uint64) bool { return x[0] >= x[1] },
			func(x []float64) bool { return x[0] >= x[1] }))
)

func comparing(name, doc, text string, more []tensor.DType, ref kit.ScalarFunc) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, numbers2, &graph.Pointwise{Config: comparison,
		Body: fixed(name, bodiesTo(formula(text), toBool, boolean, integers, floats, more))},
		kit.Always(ref), kit.ExBinary, kit.ExIntegers)
}

// ordered makes a ScalarFunc of an order, from one function per kind of number.
func ordered(i func(x []int64) bool, u func(x []uint64) bool, f func(x []float64) bool) kit.ScalarFunc {
	return kit.Unsigned(func(x []uint64) uint64 { return uint64(boolInt(u(x))) }, boolRef(i, f, nil))
}
