package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Abs is the magnitude.
var Abs = kit.Define[kit.None](graph.Op{
	Name:      "abs",
	Doc:       "Takes the magnitude of each element; of complex numbers it is real. Bools are refused.",
	Params:    unary1,
	Pointwise: &magnitude,
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		if !c.Type(0).DType.IsComplex() {
			return magnitude.Infer(c)
		}
		return kit.LaidBy(&magnitude, preserved)(c) // unary_op_impl_with_complex_to_float
	},
	Ref: kit.PointwiseRef(&magnitude, kit.Always(func(d tensor.DType, x []tensor.Scalar) tensor.Scalar {
		switch {
		case d.IsComplex():
			return tensor.FloatScalar(cmplx.Abs(x[0].Complex()))
		case d.IsFloat():
			return tensor.FloatScalar(math.Abs(x[0].Float()))
		}
		return tensor.IntScalar(max(x[0].Int(), -x[0].Int()))
	})),
	Examples: []graph.Example{kit.ExUnary, kit.Example(nil, kit.ExInts), kit.Example(nil, kit.ExComplex)},
})

var magnitude = graph.Pointwise{
	Config: func(c *graph.Call, outs []iter.Operand) (iter.Config, error) {
		if d := c.Type(0).DType; d.IsComplex() {
			return unaryTo(d.ToReal())(c, outs)
		}
		return unary(c, outs)
	},
	Body: fixed("abs", join(
		signed1(absSlice, absSlice, absSlice, absSlice), unsigned1(copySlice, copySlice, copySlice, copySlice),
		only(tensor.Float32, iter.Slice1(absFloat32)), only(tensor.Float64, iter.Slice1(absFloat64)),
		only(tensor.Complex64, iter.Map1(func(z complex64) float32 { return float32(cmplx.Abs(complex128(z))) })),
		only(tensor.Complex128, iter.Map1(cmplx.Abs)))),
}

func absSlice[T int8 | int16 | int32 | int64](dst, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], -a[i])
	}
}

func absFloat32(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(a[i]) &^ (1 << 31))
	}
}

func absFloat64(dst, a []float64) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = math.Abs(a[i])
	}
}
