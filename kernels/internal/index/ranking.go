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

// valuesAndIndices has the names of the results of ops that rank elements.
var valuesAndIndices = []string{"values", "indices"}

// orderingEach estimates the cost per element of sorting a line or selecting from it: the comparisons and moves count
// as functions such as exp.
var orderingEach = graph.ElementFlops{Function: 7}

// ranking describes a call of sort or topk, which sorts the lines along dim and keeps the first k elements of each
// line.
type ranking struct {
	dim, k     int
	descending bool
}

// rankedElement is an element and its index in the line.
type rankedElement[T kit.Sortable] struct {
	value T
	index int64
}

// compareAscending compares elements in ascending order. NaN is last. Equal elements are ordered by index.
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

// compile returns the kernel for the operand 0 and the results of the call.
func (rank *ranking) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	d := call.Meta(0).DType
	switch kit.LoopDType(d) {
	case tensor.Int64:
		return rankKernel[int64](rank, call, d), nil
	case tensor.Float32:
		return rankKernel[float32](rank, call, d), nil
	}
	return rankKernel[float64](rank, call, d), nil
}

// rankKernel returns a kernel that sorts each line in worker memory. The values of the result are copied from the
// operand by index, so that their bits are preserved.
func rankKernel[T kit.Sortable](rank *ranking, call *graph.Call, d tensor.DType) *graph.Kernel {
	m, size := call.Meta(0), d.Size()
	n := sizeAt(m, rank.dim)
	// sort and topk return values and indices, argsort only indices. Mem.Ptrs has the results, then the operand. The
	// offsets of a line are first the offset in the operand, then the offsets in the results.
	metas := append([]tensor.Meta{m}, call.Out...)
	lines := kit.NewLineSet(m.Shape, rank.dim, metas...)
	load := tensor.Converter(kit.LoopDType(d), d)
	inStep, valueStep := kit.ByteStride(m, rank.dim), kit.ByteStride(call.Out[0], rank.dim)
	indexStep := kit.ByteStride(call.Out[len(call.Out)-1], rank.dim)
	unsigned := d == tensor.Uint64
	log2 := 1 // log2(n), rounded up
	for 1<<log2 < n {
		log2++
	}
	sortCost := 4 * n * log2
	return &graph.Kernel{WorkerScratch: n * int(unsafe.Sizeof(rankedElement[T]{})),
		Phases: []graph.Phase{lines.Phase(sortCost, func(mem *graph.Mem, offsets [4]int) error {
			line := unsafe.Slice((*rankedElement[T])(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), n)
			src := unsafe.Add(mem.Ptrs[len(call.Out)], offsets[0])
			loadRanked(mem.Context, line, load, src, inStep, unsigned)
			line = takeBest(mem.Context, line, rank.k, rank.descending)
			indices := unsafe.Add(mem.Ptrs[len(call.Out)-1], offsets[len(call.Out)])
			kit.ForEachBlock(mem.Context, len(line), func(begin, end int) {
				for i := begin; i < end; i++ {
					*(*int64)(unsafe.Add(indices, i*indexStep)) = line[i].index
				}
			})
			if len(call.Out) == 2 {
				values := unsafe.Add(mem.Ptrs[0], offsets[1])
				for i := range line {
					if i%kit.CheckEvery == kit.CheckEvery-1 {
						mem.CheckContext()
					}
					kit.CopyElement(unsafe.Add(values, i*valueStep), unsafe.Add(src, int(line[i].index)*inStep), size)
				}
			}
			return nil
		})}}
}

