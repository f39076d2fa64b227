package pool

import (
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// windowFold folds (reduces) the windows of n results in Go. A tap is an element of a window. The caller computes n
// neighbouring results together, tap by tap, or a single result window by window:
//
//	n results                      a single result
//	begin                          begin
//	foldTap for each tap           foldWindow for each depth of the window
//	writeResults or writeIndices   writeResults or writeIndices
//
// partials is memory for the partial results. Steps are in bytes. An index is the row-major index of an element in its
// plane, and an index step is a difference of such indices.
type windowFold interface {
	// partialBytes returns the number of bytes of partials for n results.
	partialBytes(n int) int
	// begin initializes partials. The index of the first tap of result i is index + i*indexStep.
	begin(partials unsafe.Pointer, n, index, indexStep int)
	// foldTap folds one tap of each result. The tap of result i is at first + i*step, with the index index + i*indexStep.
	foldTap(partials, first unsafe.Pointer, n, step, index, indexStep int)
	// foldWindow folds the taps of a grid, which belong to a single result. index is the index of the first tap.
	foldWindow(partials, first unsafe.Pointer, grid tapGrid, index int)
	// writeResults writes the results to contiguous memory. area is the divisor of averages, a number of taps.
	writeResults(dst, partials unsafe.Pointer, n int, area float64)
	// writeIndices writes the indices of maxima to contiguous memory.
	writeIndices(dst, partials unsafe.Pointer, n int)
}

// tapGrid describes the taps of a window at one depth.
type tapGrid struct {
	rows, rowStep, rowIndexStep          int // number of rows; distance between rows in bytes; index step between rows
	columns, columnStep, columnIndexStep int // the same for the taps of a row
}

// newWindowFold returns the reduction of elements of the given dtype, the dtype in which the loops compute.
func newWindowFold(dtype tensor.DType, fold *foldSpec) windowFold {
	switch {
	case fold.kind == reduceMax:
		return newMaxFold(dtype, fold.returnsIndices)
	case dtype == tensor.Int64:
		return &sumFold[int64, int64]{foldSpec: fold}
	case dtype == tensor.Float32:
		return newSumFold[float32](fold)
	}
	return newSumFold[float64](fold)
}

// newMaxFold returns the fold of maxima. tracksIndex is set if it also tracks their indices.
func newMaxFold(dtype tensor.DType, tracksIndex bool) windowFold {
	switch dtype {
	case tensor.Uint8:
		return maxFold[uint8]{tracksIndex: tracksIndex}
	case tensor.Int8:
		return maxFold[int8]{lowest: math.MinInt8, tracksIndex: tracksIndex}
	case tensor.Int16:
		return maxFold[int16]{lowest: math.MinInt16, tracksIndex: tracksIndex}
	case tensor.Int32:
		return maxFold[int32]{lowest: math.MinInt32, tracksIndex: tracksIndex}
	case tensor.Int64:
		return maxFold[int64]{lowest: math.MinInt64, tracksIndex: tracksIndex}
	case tensor.Float32:
		return maxFold[float32]{lowest: float32(math.Inf(-1)), tracksIndex: tracksIndex}
	}
	return maxFold[float64]{lowest: math.Inf(-1), tracksIndex: tracksIndex}
}

// maxFold computes maxima and, if tracksIndex is set, their indices. As in PyTorch, of several equal maxima the first
// counts, NaN is greater than all numbers, and of several NaNs the last counts. An empty window has the lowest value
// and the index at which it begins.
type maxFold[T uint8 | int8 | int16 | int32 | int64 | float32 | float64] struct {
	lowest      T
	tracksIndex bool
}

// split divides partials into the maxima of n results and their indices.
func (f maxFold[T]) split(partials unsafe.Pointer, results int) (best []T, bestIndex []int64) {
	best = unsafe.Slice((*T)(partials), results)
	if f.tracksIndex {
		bestBytes := kit.AlignUp(results * int(unsafe.Sizeof(f.lowest)))
		bestIndex = unsafe.Slice((*int64)(unsafe.Add(partials, bestBytes)), results)
	}
	return best, bestIndex
}

func (f maxFold[T]) partialBytes(results int) int {
	return kit.AlignUp(results*int(unsafe.Sizeof(f.lowest))) + results*8 // an index has 8 bytes
}

func (f maxFold[T]) begin(partials unsafe.Pointer, results, index, indexStep int) {
	best, bestIndex := f.split(partials, results)
	for i := range best {
		best[i] = f.lowest
	}
	for i := range bestIndex {
		bestIndex[i] = int64(index + i*indexStep)
	}
}

func (f maxFold[T]) foldTap(partials, first unsafe.Pointer, results, step, index, indexStep int) {
	best, bestIndex := f.split(partials, results)
	if !f.tracksIndex {
		for i := range best {
			if element := *(*T)(unsafe.Add(first, i*step)); element > best[i] || element != element { // also for NaN
				best[i] = element
			}
		}
		return
	}
	bestIndex = bestIndex[:len(best)]
	for i := range best {
		if element := *(*T)(unsafe.Add(first, i*step)); element > best[i] || element != element {
			best[i], bestIndex[i] = element, int64(index+i*indexStep)
		}
	}
}

func (f maxFold[T]) foldWindow(partials, first unsafe.Pointer, grid tapGrid, index int) {
	best, bestIndex := f.split(partials, 1)
	maximum, maximumIndex := best[0], -1 // index -1: the maximum has not changed
	for row := range grid.rows {
		for column := range grid.columns {
			element := *(*T)(unsafe.Add(first, row*grid.rowStep+column*grid.columnStep))
			if element > maximum || element != element { // also for NaN
				maximum, maximumIndex = element, index+row*grid.rowIndexStep+column*grid.columnIndexStep
			}
		}
	}
	best[0] = maximum
	if f.tracksIndex && maximumIndex >= 0 {
		bestIndex[0] = int64(maximumIndex)
	}
}

func (f maxFold[T]) writeResults(dst, partials unsafe.Pointer, results int, _ float64) {
	best, _ := f.split(partials, results)
	copy(unsafe.Slice((*T)(dst), results), best)
}

func (f maxFold[T]) writeIndices(dst, partials unsafe.Pointer, results int) {
	_, bestIndex := f.split(partials, results)
	copy(unsafe.Slice((*int64)(dst), results), bestIndex)
}

// sumFold computes averages or, if power is set, norms. Elements have type T, and sums have type A.
type sumFold[T int64 | float32 | float64, A int64 | float64] struct {
	*foldSpec
	power, root func(float64) float64 // for p-norms: |x|^p of an element x, and s^(1/p) of a sum s
}

// newSumFold returns the fold of an average or a norm of floats.
func newSumFold[T float32 | float64](fold *foldSpec) windowFold {
	sums := &sumFold[T, float64]{foldSpec: fold}
	if fold.kind != reduceNorm {
		return sums
	}
	switch p := fold.exponent; p {
	case 1:
		sums.power, sums.root = math.Abs, func(x float64) float64 { return x }
	case 2:
		sums.power, sums.root = func(x float64) float64 { return x * x }, math.Sqrt
	default:
		pow := expr.Pow.Binary() // with the same bits on all processors
		sums.power = func(x float64) float64 { return pow(math.Abs(x), p) }
		sums.root = func(x float64) float64 { return pow(x, 1/p) }
	}
	return sums
}

func (f *sumFold[T, A]) partialBytes(results int) int { return results * 8 } // a sum has 8 bytes

func (f *sumFold[T, A]) begin(partials unsafe.Pointer, results, _, _ int) {
	clear(unsafe.Slice((*A)(partials), results))
}

func (f *sumFold[T, A]) foldTap(partials, first unsafe.Pointer, results, step, _, _ int) {
	sums := unsafe.Slice((*A)(partials), results)
	switch {
	case f.power != nil:
		for i := range sums {
			sums[i] += A(f.power(float64(*(*T)(unsafe.Add(first, i*step)))))
		}
	case step == int(unsafe.Sizeof(T(0))):
		for i, element := range unsafe.Slice((*T)(first), results) {
			sums[i] += A(element)
		}
	default:
		for i := range sums {
			sums[i] += A(*(*T)(unsafe.Add(first, i*step)))
		}
	}
}

func (f *sumFold[T, A]) foldWindow(partials, first unsafe.Pointer, grid tapGrid, _ int) {
	sum := *(*A)(partials)
	for row := range grid.rows {
		for column := range grid.columns {
			element := *(*T)(unsafe.Add(first, row*grid.rowStep+column*grid.columnStep))
			if f.power != nil {
				sum += A(f.power(float64(element)))
			} else {
				sum += A(element)
			}
		}
	}
	*(*A)(partials) = sum
}

func (f *sumFold[T, A]) writeResults(dst, partials unsafe.Pointer, results int, area float64) {
	out, sums := unsafe.Slice((*T)(dst), results), unsafe.Slice((*A)(partials), results)
	if f.root != nil {
		for i, sum := range sums {
			out[i] = T(f.root(float64(sum)))
		}
		return
	}
	divisor := divisorOf[A](f.foldSpec, area)
	for i, sum := range sums {
		out[i] = T(sum / divisor)
	}
}

func (f *sumFold[T, A]) writeIndices(_, _ unsafe.Pointer, _ int) { panic("pool: sums have no indices") }
