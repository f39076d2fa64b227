package kernels

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
)

// activation defines a unary op on floats from its loops and the function that defines it.
func activation[A any](name, label, doc string, f32 func(*A) func(dst, a []float32), f64 func(*A) func(dst, a []float64),
	ref func(*A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise[A](name, doc, unary1,
		&graph.Pointwise{Config: unary, Body: func(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
			t := floats1(f32(attrs[A](c)), f64(attrs[A](c)))
			return t.pickLabel(label, it)
		}},
		func(c *graph.Call) scalarFunc { return floatRef(ref(attrs[A](c)))(c) }, examples...)
}

// curve defines a unary op on floats by one function, for those that call for an
// exponential anyway.
func curve[A any](name, label, doc string, f func(*A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise[A](name, doc, unary1,
		&graph.Pointwise{Grain: heavyGrain, Config: unary, Body: func(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
			t := floatBodies(f(attrs[A](c)))
			return t.pickLabel(label, it)
		}},
		func(c *graph.Call) scalarFunc { return floatRef(f(attrs[A](c)))(c) }, examples...)
}
