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
func dynamicOp(attrs *graph.Schema, op graph.Op, outlines func(c *graph.Call) ([]graph.PartialType, error),
	compute func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	op.Infer = func(c *graph.Call) ([]graph.Result, error) {
		resultOutlines, err := outlines(c)
		results := make([]graph.Result, len(resultOutlines))
		for i, outline := range resultOutlines {
			results[i] = outline.Result()
		}
		return results, err
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

// unknownSize is the size of a dimension in an outline if the size depends on data or on symbols.
const unknownSize = -1

// oneOutline returns the outlines of an op with a single row-major result. A size may be unknownSize.
func oneOutline(dtype tensor.DType, sizes ...int) ([]graph.PartialType, error) {
	return []graph.PartialType{rowMajorOutline(dtype, sizes...)}, nil
}

// rowMajorOutline returns the outline of a row-major value. A size may be unknownSize.
func rowMajorOutline(dtype tensor.DType, sizes ...int) graph.PartialType {
	return graph.PartialType{DType: dtype, Sizes: sizes,
		TypeFor: func(shape []sym.Int) (tensor.Type, error) { return kit.FreshType(dtype, shape) }}
}

// outlineSizes returns sizes as a [graph.PartialType] has them: numbers, and unknownSize for symbolic sizes.
func outlineSizes(sizes []sym.Int) []int {
	numbers := make([]int, len(sizes))
	for i, size := range sizes {
		numbers[i] = unknownSize
		if number, known := size.Known(); known {
			numbers[i] = number
		}
	}
	return numbers
}

// withUnknownSize returns outlineSizes(sizes), but with unknownSize for dimension dim.
func withUnknownSize(sizes []sym.Int, dim int) []int {
	numbers := outlineSizes(sizes)
	numbers[dim] = unknownSize
	return numbers
}

// selectedSizes returns the sizes of a result that has some slices of self along dim, or some elements if dim is nil.
// Sizes may be unknownSize.
func selectedSizes(self tensor.Type, dim *int) []int {
	if dim == nil || self.Rank() == 0 {
		return []int{unknownSize}
	}
	if wrapped, err := tensor.WrapDim(*dim, self.Rank()); err == nil {
		return withUnknownSize(self.Shape, wrapped)
	}
	return nil // the run reports the error
}

// nonzeroFlags returns a flag for each element, in row-major order. The flag is set if the element is not 0.
func nonzeroFlags(ctx context.Context, t *tensor.Tensor) []bool {
	flags := kit.CopyTo(ctx, t, tensor.New(tensor.Bool, t.Shape...)) // bytes that are 0 or 1, as of a Go bool
	return kit.SliceOf[bool](flags.Storage().Bytes(), 0, t.Numel())
}

// countTrue returns the number of flags that are set.
func countTrue(ctx context.Context, flags []bool) int {
	count := 0
	kit.ForEachBlock(ctx, len(flags), func(begin, end int) {
		for _, flag := range flags[begin:end] {
			if flag {
				count++
			}
		}
	})
	return count
}

// pickSlices returns a row-major tensor of the slices of self at the given indices along dim.
func pickSlices(ctx context.Context, self *tensor.Tensor, dim int, indices []int) (*tensor.Tensor, error) {
	if self.Rank() == 1 {
		return pickElements(ctx, self, indices), nil
	}
	shape := slices.Clone(self.Shape)
	shape[dim] = len(indices)
	out := tensor.Zeros(self.DType, shape...)
	dense := self
	if !self.IsContiguous() {
		dense = kit.CopyTo(ctx, self, tensor.New(self.DType, self.Shape...))
	}
	// The operand is [outer, dimSize, inner], the result [outer, len(indices), inner]; inner is in bytes.
	inner, dimSize := tensor.Numel(shape[dim+1:])*self.DType.Size(), self.Shape[dim]
	if out.Numel() == 0 {
		return out, nil
	}
	dst := unsafe.Slice((*byte)(out.Pointer()), out.Bytes())
	src := unsafe.Slice((*byte)(dense.Pointer()), dense.Bytes())
	const minCopyCost = 64 // a short copy counts as this number of bytes, so that many short ones check the context too
	copied := 0
	for outer := range tensor.Numel(shape[:dim]) {
		for k, i := range indices {
			if copied += max(inner, minCopyCost); copied > minCopyCost*kit.CheckEvery {
				interrupt.Check(ctx)
				copied = 0
			}
			copy(dst[(outer*len(indices)+k)*inner:][:inner], src[(outer*dimSize+i)*inner:][:inner])
		}
	}
	return out, nil
}

// pickElements is pickSlices for a vector.
func pickElements(ctx context.Context, self *tensor.Tensor, indices []int) *tensor.Tensor {
	out := tensor.Zeros(self.DType, len(indices))
	size, step := self.DType.Size(), kit.ByteStride(self.Meta, 0)
	offsets := kit.NewInts[int](min(kit.CheckEvery, len(indices)))
	kit.ForEachBlock(ctx, len(indices), func(begin, end int) {
		for k, i := range indices[begin:end] {
			offsets[k] = i * step
		}
		kit.GatherLoops[size](unsafe.Add(out.Pointer(), begin*size), self.Pointer(), size, offsets[:end-begin])
	})
	return out
}

// int64Vector returns the elements as a tensor.
func int64Vector(elements []int64) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(elements, len(elements)))
}
