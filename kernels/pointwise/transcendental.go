package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// transcendental defines an op on floats and complex numbers that is the function of its name; z, by which complex
// numbers are defined, may be nil. bool and integers are computed as float32. label is what refusals go by.
func transcendental(name, label, doc string, f func(float64) float64, z func(complex128) complex128) *graph.Op {
	return computed(name, label, doc, name+"(x)", unaryFloat, f, z, kit.ExUnary, kit.Example(nil, kit.ExInts))
}

// computed defines a unary op on floats and complex numbers by a formula, and by the functions that it is held
// against.
func computed(name, label, doc, text string, cfg config, f func(float64) float64, z func(complex128) complex128,
	examples ...graph.Example) *graph.Op {
	dtypes := [][]tensor.DType{floats}
	if z != nil {
		dtypes = append(dtypes, complexes)
	}
	return elementwise[kit.None](name, doc, unary1,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: cfg,
			Body: labelled(label, stated(formula(text, "x"), dtypes...))},
		kit.Always(kit.ByKind(nil,
			func(x []float64) float64 { return f(x[0]) },
			func(x []complex128) complex128 { return z(x[0]) })),
		examples...)
}

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

// mathComplex is the complex half of mathBodies.
func mathComplex(z func(complex128) complex128) bodies { return mathBodies(nil, z) }
