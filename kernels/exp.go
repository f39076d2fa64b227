package kernels

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Exp is e to the power of self.
var Exp = transcendental("exp", "Raises e to the power of each element.", math.Exp, cmplx.Exp)

// transcendental defines an op on floats and complex numbers by its two functions; z may
// be nil. bool and integers are computed as float32.
func transcendental(name, doc string, f func(float64) float64, z func(complex128) complex128) *graph.Op {
	p := &graph.Pointwise{Config: unaryFloat, Body: fixed(name, mathBodies(f, z)), Grain: heavyGrain}
	return define[none](graph.Op{
		Name:      name,
		Doc:       doc,
		Params:    []graph.Param{self},
		Pointwise: p,
		Ref: pointwiseRef(p, always(byKind(nil,
			func(x []float64) float64 { return f(x[0]) },
			func(x []complex128) complex128 { return z(x[0]) }))),
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}}},
	})
}

// heavyGrain is the chunk of pointwise ops that take some ten nanoseconds an element.
const heavyGrain = 4096

// mathBodies makes loops of functions of one element: the call costs little beside what
// these functions do.
func mathBodies(f func(float64) float64, z func(complex128) complex128) (t bodies) {
	t[tensor.Float32] = iter.Kernel1(func(a float32) float32 { return float32(f(float64(a))) })
	t[tensor.Float64] = iter.Kernel1(f)
	if z != nil {
		t[tensor.Complex64] = iter.Kernel1(func(a complex64) complex64 { return complex64(z(complex128(a))) })
		t[tensor.Complex128] = iter.Kernel1(z)
	}
	return t
}
