package index

import (
	"context"
	"errors"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file searches for the distinct slices of a value along a dimension, for the ops of unique.go.

// uniqueMode defines the distinct slices and their order.
type uniqueMode uint8

const (
	uniqueSorted   uniqueMode = iota // one of each set of equal slices, sorted
	uniqueUnsorted                   // one of each set of equal slices, in the order of their first occurrences
	uniqueRuns                       // one of each run of consecutive equal slices
)

// uniqueCall has the attributes of a call of any of the ops of unique.go.
type uniqueCall struct {
	dim           *int // dimension whose slices are compared; nil: elements are compared
	mode          uniqueMode
	isONNX        bool // the op is unique: there is a result `first`, and inverse is always a vector
	returnInverse bool // return inverse; else it is empty
	returnCounts  bool // return counts; else it is empty
}

// uniques is the result of a search for the distinct slices of a value along a dimension. For example, for the value
// [3 1 3 2] and the mode uniqueSorted:
//
//	output  [1 2 3]
//	first   [1 3 0]
//	counts  [1 1 2]
//	inverse [2 0 2 1]
type uniques struct {
	output  *tensor.Tensor // the distinct slices
	first   []int64        // for each distinct slice, the index of its first occurrence; not set for uniqueRuns
	counts  []int64        // for each distinct slice, the number of its occurrences
	inverse []int64        // for each slice of the value, the index of the equal distinct slice
}

// findUnique finds the distinct slices of self along a dimension, or its distinct elements if call.dim is nil. For the
// mode uniqueRuns, it sets counts and inverse only if the call returns them.
func findUnique(ctx context.Context, self *tensor.Tensor, call uniqueCall) (*uniques, error) {
	input, wrappedDim, err := slicedInput(ctx, self, call.dim)
	if err != nil {
		return nil, err
	}
	count := input.Shape[wrappedDim]
	if count > 0 && input.Numel() == 0 {
		return nil, errors.New("unique_dim(): There are 0 sized dimensions, and they aren't selected, so unique " +
			"cannot be applied")
	}
	movedToFront, err := input.Meta.MoveDim([]int{wrappedDim}, []int{0})
	if err != nil {
		return nil, err
	}
	rows, err := input.View(movedToFront) // row i is slice i of input
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return &uniques{output: tensor.Zeros(input.DType, input.Shape...)}, nil
	}
	found, err := findRows(ctx, rows, call)
	if err != nil {
		return nil, err
	}
	movedBack, err := found.output.Meta.MoveDim([]int{0}, []int{wrappedDim})
	if err != nil {
		return nil, err
	}
	found.output, err = found.output.View(movedBack)
	return found, err
}

// findRows is findUnique for the slices along dimension 0, at least one.
func findRows(ctx context.Context, rows *tensor.Tensor, call uniqueCall) (*uniques, error) {
	switch {
	case rows.DType == tensor.Uint64: // large numbers do not fit in int64
		return findRowsAs[uint64](ctx, rows, tensor.Uint64, call)
	case kit.LoopDType(rows.DType) == tensor.Int64: // other integers and bool
		return findRowsAs[int64](ctx, rows, tensor.Int64, call)
	case rows.DType == tensor.Float32:
		return findRowsAs[float32](ctx, rows, tensor.Float32, call)
	}
	return findRowsAs[float64](ctx, rows, tensor.Float64, call) // other floats; inference rejects complex numbers
}

// findRowsAs compares the rows after their conversion to a dtype, which keeps the values.
func findRowsAs[T int64 | uint64 | float32 | float64](ctx context.Context, rows *tensor.Tensor, dtype tensor.DType,
	call uniqueCall) (*uniques, error) {
	converted, count := rows, rows.Shape[0]
	if rows.DType != dtype || !rows.IsContiguous() {
		converted = kit.CopyTo(ctx, rows, tensor.New(dtype, rows.Shape...))
	}
	elements := kit.ElementsOf[T](converted.Pointer(), converted.Numel())
	if call.mode == uniqueRuns {
		return findRuns(ctx, rows, runStarts(ctx, elements, count), call)
	}
	found := &uniques{}
	found.find(ctx, count, call.mode, rowCompare(ctx, elements, count))
	positions := kit.NewInts[int](len(found.first))
	for i, index := range found.first {
		positions[i] = int(index)
	}
	var err error
	found.output, err = pickSlices(ctx, rows, 0, positions)
	return found, err
}

