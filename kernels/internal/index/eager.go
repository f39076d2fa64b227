package index

import (
	"context"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// eagerOp defines an op whose result depends on data: outlines tells what is known of it ahead. f is
// also its definition; a long loop in it looks at the context, by the panic of [ends.Look].
func eagerOp(attrs *graph.Schema, o graph.Op, outlines func(c *graph.Call) ([]graph.Outline, error),
	f func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	o.Infer = func(c *graph.Call) ([]graph.Result, error) {
		known, err := outlines(c)
		res := make([]graph.Result, len(known))
		for i, o := range known {
			res[i] = o.Result()
		}
		return res, err
	}
	o.Eager = func(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return f(contextOf(rt), c, in)
	}
	o.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return f(context.Background(), c, in)
	}
	return kit.DefineWith(attrs, o)
}

// contextOf returns the context of a run, or one that never ends.
func contextOf(rt graph.Runtime) context.Context {
	if rt == nil {
		return context.Background()
	}
	return rt.Context()
}

// oneOutline is the outline of an eager op with one row-major result. Sizes are -1 where data decide them.
func oneOutline(d tensor.DType, sizes ...int) ([]graph.Outline, error) {
	return []graph.Outline{rowMajor(d, sizes...)}, nil
}

// rowMajor is the outline of a row-major value. Sizes are -1 where data decide them.
func rowMajor(d tensor.DType, sizes ...int) graph.Outline {
	return graph.Outline{DType: d, Sizes: sizes,
		Lay: func(shape []sym.Int) (tensor.Type, error) { return kit.FreshType(d, shape) }}
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
func nonzeroBytes(ctx context.Context, t *tensor.Tensor) []bool {
	flags := kit.CopyTo(ctx, t, tensor.New(tensor.Bool, t.Shape...)) // its bytes are 0 or 1
	return kit.SliceOf[bool](flags.Storage().Bytes(), 0, t.Numel())
}

// nonzeroIndices gives the indices of the elements that are not 0, [n, rank]: those of one dimension are consecutive.
func nonzeroIndices(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	flags := nonzeroBytes(ctx, t)
	n := count(ctx, flags)
	rank := t.Rank()
	out := tensor.Zeros(tensor.Int64, rank, n)
	data := kit.SliceOf[int64](out.Storage().Bytes(), 0, n*rank)
	k := 0
	for i, b := range flags {
		if i%kit.LookEvery == 0 {
			ends.Look(ctx)
		}
		if !b {
			continue
		}
		for d, r := rank-1, i; d >= 0; d-- {
			data[d*n+k] = int64(r % t.Shape[d])
			r /= t.Shape[d]
		}
		k++
	}
	return out.View(tensor.Meta{DType: tensor.Int64, Shape: []int{n, rank}, Strides: []int{1, n}})
}

// count returns the number of flags that are set.
func count(ctx context.Context, flags []bool) int {
	n := 0
	kit.Blocks(ctx, len(flags), func(begin, end int) {
		for _, b := range flags[begin:end] {
			if b {
				n++
			}
		}
	})
	return n
}

// pickSlices copies slices of a tensor along dim.
func pickSlices(ctx context.Context, t *tensor.Tensor, dim int, places []int) (*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape)
	shape[dim] = len(places)
	out := tensor.Zeros(t.DType, shape...)
	if t.Rank() == 1 && len(places) > 0 {
		at, size, step := kit.Numbers[int](min(kit.LookEvery, len(places))), t.DType.Size(), kit.StepAt(t.Meta, 0)
		kit.Blocks(ctx, len(places), func(begin, end int) {
			for k, i := range places[begin:end] {
				at[k] = i * step
			}
			kit.ReadEach[size](unsafe.Add(out.Pointer(), begin*size), t.Pointer(), size, at[:end-begin])
		})
		return out, nil
	}
	from := t
	if !t.IsContiguous() {
		from = kit.CopyTo(ctx, t, tensor.New(t.DType, t.Shape...))
	}
	inner, n := tensor.Numel(shape[dim+1:])*t.DType.Size(), t.Shape[dim]
	if out.Numel() == 0 {
		return out, nil
	}
	to := unsafe.Slice((*byte)(out.Pointer()), out.Bytes())
	src := unsafe.Slice((*byte)(from.Pointer()), from.Bytes())
	copied := 0
	for outer := range tensor.Numel(shape[:dim]) {
		for k, i := range places {
			if copied += max(inner, 64); copied > 64*kit.LookEvery {
				ends.Look(ctx)
				copied = 0
			}
			copy(to[(outer*len(places)+k)*inner:][:inner], src[(outer*n+i)*inner:][:inner])
		}
	}
	return out, nil
}

func vectorOf(v []int64) *tensor.Tensor { return tensor.Must(tensor.FromSlice(v, len(v))) }
