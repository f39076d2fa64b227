package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file has the parts that maximum, minimum, fmax and fmin share with other ops.

// extremumPointwise returns the computation of an extremum with the given kernels.
func extremumPointwise(name string, kernels kernelTable) *graph.Pointwise {
	return &graph.Pointwise{Config: rejectComplex(binary, name+" not implemented for complex tensors."),
		Body: bodyByDType(name, kernels)}
}

// extremumRef returns the reference of an extremum. ofUints is for uint64, and ofInts for bools and all other integers.
func extremumRef(ofInts func(a, b int64) int64, ofUints func(a, b uint64) uint64,
	ofFloats func(a, b float64) float64) func(*graph.Call) kit.ScalarFunc {
	return kit.IgnoringCall(kit.WithUint64Case(
		func(x []uint64) uint64 { return ofUints(x[0], x[1]) },
		kit.ByDTypeKind(
			func(x []int64) int64 { return ofInts(x[0], x[1]) },
			func(x []float64) float64 { return ofFloats(x[0], x[1]) }, nil)))
}

var (
	maximumKernels = mergeKernels(kernelsOf(formula("maximum(x, y)"), integers, floats), kernelsOf(formula("x | y"),
		bools))
	minimumKernels = mergeKernels(kernelsOf(formula("minimum(x, y)"), integers, floats), kernelsOf(formula("x & y"),
		bools))
)

// maxPropagatingNaN returns a if a is NaN or a > b, else b ([expr.Max]). If both are zeros, the result is b.
func maxPropagatingNaN[T int64 | uint64 | float64](a, b T) T {
	if a != a || a > b {
		return a
	}
	return b
}

// minPropagatingNaN returns a if a is NaN or a < b, else b ([expr.Min]). If both are zeros, the result is b.
func minPropagatingNaN[T int64 | uint64 | float64](a, b T) T {
	if a != a || a < b {
		return a
	}
	return b
}
