package index

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type kthAttrs struct {
	K       int  `attr:"k" doc:"rank of the element to take, in ascending order from 1"`
	Dim     int  `attr:"dim" default:"-1" doc:"dimension along which to rank"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep the dimension with size 1"`
}

type medianAttrs struct {
	Dim     *int `attr:"dim" default:"none" doc:"dimension along which to rank; none: all elements, and no indices"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep the dimension with size 1"`
}

type modeAttrs struct {
	Dim     int  `attr:"dim" default:"-1" doc:"dimension along which to count"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep the dimension with size 1"`
}

// The ops of this file take one element, and its index, of each line. A line has the elements along a dimension, at one
// index of the other dimensions. If dim is not given, all elements are one line. For example, for the line [5 2 9 2]:
//
//	kthvalue, k=3:  element 5, index 0
//	median:         element 2, index 3   (rank 2 of 4; equal elements are ranked by index)
//	mode:           element 2, index 3
var (
	Kthvalue = orderStatistic(graph.Semantics{
		Name: "kthvalue",
		Doc: "Returns the `k`-th smallest element along a dimension and its index; equal elements keep the order of " +
			"their indices. NaN is greater than every number.",
		Outputs: valuesAndIndices, Examples: kit.OneExample(kit.F32(3, 5), graph.Attrs{"k": 2}),
	}, func(a *kthAttrs) statistic {
		return statistic{kind: kthKind, k: a.K, dim: a.Dim, keepdim: a.Keepdim}
	})
	Median = orderStatistic(graph.Semantics{
		Name: "median",
		Doc: "Returns the median of all elements, or the medians along a dimension and their indices. The median of an " +
			"even number of elements is the lower of the two in the middle. If an element is NaN, the median is NaN.",
		VariadicResults: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(medianKind) })
	Nanmedian = orderStatistic(graph.Semantics{
		Name: "nanmedian",
		Doc: "Returns the median of all elements that are not NaN, or the medians along a dimension and their indices. " +
			"The median of an even number of elements is the lower of the two in the middle.",
		VariadicResults: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(nanmedianKind) })
	Mode = orderStatistic(graph.Semantics{
		Name: "mode",
		Doc: "Returns the most frequent element along a dimension and the index of its last occurrence. Of several most " +
			"frequent elements, it is the least. NaN differs from every element, including itself.",
		Outputs: valuesAndIndices, Examples: kit.OneExample(kit.F32(3, 5), nil),
	}, func(a *modeAttrs) statistic { return statistic{kind: modeKind, dim: a.Dim, keepdim: a.Keepdim} })
)

// statisticKind is the op of a statistic.
type statisticKind uint8

const (
	kthKind statisticKind = iota // kthvalue
	medianKind
	nanmedianKind
	modeKind
)

// statistic describes the element that an op takes of each line.
type statistic struct {
	kind    statisticKind
	k       int // for kthKind: the element's rank in ascending order, from 1
	dim     int
	keepdim bool
	isFlat  bool // whether all elements are one line; there is then no result of indices
}

// medianExamples are the examples of median and nanmedian.
var medianExamples = []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}},
	{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1}}}

// statistic returns the statistic of a call of median or nanmedian.
func (a *medianAttrs) statistic(kind statisticKind) statistic {
	result := statistic{kind: kind, keepdim: a.Keepdim, isFlat: a.Dim == nil}
	if a.Dim != nil {
		result.dim = *a.Dim
	}
	return result
}

// orderStatistic defines an op that takes one element of each line.
func orderStatistic[A any](semantics graph.Semantics, statisticOf func(a A) statistic) *graph.Op {
	name := semantics.Name
	semantics.Params = []graph.Param{kit.Self}
	semantics.Infer = func(c *graph.Call) ([]graph.Result, error) { return statisticOf(kit.Attrs[A](c)).infer(name, c) }
	semantics.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return statisticOf(kit.Attrs[A](c)).reference(c, in[0])
	}
	return kit.Define[A](graph.Op{
		Semantics: semantics,
		Facts:     graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: orderingFlops},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return statisticOf(kit.Attrs[A](c)).compile(c)
		}},
	})
}

