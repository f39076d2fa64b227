package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Comparisons are made in the promoted dtype and yield bool. A NaN is unequal to
// everything and is in no order.
var (
	Eq = comparing("eq", "Tells where self equals other.",
		"x == y", complexes,
		boolRef(func(x []int64) bool {
			return x[0] == x[1]
		}, func(x []float64) bool { return x[0] == x[1] }, func(x []complex128) bool { return x[0] == x[1] }))
	Ne = comparing("ne", "Tells where self differs from other.",
		"x != y", complexes,
		boolRef(func(x []int64) bool {
			return x[0] != x[1]
		}, func(x []float64) bool { return x[0] != x[1] }, func(x []complex128) bool { return x[0] != x[1] }))
	Lt = comparing("lt", "Tells where self is less than other. Complex numbers have no order.",
		"x < y", nil,
		boolRef(func(x []int64) bool { return x[0] < x[1] }, func(x []float64) bool { return x[0] < x[1] }, nil))
	Le = comparing("le", "Tells where self is at most other. Complex numbers have no order.",
		"x <= y", nil,
		boolRef(func(x []int64) bool { return x[0] <= x[1] }, func(x []float64) bool { return x[0] <= x[1] }, nil))
	Gt = comparing("gt", "Tells where self is greater than other. Complex numbers have no order.",
		"x > y", nil,
		boolRef(func(x []int64) bool { return x[0] > x[1] }, func(x []float64) bool { return x[0] > x[1] }, nil))
	Ge = comparing("ge", "Tells where self is at least other. Complex numbers have no order.",
		"x >= y", nil,
		boolRef(func(x []int64) bool { return x[0] >= x[1] }, func(x []float64) bool { return x[0] >= x[1] }, nil))
)

func comparing(name, doc, text string, more []tensor.DType, ref kit.ScalarFunc) *graph.Op {
	return elementwise[kit.None](name, doc, numbers2, &graph.Pointwise{Config: comparison,
		Body: fixed(name, statedAs(formula(text), toBool, boolean, integers, floats, more))},
		kit.Always(ref), kit.ExBinary, kit.ExIntegers)
}
