package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The ops of this file are square roots and reciprocals. They compute bools and integers as float32.
var (
	Sqrt = rootOp("sqrt", "sqrt_vml_cpu", "Returns the square root of each element; NaN below 0.",
		"sqrt(x)", math.Sqrt, cmplx.Sqrt)
	Rsqrt = rootOp("rsqrt", "rsqrt_cpu", "Returns 1 divided by the square root of each element; NaN below 0.",
		"1 / sqrt(x)",
		func(x float64) float64 { return 1 / math.Sqrt(x) }, inverseSqrt)
	Reciprocal = rootOp("reciprocal", "reciprocal_cpu", "Returns 1 divided by each element.", "1 / x",
		func(x float64) float64 { return 1 / x }, func(z complex128) complex128 { return 1 / z })
)

// rootOp defines an op of this file. torchKernel is PyTorch's name of the kernel, for errors. ofReal and ofComplex are
// the references for real and complex numbers.
func rootOp(name, torchKernel, doc, formulaText string, ofReal func(float64) float64,
	ofComplex func(complex128) complex128) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unaryParams, &graph.Pointwise{Config: unaryFloat,
		Body: namedBody(torchKernel, kernelsOf(formula(formulaText), floats, complexes))},
		kit.IgnoringCall(kit.ByDTypeKind(nil,
			func(x []float64) float64 { return ofReal(x[0]) },
			func(x []complex128) complex128 { return ofComplex(x[0]) })),
		kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
}

// inverseSqrt is the reference function of rsqrt for complex numbers.
func inverseSqrt(z complex128) complex128 { return 1 / cmplx.Sqrt(z) }