// infer infers the results of the op with the given name.
func (s statistic) infer(name string, call *graph.Call) ([]graph.Result, error) {
	selfType := call.Type(0)
	if err := s.checkDType(name, selfType.DType); err != nil {
		return nil, err
	}
	if s.isFlat {
		return call.NewResult(tensor.NewType(selfType.DType)), nil
	}
	dim, err := tensor.WrapDim(s.dim, selfType.Rank())
	switch {
	case err != nil:
		return nil, err
	case s.kind == kthKind && (s.k < 1 || sym.Of(s.k).Gt(kit.SizeAtDim(selfType, dim)).Holds()):
		return nil, fmt.Errorf("kthvalue(): selected number k out of range for dimension %d", dim)
	case s.kind != kthKind && selfType.Rank() > 0 && kit.SizeIs(selfType.Shape[dim], 0):
		return nil, fmt.Errorf("%s(): Expected reduction dim %d to have non-zero size.", name, dim)
	}
	shape := selfType.Shape
	if len(shape) > 0 {
		if shape = kit.ReplaceSizes(shape, dim, sym.Of(1)); !s.keepdim {
			shape = slices.Delete(shape, dim, dim+1)
		}
	}
	return kit.WithIndices(call, tensor.NewType(selfType.DType, shape...)), nil
}

// checkDType returns PyTorch's error if the op does not support the dtype.
func (s statistic) checkDType(name string, dtype tensor.DType) error {
	isSupported := !dtype.IsComplex() && dtype != tensor.Bool
	if s.kind == modeKind {
		isSupported = !dtype.IsComplex() && !dtype.IsBareUnsigned()
	}
	switch {
	case isSupported:
		return nil
	case s.kind == modeKind:
		return kit.NotImplementedBy("mode_impl", dtype)
	case s.kind == kthKind:
		return kit.NotImplemented("kthvalue", dtype)
	case s.isFlat:
		return kit.NotImplementedBy("median_cpu", dtype)
	}
	return kit.NotImplementedBy("median_out", dtype)
}

// compile returns the kernel of a call.
func (s statistic) compile(call *graph.Call) (*graph.Kernel, error) {
	if call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	switch kit.LoopDType(call.Meta(0).DType) {
	case tensor.Int64:
		return statisticKernel[int64](s, call)
	case tensor.Float32:
		return statisticKernel[float32](s, call)
	}
	return statisticKernel[float64](s, call)
}

// statisticKernel returns a kernel that loads each line into worker memory and reorders a copy of it. The value of the
// result is copied from the operand by index, so that its bits are preserved.
func statisticKernel[T kit.Sortable](stat statistic, call *graph.Call) (*graph.Kernel, error) {
	builder := copies.NewKernelBuilder(call)
	in, dtype := builder.Operand(0), call.Meta(0).DType
	if stat.isFlat {
		in = builder.ToRowMajor(in, dtype)
		in = in.View(tensor.New(dtype, in.Meta.Numel()))
	}
	dim, values, indices, err := stat.alignResults(call, in.Meta.Rank())
	if err != nil {
		return nil, err
	}
	lines := kit.NewLineSet(in.Meta.Shape, dim, in.Meta, values, indices)
	length, stepBytes, elementSize := sizeAt(in.Meta, dim), kit.ByteStride(in.Meta, dim), dtype.Size()
	load := tensor.Converter(kit.LoopDType(dtype), dtype)
	nan := tensor.FloatScalar(math.NaN()).Tensor(dtype)
	const costPerElement = 16 // of loading and selecting, in copied elements
	// offsets are the byte offsets of a line in the operand, the values and the indices.
	phase := lines.Phase(costPerElement*length, func(mem *graph.Mem, offsets [4]int) error {
		dst, src := unsafe.Add(mem.Ptrs[0], offsets[1]), unsafe.Add(mem.Ptrs[1], offsets[0])
		if length == 0 { // only for the median of no elements, if dim is not given
			kit.CopyElement(dst, nan.Pointer(), elementSize)
			return nil
		}
		scratch := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), 2*length)
		line := scratch[:length]
		loadLine(mem.Context, line, load, src, stepBytes, dtype == tensor.Uint64)
		index := selectIndex(mem.Context, stat, line, scratch[length:])
		kit.CopyElement(dst, unsafe.Add(src, index*stepBytes), elementSize)
		if !stat.isFlat {
			*(*int64)(unsafe.Add(mem.Ptrs[2], offsets[2])) = int64(index)
		}
		return nil
	})
	buffers := []kit.Buffer{kit.OutBuffer(call, 0), in} // their addresses are in mem.Ptrs, in this order
	if !stat.isFlat {
		buffers = append(buffers, kit.OutBuffer(call, 1))
	}
	workerBytes := 2 * length * 8 // a copy of the line, and the memory of selectIndex; elements have at most 8 bytes
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, phase)
	return builder.Kernel()
}

