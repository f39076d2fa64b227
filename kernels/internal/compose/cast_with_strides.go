package compose

import (
	"errors"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type castWithStridesAttrs struct {
	DType   tensor.DType `attr:"dtype" doc:"dtype of the result"`
	Strides []int        `attr:"strides" doc:"strides of the result, in elements"`
}

// castWithStrides is an op that converts a value to a dtype and gives it exact strides. It takes strides and not a
// memory format, because a format does not determine the strides of dimensions of size 1. The op is not in the
// catalogue. If a pointwise node computes the value, the op is fused with this node, and the fused loop writes the
// strided result without a copy.
var castWithStrides = kit.Define[*castWithStridesAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "cast_with_strides",
		Doc:      "Converts self to a dtype and gives it strides.",
		Params:   []graph.Param{kit.Self},
		Infer:    inferCastWithStrides,
		Ref:      copies.Ref(inferCastWithStrides),
		Examples: kit.OneExample(kit.F32(2, 3), graph.Attrs{"dtype": "float32", "strides": []int{1, 2}}),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: copies.CompileCopy,
		Expression: func(c *graph.Call) (*expr.Code, error) {
			return kit.Conversion(c.Type(0).DType, kit.Attrs[*castWithStridesAttrs](c).DType)
		},
	},
})

// inferCastWithStrides checks the strides and infers the result.
func inferCastWithStrides(call *graph.Call) ([]graph.Result, error) {
	attrs, self := kit.Attrs[*castWithStridesAttrs](call), call.Type(0)
	if len(attrs.Strides) != self.Rank() {
		return nil, errors.New("cast_with_strides: expected a stride for each dimension")
	}
	result := self.WithDType(attrs.DType)
	result.Offset, result.Strides = sym.Int{}, make([]sym.Int, len(attrs.Strides))
	for dim, stride := range attrs.Strides {
		result.Strides[dim] = sym.Of(stride)
	}
	if meta, ok := result.Meta(); ok && !meta.IsNonOverlappingAndDense() {
		return nil, errors.New("cast_with_strides: expected strides of a dense value")
	}
	return call.NewResult(result), nil
}
