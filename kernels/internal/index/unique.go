package index

import (
	"context"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The ops of this file remove duplicates. Unique2, UniqueDim and UniqueConsecutive are ops of aten. Unique is an op of
// ONNX, and also returns the indices of first occurrences.
//
// The shapes of the results depend on data. An outline is the part of a result's type that is known before the run. For
// each op, an outline function corrects the outlines that uniqueOp gives it, and a run function computes the results.
var (
	Unique2 = uniqueOp(graph.SchemaOf[*unique2Attrs](), "_unique2",
		"Returns three results. `output`: the distinct elements. `inverse`: for each element of self, the index of the "+
			"equal element in `output`. `counts`: the number of occurrences of each distinct element.",
		[]string{"output", "inverse", "counts"}, nil, outlineUnique2, runUnique2)
	UniqueDim = uniqueOp(graph.SchemaOf[*uniqueDimAttrs](), "unique_dim",
		"Returns three results. `output`: the distinct slices along a dimension. `inverse`: for each slice of self, the "+
			"index of the equal slice in `output`. `counts`: the number of occurrences of each distinct slice.",
		[]string{"output", "inverse", "counts"}, graph.Attrs{"dim": 1}, outlineUniqueDim, runUniqueDim)
	Unique = uniqueOp(graph.SchemaOf[*uniqueAttrs](), "unique",
		"Returns four results. `output`: the distinct elements, or the distinct slices along a dimension. `first`: the "+
			"index of the first occurrence of each. `inverse`: for each element or slice of self, the index of the equal "+
			"one in `output`. `counts`: the number of occurrences of each.",
		[]string{"output", "first", "inverse", "counts"}, nil, outlineUnique, runUnique)
	UniqueConsecutive = uniqueOp(graph.SchemaOf[*uniqueConsecutiveAttrs](), "unique_consecutive",
		"Returns three results. A run is a sequence of equal consecutive elements, or of equal slices along a dimension. "+
			"`output`: one element or slice of each run. `inverse`: for each element or slice of self, the index of its run. "+
			"`counts`: the length of each run.",
		[]string{"output", "inverse", "counts"}, graph.Attrs{"dim": 1, "return_inverse": true, "return_counts": true},
		outlineUniqueConsecutive, runUniqueConsecutive)
)

type unique2Attrs struct {
	Sorted        bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"return inverse; else it is empty"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"return counts; else it is empty"`
}

type uniqueDimAttrs struct {
	Dim           int  `attr:"dim" doc:"dimension whose slices are compared"`
	Sorted        bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"return inverse; else it is empty"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"return counts; else it is empty"`
}

type uniqueAttrs struct {
	Dim    *int `attr:"dim" default:"none" doc:"dimension whose slices are compared; none: elements are compared"`
	Sorted bool `attr:"sorted" default:"true" doc:"sort the result; else keep the order of first occurrences"`
}

type uniqueConsecutiveAttrs struct {
	ReturnInverse bool `attr:"return_inverse" default:"false" doc:"return inverse; else it is empty"`
	ReturnCounts  bool `attr:"return_counts" default:"false" doc:"return counts; else it is empty"`
	Dim           *int `attr:"dim" default:"none" doc:"dimension whose slices are compared; none: elements are compared"`
}

// uniqueOp defines an op that removes duplicates. outputs are the names of the results, and example has the attributes
// of the op's example, or is nil. outline gets an outline for each result, at first of a vector of unknown length, and
// corrects the outlines of results that are no such vectors. The first result has the dtype of self, and all other
// results are int64. run returns the results.
func uniqueOp(attrs *graph.Schema, name, doc string, outputs []string, example graph.Attrs,
	outline func(*graph.Call, []graph.PartialType),
	run func(ctx context.Context, c *graph.Call, in *tensor.Tensor) ([]*tensor.Tensor, error)) *graph.Op {
	return dynamicOp(attrs, graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc + " NaN differs from every element, including itself.",
		Params: []graph.Param{kit.Self}, Outputs: outputs,
		Examples: kit.OneExample(tensor.New(tensor.Int32, 3, 4).WithStrides([]int{1, 3}), example),
	}}, func(call *graph.Call) ([]graph.PartialType, error) {
		dtype := call.Type(0).DType
		if dtype.IsComplex() {
			return nil, kit.NotImplementedBy(name, dtype)
		}
		outlines := slices.Repeat([]graph.PartialType{rowMajorOutline(tensor.Int64, unknownSize)}, len(outputs))
		outlines[0] = rowMajorOutline(dtype, unknownSize)
		outline(call, outlines)
		return outlines, nil
	}, func(ctx context.Context, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return run(ctx, c, in[0])
	})
}

