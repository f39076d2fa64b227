package index

import (
	"context"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
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

// compile returns the kernel for the operand 0 and the results of the call.
func (r *ranking) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	dtype := call.Meta(0).DType
	switch kit.LoopDType(dtype) {
	case tensor.Int64:
		return rankKernel[int64](r, call, dtype), nil
	case tensor.Float32:
		return rankKernel[float32](r, call, dtype), nil
	}
	return rankKernel[float64](r, call, dtype), nil
}

// valuesAndIndices has the names of the results of ops that rank elements.
var valuesAndIndices = []string{"values", "indices"}

// orderingFlops estimates the cost per element of sorting a line or selecting from it: the comparisons and moves of an
// element count as 7 calls of a function such as exp.
var orderingFlops = graph.ElementFlops{Function: 7}

// rankKernel returns a kernel that sorts each line in worker memory. The values of the result are copied from the
// operand by index, so that their bits are preserved.
func rankKernel[T kit.Sortable](r *ranking, call *graph.Call, dtype tensor.DType) *graph.Kernel {
	selfMeta := call.Meta(0)
	length := sizeAt(selfMeta, r.dim)
	// sort and topk return values and indices, argsort only indices.
	hasValues, indicesResult := len(call.Out) == 2, len(call.Out)-1
	// Mem.Ptrs has the results, then the operand. The phase gets the offsets of a line in bytes: first in the operand,
	// then in each result.
	lines := kit.NewLineSet(selfMeta.Shape, r.dim, append([]tensor.Meta{selfMeta}, call.Out...)...)
	operandPtr := len(call.Out)
	load := tensor.Converter(kit.LoopDType(dtype), dtype)
	inStep, valueStep := kit.ByteStride(selfMeta, r.dim), kit.ByteStride(call.Out[0], r.dim)
	indexStep := kit.ByteStride(call.Out[indicesResult], r.dim)
	return &graph.Kernel{WorkerScratch: length * int(unsafe.Sizeof(rankedElement[T]{})),
		Phases: []graph.Phase{lines.Phase(sortCost(length), func(mem *graph.Mem, offsets [4]int) error {
			line := unsafe.Slice((*rankedElement[T])(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), length)
			src := unsafe.Add(mem.Ptrs[operandPtr], offsets[0])
			loadRanked(mem.Context, line, load, src, inStep, dtype == tensor.Uint64)
			line = sortFirst(mem.Context, line, r.k, r.isDescending)
			indices := unsafe.Add(mem.Ptrs[indicesResult], offsets[1+indicesResult])
			storeIndices(mem.Context, line, indices, indexStep)
			if hasValues {
				copyRanked(mem, line, unsafe.Add(mem.Ptrs[0], offsets[1]), valueStep, src, inStep, dtype.Size())
			}
			return nil
		})}}
}

// copyRanked copies the elements of a line from src to dst, in the order of the line. dstStep and srcStep are the
// distances between elements in bytes, and elementSize is the size of an element.
func copyRanked[T kit.Sortable](mem *graph.Mem, line []rankedElement[T], dst unsafe.Pointer, dstStep int,
	src unsafe.Pointer, srcStep, elementSize int) {
	for i := range line {
		if i%kit.CheckEvery == kit.CheckEvery-1 {
			mem.CheckContext()
		}
		kit.CopyElement(unsafe.Add(dst, i*dstStep), unsafe.Add(src, int(line[i].index)*srcStep), elementSize)
	}
}

// rankedElement is an element and its index in the line.
type rankedElement[T kit.Sortable] struct {
	value T
	index int64
}

// sortCost returns the approximate cost of sorting a line, in copied elements.
func sortCost(length int) int {
	return 4 * length * bisectionSteps(length) // a comparison costs about as much as copying 4 elements
}

// bisectionSteps returns the number of steps of a binary search: log2(length), rounded up, but at least 1.
func bisectionSteps(length int) int {
	steps := 1
	for 1<<steps < length {
		steps++
	}
	return steps
}

