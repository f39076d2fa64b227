package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file classify numbers. A complex number is NaN if a part is NaN, infinite if a part is infinite, and
// finite if both parts are finite. Integers are always finite.
var (
	Isnan = predicateOp("isnan", "Returns whether self is NaN.", "isnan(x)", nil,
		math.IsNaN, func(z complex128) bool { return math.IsNaN(real(z)) || math.IsNaN(imag(z)) })
	Isinf = predicateOp("isinf", "Returns whether self is infinite.", "isinf(x)", isinfLayout,
		func(x float64) bool { return math.IsInf(x, 0) }, cmplx.IsInf)
	Isfinite = predicateOp("isfinite", "Returns whether self is neither infinite nor NaN.", "isfinite(x)", isfiniteLayout,
		isFinite, func(z complex128) bool { return isFinite(real(z)) && isFinite(imag(z)) })
	Isposinf = predicateOp("isposinf", "Returns whether self is positive infinity. Complex numbers are not supported.",
		"isposinf(x)", nil, func(x float64) bool { return math.IsInf(x, 1) }, nil)
	Isneginf = predicateOp("isneginf", "Returns whether self is negative infinity. Complex numbers are not supported.",
		"isneginf(x)", nil, func(x float64) bool { return math.IsInf(x, -1) }, nil)
	Signbit = predicateOp("signbit", "Returns whether self is negative, including -0. Complex numbers are not supported.",
		"signbit(x)", nil, math.Signbit, nil)
)

// predicateOp defines a predicate. ofFloat and ofComplex are the references for real and complex numbers. ofComplex is
// nil if complex numbers are not supported. layout returns the layout of the result. If layout is nil, the result has
// the layout that PyTorch's TensorIterator chooses.
func predicateOp(name, doc, formulaText string, layout func(*graph.Call) (tensor.Type, error),
	ofFloat func(float64) bool, ofComplex func(complex128) bool) *graph.Op {
	cfg := unaryWithResult(tensor.Bool)
	table := kernelsWithResultDType(formula(formulaText), toBool, bools, integers, floats)
	switch {
	case ofComplex != nil:
		table = mergeKernels(table, kernelsWithResultDType(formula(formulaText), toBool, complexes))
	case name == "signbit": // PyTorch has another message for it
		cfg = rejectComplex(cfg, "signbit is not implemented for complex tensors.")
	default:
		cfg = rejectComplex(cfg, name+" does not support complex inputs.")
	}
	pointwise := &graph.Pointwise{Config: cfg, Body: bodyByDType(name, table)}
	op := graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: unaryParams,
			Examples: []graph.Example{kit.UnaryExample, kit.Example(nil, kit.IntMatrix)},
			Ref: kit.PointwiseRef(pointwise, kit.IgnoringCall(kit.WithUint64Case(
				// float64, because int64 would read large uint64 numbers as negative
				func(x []uint64) uint64 { return uint64(boolInt(ofFloat(float64(x[0])))) },
				boolRef(
					func(x []int64) bool { return ofFloat(float64(x[0])) },
					func(x []float64) bool { return ofFloat(x[0]) },
					func(x []complex128) bool { return ofComplex(x[0]) })))),
		},
		Lowerings: graph.Lowerings{Pointwise: pointwise},
	}
	if layout != nil {
		op.Infer = kit.InferWithLayout(pointwise, layout)
	}
	return kit.Define[*kit.EmptyAttrs](op)
}

// PyTorch composes isinf and isfinite from other ops. Therefore the layout of the result is inferred by applying the
// layout rules of these ops one after another.

// isinfLayout returns the layout of self.abs() == inf. If self is complex, its real part replaces self. For integers
// and bools it returns the layout of empty_like(self).
func isinfLayout(c *graph.Call) (tensor.Type, error) {
	if c.Type(0).DType.IsIntegral(true) {
		return preservedType(c)
	}
	return infComparisonLayout(realPart(c.Type(0)))
}

// isfiniteLayout returns the layout of (self == self) * (self.abs() != inf). For integers and bools it returns the
// layout of empty_like(self).
func isfiniteLayout(c *graph.Call) (tensor.Type, error) {
	if c.Type(0).DType.IsIntegral(true) {
		return preservedType(c)
	}
	self := realPart(c.Type(0))
	operand := rule.OperandOfType(self)
	equality, err := kit.FirstResultType(rule.Comparison(rule.UndefinedOutput(), operand, operand))
	if err != nil {
		return equality, err
	}
	comparison, err := infComparisonLayout(self)
	if err != nil {
		return comparison, err
	}
	return kit.FirstResultType(rule.Binary(rule.UndefinedOutput(), rule.OperandOfType(equality),
		rule.OperandOfType(comparison)))
}

// infComparisonLayout returns the layout of a comparison of the operand's magnitude with infinity.
func infComparisonLayout(operand tensor.Type) (tensor.Type, error) {
	abs, err := kit.FirstResultType(rule.Unary(rule.UndefinedOutput(), rule.OperandOfType(operand)))
	if err != nil {
		return abs, err
	}
	return kit.FirstResultType(rule.Comparison(rule.UndefinedOutput(), rule.OperandOfType(abs),
		rule.NumberOperand(tensor.FloatScalar(math.Inf(1)))))
}
