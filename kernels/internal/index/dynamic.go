package index

import (
	"context"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// dynamicOp defines an op with results whose shapes depend on data. outlines returns, for each result, the dtype and
// the sizes that are known before the run. compute returns the results, and is also the reference. Its long loops check
// the context with [interrupt.Check].
func dynamicOp(attrs *graph.Schema, op graph.Op, outlines func(c *graph.Call) ([]graph.Outline, error),
	compute func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		resultOutlines, err := outlines(c)
		res := make([]graph.Result, len(resultOutlines))
		for i, o := range resultOutlines {
			res[i] = o.Result()
		}
		return res, err
	}
	op.RunDynamic = func(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return compute(contextOf(rt), c, in)
	}
	op.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return compute(context.Background(), c, in)
	}
	return kit.DefineWith(attrs, op)
}

// contextOf returns the context of a run. It returns the background context if rt is nil.
func contextOf(rt graph.Runtime) context.Context {
	if rt == nil {
		return context.Background()
	}
	return rt.Context()
}

// oneOutline returns the outlines of an op with a single row-major result. A size is -1 if it depends on data.
func oneOutline(d tensor.DType, sizes ...int) ([]graph.Outline, error) {
	return []graph.Outline{rowMajor(d, sizes...)}, nil
}

// rowMajor returns the outline of a row-major value. A size is -1 if it depends on data.
func rowMajor(d tensor.DType, sizes ...int) graph.Outline {
	return graph.Outline{DType: d, Sizes: sizes,
		TypeFor: func(shape []sym.Int) (tensor.Type, error) { return kit.FreshType(d, shape) }}
}

// outlineSizes returns sizes as an [graph.Outline] has them: numbers, and -1 for symbolic sizes.
func outlineSizes(sizes []sym.Int) []int {
	numbers := make([]int, len(sizes))
	for i, s := range sizes {
		n, known := s.Known()
		if numbers[i] = n; !known {
			numbers[i] = -1
		}
	}
	return numbers
}

// unknownAt returns sizes as outlineSizes does, with -1 also for dimension dim.
func unknownAt(sizes []sym.Int, dim int) []int {
	numbers := outlineSizes(sizes)
	numbers[dim] = -1
	return numbers
}

// selectedSizes returns the sizes of a result that has some slices of t along dim, or some elements of t if dim is nil.
// Unknown sizes are -1.
func selectedSizes(t tensor.Type, dim *int) []int {
	if dim == nil || t.Rank() == 0 {
		return []int{-1}
	}
	if d, err := tensor.WrapDim(*dim, t.Rank()); err == nil {
		return unknownAt(t.Shape, d)
	}
	return nil // the run reports the error
}

// nonzeroFlags returns a flag for each element, in row-major order. The flag is set if the element is not 0.
func nonzeroFlags(ctx context.Context, t *tensor.Tensor) []bool {
	flags := kit.CopyTo(ctx, t, tensor.New(tensor.Bool, t.Shape...)) // its bytes are 0 or 1
	return kit.SliceOf[bool](flags.Storage().Bytes(), 0, t.Numel())
}

// nonzeroIndices returns the indices of the n non-zero elements as a tensor of shape [n, rank] and strides [1, n].
func nonzeroIndices(ctx context.Context, self *tensor.Tensor) (*tensor.Tensor, error) {
	flags := nonzeroFlags(ctx, self)
	n := countTrue(ctx, flags)
	rank := self.Rank()
	out := tensor.Zeros(tensor.Int64, rank, n)
	data := kit.SliceOf[int64](out.Storage().Bytes(), 0, n*rank)
	k := 0
	for i, b := range flags {
		if i%kit.CheckEvery == 0 {
			interrupt.Check(ctx)
		}
		if !b {
			continue
		}
		// i = (i0*n1 + i1)*n2 + i2 ...: the remainders are the indices, from the last dimension on.
		for d, r := rank-1, i; d >= 0; d-- {
			data[d*n+k] = int64(r % self.Shape[d])
			r /= self.Shape[d]
		}
		k++
	}
	return out.View(tensor.Meta{DType: tensor.Int64, Shape: []int{n, rank}, Strides: []int{1, n}})
}

// countTrue returns the number of flags that are set.
func countTrue(ctx context.Context, flags []bool) int {
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

// pickSlices copies the slices of a tensor at the given positions along dim.
func pickSlices(ctx context.Context, self *tensor.Tensor, dim int, positions []int) (*tensor.Tensor, error) {
	shape := slices.Clone(self.Shape)
	shape[dim] = len(positions)
	out := tensor.Zeros(self.DType, shape...)
	if self.Rank() == 1 && len(positions) > 0 {
		at, size, step := kit.NewInts[int](min(kit.CheckEvery, len(positions))), self.DType.Size(), kit.StepAt(self.Meta, 0)
		kit.Blocks(ctx, len(positions), func(begin, end int) {
			for k, i := range positions[begin:end] {
				at[k] = i * step
			}
			kit.GatherLoops[size](unsafe.Add(out.Pointer(), begin*size), self.Pointer(), size, at[:end-begin])
		})
		return out, nil
	}
	from := self
	if !self.IsContiguous() {
		from = kit.CopyTo(ctx, self, tensor.New(self.DType, self.Shape...))
	}
	// The operand is [outer, n, inner], the result [outer, len(positions), inner]; inner is in bytes.
	inner, n := tensor.Numel(shape[dim+1:])*self.DType.Size(), self.Shape[dim]
	if out.Numel() == 0 {
		return out, nil
	}
	to := unsafe.Slice((*byte)(out.Pointer()), out.Bytes())
	src := unsafe.Slice((*byte)(from.Pointer()), from.Bytes())
	copied := 0
	for outer := range tensor.Numel(shape[:dim]) {
		for k, i := range positions {
			// Count at least 64 bytes per copy, so that many short ones check the context too.
			if copied += max(inner, 64); copied > 64*kit.CheckEvery {
				interrupt.Check(ctx)
				copied = 0
			}
			copy(to[(outer*len(positions)+k)*inner:][:inner], src[(outer*n+i)*inner:][:inner])
		}
	}
	return out, nil
}

// int64Vector returns v as a tensor.
func int64Vector(v []int64) *tensor.Tensor { return tensor.Must(tensor.FromSlice(v, len(v))) }
