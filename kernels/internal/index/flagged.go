package index

import (
	"context"
	"unsafe"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// The functions of this file return the slices, or the indices of the elements, whose flag is true. A loop stores each
// element before it tests the flag: the next element overwrites an element whose flag is false. Such a loop has no
// branch that depends on data.

// keepSlices returns a row-major copy of the slices of a tensor along dim whose flag is true.
func keepSlices(ctx context.Context, t *tensor.Tensor, dim int, flags []bool) (*tensor.Tensor, error) {
	count := countTrue(ctx, flags)
	if t.Rank() == 1 {
		return keepElements(ctx, t, flags, count), nil
	}
	indices := kit.NewInts[int](count)
	trueIndices(ctx, indices, flags)
	return pickSlices(ctx, t, dim, indices)
}

// keepElements is keepSlices for a vector. count is the number of true flags.
func keepElements(ctx context.Context, t *tensor.Tensor, flags []bool, count int) *tensor.Tensor {
	out := tensor.Zeros(t.DType, count)
	size, step := t.DType.Size(), kit.ByteStride(t.Meta, 0)
	kept := 0
	kit.ForEachBlock(ctx, len(flags), func(begin, end int) {
		kept = keepLoops[size](out, kept, unsafe.Add(t.Pointer(), begin*step), step, flags[begin:end])
	})
	return out
}

// keepLoops has the loops of keepElements, indexed by element size in bytes. out has `kept` elements before a call of a
// loop. The loop appends the element at source + i*step for each i whose flags[i] is true. It returns the new number of
// elements.
var keepLoops = [17]func(out *tensor.Tensor, kept int, source unsafe.Pointer, step int, flags []bool) int{
	1: keepRow[uint8], 2: keepRow[uint16], 4: keepRow[uint32], 8: keepRow[uint64], 16: keepRow[[2]uint64]}

func keepRow[T uint8 | uint16 | uint32 | uint64 | [2]uint64](out *tensor.Tensor, kept int, source unsafe.Pointer,
	step int, flags []bool) int {
	elements := kit.ElementsOf[T](out.Pointer(), out.Numel())
	for i := 0; i < len(flags) && kept < len(elements); i++ {
		elements[kept] = *(*T)(unsafe.Add(source, i*step))
		if flags[i] {
			kept++
		}
	}
	return kept
}

// nonzeroIndices returns the indices of the non-zero elements as a tensor of shape [count, rank] and strides
// [1, count].
func nonzeroIndices(ctx context.Context, self *tensor.Tensor) (*tensor.Tensor, error) {
	flags := nonzeroFlags(ctx, self)
	count, rank := countTrue(ctx, flags), self.Rank()
	out := tensor.Zeros(tensor.Int64, rank, count)
	if out.Numel() > 0 {
		indices := kit.ElementsOf[int64](out.Pointer(), out.Numel())
		positions := indices[(rank-1)*count:]
		trueIndices(ctx, positions, flags)
		kit.ForEachBlock(ctx, count, func(begin, end int) {
			splitPositions(indices, begin, positions[begin:end], self.Shape)
		})
	}
	return out.View(tensor.Meta{DType: tensor.Int64, Shape: []int{count, rank}, Strides: []int{1, count}})
}

// splitPositions replaces ascending row-major positions by their indices in the last dimension, and writes their
// indices in the other dimensions. The list `indices` has a column of equal length for each dimension, and `first` is
// the place of the first position in its column.
func splitPositions(indices []int64, first int, positions []int64, shape []int) {
	lastDim := len(shape) - 1
	if lastDim == 0 {
		return
	}
	columnLength, rowLength := len(indices)/len(shape), int64(shape[lastDim])
	rowBegin, rowEnd := int64(0), int64(0)
	rowIndices := make([]int64, lastDim) // of the row from rowBegin to rowEnd
	for k, position := range positions {
		if position >= rowEnd {
			row := position / rowLength
			rowBegin, rowEnd = row*rowLength, (row+1)*rowLength
			for dim := lastDim - 1; dim >= 0; dim-- {
				rowIndices[dim] = row % int64(shape[dim])
				row /= int64(shape[dim])
			}
		}
		for dim, index := range rowIndices {
			indices[dim*columnLength+first+k] = index
		}
		positions[k] = position - rowBegin
	}
}

// trueIndices fills a list with the indices of the true flags. The list has one element for each true flag.
func trueIndices[T int | int64](ctx context.Context, indices []T, flags []bool) {
	found := 0
	kit.ForEachBlock(ctx, len(flags), func(begin, end int) {
		for i := begin; i < end && found < len(indices); i++ {
			indices[found] = T(i)
			if flags[i] {
				found++
			}
		}
	})
}
