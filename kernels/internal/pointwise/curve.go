package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// defaultGrain selects the default of [graph.Pointwise.Grain].
const defaultGrain = 0

// curve defines a unary float op that has no attributes. formulaText is its formula for the element x. torchKernel is
// PyTorch's name of the kernel, for errors. grain is the number of elements per chunk.
func curve(name, torchKernel, doc, formulaText string, grain int, reference func(float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unaryParams,
		&graph.Pointwise{Grain: grain, Config: unary,
			Body: namedBody(torchKernel, kernelsOf(formula(formulaText, "x"), floats))},
		floatRef(reference), kit.UnaryExample)
}

// attrCurve is curve for an op with attributes of type A. From the attributes of a call, numbersOf makes the numbers
// that the formula refers to by name, and referenceOf makes the reference function.
func attrCurve[A any](name, torchKernel, doc, formulaText string, grain int, numbersOf func(A) numbers,
	referenceOf func(A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise(graph.SchemaOf[A](), name, doc, unaryParams,
		&graph.Pointwise{Grain: grain, Config: unary,
			Body: attrBody(torchKernel, formula(formulaText, "x"),
				func(c *graph.Call) numbers { return numbersOf(kit.Attrs[A](c)) }, floats)},
		func(c *graph.Call) kit.ScalarFunc { return floatRef(referenceOf(kit.Attrs[A](c)))(c) }, examples...)
}
