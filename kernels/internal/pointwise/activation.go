package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file are defined by their name, PyTorch's name of the kernel, the documentation and the formula.
// formulaOp supports floats and complex numbers, curve only floats. attrCurve is curve for ops with attributes.
// elementwise defines any pointwise op, from its computation and its reference. The config unaryFloat converts
// integers to float32, and unary keeps their dtype. A grain is the number of elements of a chunk of work.

// Sigmoid is 1 / (1 + exp(-self)). Silu is self times sigmoid(self).
var (
	Sigmoid = formulaOp("sigmoid", "sigmoid_cpu", "Returns 1 / (1 + exp(-x)) of each element.",
		"1 / (1 + exp(-x))", unaryFloat, kit.Sigmoid, func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) },
		kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
	Silu = formulaOp("silu", "silu_cpu", "Multiplies each element by its sigmoid. Supports floats and complex numbers.",
		"x / (1 + exp(-x))", unary, func(x float64) float64 { return x / (1 + kit.Exp(-x)) },
		func(z complex128) complex128 { return z / (1 + cmplx.Exp(-z)) }, kit.UnaryExample, kit.Example(nil,
			kit.ComplexMatrix))
)

// Mish, Softplus, Hardswish and Hardsigmoid are activations on floats.
var (
	// With g = exp(x), h = g/2 and n = g + g*h, tanh(softplus(x)) is n / (n + 1). This equals g - g*(n - h)/(n + 1),
	// which is accurate for small g. Above 20 the hyperbolic tangent rounds to 1, and x is clamped so that exp(x) is
	// finite.
	Mish = curve("mish", "mish_cpu", "Multiplies each element by the hyperbolic tangent of its softplus. Supports "+
		"floats only.", "g = exp(minimum(x, 20)); h = g * 0.5; n = g + g * h; small = g < 0.5; "+
		"q = where(small, n - h, n) / (n + 1); x * where(small, g - g * q, q)", machine.FunctionGrain,
		func(x float64) float64 {
			const beta, threshold = 1, 20 // the defaults of softplus
			return x * math.Tanh(kit.Softplus(x, beta, threshold))
		})
	Softplus = attrCurve("softplus", "softplus_cpu", "Returns log(1 + exp(beta * x)) / beta of each element, or the "+
		"element itself if beta * x is above threshold. Supports floats only.",
		"where(x * beta > threshold, x, log1p(exp(x * beta)) / beta)", machine.FunctionGrain,
		func(a *softplusAttrs) numbers {
			return numbers{"beta": tensor.FloatScalar(a.Beta), "threshold": tensor.FloatScalar(a.Threshold)}
		},
		func(a *softplusAttrs) func(float64) float64 {
			return func(x float64) float64 { return kit.Softplus(x, a.Beta, a.Threshold) }
		}, kit.UnaryExample, kit.Example(graph.Attrs{"beta": 2, "threshold": 1}, kit.TransposedMatrix))
	Hardswish = elementwise(kit.NoAttrs, "hardswish", "Multiplies each element by its hardsigmoid. Supports floats only.",
		unaryParams, &graph.Pointwise{Grain: iter.GrainSize, Config: unary,
			Body: namedBody("hardswish_cpu", kernelsOf(formula("x * minimum(maximum(x + 3, 0), 6) / 6", "x"), floats))},
		kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			element := x[0].Float()
			return tensor.FloatScalar(roundTo(dtype)(element*min(max(element+3, 0), 6)) / 6) // the product is rounded too
		}), kit.UnaryExample)
	Hardsigmoid = curve("hardsigmoid", "hardsigmoid_cpu", "Returns x / 6 + 1/2 of each element, clamped to [0, 1]. "+
		"Supports floats only.", "minimum(maximum(x + 3, 0), 6) / 6", iter.GrainSize,
		func(x float64) float64 { return min(max(x+3, 0), 6) / 6 })
)

type softplusAttrs struct {
	Beta      float64 `attr:"beta" default:"1" doc:"factor of the elements in the exponential, and divisor of the result"`
	Threshold float64 `attr:"threshold" default:"20" doc:"value of beta * x above which the function is linear"`
}

type geluAttrs struct {
	Approximate string `attr:"approximate" default:"none" oneof:"none|tanh" doc:"approximation of the normal distribution function"`
}

// Gelu multiplies self by the normal distribution function of self.
var Gelu = elementwise(graph.SchemaOf[*geluAttrs](), "gelu",
	"Multiplies each element x by the probability that a standard normal number is less than x, or by an "+
		"approximation of it with tanh. Supports floats only.", unaryParams,
	&graph.Pointwise{Grain: machine.FunctionGrain, Config: unary,
		Body: func(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
			if kit.Attrs[*geluAttrs](c).Approximate == "tanh" {
				return geluTanhKernels.kernelNamed("GeluKernelImpl", iteration)
			}
			return geluKernels.kernelNamed("GeluKernelImpl", iteration)
		}},
	func(c *graph.Call) kit.ScalarFunc {
		if kit.Attrs[*geluAttrs](c).Approximate == "tanh" {
			return floatRef(geluTanh)(c)
		}
		return floatRef(gelu)(c)
	}, kit.UnaryExample, kit.Example(graph.Attrs{"approximate": "tanh"}, kit.TransposedMatrix))

// The factors are sqrt(1/2) and, in the approximation, sqrt(2/pi).
var (
	geluKernels     = kernelsOf(formula("0.5 * x * (1 + erf(x * 0.7071067811865476))", "x"), floats)
	geluTanhKernels = kernelsOf(
		formula("0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))", "x"), floats)
)

func gelu(x float64) float64 { return 0.5 * x * (1 + math.Erf(x*math.Sqrt2/2)) }

func geluTanh(x float64) float64 {
	const sqrtTwoOverPi = math.Sqrt2 * math.SqrtPi / math.Pi // sqrt(2/pi)
	return 0.5 * x * (1 + math.Tanh(sqrtTwoOverPi*(x+float64(0.044715*x*x*x))))
}
