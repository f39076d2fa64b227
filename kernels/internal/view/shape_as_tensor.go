package view

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ShapeAsTensor is torch._shape_as_tensor.
var ShapeAsTensor = kit.Define[*kit.EmptyAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "_shape_as_tensor", Doc: "Returns the sizes of self as a vector of int64.",
		Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.F32(2, 3).WithStrides([]int{1, 2}), nil),
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			return c.NewResult(tensor.NewType(tensor.Int64, sym.Of(c.Type(0).Rank()))), nil
		},
		Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			out := tensor.Zeros(tensor.Int64, in[0].Rank())
			for i, size := range in[0].Shape {
				out.Set(tensor.IntScalar(int64(size)), i)
			}
			return []*tensor.Tensor{out}, nil
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			shape, step := c.Meta(0).Shape, kit.ByteStride(c.Out[0], 0)
			return &graph.Kernel{Phases: []graph.Phase{{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
				for i, size := range shape {
					*(*int64)(unsafe.Add(mem.Ptrs[0], i*step)) = int64(size)
				}
				return nil
			}}}}, nil
		},
	},
})