// loadRanked reads elements that are step bytes apart, from address src on, into the line. load converts them to T.
// unsigned is set for uint64 elements.
func loadRanked[T kit.Sortable](ctx context.Context, line []rankedElement[T], load tensor.ConvertFunc,
	src unsafe.Pointer, step int, unsigned bool) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		part := line[begin:end]
		load(unsafe.Pointer(&part[0].value), unsafe.Add(src, begin*step), int(unsafe.Sizeof(part[0])), step, len(part))
		for i := range part {
			part[i].index = int64(begin + i)
		}
		if unsigned {
			flipSigns(part)
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
func flipSign[T kit.Sortable](v *T) {
	p := (*int64)(unsafe.Pointer(v))
	*p = int64(uint64(*p) ^ 1<<63)
}

// siftsPerCheck is the number of elements that are sifted into a heap between two checks of the context.
const siftsPerCheck = kit.CheckEvery / 8

// takeBest returns the first count elements of the line in sorted order. If count is less than a quarter of the line, a
// heap holds the best count elements found so far, with the worst of them at the root. Only these are sorted at the
// end.
func takeBest[T kit.Sortable](ctx context.Context, line []rankedElement[T], count int,
	descending bool) []rankedElement[T] {
	cmp := compareAscending[T]
	if descending {
		cmp = compareDescending[T]
	}
	if count == 0 {
		return line[:0]
	}
	if count*4 < len(line) {
		heap := line[:count]
		for i := count/2 - 1; i >= 0; i-- {
			if i%siftsPerCheck == 0 {
				interrupt.Check(ctx)
			}
			siftDown(heap, i, cmp)
		}
		for i, e := range line[count:] {
			if i%siftsPerCheck == siftsPerCheck-1 {
				interrupt.Check(ctx)
			}
			if cmp(e, heap[0]) < 0 {
				heap[0] = e
				siftDown(heap, 0, cmp)
			}
		}
		line = heap
	}
	kit.Sort(ctx, line, cmp)
	return line[:count]
}

// siftDown restores the order of a heap after element i was replaced. The root is the last element by cmp; the children
// of element i are the elements 2*i+1 and 2*i+2.
func siftDown[T kit.Sortable](heap []rankedElement[T], i int, cmp func(a, b rankedElement[T]) int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && cmp(heap[child+1], heap[child]) > 0 {
			child++
		}
		if cmp(heap[child], heap[i]) <= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// reference is the reference of sort and topk: it returns values and indices. It sorts each line stably by comparisons
// of scalars.
func (rank *ranking) reference(self *tensor.Tensor) ([]*tensor.Tensor, error) {
	shape := slices.Clone(self.Shape)
	if len(shape) > 0 {
		shape[rank.dim] = rank.k
	}
	values, indices := tensor.Zeros(self.DType, shape...), tensor.Zeros(tensor.Int64, shape...)
	isLess := func(a, b tensor.Scalar) bool {
		switch x, y := a.Float(), b.Float(); {
		case self.DType == tensor.Uint64:
			return uint64(a.Int()) < uint64(b.Int())
		case self.DType.IsFloat():
			return x < y || y != y && x == x
		}
		return a.Int() < b.Int()
	}
	lineStarts := slices.Clone(self.Shape)
	if len(lineStarts) > 0 {
		lineStarts[rank.dim] = 1
	}
	if rank.k == 0 {
		return []*tensor.Tensor{values, indices}, nil
	}
	kit.EachIndex(lineStarts, func(coords []int) {
		coords = slices.Clone(coords)
		element := func(i int) tensor.Scalar {
			if len(coords) > 0 {
				coords[rank.dim] = i
			}
			return self.At(coords...)
		}
		order := make([]int, sizeAt(self.Meta, rank.dim))
		for i := range order {
			order[i] = i
		}
		sorted.Func(order, func(a, b int) int {
			x, y := element(a), element(b)
			if rank.descending {
				x, y = y, x
			}
			switch {
			case isLess(x, y):
				return -1
			case isLess(y, x):
				return 1
			}
			return 0
		})
		for i, from := range order[:rank.k] {
			value := element(from)
			if len(coords) > 0 {
				coords[rank.dim] = i
			}
			values.Set(value, coords...)
			indices.Set(tensor.IntScalar(int64(from)), coords...)
		}
	})
	return []*tensor.Tensor{values, indices}, nil
}