// outlineUnique2 is the outline function of _unique2. inverse has the shape of self.
func outlineUnique2(c *graph.Call, outlines []graph.PartialType) {
	attrs := kit.Attrs[*unique2Attrs](c)
	outlines[1].Sizes = outlineSizes(c.Type(0).Shape)
	clearUnrequested(outlines, attrs.ReturnInverse, attrs.ReturnCounts)
}

func runUnique2(ctx context.Context, c *graph.Call, in *tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*unique2Attrs](c)
	found, err := findUnique(ctx, in, nil, uniqueModeOf(attrs.Sorted))
	if err != nil {
		return nil, err
	}
	return found.atenResults(in.Shape, attrs.ReturnInverse, attrs.ReturnCounts), nil
}

// outlineUniqueDim is the outline function of unique_dim. inverse has an element for each slice.
func outlineUniqueDim(c *graph.Call, outlines []graph.PartialType) {
	attrs := kit.Attrs[*uniqueDimAttrs](c)
	outlines[0] = distinctSlices(c.Type(0), &attrs.Dim)
	clearUnrequested(outlines, attrs.ReturnInverse, attrs.ReturnCounts)
}

func runUniqueDim(ctx context.Context, c *graph.Call, in *tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*uniqueDimAttrs](c)
	found, err := findUnique(ctx, in, &attrs.Dim, uniqueModeOf(attrs.Sorted))
	if err != nil {
		return nil, err
	}
	return found.atenResults([]int{len(found.inverse)}, attrs.ReturnInverse, attrs.ReturnCounts), nil
}

// outlineUnique is the outline function of unique. inverse has an element for each slice, or for each element of self.
func outlineUnique(c *graph.Call, outlines []graph.PartialType) {
	outlines[0] = distinctSlices(c.Type(0), kit.Attrs[*uniqueAttrs](c).Dim)
}

func runUnique(ctx context.Context, c *graph.Call, in *tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*uniqueAttrs](c)
	found, err := findUnique(ctx, in, attrs.Dim, uniqueModeOf(attrs.Sorted))
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{found.output, int64Vector(found.first), int64Vector(found.inverse),
		int64Vector(found.counts)}, nil
}

// outlineUniqueConsecutive is the outline function of unique_consecutive. Without dim, inverse has the shape of self.
func outlineUniqueConsecutive(c *graph.Call, outlines []graph.PartialType) {
	attrs := kit.Attrs[*uniqueConsecutiveAttrs](c)
	outlines[0] = distinctSlices(c.Type(0), attrs.Dim)
	if attrs.Dim == nil {
		outlines[1].Sizes = outlineSizes(c.Type(0).Shape)
	}
	clearUnrequested(outlines, attrs.ReturnInverse, attrs.ReturnCounts)
}

func runUniqueConsecutive(ctx context.Context, c *graph.Call, in *tensor.Tensor) ([]*tensor.Tensor, error) {
	attrs := kit.Attrs[*uniqueConsecutiveAttrs](c)
	found, err := findUnique(ctx, in, attrs.Dim, uniqueRuns)
	if err != nil {
		return nil, err
	}
	shape := in.Shape
	if attrs.Dim != nil {
		shape = []int{len(found.inverse)}
	}
	return found.atenResults(shape, attrs.ReturnInverse, attrs.ReturnCounts), nil
}

// distinctSlices returns the outline of a value that has the distinct slices of self along dim, or the distinct
// elements of self if dim is nil. PyTorch stacks the slices along a first dimension and then moves this dimension to
// dim, which determines the layout.
func distinctSlices(self tensor.Type, dim *int) graph.PartialType {
	outline := rowMajorOutline(self.DType, selectedSizes(self, dim)...)
	if dim == nil || len(outline.Sizes) < 2 {
		return outline
	}
	wrappedDim, err := tensor.WrapDim(*dim, self.Rank())
	if err != nil {
		return outline
	}
	outline.TypeFor = func(shape []sym.Int) (tensor.Type, error) {
		if kit.SizeIs(self.Shape[wrappedDim], 0) {
			return kit.FreshType(self.DType, shape)
		}
		stacked := slices.Insert(slices.Delete(slices.Clone(shape), wrappedDim, wrappedDim+1), 0, shape[wrappedDim])
		stackedType, err := kit.FreshType(self.DType, stacked)
		if err != nil {
			return stackedType, err
		}
		return stackedType.MoveDim([]int{0}, []int{wrappedDim})
	}
	return outline
}

