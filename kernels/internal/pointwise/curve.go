package pointwise

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// curve defines a curve: a unary op on floats without attributes. text is the formula of the op for the element x, and
// f is the reference function. label is the name in errors. grain is the number of elements of a chunk.
func curve(name, label, doc, text string, grain int, f func(float64) float64) *graph.Op {
	return elementwise(kit.NoAttrs, name, doc, unaryParams, curveOf(label, text, grain), floatRef(f), kit.ExUnary)
}

// curveOf returns the pointwise computation of a curve.
func curveOf(label, text string, grain int) *graph.Pointwise {
	return &graph.Pointwise{Grain: grain, Config: unary, Body: labelledBody(label, bodiesOf(formula(text, "x"), floats))}
}

// attrCurve is curve for an op with attributes of type A. attrs returns the numbers that the formula refers to by name.
// f returns the reference function for the attributes.
func attrCurve[A any](name, label, doc, text string, grain int, attrs func(*A) numbers,
	f func(*A) func(float64) float64, examples ...graph.Example) *graph.Op {
	return elementwise(graph.SchemaOf[A](), name, doc, unaryParams,
		&graph.Pointwise{Grain: grain, Config: unary, Body: attrCurveBody(label, formula(text, "x"), attrs)},
		func(c *graph.Call) kit.ScalarFunc { return floatRef(f(kit.Attrs[A](c)))(c) }, examples...)
}

// attrCurveBody returns the Body function of an op on floats with a formula that uses attributes.
func attrCurveBody[A any](label string, f *expr.Formula, attrs func(*A) numbers) func(*graph.Call,
	*rule.Rule) (rule.Kernel, error) {
	return attrBody(label, f, func(c *graph.Call) numbers { return attrs(kit.Attrs[A](c)) }, floats)
}