// alignResults returns the dimension of the lines, and the results with the dimensions of an operand of the given rank.
// If there is no result of indices, indices equals values.
func (s statistic) alignResults(call *graph.Call, rank int) (dim int, values, indices tensor.Meta, err error) {
	if s.isFlat {
		values = tensor.New(call.Out[0].DType, 1)
		return 0, values, values, nil
	}
	if dim, err = tensor.WrapDim(s.dim, rank); err != nil {
		return 0, values, indices, err
	}
	values, indices = call.Out[0], call.Out[1]
	for _, out := range []*tensor.Meta{&values, &indices} {
		if out.Rank() < rank { // keepdim is not set: insert dim with size 1
			out.Shape = slices.Insert(slices.Clone(out.Shape), dim, 1)
			out.Strides = slices.Insert(slices.Clone(out.Strides), dim, 0)
		}
	}
	return dim, values, indices, nil
}

// loadLine reads elements that are stepBytes apart, from address src on, into the line. load converts them to T.
// isUnsigned is set for uint64 elements.
func loadLine[T kit.Sortable](ctx context.Context, line []T, load tensor.ConvertFunc, src unsafe.Pointer, stepBytes int,
	isUnsigned bool) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		load(unsafe.Pointer(&line[begin]), unsafe.Add(src, begin*stepBytes), int(unsafe.Sizeof(line[0])), stepBytes,
			end-begin)
		if isUnsigned {
			for i := begin; i < end; i++ {
				flipSign(&line[i])
			}
		}
	})
}

// selectIndex returns the index of the element that a statistic takes of a line. Elements other than NaN are called
// numbers here; NaN is greater than all numbers. scratch is temporary memory for the numbers, as long as the line.
func selectIndex[T kit.Sortable](ctx context.Context, stat statistic, line, scratch []T) int {
	numberCount, firstNaN := 0, -1
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i, element := range line[begin:end] {
			if element == element {
				scratch[numberCount] = element
				numberCount++
			} else if firstNaN < 0 {
				firstNaN = begin + i
			}
		}
	})
	numbers := scratch[:numberCount]
	rank := (numberCount - 1) / 2 // of the lower median
	if stat.kind == kthKind {
		rank = stat.k - 1
	}
	switch {
	case stat.kind == modeKind && numberCount > 0:
		return lastOccurrence(ctx, line, mostFrequent(ctx, numbers))
	case stat.kind == kthKind && rank >= numberCount:
		return nthNaN(ctx, line, rank-numberCount)
	case stat.kind == medianKind && firstNaN >= 0, numberCount == 0:
		return firstNaN
	}
	// Equal elements are ranked by index: the result is occurrence rank-lesserCount of value.
	value, lesserCount := selectRank(ctx, numbers, rank)
	return nthOccurrence(ctx, line, value, rank-lesserCount)
}

// mostFrequent sorts a line without NaN and returns the least of its most frequent elements.
func mostFrequent[T kit.Sortable](ctx context.Context, line []T) T {
	kit.Sort(ctx, line, compareNumbers[T])
	best, bestCount, runStart := line[0], 0, 0 // runStart is the start of the current run of equal elements
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end; i++ {
			if line[i] != line[runStart] {
				runStart = i
			}
			if count := i - runStart + 1; count > bestCount {
				best, bestCount = line[i], count
			}
		}
	})
	return best
}

// compareNumbers compares numbers in ascending order.
func compareNumbers[T kit.Sortable](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lastOccurrence returns the index of the last occurrence of a value in a line.
func lastOccurrence[T kit.Sortable](ctx context.Context, line []T, value T) int {
	lastIndex := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i, x := range line[begin:end] {
			if x == value {
				lastIndex = begin + i
			}
		}
	})
	return lastIndex
}

// nthNaN returns the index of NaN k of a line. k counts from 0.
func nthNaN[T kit.Sortable](ctx context.Context, line []T, k int) int {
	index := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] != line[i] {
				index = i
				k--
			}
		}
	})
	return index
}

// [selectRank] sorts a line of up to maxSortedLen elements, and any line after maxPivots pivots.
const maxPivots, maxSortedLen = 64, 32

// selectRank returns the element of the given rank, from 0, in ascending order of a line without NaN, and the number of
// lesser elements. It is quickselect: it partitions the line around a pivot and continues with the part that contains
// the rank until this part is short. The line is reordered.
func selectRank[T kit.Sortable](ctx context.Context, line []T, rank int) (value T, lesserCount int) {
	for pivots := 0; len(line) > maxSortedLen && pivots < maxPivots; pivots++ {
		pivot := pivotFor(line, rank)
		less := partition(ctx, line, func(x T) bool { return x < pivot })
		if rank < less {
			line = line[:less]
			continue
		}
		line, rank, lesserCount = line[less:], rank-less, lesserCount+less
		equal := partition(ctx, line, func(x T) bool { return x == pivot })
		if rank < equal {
			return pivot, lesserCount
		}
		line, rank, lesserCount = line[equal:], rank-equal, lesserCount+equal
	}
	kit.Sort(ctx, line, compareNumbers[T])
	value = line[rank]
	for rank > 0 && line[rank-1] == value {
		rank--
	}
	return value, lesserCount + rank
}

