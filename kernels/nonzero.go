package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// eagerOp defines an op whose result depends on data: outlines tells what is known of it ahead. f is
// also its definition.
func eagerOp[A any](o graph.Op, outlines func(c *graph.Call) ([]graph.Outline, error),
	f func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		known, err := outlines(c)
		res := make([]graph.Result, len(known))
		for i, o := range known {
			res[i] = o.Result()
		}
		return res, err
	}
	o.Eager = func(_ graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return f(c, in) }
	o.Ref = f
	return define[A](o)
}

// oneOutline is that of an eager op with one result, of the given sizes, -1 for those that data decide.
func oneOutline(d tensor.DType, sizes ...int) ([]graph.Outline, error) {
	return []graph.Outline{{DType: d, Sizes: sizes}}, nil
}

// openAt returns sizes of which that of a dimension depends on data.
func openAt(sizes []sym.Int, dim int) []int {
	open := make([]int, len(sizes))
	for i, s := range sizes {
		n, known := s.Known()
		if open[i] = n; !known || i == dim {
			open[i] = -1
		}
	}
	return open
}

// nonzeroBytes gives the truth of every element in row-major order.
func nonzeroBytes(t *tensor.Tensor) []bool {
	flags := t.CopyTo(tensor.New(tensor.Bool, t.Shape...))
	out := make([]bool, t.Numel())
	for i, b := range flags.Storage().Bytes()[:len(out)] {
		out[i] = b != 0
	}
	return out
}

// Nonzero is torch.nonzero.
var Nonzero = eagerOp[none](graph.Op{
	Name: "nonzero", Doc: "Gives the indices of the elements that are not 0, in row-major order: [n, rank].",
	Params: []graph.Param{self}, Examples: oneExample(f32(2, 3).WithStrides([]int{1, 2}), nil),
}, func(c *graph.Call) ([]graph.Outline, error) { return oneOutline(tensor.Int64, -1, c.Type(0).Rank()) },
	func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{nonzeroIndices(in[0])}, nil
	})

func nonzeroIndices(t *tensor.Tensor) *tensor.Tensor {
	flags := nonzeroBytes(t)
	n := 0
	for _, b := range flags {
		if b {
			n++
		}
	}
	rank := t.Rank()
	data := make([]int64, n*rank)
	k := 0
	for i, b := range flags {
		if !b {
			continue
		}
		for d, r := rank-1, i; d >= 0; d-- {
			data[k*rank+d] = int64(r % t.Shape[d])
			r /= t.Shape[d]
		}
		k++
	}
	return tensor.Must(tensor.FromSlice(data, n, rank))
}

// MaskedSelect is torch.masked_select.
var MaskedSelect = eagerOp[none](graph.Op{
	Name: "masked_select", Doc: "Takes the elements of self where mask holds, in row-major order, after both are broadcast together.",
	Params:   []graph.Param{self, {Name: "mask"}},
	Examples: []graph.Example{{In: []tensor.Meta{f32(2, 3).WithStrides([]int{1, 2}), tensor.New(tensor.Bool, 3)}}},
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

// pickSlices copies slices of a tensor along dim.
func pickSlices(t *tensor.Tensor, dim int, places []int) (*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape)
	shape[dim] = len(places)
	out := tensor.Zeros(t.DType, shape...)
	if t.Rank() == 1 && len(places) > 0 {
		at := make([]int, len(places))
		for k, i := range places {
			at[k] = i * stepAt(t.Meta, 0)
		}
		readEach[t.DType.Size()](out.Pointer(), t.Pointer(), t.DType.Size(), at)
		return out, nil
	}
	for k, i := range places {
		dm, err := out.Meta.Narrow(dim, k, 1)
		if err != nil {
			return nil, err
		}
		sm, err := t.Meta.Narrow(dim, i, 1)
		if err != nil {
			return nil, err
		}
		dst, err := out.View(dm)
		if err != nil {
			return nil, err
		}
		src, err := t.View(sm)
		if err != nil {
			return nil, err
		}
		tensor.CopyElements(dst, src)
	}
	return out, nil
}

type compressAttrs struct {
	Dim *int `attr:"dim" default:"none" doc:"dimension whose slices are taken; none: self counts as flat"`
}

// Compress is ONNX's Compress and numpy.compress; PyTorch has none.
var Compress = eagerOp[compressAttrs](graph.Op{
	Name: "compress", Doc: "Takes the slices of self along a dimension where a one-dimensional condition holds. A short condition is false for the rest.",
	Params:   []graph.Param{self, {Name: "condition"}},
	Examples: []graph.Example{{In: []tensor.Meta{nhwc(2, 3, 4, 5), tensor.New(tensor.Bool, 2)}, Attrs: graph.Attrs{"dim": 1}}, {In: []tensor.Meta{f32(2, 3), tensor.New(tensor.Bool, 5)}}},
}, func(c *graph.Call) ([]graph.Outline, error) {
	if c.Type(1).DType != tensor.Bool {
		return nil, errors.New("compress: expected BoolTensor for condition")
	}
	return oneOutline(c.Type(0).DType, slicesOf(c.Type(0), attrs[compressAttrs](c).Dim)...)
}, func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, dim := in[0], 0
	var err error
	if a := attrs[compressAttrs](c); a.Dim == nil {
		x, err = rowMajorAs(x, x.Numel())
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
