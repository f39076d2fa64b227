package view

import (
	"errors"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type toAttrs struct {
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
	NonBlocking  bool                `attr:"non_blocking" default:"false" doc:"has no effect"`
	Copy         bool                `attr:"copy" default:"false" doc:"always copy"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
}

// To is Tensor.to.
var To = kit.Define[*toAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "to",
		Doc: "Converts self to `dtype`, or to the dtype of `other`, and to a memory format. Returns self if it has both " +
			"already. Numbers become float16 or bfloat16 by way of float32, as in PyTorch and ONNX Runtime: float64 and " +
			"large integers round twice.",
		Params: []graph.Param{kit.Self, {Name: "other", Optional: true, Overload: "other"}},
		Kind:   graph.View,
		Infer:  inferTo,
		Ref:    copies.Ref(inferTo),
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dtype": "float64"}},
			{In: []tensor.Meta{kit.F32(2, 3, 4, 5)}, Attrs: graph.Attrs{"memory_format": "channels_last"}},
			{In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Float16)}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, Identity: true},
	Lowerings: graph.Lowerings{
		Impls: []graph.Impl{copies.Impl(copies.CompileCopy)},
		// As an expression, a conversion can be fused with other loops, so that its result is not stored in memory.
		Expression: func(c *graph.Call) (*expr.Code, error) {
			inferred, err := inferTo(c)
			if err != nil || c.HasOperand(1) || inferred[0].Type.DType == c.Type(0).DType {
				return nil, err // no expression if `other` gives the dtype, or if no element is converted
			}
			return kit.Conversion(c.Type(0).DType, inferred[0].Type.DType)
		},
	},
})

// inferTo infers the result of to. The dtype is an attribute, or the dtype of the operand other.
func inferTo(call *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*toAttrs](call)
	dtype := attrs.DType
	if call.HasOperand(1) {
		if dtype != tensor.Invalid {
			return nil, errors.New("to: operand `other` and attribute `dtype` cannot both be given")
		}
		dtype = call.Type(1).DType
	}
	if dtype == tensor.Invalid {
		dtype = call.Type(0).DType
	}
	return convertedResult(call, call.Type(0), dtype, attrs.MemoryFormat, attrs.Copy)
}

// convertedResult returns the result of converting self to a dtype and a memory format. If self already has both and
// alwaysCopy is not set, the result is self. As in PyTorch (to_will_alias), self has the format if it is the suggested
// memory format of self. The op contiguous, in contrast, compares the strides.
func convertedResult(c *graph.Call, self tensor.Type, dtype tensor.DType, format tensor.MemoryFormat,
	alwaysCopy bool) ([]graph.Result, error) {
	if self.DType == dtype && !alwaysCopy && (format == tensor.Preserve || suggestedFormat(self) == format) {
		return c.AliasResult(self, 0), nil
	}
	self, err := kit.LikeType(self, format)
	return c.NewResult(self.WithDType(dtype)), err
}

// TypeAs is Tensor.type_as.
var TypeAs = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "type_as",
		Doc:      "Converts self to the dtype of `other`; returns self if it has that dtype.",
		Params:   []graph.Param{kit.Self, kit.Other},
		Kind:     graph.View,
		Infer:    inferTypeAs,
		Ref:      copies.Ref(inferTypeAs),
		Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Int32)}}},
	},
	Facts:     graph.Facts{WritesAnyDenseLayout: true, Identity: true},
	Lowerings: graph.Lowerings{Impls: []graph.Impl{copies.Impl(copies.CompileCopy)}},
})

func inferTypeAs(c *graph.Call) ([]graph.Result, error) {
	const alwaysCopy = false
	return convertedResult(c, c.Type(0), c.Type(1).DType, tensor.Preserve, alwaysCopy)
}
