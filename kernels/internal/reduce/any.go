package reduce

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type anyAttrs struct {
	Dim     []int `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Keepdim bool  `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// Any is torch.any. It reports whether any element is nonzero.
var Any = anyOrAllOp("any", "Returns whether any element is nonzero. The result is uint8 if self is uint8, else bool.",
	true)

// Every is torch.all. It reports whether all elements are nonzero.
var Every = anyOrAllOp("all", "Returns whether all elements are nonzero. The result is uint8 if self is uint8, else "+
	"bool.", false)

// anyOrAllOp defines Any if isAny is set, else Every. Elements are converted to bool. The result of any is the greatest
// element, and the result of all is the least.
func anyOrAllOp(name, doc string, isAny bool) *graph.Op {
	return folds.Define(graph.SchemaOf[*anyAttrs](), graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Bool, 2, 3)}, Attrs: graph.Attrs{"dim": 1}}},
	}}, func(c *graph.Call) (folds.Spec, error) {
		attrs, self := kit.Attrs[*anyAttrs](c), c.Type(0)
		mask, err := rule.ReduceMask(attrs.Dim, self.Rank())
		out := tensor.Bool
		if self.DType == tensor.Uint8 {
			out = tensor.Uint8
		}
		return folds.Spec{Mask: mask, Keepdim: attrs.Keepdim, Cast: tensor.Bool, Outs: []tensor.DType{out},
			Computation: func() folds.Computation {
				return folds.Computation{Fold: func() *iter.Fold { return folds.AnyOrAll(isAny) },
					Row: func(builder *expr.Builder, row folds.Number) []folds.Number { return extremeRow(builder, row, isAny) },
					Ref: func(row []tensor.Scalar) []tensor.Scalar {
						result := !isAny
						for _, element := range row {
							if isAny {
								result = result || element.Int() != 0
							} else {
								result = result && element.Int() != 0
							}
						}
						return []tensor.Scalar{tensor.BoolScalar(result)}
					}}
			}}, err
	})
}
