package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The ops of this file are functions of torch.special that are composed of elementary functions.
var (
	Sinc = elementwise(kit.NoAttrs, "sinc", "Returns sin(pi x) / (pi x) of each element, 1 at 0.", unaryParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: unaryFloat, Body: bodyByDType("sinc", mergeKernels(
			kernelsOf(formula("p = pi * float64(x); type_as(where(x == 0, 1, sin(p) / p), x)", "x"), floats),
			kernelsOf(formula("p = pi * complex128(x); type_as(where(x == 0, 1, sin(p) / p), x)", "x"), complexes)))},
		kit.IgnoringCall(kit.ByDTypeKind(nil, func(x []float64) float64 {
			if x[0] == 0 {
				return 1
			}
			return math.Sin(math.Pi*x[0]) / (math.Pi * x[0])
		}, func(z []complex128) complex128 {
			if z[0] == 0 {
				return 1
			}
			p := complex(math.Pi*real(z[0]), math.Pi*imag(z[0]))
			return kit.DivComplex(complexSin(p), p)
		})), kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
	Entr = formulaOp("special_entr", "entr_cpu", "Returns -x log(x) of each element: 0 at 0, and -infinity below 0.",
		"where(x != x, x, where(x > 0, -x * log(x), where(x == 0, 0, -inf)))", unaryFloat, func(x float64) float64 {
			switch {
			case x != x:
				return x
			case x > 0:
				return -x * logWithSubnormals(x)
			case x == 0:
				return 0
			}
			return math.Inf(-1)
		}, nil, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
	SphericalBesselJ0 = formulaOp("special_spherical_bessel_j0", "spherical_bessel_j0_cpu",
		"Returns sin(x) / x of each element, 1 at 0 and 0 at infinity.",
		"where(isinf(x), 0, where(x == 0, 1, sin(x) / x))", unaryFloat, func(x float64) float64 {
			switch {
			case math.IsInf(x, 0):
				return 0
			case x == 0:
				return 1
			}
			return math.Sin(x) / x
		}, nil, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
	Xlog1py = elementwise(kit.NoAttrs, "special_xlog1py",
		"Multiplies self by the logarithm of 1 + `other`; a self of 0 gives 0 unless `other` is NaN.", numberParams,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: binaryFloat, Body: bodyByDType("xlog1py",
			kernelsOf(formula("where(y != y, y, where(x == 0, 0, x * log1p(y)))", "x", "y"), floats))},
		floatRef2(func(x, y float64) float64 {
			switch {
			case y != y:
				return y
			case x == 0:
				return 0
			}
			return x * math.Log1p(y)
		}), kit.BinaryExample, kit.IntegersExample)
)
