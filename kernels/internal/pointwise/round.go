package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Floor, Ceil and Trunc round to integers. They copy elements of integer dtypes and do not support bools.
var (
	Floor = roundingOp("floor", "Rounds each element down to an integer.", math.Floor)
	Ceil  = roundingOp("ceil", "Rounds each element up to an integer.", math.Ceil)
	Trunc = roundingOp("trunc", "Rounds each element toward 0 to an integer.", math.Trunc)
)

// roundingOp defines an op that rounds to integers. name is also the function of the expression language.
func roundingOp(name, doc string, reference func(float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unaryParams,
		&graph.Pointwise{Config: rejectComplex(unary, name+" is not supported for complex inputs"),
			Body: namedBody(name+"_vml_cpu", mergeKernels(integerCopyKernels, kernelsOf(formula(name+"(x)"), floats)))},
		kit.IgnoringCall(kit.ByDTypeKind(func(x []int64) int64 { return x[0] },
			func(x []float64) float64 { return reference(x[0]) }, nil)),
		kit.UnaryExample, kit.Example(nil, kit.IntMatrix))
}

type roundAttrs struct {
	Decimals int `attr:"decimals" default:"0" range:"int64" doc:"number of decimal places; negative numbers round to tens, hundreds and so on"`
}

// Round rounds to the nearest integer or decimal fraction. Halves are rounded to even.
var Round = elementwise(graph.SchemaOf[*roundAttrs](), "round",
	"Rounds each element to the nearest integer, or to `decimals` places; halves are rounded to even.", unaryParams,
	&graph.Pointwise{Config: roundConfig, Body: roundBody},
	func(c *graph.Call) kit.ScalarFunc {
		decimals := kit.Attrs[*roundAttrs](c).Decimals
		return func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			switch {
			case dtype.IsIntegral(false):
				return x[0]
			case c.Type(0).DType.IsReducedFloat():
				return tensor.FloatScalar(float64(roundScaled(decimals, float32(x[0].Float()), roundTo16Bits(c.Type(0).DType))))
			case dtype == tensor.Float32:
				exact := func(x float32) float32 { return x } // float32 arithmetic has rounded x
				return tensor.FloatScalar(float64(roundScaled(decimals, float32(x[0].Float()), exact)))
			}
			scale := math.Pow10(decimals)
			if decimals < 0 {
				scale = math.Pow10(-decimals)
				return tensor.FloatScalar(math.RoundToEven(x[0].Float()/scale) * scale)
			}
			return tensor.FloatScalar(math.RoundToEven(x[0].Float()*scale) / scale)
		}
	},
	kit.UnaryExample, kit.Example(nil, kit.IntMatrix), kit.Example(graph.Attrs{"decimals": 2}, kit.TransposedMatrix),
	kit.Example(graph.Attrs{"decimals": -1}, kit.TransposedMatrix))

// roundScaled rounds x to the given number of decimal places. As in PyTorch, the scale and the scaled number are first
// rounded to the dtype of the op by the function round. At least one of scaleUp and scaleDown is 1.
func roundScaled(decimals int, x float32, round func(float32) float32) float32 {
	scaleUp, scaleDown := round(float32(math.Pow10(max(decimals, 0)))), float32(1)
	if decimals < 0 {
		scaleDown = round(float32(math.Pow10(-decimals)))
	}
	return float32(math.RoundToEven(float64(round(x/scaleDown*scaleUp)))) / scaleUp * scaleDown
}

// roundConfig is the config unary if decimals is 0. Otherwise it does not convert 16-bit floats to float32, because
// PyTorch rounds the scaled numbers to the 16-bit dtype.
func roundConfig(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	cfg, err := unary(c, outs)
	return cfg.OpMath(kit.Attrs[*roundAttrs](c).Decimals == 0), err
}

// roundBody returns the kernel for the sign of decimals.
func roundBody(c *graph.Call, iteration *rule.Rule) (rule.Kernel, error) {
	switch decimals := kit.Attrs[*roundAttrs](c).Decimals; {
	case decimals > 0:
		return roundToDecimals(c, iteration)
	case decimals < 0:
		return roundToTens(c, iteration)
	}
	return roundKernels.kernelNamed("round_vml_cpu", iteration)
}

var (
	roundKernels = mergeKernels(integerCopyKernels, kernelsOf(formula("rint(x)"), floats))
	// As in native::round_decimals, the scaled number is rounded to the dtype of x.
	roundToDecimals = attrBody("round_cpu", formula("u = type_as(up, x); rint(type_as(x * u, x)) / u", "x"),
		func(c *graph.Call) numbers {
			return numbers{"up": tensor.FloatScalar(math.Pow10(kit.Attrs[*roundAttrs](c).Decimals))}
		}, floats, halfFloats)
	roundToTens = attrBody("round_cpu", formula("d = type_as(down, x); rint(type_as(x / d, x)) * d", "x"),
		func(c *graph.Call) numbers {
			return numbers{"down": tensor.FloatScalar(math.Pow10(-kit.Attrs[*roundAttrs](c).Decimals))}
		}, floats, halfFloats)
)

// integerCopyKernels are the kernels for integers: copies.
var integerCopyKernels = kernelsOf(formula("x"), integers)

// Frac is self minus trunc(self).
var Frac = elementwise(kit.NoAttrs, "frac", "Returns the fractional part of each element, with its sign. Supports "+
	"floats only.", unaryParams,
	&graph.Pointwise{Config: unary, Body: bodyByDType("frac", kernelsOf(formula("x - trunc(x)"), floats))},
	floatRef(func(x float64) float64 { return x - math.Trunc(x) }), kit.UnaryExample)
