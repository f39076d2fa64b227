package reduce

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type logsumexpAttrs struct {
	Dim     []int `attr:"dim" doc:"dimensions to reduce; an empty list: all"`
	Keepdim bool  `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// Logsumexp computes log(sum(exp(x))) without overflow. Sums are float64.
var Logsumexp = folds.Define(graph.SchemaOf[*logsumexpAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "logsumexp",
		Doc: "Computes the logarithm of the sum of exponentials over the given dimensions. Integers give " +
			"float32.",
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": []int{1}}}},
	},
	Facts: graph.Facts{FlopsPerElement: graph.ElementFlops{Simple: 1, Function: 0.7}},
}, func(c *graph.Call) (folds.Spec, error) {
	attrs, self := kit.Attrs[*logsumexpAttrs](c), c.Type(0)
	if self.DType.IsComplex() {
		return folds.Spec{}, errors.New("logsumexp(): Expected floating point type for result tensor, but got: " +
			self.DType.TorchName())
	}
	mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
	dtype := tensor.FloatFor(self.DType)
	return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation {
			return folds.Computation{Row: logsumexpRow,
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					maximum := math.Inf(-1)
					for _, element := range x {
						maximum = max(maximum, element.Float())
					}
					if math.IsInf(maximum, 0) {
						return []tensor.Scalar{tensor.FloatScalar(maximum)}
					}
					sum := 0.0
					for _, element := range x {
						sum += math.Exp(element.Float() - maximum)
					}
					return []tensor.Scalar{tensor.FloatScalar(maximum + math.Log(sum))}
				}}
		}}, err
})

// logsumexpRow returns the logarithm of the sum of a row's exponentials as an expression: shift +
// log(sum(exp(x-shift))). shift is the maximum of the row, or 0 if the maximum is infinite, because inf-inf is NaN.
func logsumexpRow(builder *expr.Builder, x folds.Number) []folds.Number {
	dtype := builder.DType(x.Re)
	zero := builder.Const(dtype, 0)
	maximum := builder.Reduce(expr.Max, x.Re)
	isInfinite := builder.Emit(expr.Eq, builder.Emit(expr.Abs, maximum), builder.Const(dtype, math.Inf(1)))
	shift := builder.Emit(expr.Select, isInfinite, zero, maximum)
	sum := folds.Total(builder, folds.InFloat64(builder, builder.Emit(expr.Exp, builder.Emit(expr.Sub, x.Re, shift))))
	return []folds.Number{folds.Real(builder.Emit(expr.Add, folds.InFloat64(builder, shift), builder.Emit(expr.Log, sum)))}
}
