package pointwise

import (
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Rounding to whole numbers. Integers are copied; bools are refused.
var (
	Floor = rounding("floor", "Rounds each element down to a whole number.", floats1(floorSlice, floorSlice), math.Floor)
	Ceil  = rounding("ceil", "Rounds each element up to a whole number.", floats1(ceilSlice, ceilSlice), math.Ceil)
	Trunc = rounding("trunc", "Rounds each element toward 0 to a whole number.", floats1(truncSlice, truncSlice),
		math.Trunc)
)

func rounding(name, doc string, t bodies, f func(float64) float64) *graph.Op {
	return elementwise[kit.None](name, doc, unary1,
		&graph.Pointwise{Config: realOnly(unary, name+" is not supported for complex inputs"),
			Body: labelled(name+"_vml_cpu", join(intCopies, t))},
		kit.Always(kit.ByKind(func(x []int64) int64 { return x[0] }, func(x []float64) float64 { return f(x[0]) }, nil)),
		kit.ExUnary, kit.Example(nil, kit.ExInts))
}

type roundAttrs struct {
	Decimals int `attr:"decimals" default:"0" doc:"decimal places to keep; negative ones round to tens, hundreds and so on"`
}

// Round rounds to the nearest, ties to even.
var Round = elementwise[roundAttrs]("round", "Rounds each element to the nearest whole number, or to decimals "+
	"places; of two at the same distance it takes the even one.", unary1,
	&graph.Pointwise{Config: unary, Body: roundBody},
	func(c *graph.Call) kit.ScalarFunc {
		n := kit.Attrs[roundAttrs](c).Decimals
		return func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
			switch {
			case d.IsIntegral(false):
				return x[0]
			case c.Type(0).DType.IsReducedFloat():
				return tensor.FloatScalar(float64(round16(n, roundingTo(c.Type(0).DType))(float32(x[0].Float()))))
			case d == tensor.Float32:
				out := []float32{0}
				roundSlice[float32](n)(out, []float32{float32(x[0].Float())})
				return tensor.FloatScalar(float64(out[0]))
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

func roundBody(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
	if n := kit.Attrs[roundAttrs](c).Decimals; n != 0 {
		if round := roundingTo(it.CommonDType()); round != nil {
			return iter.Map1(round16(n, round)), nil
		}
		t := floats1(roundSlice[float32](n), roundSlice[float64](n))
		return t.pick("round", it)
	}
	t := join(intCopies, floats1(roundSlice[float32](0), roundSlice[float64](0)))
	return t.pickLabel("round_vml_cpu", it)
}

// Frac is self minus trunc(self).
var Frac = elementwise[kit.None]("frac", "Takes the part of each element behind the point, with its sign. Supports "+
	"floats only.", unary1,
	&graph.Pointwise{Config: unary, Body: fixed("frac", floats1(fracSlice, fracSlice))},
	floatRef(func(x float64) float64 { return x - math.Trunc(x) }), kit.ExUnary)

func floorSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Floor(float64(a[i])))
	}
}

func ceilSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Ceil(float64(a[i])))
	}
}

func truncSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Trunc(float64(a[i])))
	}
}

func fracSlice[T float](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - T(math.Trunc(float64(a[i])))
	}
}

// roundSlice scales in T itself, as native::round_decimals does.
func roundSlice[T float](decimals int) func(dst, a []T) {
	up, down := T(math.Pow10(max(decimals, 0))), T(math.Pow10(max(-decimals, 0)))
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i := range dst {
			dst[i] = T(math.RoundToEven(float64(a[i]/down*up))) / up * down
		}
	}
}

// round16 rounds 16-bit floats, whose scaled numbers PyTorch rounds to their dtype first.
func round16(decimals int, round func(float32) float32) func(float32) float32 {
	up, down := round(float32(math.Pow10(max(decimals, 0)))), round(float32(math.Pow10(max(-decimals, 0))))
	return func(x float32) float32 {
		return float32(math.RoundToEven(float64(round(x/down*up)))) / up * down
	}
}
