package pointwise

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// defaultGrain selects the default number of elements of a chunk; see [graph.Pointwise].
const defaultGrain = 0

// curve defines a curve: a unary op on floats without attributes. formulaText is its formula for the element x.
// torchKernel is PyTorch's name of the kernel, for errors. grain is the number of elements per chunk.
func curve(name, torchKernel, doc, formulaText string, grain int, reference func(float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unaryParams, curveOf(torchKernel, formulaText, grain),
		floatRef(reference), kit.UnaryExample)
}

// curveOf returns the computation of a curve, for ops with another reference than curve supports. The parameters are
// those of curve.
func curveOf(torchKernel, formulaText string, grain int) *graph.Pointwise {
	return &graph.Pointwise{Grain: grain, Config: unary,
		Body: namedBody(torchKernel, kernelsOf(formula(formulaText, "x"), floats))}
}

// attrCurve is curve for an op with attributes of type A. grain is the number of elements per chunk. numbersOf returns
// the numbers that the formula refers to by name. referenceOf returns the reference function for the attributes.
func attrCurve[A any](name, torchKernel, doc, formulaText string, grain int, numbersOf func(A) numbers,
	referenceOf func(A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise(graph.SchemaOf[A](), name, doc, unaryParams,
		&graph.Pointwise{Grain: grain, Config: unary, Body: attrCurveBody(torchKernel, formula(formulaText, "x"),
			numbersOf)},
		func(c *graph.Call) kit.ScalarFunc { return floatRef(referenceOf(kit.Attrs[A](c)))(c) }, examples...)
}

// attrCurveBody returns the Body function of a curve with attributes, for ops with another Body for some attributes.
func attrCurveBody[A any](torchKernel string, body *expr.Formula, numbersOf func(A) numbers) func(*graph.Call,
	*rule.Rule) (rule.Kernel, error) {
	return attrBody(torchKernel, body, func(c *graph.Call) numbers { return numbersOf(kit.Attrs[A](c)) }, floats)
}
