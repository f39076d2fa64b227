package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Comparisons compute in the promoted dtype and return bool. If an operand is NaN, ne is true and all other comparisons
// are false.
var (
	Eq = comparisonOp("eq", "Returns whether self equals `other`.",
		"x == y", complexes,
		boolRef(func(x []int64) bool { return x[0] == x[1] },
			func(x []float64) bool { return x[0] == x[1] },
			func(x []complex128) bool { return x[0] == x[1] }))
	Ne = comparisonOp("ne", "Returns whether self differs from `other`.",
		"x != y", complexes,
		boolRef(func(x []int64) bool { return x[0] != x[1] },
			func(x []float64) bool { return x[0] != x[1] },
			func(x []complex128) bool { return x[0] != x[1] }))
	Lt = comparisonOp("lt", "Returns whether self is less than `other`. Complex numbers have no order.",
		"x < y", nil,
		orderRef(func(x []int64) bool { return x[0] < x[1] },
			func(x []uint64) bool { return x[0] < x[1] },
			func(x []float64) bool { return x[0] < x[1] }))
	Le = comparisonOp("le", "Returns whether self is at most `other`. Complex numbers have no order.",
		"x <= y", nil,
		orderRef(func(x []int64) bool { return x[0] <= x[1] },
			func(x []uint64) bool { return x[0] <= x[1] },
			func(x []float64) bool { return x[0] <= x[1] }))
	Gt = comparisonOp("gt", "Returns whether self is greater than `other`. Complex numbers have no order.",
		"x > y", nil,
		orderRef(func(x []int64) bool { return x[0] > x[1] },
			func(x []uint64) bool { return x[0] > x[1] },
			func(x []float64) bool { return x[0] > x[1] }))
	Ge = comparisonOp("ge", "Returns whether self is at least `other`. Complex numbers have no order.",
		"x >= y", nil,
		orderRef(func(x []int64) bool { return x[0] >= x[1] },
			func(x []uint64) bool { return x[0] >= x[1] },
			func(x []float64) bool { return x[0] >= x[1] }))
)

// comparisonOp defines a comparison of bools, integers, real floats and moreDTypes. Kernels are compiled from
// formulaText, a formula of the elements x and y. ref is the reference function. Its argument holds the two elements.
func comparisonOp(name, doc, formulaText string, moreDTypes []tensor.DType, ref kit.ScalarFunc) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, numberParams, &graph.Pointwise{Config: comparison,
		Body: bodyByDType(name, kernelsWithResultDType(formula(formulaText), toBool, bools, integers, floats, moreDTypes))},
		kit.IgnoringCall(ref), kit.BinaryExample, kit.IntegersExample)
}

// orderRef returns the ScalarFunc of a comparison by order, such as less than. ofUints is for uint64, and ofInts for
// bools and all other integers.
func orderRef(ofInts func(x []int64) bool, ofUints func(x []uint64) bool,
	ofFloats func(x []float64) bool) kit.ScalarFunc {
	return kit.WithUint64Case(func(x []uint64) uint64 { return uint64(boolInt(ofUints(x))) },
		boolRef(ofInts, ofFloats, nil))
}