// slicedInput returns the value whose slices are compared, and the dimension that numbers the slices. They are self and
// dim. If dim is nil, they are the elements of self as a row-major vector, and dimension 0.
func slicedInput(ctx context.Context, self *tensor.Tensor, dim *int) (input *tensor.Tensor, wrappedDim int, err error) {
	if dim == nil {
		input, err = kit.ReshapeRowMajor(ctx, self, self.Numel())
		return input, 0, err
	}
	input = self
	if wrappedDim, err = tensor.WrapDim(*dim, self.Rank()); err == nil && self.Rank() == 0 {
		input, err = kit.ReshapeRowMajor(ctx, self, 1)
	}
	return input, wrappedDim, err
}

// rowCompare returns a function that compares rows a and b of `count` rows in lexicographic order. Its first result is
// -1, 0 or 1. For this order, NaN is greater than all numbers and equal to itself, so that sorting is well defined. The
// second result reports whether the rows are equal as numbers: a row with NaN equals no row.
func rowCompare[T int64 | uint64 | float32 | float64](ctx context.Context, elements []T,
	count int) func(a, b int) (order int, isEqual bool) {
	width := len(elements) / count // number of elements of a row
	elementsSinceCheck := 0
	return func(a, b int) (int, bool) {
		if elementsSinceCheck += width; elementsSinceCheck > kit.CheckEvery {
			interrupt.Check(ctx)
			elementsSinceCheck = 0
		}
		isEqual := true
		rowB := elements[b*width : (b+1)*width]
		for i, x := range elements[a*width : (a+1)*width] {
			y := rowB[i]
			switch {
			case x < y || y != y && x == x: // x != x holds for NaN only
				return -1, false
			case x > y || x != x && y == y:
				return 1, false
			}
			isEqual = isEqual && x == y
		}
		return 0, isEqual
	}
}

// find sets u.first, u.counts and u.inverse for count slices and a mode other than uniqueRuns. compare is the result of
// rowCompare. find sorts the slices, and then numbers the groups of equal neighbours.
func (u *uniques) find(ctx context.Context, count int, mode uniqueMode, compare func(a, b int) (int, bool)) {
	order := ascending(count)
	kit.Sort(ctx, order, func(a, b int) int {
		if comparison, _ := compare(a, b); comparison != 0 {
			return comparison
		}
		return a - b // equal slices by index
	})
	u.inverse = kit.NewInts[int64](count)
	distinctCount := 0
	for k, i := range order {
		isRepeated := false
		if k > 0 {
			_, isRepeated = compare(order[k-1], i)
		}
		if !isRepeated {
			distinctCount++
		}
		u.inverse[i] = int64(distinctCount - 1)
	}
	u.first, u.counts = kit.NewInts[int64](distinctCount), kit.NewInts[int64](distinctCount)
	for i := count - 1; i >= 0; i-- { // descending, so that the first occurrence is written last
		if i%kit.CheckEvery == 0 {
			interrupt.Check(ctx)
		}
		distinctIndex := u.inverse[i]
		u.first[distinctIndex] = int64(i)
		u.counts[distinctIndex]++
	}
	if mode == uniqueUnsorted {
		u.sortByOccurrence(ctx)
	}
}

// ascending returns the numbers from 0 to count-1.
func ascending(count int) []int {
	numbers := kit.NewInts[int](count)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// sortByOccurrence reorders the distinct slices by first occurrence.
func (u *uniques) sortByOccurrence(ctx context.Context) {
	order := ascending(len(u.first))
	kit.Sort(ctx, order, func(a, b int) int { return int(u.first[a] - u.first[b]) })
	count := len(order)
	first, counts, newIndex := kit.NewInts[int64](count), kit.NewInts[int64](count), kit.NewInts[int64](count)
	for k, i := range order {
		first[k], counts[k], newIndex[i] = u.first[i], u.counts[i], int64(k)
	}
	for i, k := range u.inverse {
		if i%kit.CheckEvery == 0 {
			interrupt.Check(ctx)
		}
		u.inverse[i] = newIndex[k]
	}
	u.first, u.counts = first, counts
}