// storeIndices writes the indices of the elements of a line to addresses that are stepBytes apart.
func storeIndices[T kit.Sortable](ctx context.Context, line []rankedElement[T], dst unsafe.Pointer, stepBytes int) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end; i++ {
			*(*int64)(unsafe.Add(dst, i*stepBytes)) = line[i].index
		}
	})
}

// loadRanked reads elements that are stepBytes apart, from address src on, into the line. load converts them to T.
// isUnsigned is set for uint64 elements.
func loadRanked[T kit.Sortable](ctx context.Context, line []rankedElement[T], load tensor.ConvertFunc,
	src unsafe.Pointer, stepBytes int, isUnsigned bool) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		block := line[begin:end]
		load(unsafe.Pointer(&block[0].value), unsafe.Add(src, begin*stepBytes), int(unsafe.Sizeof(block[0])), stepBytes,
			len(block))
		for i := range block {
			block[i].index = int64(begin + i)
		}
		if isUnsigned {
			flipSigns(block)
		}
	})
}

// flipSigns maps unsigned numbers to signed numbers with the same order.
func flipSigns[T kit.Sortable](line []rankedElement[T]) {
	for i := range line {
		flipSign(&line[i].value)
	}
}

// flipSign inverts the highest bit of a number of 64 bits: it maps a uint64 to an int64, in order.
func flipSign[T kit.Sortable](number *T) {
	bits := (*int64)(unsafe.Pointer(number))
	*bits = int64(uint64(*bits) ^ 1<<63)
}

// sortFirst returns the first count elements of the line in sorted order. If count is less than a quarter of the line,
// a heap first selects these elements, and only they are sorted.
func sortFirst[T kit.Sortable](ctx context.Context, line []rankedElement[T], count int,
	isDescending bool) []rankedElement[T] {
	compare := compareAscending[T]
	if isDescending {
		compare = compareDescending[T]
	}
	if count == 0 {
		return line[:0]
	}
	if count*4 < len(line) {
		selectByHeap(ctx, line, count, compare)
		line = line[:count]
	}
	kit.Sort(ctx, line, compare)
	return line[:count]
}

// compareAscending compares elements in ascending order. NaN, for which x != x, is last. Equal elements are ordered by
// index.
func compareAscending[T kit.Sortable](a, b rankedElement[T]) int {
	switch {
	case a.value < b.value || b.value != b.value && a.value == a.value:
		return -1
	case a.value > b.value || a.value != a.value && b.value == b.value:
		return 1
	}
	return int(a.index - b.index)
}

// compareDescending compares elements in descending order. NaN is first. Equal elements are ordered by index.
func compareDescending[T kit.Sortable](a, b rankedElement[T]) int {
	switch {
	case a.value > b.value || a.value != a.value && b.value == b.value:
		return -1
	case a.value < b.value || b.value != b.value && a.value == a.value:
		return 1
	}
	return int(a.index - b.index)
}

// siftsPerCheck is the number of elements that are sifted into a heap between two checks of the context.
const siftsPerCheck = kit.CheckEvery / 8

// selectByHeap moves the count elements that compare orders first to the front of the line. They form a heap there,
// with the last of them at the root, and are not sorted.
func selectByHeap[T kit.Sortable](ctx context.Context, line []rankedElement[T], count int,
	compare func(a, b rankedElement[T]) int) {
	heap := line[:count]
	for i := count/2 - 1; i >= 0; i-- {
		if i%siftsPerCheck == 0 {
			interrupt.Check(ctx)
		}
		siftDown(heap, i, compare)
	}
	for i, candidate := range line[count:] {
		if i%siftsPerCheck == siftsPerCheck-1 {
			interrupt.Check(ctx)
		}
		if compare(candidate, heap[0]) < 0 {
			heap[0] = candidate
			siftDown(heap, 0, compare)
		}
	}
}

// siftDown restores the order of a heap after element i was replaced. The root is the last element by compare; the
// children of element i are the elements 2*i+1 and 2*i+2.
func siftDown[T kit.Sortable](heap []rankedElement[T], i int, compare func(a, b rankedElement[T]) int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && compare(heap[child+1], heap[child]) > 0 {
			child++
		}
		if compare(heap[child], heap[i]) <= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
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