// pivotFor returns an element whose rank in the line is close to the given rank. It sorts a sample of 31 elements at
// equal distances, and returns element rank*31/len(line) of the sorted sample.
func pivotFor[T kit.Sortable](line []T, rank int) T {
	var sample [31]T
	step := len(line) / len(sample)
	for i := range sample {
		sample[i] = line[i*step+step/2]
	}
	slices.Sort(sample[:])
	return sample[min(len(sample)-1, rank*len(sample)/len(line))]
}

// partition moves the elements that satisfy isFirst to the front and returns their number.
func partition[T kit.Sortable](ctx context.Context, line []T, isFirst func(x T) bool) int {
	firstCount := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end; i++ {
			if x := line[i]; isFirst(x) {
				line[i], line[firstCount] = line[firstCount], x
				firstCount++
			}
		}
	})
	return firstCount
}

// nthOccurrence returns the index of occurrence k of a value in a line. k counts from 0.
func nthOccurrence[T kit.Sortable](ctx context.Context, line []T, value T, k int) int {
	index := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] == value {
				index = i
				k--
			}
		}
	})
	return index
}

// reference sorts the lines by the reference of sort and takes an element of each.
func (s statistic) reference(c *graph.Call, self *tensor.Tensor) ([]*tensor.Tensor, error) {
	if s.isFlat {
		flat, err := self.CopyTo(tensor.New(self.DType, self.Shape...)).View(tensor.New(self.DType, self.Numel()))
		if err != nil {
			return nil, err
		}
		self = flat
	}
	outputs := make([]*tensor.Tensor, len(c.Out))
	for i, out := range c.Out {
		outputs[i] = tensor.Zeros(out.DType, out.Shape...)
	}
	if outputs[0].Numel() == 0 {
		return outputs, nil
	}
	dim, err := tensor.WrapDim(s.dim, self.Rank())
	if err != nil {
		return nil, err
	}
	length := sizeAt(self.Meta, dim)
	if length == 0 { // the median of no elements
		outputs[0].Set(tensor.FloatScalar(math.NaN()))
		return outputs, nil
	}
	sortedLines, err := (&ranking{dim: dim, k: length}).reference(self)
	if err != nil {
		return nil, err
	}
	sortedValues, sortedIndices := sortedLines[0], sortedLines[1]
	kit.EachIndex(outputs[0].Shape, func(coords []int) {
		element := func(sorted *tensor.Tensor, i int) tensor.Scalar { // element i of the line
			return sorted.At(s.indexInSorted(coords, self.Rank(), dim, i)...)
		}
		rank := s.sortedRank(length, func(i int) tensor.Scalar { return element(sortedValues, i) })
		outputs[0].Set(element(sortedValues, rank), coords...)
		if len(outputs) > 1 {
			outputs[1].Set(element(sortedIndices, rank), coords...)
		}
	})
	return outputs, nil
}

// indexInSorted returns the index of element i of a line in a tensor of the given rank. coords is the index of the line
// in the result, which may lack dim.
func (s statistic) indexInSorted(coords []int, rank, dim, i int) []int {
	switch {
	case s.isFlat:
		return []int{i}
	case rank == 0:
		return nil
	}
	index := slices.Clone(coords)
	if len(index) < rank {
		index = slices.Insert(index, dim, 0)
	}
	index[dim] = i
	return index
}

// sortedRank returns the index of the statistic in a sorted line of the given length. value returns element i of the
// line.
func (s statistic) sortedRank(length int, value func(i int) tensor.Scalar) int {
	numberCount := length // NaN is last in the sorted line
	for numberCount > 0 && value(numberCount-1).Float() != value(numberCount-1).Float() {
		numberCount--
	}
	switch {
	case s.kind == kthKind:
		return s.k - 1
	case numberCount == 0:
		return 0
	case s.kind == medianKind && numberCount < length:
		return numberCount // the first NaN
	case s.kind != modeKind:
		return (numberCount - 1) / 2
	}
	best, bestCount, runStart := 0, 0, 0 // runStart is the start of the current run of equal elements
	for i := range numberCount {
		if value(i) != value(runStart) {
			runStart = i
		}
		if count := i - runStart + 1; count > bestCount {
			best, bestCount = i, count // after the loop: the last index of the longest run
		}
	}
	return best
}
