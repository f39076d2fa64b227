package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The ops of this file return the greater or the lesser of two numbers. Maximum and minimum propagate NaN. Fmax and
// fmin ignore NaN. If both numbers are zeros, fmax and fmin return self. The tables maximumKernels and minimumKernels
// have the kernels of maximum and minimum by dtype.
var (
	Maximum = extremumOp("maximum", "Returns the greater of self and `other`. NaN propagates.",
		maximumKernels,
		maxPropagatingNaN[int64], maxPropagatingNaN[uint64], maxPropagatingNaN[float64])
	Minimum = extremumOp("minimum", "Returns the lesser of self and `other`. NaN propagates.",
		minimumKernels,
		minPropagatingNaN[int64], minPropagatingNaN[uint64], minPropagatingNaN[float64])
	Fmax = extremumOp("fmax", "Returns the greater of self and `other`. A NaN is ignored if the other element is a "+
		"number.",
		mergeKernels(maximumKernels, kernelsOf(formula("where(y > x or x != x, y, x)"), floats)),
		maxPropagatingNaN[int64], maxPropagatingNaN[uint64], func(a, b float64) float64 {
			if b > a || a != a {
				return b
			}
			return a
		})
	Fmin = extremumOp("fmin", "Returns the lesser of self and `other`. A NaN is ignored if the other element is a "+
		"number.",
		mergeKernels(minimumKernels, kernelsOf(formula("where(y < x or x != x, y, x)"), floats)),
		minPropagatingNaN[int64], minPropagatingNaN[uint64], func(a, b float64) float64 {
			if b < a || a != a {
				return b
			}
			return a
		})
)

// extremumOp defines an op by its kernels by dtype, and by its references for signed integers, uint64 and floats.
func extremumOp(name, doc string, kernels kernelTable, signed func(a, b int64) int64, unsigned func(a, b uint64) uint64,
	float func(a, b float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, binaryParams, extremumPointwise(name, kernels),
		extremumRef(signed, unsigned, float), kit.BinaryExample, kit.IntegersExample)
}