// clearUnrequested sets the sizes of results 1 (inverse) and 2 (counts) to [0] if they are not requested.
func clearUnrequested(outlines []graph.PartialType, returnInverse, returnCounts bool) {
	for i, isRequested := range []bool{returnInverse, returnCounts} {
		if !isRequested {
			outlines[1+i].Sizes = []int{0}
		}
	}
}

// uniqueMode defines the distinct slices and their order.
type uniqueMode uint8

const (
	uniqueSorted   uniqueMode = iota // one of each set of equal slices, sorted
	uniqueUnsorted                   // one of each set of equal slices, in the order of their first occurrences
	uniqueRuns                       // one of each run of consecutive equal slices
)

// uniqueModeOf returns the mode for the attribute sorted.
func uniqueModeOf(isSorted bool) uniqueMode {
	if isSorted {
		return uniqueSorted
	}
	return uniqueUnsorted
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
	first   []int64        // for each distinct slice, the index of its first occurrence
	counts  []int64        // for each distinct slice, the number of its occurrences
	inverse []int64        // for each slice of the value, the index of the equal distinct slice
}

// findUnique finds the distinct slices of self along a dimension, or its distinct elements if dim is nil.
func findUnique(ctx context.Context, self *tensor.Tensor, dim *int, mode uniqueMode) (*uniques, error) {
	input, wrappedDim, err := slicedInput(ctx, self, dim)
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
	found := &uniques{}
	switch {
	case count == 0:
		found.output = tensor.Zeros(input.DType, input.Shape...)
		return found, nil
	case self.DType == tensor.Uint64:
		found.find(ctx, count, mode, rowCompare[uint64](ctx, rows, tensor.Uint64))
	case kit.LoopDType(self.DType) == tensor.Int64:
		found.find(ctx, count, mode, rowCompare[int64](ctx, rows, tensor.Int64))
	default:
		found.find(ctx, count, mode, rowCompare[float64](ctx, rows, tensor.Float64))
	}
	found.output, err = distinctAlong(ctx, rows, found.first, wrappedDim)
	return found, err
}

// slicedInput returns the value whose slices are compared, and the dimension that numbers the slices: self and dim. If
// dim is nil, these are the elements of self as a row-major vector, and dimension 0.
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

// distinctAlong returns the rows with the given indices, as slices along dimension dim.
func distinctAlong(ctx context.Context, rows *tensor.Tensor, indices []int64, dim int) (*tensor.Tensor, error) {
	positions := kit.NewInts[int](len(indices))
	for i, index := range indices {
		positions[i] = int(index)
	}
	distinctRows, err := pickSlices(ctx, rows, 0, positions)
	if err != nil {
		return nil, err
	}
	movedBack, err := distinctRows.Meta.MoveDim([]int{0}, []int{dim})
	if err != nil {
		return nil, err
	}
	return distinctRows.View(movedBack)
}

// rowCompare returns a function that compares rows a and b of a tensor in lexicographic order, after their conversion
// to a dtype. Its first result is -1, 0 or 1. For this order, NaN is greater than all numbers and equal to itself, so
// that sorting is well defined. The second result reports whether the rows are equal as numbers: a row with NaN equals
// no row.
func rowCompare[T int64 | uint64 | float64](ctx context.Context, rows *tensor.Tensor,
	dtype tensor.DType) func(a, b int) (order int, isEqual bool) {
	converted := kit.CopyTo(ctx, rows, tensor.New(dtype, rows.Shape...))
	elements := kit.ElementsOf[T](converted.Pointer(), converted.Numel())
	width := 1 // number of elements of a row
	if len(rows.Shape) > 1 {
		width = tensor.Numel(rows.Shape[1:])
	}
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

// find sets u.first, u.counts and u.inverse for count slices. compare is the result of rowCompare. Unless mode is
// uniqueRuns, find sorts the slices. Then it numbers the groups of equal neighbours.
func (u *uniques) find(ctx context.Context, count int, mode uniqueMode, compare func(a, b int) (int, bool)) {
	order := ascending(count)
	if mode != uniqueRuns {
		kit.Sort(ctx, order, func(a, b int) int {
			if comparison, _ := compare(a, b); comparison != 0 {
				return comparison
			}
			return a - b // equal slices by index
		})
	}
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

// atenResults returns the results of aten's ops: output, inverse and counts. inverse and counts are empty if they are
// not requested.
func (u *uniques) atenResults(inverseShape []int, returnInverse, returnCounts bool) []*tensor.Tensor {
	out := []*tensor.Tensor{u.output, int64Vector(nil), int64Vector(nil)}
	if returnInverse {
		out[1] = tensor.Must(tensor.FromSlice(u.inverse, inverseShape...))
	}
	if returnCounts {
		out[2] = int64Vector(u.counts)
	}
	return out
}
