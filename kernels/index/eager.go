package index

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// eagerOp defines an op whose result depends on data; f is also its definition.
func eagerOp[A any](o graph.Op, dtypes func(c *graph.Call) ([]tensor.DType, error), f func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		ds, err := dtypes(c)
		res := make([]graph.Result, len(ds))
		for i, d := range ds {
			res[i] = graph.Result{Type: tensor.Type{DType: d}, Alias: graph.Fresh, Dynamic: true}
		}
		return res, err
	}
	o.Eager = func(_ graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return f(c, in) }
	o.Ref = f
	return kit.Define[A](o)
}

// oneDType says that an eager op has one result.
func oneDType(d tensor.DType) ([]tensor.DType, error) { return []tensor.DType{d}, nil }

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
