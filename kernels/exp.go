package kernels

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Powers of constants, and logarithms. bool and integers are computed as float32.
var (
	Exp   = transcendental("exp", "exp_vml_cpu", "Raises e to the power of each element.", math.Exp, cmplx.Exp)
	Exp2  = transcendental("exp2", "exp2", "Raises 2 to the power of each element.", math.Exp2, nil)
	Expm1 = transcendental("expm1", "expm1_vml_cpu", "Raises e to the power of each element and takes 1 off, exact near 0.", math.Expm1, nil)
	Log   = transcendental("log", "log_vml_cpu", "Takes the natural logarithm of each element.", math.Log, cmplx.Log)
	Log2  = transcendental("log2", "log2_vml_cpu", "Takes the logarithm to base 2 of each element.", math.Log2,
		func(z complex128) complex128 { return cmplx.Log(z) / math.Ln2 })
	Log10 = transcendental("log10", "log10_vml_cpu", "Takes the logarithm to base 10 of each element.", math.Log10,
		func(z complex128) complex128 { return cmplx.Log(z) / math.Ln10 })
	Log1p = transcendental("log1p", "log1p_vml_cpu", "Takes the natural logarithm of each element plus 1, exact near 0.", math.Log1p, nil)
)

// transcendental defines an op on floats and complex numbers by its two functions; z may
// be nil. bool and integers are computed as float32. label is what refusals go by.
func transcendental(name, label, doc string, f func(float64) float64, z func(complex128) complex128) *graph.Op {
	return elementwise[none](name, doc, unary1,
		&graph.Pointwise{Config: unaryFloat, Body: labelled(label, mathBodies(f, z)), Grain: heavyGrain},
		always(byKind(nil,
			func(x []float64) float64 { return f(x[0]) },
			func(x []complex128) complex128 { return z(x[0]) })),
		exUnary, example(nil, exInts))
}

// heavyGrain is the chunk of pointwise ops that take some ten nanoseconds an element.
const heavyGrain = 4096

// mathBodies makes loops of functions of one element: the call costs little beside what
// these functions do.
func mathBodies(f func(float64) float64, z func(complex128) complex128) (t bodies) {
	if f != nil {
		t[tensor.Float32] = iter.Map1(func(a float32) float32 { return float32(f(float64(a))) })
		t[tensor.Float64] = iter.Map1(f)
	}
	if z != nil {
		t[tensor.Complex64] = iter.Map1(func(a complex64) complex64 { return complex64(z(complex128(a))) })
		t[tensor.Complex128] = iter.Map1(z)
	}
	return t
}
