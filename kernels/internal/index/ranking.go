package index

import (
	"context"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// ranking describes a call of sort, argsort or topk, which sorts the lines along dim and keeps the first k elements of
// each line. A line has the elements along dim at one index of the other dimensions. For example, with k = 2, the line
// [5 2 9 2] gives the values [2 2] and the indices [1 3]; descending, it gives [9 5] and [2 0].
type ranking struct {
	dim, k       int
	isDescending bool
}

// compile returns the kernel for the operand 0 and the results of the call. The values of the result are copied from
// the operand by index, so that their bits are preserved.
func (r *ranking) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	selfMeta := call.Meta(0)
	ranker := newLineRanker(selfMeta.DType, sizeAt(selfMeta, r.dim), r.k, r.isDescending)
	// sort and topk return values and indices, argsort only indices.
	hasValues, indicesResult := len(call.Out) == 2, len(call.Out)-1
	// Mem.Ptrs has the results, then the operand. The phase gets the offsets of a line in bytes: first in the operand,
	// then in each result.
	lines := kit.NewLineSet(selfMeta.Shape, r.dim, append([]tensor.Meta{selfMeta}, call.Out...)...)
	operandPtr := len(call.Out)
	inStep, valueStep := kit.ByteStride(selfMeta, r.dim), kit.ByteStride(call.Out[0], r.dim)
	indexStep := kit.ByteStride(call.Out[indicesResult], r.dim)
	return &graph.Kernel{WorkerScratch: ranker.scratchWords() * wordBytes,
		Phases: []graph.Phase{lines.Phase(rankCost*ranker.length, func(mem *graph.Mem, offsets [4]int) error {
			src := unsafe.Add(mem.Ptrs[operandPtr], offsets[0])
			order := ranker.rank(mem, src, inStep)
			storeIndices(mem.Context, order, unsafe.Add(mem.Ptrs[indicesResult], offsets[1+indicesResult]), indexStep)
			if hasValues {
				copyRanked(mem.Context, order, unsafe.Add(mem.Ptrs[0], offsets[1]), valueStep, src, inStep,
					selfMeta.DType.Size())
			}
			return nil
		})}}, nil
}

// valuesAndIndices has the names of the results of ops that rank elements.
var valuesAndIndices = []string{"values", "indices"}

// rankingFlops estimates the cost per element of sorting a line: the passes of the radix sort over an element take as
// long as 2 calls of a function such as exp.
var rankingFlops = graph.ElementFlops{Function: 2}

// rankCost is the approximate cost per element of sorting a line, in copied elements.
const rankCost = 16

// storeIndices writes the indices of the elements of a line, in sorted order, to addresses that are step bytes apart.
func storeIndices(ctx context.Context, order []int, dst unsafe.Pointer, step int) {
	kit.ForEachBlock(ctx, len(order), func(begin, end int) {
		for i := begin; i < end; i++ {
			*(*int64)(unsafe.Add(dst, i*step)) = int64(order[i])
		}
	})
}

// copyRanked copies elements of a line from src to dst. order has their indices, which copyRanked replaces by offsets
// in bytes. dstStep and srcStep are the distances between elements in bytes, and elementSize is the size of an element.
func copyRanked(ctx context.Context, order []int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep,
	elementSize int) {
	kit.ForEachBlock(ctx, len(order), func(begin, end int) {
		block := order[begin:end]
		for i := range block {
			block[i] *= srcStep
		}
		kit.GatherLoops[elementSize](unsafe.Add(dst, begin*dstStep), src, dstStep, block)
	})
}

// reference is the reference of sort and topk: it returns values and indices. It sorts each line stably by comparisons
// of scalars.
func (r *ranking) reference(self *tensor.Tensor) ([]*tensor.Tensor, error) {
	shapeWithLength := func(length int) []int { // self may have no dimensions
		shape := slices.Clone(self.Shape)
		if len(shape) > 0 {
			shape[r.dim] = length
		}
		return shape
	}
	shape := shapeWithLength(r.k)
	values, indices := tensor.Zeros(self.DType, shape...), tensor.Zeros(tensor.Int64, shape...)
	if r.k == 0 {
		return []*tensor.Tensor{values, indices}, nil
	}
	kit.EachIndex(shapeWithLength(1), func(lineStart []int) {
		coords := slices.Clone(lineStart)
		coordsOf := func(i int) []int { // of element i of the line
			if len(coords) > 0 {
				coords[r.dim] = i
			}
			return coords
		}
		element := func(i int) tensor.Scalar { return self.At(coordsOf(i)...) }
		for i, index := range r.refOrder(self.DType, sizeAt(self.Meta, r.dim), element)[:r.k] {
			value := element(index)
			values.Set(value, coordsOf(i)...)
			indices.Set(tensor.IntScalar(int64(index)), coordsOf(i)...)
		}
	})
	return []*tensor.Tensor{values, indices}, nil
}

// refOrder returns the indices of the elements of a line in sorted order. element returns an element of the line.
func (r *ranking) refOrder(dtype tensor.DType, length int, element func(i int) tensor.Scalar) []int {
	order := make([]int, length)
	for i := range order {
		order[i] = i
	}
	sorted.Func(order, func(a, b int) int {
		x, y := element(a), element(b)
		if r.isDescending {
			x, y = y, x
		}
		switch {
		case refIsLess(dtype, x, y):
			return -1
		case refIsLess(dtype, y, x):
			return 1
		}
		return 0
	})
	return order
}

// refIsLess reports whether a comes before b in ascending order. NaN is last.
func refIsLess(dtype tensor.DType, a, b tensor.Scalar) bool {
	switch {
	case dtype == tensor.Uint64:
		return uint64(a.Int()) < uint64(b.Int())
	case dtype.IsFloat():
		x, y := a.Float(), b.Float()
		return x < y || y != y && x == x
	}
	return a.Int() < b.Int()
}
