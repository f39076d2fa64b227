package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Mul is self * other.
var Mul = elementwise(kit.NoAttrs, "mul",
	"Multiplies self by `other`, with broadcasting. For bools it is the logical and.",
	numberParams,
	&graph.Pointwise{Config: binary, Body: bodyByDType("mul", mulKernels)},
	kit.IgnoringCall(kit.ByDTypeKind(
		func(x []int64) int64 { return x[0] * x[1] },
		func(x []float64) float64 { return x[0] * x[1] },
		func(x []complex128) complex128 { return kit.MulComplex(x[0], x[1]) })),
	kit.BinaryExample, kit.IntegersExample, kit.Example(nil, kit.BoolMatrix, kit.BoolMatrix))

var mulKernels = mergeKernels(kernelsOf(formula("x * y", "x", "y"), signedInts, unsignedInts, floats, complexes),
	kernelsOf(formula("x & y", "x", "y"), bools))
