package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type flipAttrs struct {
	Dims []int `attr:"dims" doc:"dimensions to reverse"`
}

// Flip is torch.flip.
var Flip = kit.Define[*flipAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name:   "flip",
		Doc:    "Reverses the order of elements along dimensions. The result keeps self's layout.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			if _, err := flipDims(c); err != nil {
				return nil, err
			}
			t, err := kit.LikeType(c.Type(0), tensor.Preserve)
			return c.NewResult(t), err
		},
		Ref:      refFlip,
		Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), graph.Attrs{"dims": []int{1, 3}}),
	},
	Facts: graph.Facts{
		Parallel:        kit.LoopsExcept(func(c *graph.Call) []int { return slices.Clone(kit.Attrs[*flipAttrs](c).Dims) }),
		FlopsPerElement: copyFlops, WritesAnyDenseLayout: true, ImageRole: graph.ImagePreserving,
		SelectsElements: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			dims, err := flipDims(c)
			if err != nil {
				return nil, err
			}
			return copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)}.Reversed(dims...)), nil
		},
	},
})

// flipDims returns the dimensions to reverse as non-negative numbers. The list is nil for a value of rank 0, for which
// PyTorch accepts the dimensions 0 and -1.
func flipDims(call *graph.Call) ([]int, error) {
	var dims []int
	for _, dim := range kit.Attrs[*flipAttrs](call).Dims {
		dim, err := tensor.WrapDim(dim, call.Type(0).Rank())
		if err != nil {
			return nil, err
		}
		if slices.Contains(dims, dim) {
			return nil, fmt.Errorf("dim %d appears multiple times in the list of dims", dim)
		}
		dims = append(dims, dim)
	}
	if call.Type(0).Rank() == 0 {
		return nil, nil
	}
	return dims, nil
}

// refFlip is the reference implementation of flip.
func refFlip(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	dims, err := flipDims(c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, in[0].Shape...)
	sourceIndex := make([]int, out.Rank())
	kit.EachIndex(out.Shape, func(index []int) {
		copy(sourceIndex, index)
		for _, d := range dims {
			sourceIndex[d] = out.Shape[d] - 1 - index[d]
		}
		out.Set(in[0].At(sourceIndex...), index...)
	})
	return []*tensor.Tensor{out}, nil
}
