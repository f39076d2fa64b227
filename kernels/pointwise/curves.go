package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// activation defines a unary op on floats from its loops and the function that defines it.
func activation[A any](name, label, doc string, f32 func(*A) func(dst, a []float32),
	f64 func(*A) func(dst, a []float64),
	ref func(*A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise[A](name, doc, unary1,
		&graph.Pointwise{Config: unary, Body: func(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
			t := floats1(f32(kit.Attrs[A](c)), f64(kit.Attrs[A](c)))
			return t.pickLabel(label, it)
		}},
		func(c *graph.Call) kit.ScalarFunc { return floatRef(ref(kit.Attrs[A](c)))(c) }, examples...)
}

// curve defines a unary op on floats by one function, for those that call for an
// exponential anyway.
func curve[A any](name, label, doc string, f func(*A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise[A](name, doc, unary1,
		&graph.Pointwise{Grain: machine.FunctionGrain, Config: unary,
			Body: func(c *graph.Call, it *iter.Rule) (iter.Kernel, error) {
				t := floatBodies(f(kit.Attrs[A](c)))
				return t.pickLabel(label, it)
			}},
		func(c *graph.Call) kit.ScalarFunc { return floatRef(f(kit.Attrs[A](c)))(c) }, examples...)
}
