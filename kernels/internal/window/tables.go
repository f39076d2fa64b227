package window

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// The tables of this file have entries for the indices of the result along one dimension. A table of up to
// maxStaticEntries entries is static: the kernel computes the table when it is compiled, and keeps it. Longer tables
// would take too much memory. In each run, a phase of the kernel computes them in scratch memory.

// maxStaticEntries is the maximum number of entries of a static table. Such a table takes about 1 MiB.
const maxStaticEntries = 1 << 16

// indexBytes is the number of bytes of an int in scratch memory.
const indexBytes = 8

// indexTable lists a number for each index of the result: an index or an offset in the operand.
type indexTable struct {
	staticList    []int // nil if the table is not static
	length        int   // length of the list
	scratchOffset int   // for a table that is not static: the offset of the list in scratch memory, in bytes
}

// newIndexTable lists number(i) for i from 0 to length-1. If the table is not static, it adds a phase and scratch
// memory to the kernel.
func newIndexTable(kernel *graph.Kernel, length int, number func(i int) int) indexTable {
	fill := func(list []int, begin, end int) {
		for i := begin; i < end; i++ {
			list[i] = number(i)
		}
	}
	table := indexTable{length: length}
	if length <= maxStaticEntries {
		table.staticList = make([]int, length)
		fill(table.staticList, 0, length)
		return table
	}
	table.scratchOffset = kernel.Scratch
	kernel.Scratch += kit.AlignUp(indexBytes * length)
	const cost = 1 // cost of an entry, in copied elements
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(length, cost, func(mem *graph.Mem, begin, end int) error {
		fill(table.indicesOf(mem), begin, end)
		return nil
	}))
	return table
}

// indicesOf returns the list of the table during a run.
func (t *indexTable) indicesOf(mem *graph.Mem) []int {
	if t.staticList != nil || t.length == 0 {
		return t.staticList
	}
	return kit.SliceOf[int](mem.Scratch, t.scratchOffset, t.length)
}

// tapTable lists the taps of each index of the result: elements of the operand, with weights that are not 0.
type tapTable[T float32 | float64] struct {
	axis          *axisTaps
	staticLists   tapLists[T] // only if the table is static
	scratchOffset int         // for a table that is not static: the offset of the lists in scratch memory, in bytes
}

// tapLists has the lists of a [tapTable]. The lists have `stride` places for the taps of an index. The taps of index i
// are the pairs elements[k], weights[k] for k from i*stride to i*stride + counts[i] - 1.
//
// For example, linear interpolation from 2 to 3 elements with the corners aligned has the taps (element 0, weight 1),
// (0, 0.5), (1, 0.5) and (1, 1). With stride 2, counts is [1 2 1], elements is [0 _ 0 1 1 _] and weights is
// [1 _ 0.5 0.5 1 _].
type tapLists[T float32 | float64] struct {
	stride           int
	counts, elements []int
	weights          []T
}

// hasStaticTable reports whether the [tapTable] of the axis is static.
func (t *axisTaps) hasStaticTable() bool {
	return kit.BoundedProduct(t.outSize, t.maxTaps) <= maxStaticEntries
}

// tabulatedTapMoves is the approximate cost of computing a tap of a table, in copied elements.
const tabulatedTapMoves = 16

// newTapTable returns the table of an axis. If the table is not static, it adds a phase and scratch memory to the
// kernel.
func newTapTable[T float32 | float64](kernel *graph.Kernel, axis *axisTaps) *tapTable[T] {
	table := &tapTable[T]{axis: axis}
	outSize, entries := axis.outSize, axis.outSize*axis.maxTaps
	if axis.hasStaticTable() {
		table.staticLists = tapLists[T]{stride: axis.maxTaps, counts: make([]int, outSize),
			elements: make([]int, entries), weights: make([]T, entries)}
		table.staticLists.fill(axis, 0, outSize)
		return table
	}
	table.scratchOffset = kernel.Scratch
	kernel.Scratch += kit.AlignUp(indexBytes*(outSize+entries) + int(unsafe.Sizeof(T(0)))*entries)
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(outSize, tabulatedTapMoves*axis.maxTaps,
		func(mem *graph.Mem, begin, end int) error {
			lists := table.listsOf(mem)
			lists.fill(axis, begin, end)
			return nil
		}))
	return table
}

// listsOf returns the lists of the table during a run. Scratch memory has the counts, then the elements, then the
// weights.
func (t *tapTable[T]) listsOf(mem *graph.Mem) tapLists[T] {
	if t.axis.hasStaticTable() {
		return t.staticLists
	}
	outSize, entries := t.axis.outSize, t.axis.outSize*t.axis.maxTaps
	return tapLists[T]{stride: t.axis.maxTaps, counts: kit.SliceOf[int](mem.Scratch, t.scratchOffset, outSize),
		elements: kit.SliceOf[int](mem.Scratch, t.scratchOffset+indexBytes*outSize, entries),
		weights:  kit.SliceOf[T](mem.Scratch, t.scratchOffset+indexBytes*(outSize+entries), entries)}
}

// fill lists the taps of the indices from begin to end-1.
func (l *tapLists[T]) fill(axis *axisTaps, begin, end int) {
	for i := begin; i < end; i++ {
		next := i * l.stride
		axis.eachNonzero(i, func(element int, weight float64) {
			l.elements[next], l.weights[next] = element, T(weight)
			next++
		})
		l.counts[i] = next - i*l.stride
	}
}

// at returns the elements and the weights of the taps of an index.
func (l *tapLists[T]) at(index int) (elements []int, weights []T) {
	begin := index * l.stride
	end := begin + l.counts[index]
	return l.elements[begin:end], l.weights[begin:end]
}
