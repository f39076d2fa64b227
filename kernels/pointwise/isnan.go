package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Classes of numbers. A complex number is NaN or infinite if a part is, and finite if
// both are; integers are always finite.
var (
	Isnan = classify("isnan", "Tells where self is NaN.", unaryTo(tensor.Bool), nil, false,
		math.IsNaN, func(z complex128) bool { return math.IsNaN(real(z)) || math.IsNaN(imag(z)) })
	Isinf = classify("isinf", "Tells where self is infinite.", unaryTo(tensor.Bool), isinfLayout, false,
		func(x float64) bool { return math.IsInf(x, 0) }, cmplx.IsInf)
	Isfinite = classify("isfinite", "Tells where self is neither infinite nor NaN.", unaryTo(tensor.Bool),
		isfiniteLayout, true,
		isFinite, func(z complex128) bool { return isFinite(real(z)) && isFinite(imag(z)) })
	Isposinf = classify("isposinf", "Tells where self is positive infinity. Complex numbers are refused.",
		realOnly(unaryTo(tensor.Bool), "isposinf does not support complex inputs."), nil, false,
		func(x float64) bool { return math.IsInf(x, 1) }, nil)
	Isneginf = classify("isneginf", "Tells where self is negative infinity. Complex numbers are refused.",
		realOnly(unaryTo(tensor.Bool), "isneginf does not support complex inputs."), nil, false,
		func(x float64) bool { return math.IsInf(x, -1) }, nil)
	Signbit = classify("signbit", "Tells where self is negative, the zero -0 included. Complex numbers are refused.",
		realOnly(unaryTo(tensor.Bool), "signbit is not implemented for complex tensors."), nil, false, math.Signbit, nil)
)

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// classify defines a predicate; ints is its answer for every integer, but that of signbit
// depends on the sign.
func classify(name, doc string, cfg config, layout func(*graph.Call) (tensor.Type, error), ints bool,
	f func(float64) bool, z func(complex128) bool) *graph.Op {
	t := testReals(allSlice[uint8](ints), allSlice[int8](ints), allSlice[int16](ints), allSlice[int32](ints),
		allSlice[int64](ints),
		allSlice[uint16](ints), allSlice[uint32](ints), allSlice[uint64](ints),
		func(dst []bool, a []float32) {
			for i := range dst {
				dst[i] = f(float64(a[i]))
			}
		},
		func(dst []bool, a []float64) {
			for i := range dst {
				dst[i] = f(a[i])
			}
		})
	if name == "signbit" {
		t[tensor.Int8], t[tensor.Int16] = iter.Slice1(belowZero[int8]), iter.Slice1(belowZero[int16])
		t[tensor.Int32], t[tensor.Int64] = iter.Slice1(belowZero[int32]), iter.Slice1(belowZero[int64])
	}
	if z != nil {
		t[tensor.Complex64] = iter.Map1(func(a complex64) bool { return z(complex128(a)) })
		t[tensor.Complex128] = iter.Map1(z)
	}
	p := &graph.Pointwise{Config: cfg, Body: fixed(name, t)}
	op := graph.Op{Name: name, Doc: doc, Params: unary1, Pointwise: p,
		Examples: []graph.Example{kit.ExUnary, kit.Example(nil, kit.ExInts)},
		Ref: kit.PointwiseRef(p, kit.Always(boolRef(
			func(x []int64) bool { return f(float64(x[0])) },
			func(x []float64) bool { return f(x[0]) },
			func(x []complex128) bool { return z(x[0]) })))}
	if layout != nil {
		op.Infer = kit.LaidBy(p, layout)
	}
	return kit.Define[kit.None](op)
}

func allSlice[T integer](v bool) func(dst []bool, a []T) {
	return func(dst []bool, _ []T) {
		for i := range dst {
			dst[i] = v
		}
	}
}

func belowZero[T integer](dst []bool, a []T) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < 0
	}
}

// PyTorch composes isinf and isfinite of other ops, whose layouts follow one another.

// isinfLayout is that of self.abs() == inf; of a complex self, of its real part.
func isinfLayout(c *graph.Call) (tensor.Type, error) {
	if c.Type(0).DType.IsIntegral(true) {
		return preserved(c)
	}
	return magnitudeAgainstInf(realPart(c.Type(0)))
}

// isfiniteLayout is that of (self == self) * (self.abs() != inf).
func isfiniteLayout(c *graph.Call) (tensor.Type, error) {
	if c.Type(0).DType.IsIntegral(true) {
		return preserved(c)
	}
	t := realPart(c.Type(0))
	same, err := kit.LaidOut(iter.Comparison(iter.Undefined(), iter.OfType(t), iter.OfType(t)))
	if err != nil {
		return same, err
	}
	size, err := magnitudeAgainstInf(t)
	if err != nil {
		return size, err
	}
	return kit.LaidOut(iter.Binary(iter.Undefined(), iter.OfType(same), iter.OfType(size)))
}

func magnitudeAgainstInf(t tensor.Type) (tensor.Type, error) {
	abs, err := kit.LaidOut(iter.Unary(iter.Undefined(), iter.OfType(t)))
	if err != nil {
		return abs, err
	}
	return kit.LaidOut(iter.Comparison(iter.Undefined(), iter.OfType(abs), iter.Number(tensor.FloatScalar(math.Inf(1)))))
}
