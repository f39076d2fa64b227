package pointwise

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Neg is -self.
var Neg = elementwise(kit.NoAttrs, "neg", "Negates each element; unsigned integers wrap. Bools are not "+
	"supported.", unaryParams,
	&graph.Pointwise{Config: withCheck(unary,
		boolCheck("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "+
			"the `~` or `logical_not()` operator instead.")),
		Body: bodyByDType("neg", kernelsOf(formula("-x"), integers, floats, complexes))},
	kit.IgnoringCall(kit.ByDTypeKind(
		func(x []int64) int64 { return -x[0] },
		func(x []float64) float64 { return -x[0] },
		func(x []complex128) complex128 { return -x[0] })),
	kit.UnaryExample, kit.Example(nil, kit.IntMatrix))

// Positive returns self.
var Positive = kit.Define[*kit.EmptyAttrs](graph.Op{Semantics: graph.Semantics{
	Name: "positive", Doc: "Returns self as a view. Bools are not supported.", Params: unaryParams, Kind: graph.View,
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		if err := boolCheck("The `+` operator, on a bool tensor is not supported.")(c); err != nil {
			return nil, err
		}
		return c.AliasResult(c.Type(0), 0), nil
	},
	Ref:      func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in[:1], nil },
	Examples: []graph.Example{kit.UnaryExample},
}})
