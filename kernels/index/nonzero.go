package index

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Nonzero is torch.nonzero.
var Nonzero = eagerOp[kit.None](graph.Op{
	Name: "nonzero", Doc: "Gives the indices of the elements that are not 0, in row-major order: [n, rank].",
	Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.F32(2, 3).WithStrides([]int{1, 2}), nil),
}, func(c *graph.Call) ([]graph.Outline, error) { return oneOutline(tensor.Int64, -1, c.Type(0).Rank()) },
	func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{nonzeroIndices(in[0])}, nil
	})

// MaskedSelect is torch.masked_select.
var MaskedSelect = eagerOp[kit.None](graph.Op{
	Name: "masked_select", Doc: "Takes the elements of self where mask holds, in row-major order, after both are " +
		"broadcast together.",
	Params:   []graph.Param{kit.Self, {Name: "mask"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{1, 2}), tensor.New(tensor.Bool, 3)}}},
}, func(c *graph.Call) ([]graph.Outline, error) {
	if d := c.Type(1).DType; d != tensor.Bool {
		return nil, errors.New("masked_select: expected BoolTensor for mask")
	}
	return oneOutline(c.Type(0).DType, -1)
}, func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape, err := tensor.Broadcast(in[0].Shape, in[1].Shape)
	if err != nil {
		return nil, err
	}
	x, err := in[0].Expanded(shape)
	if err != nil {
		return nil, err
	}
	mask, err := in[1].Expanded(shape)
	if err != nil {
		return nil, err
	}
	flat, err := x.CopyTo(tensor.New(x.DType, shape...)).View(tensor.New(x.DType, tensor.Numel(shape)))
	if err != nil {
		return nil, err
	}
	out, err := keepSlices(flat, 0, nonzeroBytes(mask))
	return []*tensor.Tensor{out}, err
})

// keepSlices copies the slices of a tensor along dim whose flag is set.
func keepSlices(t *tensor.Tensor, dim int, flags []bool) (*tensor.Tensor, error) {
	var places []int
	for i, b := range flags {
		if b {
			places = append(places, i)
		}
	}
	return pickSlices(t, dim, places)
}

type compressAttrs struct {
	Dim *int `attr:"dim" default:"none" doc:"dimension whose slices are taken; none: self counts as flat"`
}

// Compress is ONNX's Compress and numpy.compress; PyTorch has none.
var Compress = eagerOp[compressAttrs](graph.Op{
	Name: "compress", Doc: "Takes the slices of self along a dimension where a one-dimensional condition holds. A short " +
		"condition is false for the rest.",
	Params: []graph.Param{kit.Self, {Name: "condition"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), tensor.New(tensor.Bool, 2)},
		Attrs: graph.Attrs{"dim": 1}}, {In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Bool, 5)}}},
}, func(c *graph.Call) ([]graph.Outline, error) {
	if c.Type(1).DType != tensor.Bool {
		return nil, errors.New("compress: expected BoolTensor for condition")
	}
	return oneOutline(c.Type(0).DType, slicesOf(c.Type(0), kit.Attrs[compressAttrs](c).Dim)...)
}, func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, dim := in[0], 0
	var err error
	if a := kit.Attrs[compressAttrs](c); a.Dim == nil {
		x, err = kit.RowMajorAs(x, x.Numel())
	} else {
		dim, err = tensor.WrapDim(*a.Dim, x.Rank())
	}
	if err != nil {
		return nil, err
	}
	if in[1].Rank() != 1 || x.Rank() == 0 {
		return nil, errors.New("compress: condition must have one dimension and self at least one")
	}
	flags := nonzeroBytes(in[1])
	if n := x.Shape[dim]; len(flags) > n {
		if slices.Contains(flags[n:], true) {
			return nil, fmt.Errorf("compress: %w", outOfBounds(len(flags)-1, dim, n))
		}
		flags = flags[:n]
	}
	out, err := keepSlices(x, dim, flags)
	return []*tensor.Tensor{out}, err
})
