package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// plain makes the argument of curve for an op without attributes.
func plain(f func(float64) float64) func(*kit.None) func(float64) float64 {
	return func(*kit.None) func(float64) float64 { return f }
}

func plain32(f func(dst, a []float32)) func(*kit.None) func(dst, a []float32) {
	return func(*kit.None) func(dst, a []float32) { return f }
}

func plain64(f func(dst, a []float64)) func(*kit.None) func(dst, a []float64) {
	return func(*kit.None) func(dst, a []float64) { return f }
}

// Sigmoid is 1 / (1 + e^-self).
var Sigmoid = transcendental("sigmoid", "sigmoid_cpu", "Takes 1 divided by 1 plus e to the power of minus "+
	"each element.", kit.Sigmoid,
	func(z complex128) complex128 { return 1 / (1 + cmplx.Exp(-z)) })

// Silu is self times its sigmoid.
var Silu = elementwise[kit.None]("silu", "Multiplies each element by its sigmoid. Supports floats and complex numbers.",
	unary1,
	&graph.Pointwise{Grain: machine.FunctionGrain, Config: unary, Body: fixed("silu", mathBodies(silu, siluComplex))},
	kit.Always(kit.ByKind(nil,
		func(x []float64) float64 { return silu(x[0]) },
		func(x []complex128) complex128 { return siluComplex(x[0]) })),
	kit.ExUnary, kit.Example(nil, kit.ExComplex))

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func siluComplex(z complex128) complex128 { return z / (1 + cmplx.Exp(-z)) }

// Activations without attributes, or with few.
var (
	Mish = curve("mish", "mish_cpu", "Multiplies each element by the hyperbolic tangent of its softplus. Supports "+
		"floats only.",
		plain(func(x float64) float64 { return x * math.Tanh(kit.Softplus(x, 1, 20)) }), kit.ExUnary)
	Softplus = curve("softplus", "softplus_cpu", "Takes log(1 + exp(beta * x)) / beta of each element, or the element "+
		"itself where beta times it is above threshold. Supports floats only.",
		func(a *softplusAttrs) func(float64) float64 {
			return func(x float64) float64 { return kit.Softplus(x, a.Beta, a.Threshold) }
		}, kit.ExUnary, kit.Example(graph.Attrs{"beta": 2, "threshold": 1}, kit.ExTurned))
	Gelu = curve("gelu", "GeluKernelImpl", "Multiplies each element by the normal distribution function of it, or by "+
		"its approximation with a hyperbolic tangent. Supports floats only.",
		func(a *geluAttrs) func(float64) float64 {
			if a.Approximate == "tanh" {
				return geluTanh
			}
			return gelu
		}, kit.ExUnary, kit.Example(graph.Attrs{"approximate": "tanh"}, kit.ExTurned))
	Hardswish = activation("hardswish", "hardswish_cpu", "Multiplies each element by its hardsigmoid. Supports "+
		"floats only.",
		plain32(hardswishSlice), plain64(hardswishSlice),
		plain(func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }), kit.ExUnary)
	Hardsigmoid = activation("hardsigmoid", "hardsigmoid_cpu", "Takes a sixth of each element plus a half, bounded by 0 "+
		"and 1. Supports floats only.",
		plain32(hardsigmoidSlice), plain64(hardsigmoidSlice),
		plain(func(x float64) float64 { return min(max(x+3, 0), 6) / 6 }), kit.ExUnary)
)

type softplusAttrs struct {
	Beta      float64 `attr:"beta" default:"1" doc:"steepness"`
	Threshold float64 `attr:"threshold" default:"20" doc:"where the curve is taken for a line"`
}

type geluAttrs struct {
	Approximate string `attr:"approximate" default:"none" oneof:"none|tanh" doc:"how the distribution function is computed"`
}

func gelu(x float64) float64 { return 0.5 * x * (1 + math.Erf(x*math.Sqrt2/2)) }

func geluTanh(x float64) float64 {
	const k = math.Sqrt2 * math.SqrtPi / math.Pi // sqrt(2/pi)
	return 0.5 * x * (1 + math.Tanh(k*(x+0.044715*x*x*x)))
}

func hardswishSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * min(max(a[i]+3, 0), 6) / 6
	}
}

func hardsigmoidSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = min(max(a[i]+3, 0), 6) / 6
	}
}
