package index

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
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
	return kit.Define[A](o)
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

// slicesOf is what is known of the sizes of some slices along a dimension, or of some elements where that
// is nil.
func slicesOf(t tensor.Type, dim *int) []int {
	if dim == nil || t.Rank() == 0 {
		return []int{-1}
	}
	if d, err := tensor.WrapDim(*dim, t.Rank()); err == nil {
		return openAt(t.Shape, d)
	}
	return nil // running tells why
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

// pickSlices copies slices of a tensor along dim.
func pickSlices(t *tensor.Tensor, dim int, places []int) (*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape)
	shape[dim] = len(places)
	out := tensor.Zeros(t.DType, shape...)
	if t.Rank() == 1 && len(places) > 0 {
		at := make([]int, len(places))
		for k, i := range places {
			at[k] = i * kit.StepAt(t.Meta, 0)
		}
		kit.ReadEach[t.DType.Size()](out.Pointer(), t.Pointer(), t.DType.Size(), at)
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

func vectorOf(v []int64) *tensor.Tensor { return tensor.Must(tensor.FromSlice(v, len(v))) }
