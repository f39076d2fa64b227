package pointwise

import (
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Sign returns -1, 0 or 1.
var Sign = elementwise(kit.NoAttrs, "sign",
	"Returns -1, 0 or 1 for the sign of each element; 0 for NaN. Complex numbers "+
		"are not supported.", unaryParams,
	&graph.Pointwise{Config: rejectComplex(unary, "Unlike NumPy, torch.sign is not intended to support complex numbers. "+
		"Please use torch.sgn instead."), Body: bodyByDType("sign", signKernels)},
	kit.IgnoringCall(signRef), kit.UnaryExample, kit.Example(nil, kit.IntMatrix), kit.Example(nil, kit.BoolMatrix))

// Sgn returns the sign of a real number, and z / abs(z) for a complex number z.
var Sgn = elementwise(kit.NoAttrs, "sgn",
	"Returns the sign of each element; for complex elements, the number of absolute value "+
		"1 in the same direction.", unaryParams,
	&graph.Pointwise{Config: unary, Body: bodyByDType("sgn", mergeKernels(signKernels,
		kernelsOf(formula("sgn(x)"), complexes)))},
	kit.IgnoringCall(signRef), kit.UnaryExample, kit.Example(nil, kit.ComplexMatrix))

// signKernels has the formulas of real dtypes. The sign of an integer is the integer clamped to [-1, 1].
var signKernels = mergeKernels(
	kernelsOf(formula("minimum(maximum(x, -1), 1)"), signedInts),
	kernelsOf(formula("minimum(x, 1)"), unsignedInts),
	kernelsOf(formula("sign(x)"), floats),
	kernelsOf(formula("x"), bools))

// complexSign returns z / abs(z). abs(z) is first rounded to the dtype of z's parts, as in kernels.
func complexSign(dtype tensor.DType, z complex128) complex128 {
	if z == 0 {
		return 0
	}
	roundPart := roundTo(dtype.ToReal())
	return z / complex(roundPart(cmplx.Abs(z)), 0)
}

// signRef is the reference function of sign and sgn.
func signRef(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
	switch {
	case dtype.IsComplex():
		return tensor.ComplexScalar(complexSign(dtype, x[0].Complex()))
	case x[0].Float() > 0:
		return tensor.IntScalar(1)
	case x[0].Float() < 0:
		return tensor.IntScalar(-1)
	}
	return tensor.IntScalar(0)
}
