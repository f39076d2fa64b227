package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rounding to whole numbers. Integers are copied; bools are refused.
var (
	Floor = rounding("floor", "Rounds each element down to a whole number.", math.Floor)
	Ceil  = rounding("ceil", "Rounds each element up to a whole number.", math.Ceil)
	Trunc = rounding("trunc", "Rounds each element toward 0 to a whole number.", math.Trunc)
)

func rounding(name, doc string, f func(float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unary1,
		&graph.Pointwise{Config: realOnly(unary, name+" is not supported for complex inputs"),
			Body: labelled(name+"_vml_cpu", join(unchanged, stated(formula(name+"(x)"), floats)))},
		kit.Always(kit.ByKind(func(x []int64) int64 { return x[0] }, func(x []float64) float64 { return f(x[0]) }, nil)),
		kit.ExUnary, kit.Example(nil, kit.ExInts))
}

type roundAttrs struct {
	Decimals int `attr:"decimals" default:"0" range:"int64" doc:"decimal places to keep; negative ones round to tens, hundreds and so on"`
}

// Round rounds to the nearest, ties to even.
var Round = elementwise(graph.SchemaOf[roundAttrs](), "round",
	"Rounds each element to the nearest whole number, or to decimals "+
		"places; of two at the same distance it takes the even one.", unary1,
	&graph.Pointwise{Config: roundConfig, Body: roundBody},
	func(c *graph.Call) kit.ScalarFunc {
		n := kit.Attrs[roundAttrs](c).Decimals
		return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
			switch {
			case d.IsIntegral(false):
				return x[0]
			case c.Type(0).DType.IsReducedFloat():
				return tensor.FloatScalar(float64(roundScaled(n, float32(x[0].Float()), roundingTo(c.Type(0).DType))))
			case d == tensor.Float32:
				exact := func(x float32) float32 { return x }
				return tensor.FloatScalar(float64(roundScaled(n, float32(x[0].Float()), exact)))
			}
			scale := math.Pow10(n)
			if n < 0 {
				scale = math.Pow10(-n)
				return tensor.FloatScalar(math.RoundToEven(x[0].Float()/scale) * scale)
			}
			return tensor.FloatScalar(math.RoundToEven(x[0].Float()*scale) / scale)
		}
	},
	kit.ExUnary, kit.Example(nil, kit.ExInts), kit.Example(graph.Attrs{"decimals": 2}, kit.ExTurned),
	kit.Example(graph.Attrs{"decimals": -1}, kit.ExTurned))

// unchanged are integers that are whole already.
var unchanged = stated(formula("x"), integers)

// roundConfig leaves 16-bit floats that are scaled to the formula: PyTorch rounds the scaled numbers to their dtype.
func roundConfig(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
	cfg, err := unary(c, outs)
	return cfg.OpMath(kit.Attrs[roundAttrs](c).Decimals == 0), err
}

var (
	whole = join(unchanged, stated(formula("rint(x)"), floats))
	// Scaled in the dtype itself, as native::round_decimals does.
	decimals = attributed("round_cpu", formula("u = type_as(up, x); rint(type_as(x * u, x)) / u", "x"),
		func(c *graph.Call) numbers {
			return numbers{"up": tensor.FloatScalar(math.Pow10(kit.Attrs[roundAttrs](c).Decimals))}
		}, floats, reduced)
	tens = attributed("round_cpu", formula("d = type_as(down, x); rint(type_as(x / d, x)) * d", "x"),
		func(c *graph.Call) numbers {
			return numbers{"down": tensor.FloatScalar(math.Pow10(-kit.Attrs[roundAttrs](c).Decimals))}
		}, floats, reduced)
)

func roundBody(c *graph.Call, it *rule.Rule) (rule.Kernel, error) {
	switch n := kit.Attrs[roundAttrs](c).Decimals; {
	case n > 0:
		return decimals(c, it)
	case n < 0:
		return tens(c, it)
	}
	return whole.pickLabel("round_vml_cpu", it)
}

// Frac is self minus trunc(self).
var Frac = elementwise(kit.NoAttrs, "frac", "Takes the part of each element behind the point, with its sign. Supports "+
	"floats only.", unary1,
	&graph.Pointwise{Config: unary, Body: fixed("frac", stated(formula("x - trunc(x)"), floats))},
	floatRef(func(x float64) float64 { return x - math.Trunc(x) }), kit.ExUnary)

// roundScaled rounds a scaled number, which PyTorch brings to its dtype first.
func roundScaled(decimals int, x float32, round func(float32) float32) float32 {
	up, down := round(float32(math.Pow10(max(decimals, 0)))), float32(1)
	if decimals < 0 {
		down = round(float32(math.Pow10(-decimals)))
	}
	return float32(math.RoundToEven(float64(round(x/down*up)))) / up * down
}
