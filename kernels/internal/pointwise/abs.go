package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Abs is torch.abs.
var Abs = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "abs",
		Doc:    "Returns the absolute value of each element, which is real for complex numbers. Bools are not supported.",
		Params: unaryParams,
		Infer:  inferAbs,
		Ref: kit.PointwiseRef(&magnitude, kit.IgnoringCall(func(dtype tensor.DType, x []tensor.Scalar) tensor.Scalar {
			switch {
			case dtype.IsComplex():
				return tensor.FloatScalar(cmplx.Abs(x[0].Complex()))
			case dtype.IsFloat():
				return tensor.FloatScalar(math.Abs(x[0].Float()))
			case !dtype.IsSigned():
				return x[0]
			}
			return tensor.IntScalar(max(x[0].Int(), -x[0].Int())) // the least integer wraps to itself
		})),
		Examples: []graph.Example{kit.UnaryExample, kit.Example(nil, kit.IntMatrix), kit.Example(nil, kit.ComplexMatrix)},
	},
	Lowerings: graph.Lowerings{Pointwise: &magnitude},
})

// inferAbs is the Infer function of abs.
func inferAbs(c *graph.Call) ([]graph.Result, error) {
	if !c.Type(0).DType.IsComplex() {
		return magnitude.Infer(c)
	}
	return kit.InferWithLayout(&magnitude, preservedType)(c) // unary_op_impl_with_complex_to_float
}

// magnitude is the computation of abs: a complex operand has a real result.
var magnitude = graph.Pointwise{
	Config: func(c *graph.Call, outs []rule.Operand) (rule.Config, error) {
		if dtype := c.Type(0).DType; dtype.IsComplex() {
			return unaryWithResult(dtype.ToReal())(c, outs)
		}
		return unary(c, outs)
	},
	Body: bodyByDType("abs", kernelsWithResultDType(formula("abs(x)"), tensor.DType.ToReal, integers, floats, complexes)),
}
