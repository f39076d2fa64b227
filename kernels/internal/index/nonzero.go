package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Nonzero is torch.nonzero.
var Nonzero = dynamicOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name: "nonzero", Doc: "Returns the indices of the non-zero elements in row-major order: [n, rank].",
	Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.F32(2, 3).WithStrides([]int{1, 2}), nil),
}}, outlineNonzero, runNonzero)

// outlineNonzero returns the outline of the result: its dtype and the sizes that are known before the run.
func outlineNonzero(c *graph.Call) ([]graph.PartialType, error) {
	return []graph.PartialType{{DType: tensor.Int64, Sizes: []int{unknownSize, c.Type(0).Rank()}, TypeFor: indicesType}},
		nil
}

// runNonzero computes the result of nonzero.
func runNonzero(ctx context.Context, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := nonzeroIndices(ctx, in[0])
	return []*tensor.Tensor{out}, err
}

// indicesType returns the type of the result of nonzero for its shape, [n, rank]. As in PyTorch, the strides are (1,
// n).
func indicesType(shape []sym.Int) (tensor.Type, error) {
	// FreshType checks the sizes. Its type is row-major, so it is not the result.
	if _, err := kit.FreshType(tensor.Int64, []sym.Int{shape[1], shape[0]}); err != nil {
		return tensor.Type{}, err
	}
	return tensor.Type{DType: tensor.Int64, Shape: shape, Strides: []sym.Int{sym.Of(1), shape[0]}}, nil
}

// MaskedSelect is torch.masked_select.
var MaskedSelect = dynamicOp(kit.NoAttrs, graph.Op{Semantics: graph.Semantics{
	Name:     "masked_select",
	Doc:      "Takes the elements of self where `mask` is true, in row-major order. Both are broadcast together.",
	Params:   []graph.Param{kit.Self, {Name: "mask"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{1, 2}), tensor.New(tensor.Bool, 3)}}},
}}, outlineMaskedSelect, runMaskedSelect)

// outlineMaskedSelect checks a call of masked_select and returns the outline of the result.
func outlineMaskedSelect(c *graph.Call) ([]graph.PartialType, error) {
	if maskDType := c.Type(1).DType; maskDType != tensor.Bool {
		return nil, errors.New("masked_select: expected BoolTensor for mask")
	}
	return oneOutline(c.Type(0).DType, unknownSize)
}

// runMaskedSelect computes the result of masked_select.
func runMaskedSelect(ctx context.Context, _ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
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
	flat, err := kit.ReshapeRowMajor(ctx, x, tensor.Numel(shape))
	if err != nil {
		return nil, err
	}
	const dim = 0
	out, err := keepSlices(ctx, flat, dim, nonzeroFlags(ctx, mask))
	return []*tensor.Tensor{out}, err
}

type compressAttrs struct {
	Dim *int `attr:"dim" default:"none" doc:"dimension whose slices are taken; none: self is flattened"`
}

// Compress is ONNX's Compress and numpy.compress; PyTorch has no equivalent.
var Compress = dynamicOp(graph.SchemaOf[*compressAttrs](), graph.Op{Semantics: graph.Semantics{
	Name: "compress",
	Doc: "Takes the slices of self along a dimension for which the one-dimensional `condition` is true. Slices after " +
		"the end of a shorter condition are not taken.",
	Params: []graph.Param{kit.Self, {Name: "condition"}},
	Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), tensor.New(tensor.Bool, 2)},
		Attrs: graph.Attrs{"dim": 1}}, {In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Bool, 5)}}},
}}, outlineCompress, runCompress)

// outlineCompress checks a call of compress and returns the outline of the result.
func outlineCompress(c *graph.Call) ([]graph.PartialType, error) {
	if c.Type(1).DType != tensor.Bool {
		return nil, errors.New("compress: expected BoolTensor for condition")
	}
	return oneOutline(c.Type(0).DType, selectedSizes(c.Type(0), kit.Attrs[*compressAttrs](c).Dim)...)
}

// runCompress computes the result of compress.
func runCompress(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	input, dim := in[0], 0
	var err error
	if attrs := kit.Attrs[*compressAttrs](c); attrs.Dim == nil {
		input, err = kit.ReshapeRowMajor(ctx, input, input.Numel())
	} else {
		dim, err = tensor.WrapDim(*attrs.Dim, input.Rank())
	}
	if err != nil {
		return nil, err
	}
	if in[1].Rank() != 1 || input.Rank() == 0 {
		return nil, errors.New("compress: condition must have one dimension and self at least one")
	}
	flags := nonzeroFlags(ctx, in[1])
	if size := input.Shape[dim]; len(flags) > size { // a longer condition must be false after the last slice
		if slices.Contains(flags[size:], true) { // the error names the last index of condition
			return nil, fmt.Errorf("compress: %w", outOfBounds(int64(len(flags)-1), dim, size))
		}
		flags = flags[:size]
	}
	out, err := keepSlices(ctx, input, dim, flags)
	return []*tensor.Tensor{out}, err
}
