package view

import (
	"errors"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type cloneAttrs struct {
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the copy"`
}

// Clone is Tensor.clone.
var Clone = kit.Define[*cloneAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:     "clone",
		Doc:      "Copies self. The memory format `preserve` keeps the strides of a dense operand.",
		Params:   []graph.Param{kit.Self},
		Infer:    inferClone,
		Ref:      copies.Ref(inferClone),
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"memory_format": "contiguous"}),
	},
	Facts:     graph.Facts{Identity: true, WritesAnyDenseLayout: true, Copies: true},
	Lowerings: graph.Lowerings{Impls: []graph.Impl{copies.Impl(copies.CompileCopy)}},
})

// inferClone infers the type of the copy.
func inferClone(c *graph.Call) ([]graph.Result, error) {
	t, err := kit.LikeType(c.Type(0), kit.Attrs[*cloneAttrs](c).MemoryFormat)
	return c.NewResult(t), err
}

type contiguousAttrs struct {
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"contiguous" doc:"contiguous, channels_last or channels_last_3d"`
}

// ContiguousOp is Tensor.contiguous.
var ContiguousOp = kit.Define[*contiguousAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "contiguous",
		Doc:    "Returns self if it is contiguous in the memory format, else a contiguous copy.",
		Params: []graph.Param{kit.Self},
		Kind:   graph.View,
		Infer:  inferContiguous,
		Ref:    copies.Ref(inferContiguous),
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}},
			{In: []tensor.Meta{kit.F32(2, 3, 4, 5)}, Attrs: graph.Attrs{"memory_format": "channels_last"}}},
	},
	Facts:     graph.Facts{FixedLayoutReason: "its purpose is a specific layout", Identity: true},
	Lowerings: graph.Lowerings{Impls: []graph.Impl{copies.Impl(copies.CompileCopy)}},
})

// inferContiguous infers the result: self if self has the memory format, else new memory in this format.
func inferContiguous(call *graph.Call) ([]graph.Result, error) {
	self, format := call.Type(0), kit.Attrs[*contiguousAttrs](call).MemoryFormat
	// As in PyTorch, the format preserve is rejected only if self is not contiguous.
	if format == tensor.Preserve && self.IsContiguous() || format != tensor.Preserve && self.Is(format) {
		return call.AliasResult(self, 0), nil
	}
	if format == tensor.Preserve {
		return nil, errors.New("preserve memory format is unsupported by the contiguous operator")
	}
	self, err := kit.LikeType(self, format)
	return call.NewResult(self), err
}
