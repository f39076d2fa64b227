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
// index of the other dimensions. If dim is not given, all elements are one line.
var (
	Kthvalue = orderStatistic[kthAttrs](graph.Semantics{
		Name: "kthvalue",
		Doc: "Returns the `k`-th smallest element along a dimension and its index; equal elements keep the order of " +
			"their indices. NaN is greater than every number.",
		Outputs: valuesAndIndices, Examples: kit.OneExample(kit.F32(3, 5), graph.Attrs{"k": 2}),
	}, func(a *kthAttrs) statistic {
		return statistic{kind: kthOf, k: a.K, dim: a.Dim, keepdim: a.Keepdim}
	})
	Median = orderStatistic[medianAttrs](graph.Semantics{
		Name: "median",
		Doc: "Returns the median of all elements, or the medians along a dimension and their indices. The median of an " +
			"even number of elements is the lower of the two in the middle. If an element is NaN, the median is NaN.",
		VariadicResults: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(medianOf) })
	Nanmedian = orderStatistic[medianAttrs](graph.Semantics{
		Name: "nanmedian",
		Doc: "Returns the median of all elements that are not NaN, or the medians along a dimension and their indices. " +
			"The median of an even number of elements is the lower of the two in the middle.",
		VariadicResults: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(nanmedianOf) })
	Mode = orderStatistic[modeAttrs](graph.Semantics{
		Name: "mode",
		Doc: "Returns the most frequent element along a dimension and the index of its last occurrence. Of several most " +
			"frequent elements, it is the least. NaN differs from every element, including itself.",
		Outputs: valuesAndIndices, Examples: kit.OneExample(kit.F32(3, 5), nil),
	}, func(a *modeAttrs) statistic { return statistic{kind: modeOf, dim: a.Dim, keepdim: a.Keepdim} })
)

// medianExamples are the examples of median and nanmedian.
var medianExamples = []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}},
	{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1}}}

// statistic returns the statistic of a call of median or nanmedian.
func (a *medianAttrs) statistic(kind statisticKind) statistic {
	s := statistic{kind: kind, keepdim: a.Keepdim, isFlat: a.Dim == nil}
	if a.Dim != nil {
		s.dim = *a.Dim
	}
	return s
}

// statisticKind is the op of a statistic.
type statisticKind uint8

const (
	kthOf statisticKind = iota // kthvalue
	medianOf
	nanmedianOf
	modeOf
)

// statistic describes the element that an op takes of each line.
type statistic struct {
	kind    statisticKind
	k       int // for kthOf: the element's rank in ascending order, from 1
	dim     int
	keepdim bool
	isFlat  bool // whether all elements are one line; there is then no result of indices
}

// orderStatistic defines an op that takes one element of each line.
func orderStatistic[A any](semantics graph.Semantics, statisticOf func(a *A) statistic) *graph.Op {
	name := semantics.Name
	semantics.Params = []graph.Param{kit.Self}
	semantics.Infer = func(c *graph.Call) ([]graph.Result, error) { return statisticOf(kit.Attrs[A](c)).infer(name, c) }
	semantics.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return statisticOf(kit.Attrs[A](c)).reference(c, in[0])
	}
	return kit.Define[A](graph.Op{
		Semantics: semantics,
		Facts:     graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: orderingEach},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return statisticOf(kit.Attrs[A](c)).compile(c)
		}},
	})
}

// infer infers the results of the op with the given name.
func (s statistic) infer(name string, call *graph.Call) ([]graph.Result, error) {
	t := call.Type(0)
	if err := s.checkDType(name, t.DType); err != nil {
		return nil, err
	}
	if s.isFlat {
		return call.NewResult(tensor.NewType(t.DType)), nil
	}
	dim, err := tensor.WrapDim(s.dim, t.Rank())
	switch {
	case err != nil:
		return nil, err
	case s.kind == kthOf && (s.k < 1 || sym.Of(s.k).Gt(kit.SizeAtDim(t, dim)).Holds()):
		return nil, fmt.Errorf("kthvalue(): selected number k out of range for dimension %d", dim)
	case s.kind != kthOf && t.Rank() > 0 && kit.SizeIs(t.Shape[dim], 0):
		return nil, fmt.Errorf("%s(): Expected reduction dim %d to have non-zero size.", name, dim)
	}
	shape := t.Shape
	if len(shape) > 0 {
		if shape = kit.ReplaceSizes(shape, dim, sym.Of(1)); !s.keepdim {
			shape = slices.Delete(shape, dim, dim+1)
		}
	}
	return kit.WithIndices(call, tensor.NewType(t.DType, shape...)), nil
}

// checkDType returns PyTorch's error if the op does not support dtype d.
func (s statistic) checkDType(name string, d tensor.DType) error {
	switch {
	case !d.IsComplex() && d != tensor.Bool && !(s.kind == modeOf && d.IsBareUnsigned()):
		return nil
	case s.kind == modeOf && d == tensor.Bool:
		return nil
	case s.kind == modeOf:
		return kit.NotImplementedBy("mode_impl", d)
	case s.kind == kthOf:
		return kit.NotImplemented("kthvalue", d)
	case s.isFlat:
		return kit.NotImplementedBy("median_cpu", d)
	}
	return kit.NotImplementedBy("median_out", d)
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
	outs := []tensor.Meta{call.Out[0], call.Out[0]}
	dim := 0
	if stat.isFlat {
		in = builder.ToRowMajor(in, dtype)
		in = in.View(tensor.New(dtype, in.Meta.Numel()))
		outs[0] = tensor.New(dtype, 1)
		outs[1] = outs[0]
	} else {
		var err error
		if dim, err = tensor.WrapDim(stat.dim, in.Meta.Rank()); err != nil {
			return nil, err
		}
		for i, out := range call.Out {
			outs[i] = out
			// If keepdim is not set, insert dim with size 1, so that operand and results have the same dimensions.
			if out.Rank() < in.Meta.Rank() {
				outs[i].Shape = slices.Insert(slices.Clone(out.Shape), dim, 1)
				outs[i].Strides = slices.Insert(slices.Clone(out.Strides), dim, 0)
			}
		}
	}
	m := in.Meta
	n, step, size := sizeAt(m, dim), kit.ByteStride(m, dim), dtype.Size()
	buffers := []kit.Buffer{kit.OutBuffer(call, 0), in}
	if !stat.isFlat {
		buffers = append(buffers, kit.OutBuffer(call, 1))
	}
	lines := kit.NewLineSet(m.Shape, dim, m, outs[0], outs[1])
	load := tensor.Converter(kit.LoopDType(dtype), dtype)
	nan := tensor.FloatScalar(math.NaN()).Tensor(dtype)
	const costPerElement = 16
	workerBytes := 2 * n * 8 // a copy of the line, and the memory of indexOf; n elements of at most 8 bytes each
	// offsets are the byte offsets of a line in m, outs[0] and outs[1].
	phase := lines.Phase(costPerElement*n, func(mem *graph.Mem, offsets [4]int) error {
		dst, src := unsafe.Add(mem.Ptrs[0], offsets[1]), unsafe.Add(mem.Ptrs[1], offsets[0])
		if n == 0 { // only for the median of no elements, if dim is not given
			kit.CopyElement(dst, nan.Pointer(), size)
			return nil
		}
		scratch := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), 2*n)
		line := scratch[:n]
		loadLine(mem.Context, line, load, src, step, dtype == tensor.Uint64)
		index := indexOf(mem.Context, stat, line, scratch[n:])
		kit.CopyElement(dst, unsafe.Add(src, index*step), size)
		if !stat.isFlat {
			*(*int64)(unsafe.Add(mem.Ptrs[2], offsets[2])) = int64(index)
		}
		return nil
	})
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, phase)
	return builder.Kernel()
}

// loadLine reads elements that are step bytes apart, from address src on, into the line. load converts them to T.
// unsigned is set for uint64 elements.
func loadLine[T kit.Sortable](ctx context.Context, line []T, load tensor.ConvertFunc, src unsafe.Pointer, step int,
	unsigned bool) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		load(unsafe.Pointer(&line[begin]), unsafe.Add(src, begin*step), int(unsafe.Sizeof(line[0])), step, end-begin)
		if unsigned {
			for i := begin; i < end; i++ {
				flipSign(&line[i])
			}
		}
	})
}

// indexOf returns the index of the element that s takes of a line. Elements other than NaN are called numbers here; NaN
// is greater than all numbers. work is temporary memory for the numbers, as long as the line.
func indexOf[T kit.Sortable](ctx context.Context, s statistic, line, work []T) int {
	numbers, firstNaN := 0, -1
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i, v := range line[begin:end] {
			if v == v {
				work[numbers] = v
				numbers++
			} else if firstNaN < 0 {
				firstNaN = begin + i
			}
		}
	})
	work = work[:numbers]
	rank := s.k - 1
	switch {
	case s.kind == modeOf && numbers > 0:
		value := mostFrequent(ctx, work)
		last := 0
		kit.ForEachBlock(ctx, len(line), func(begin, end int) {
			for i, x := range line[begin:end] {
				if x == value {
					last = begin + i
				}
			}
		})
		return last
	case s.kind == kthOf && rank >= numbers:
		return nthNaN(ctx, line, rank-numbers)
	case s.kind == medianOf && firstNaN >= 0, numbers == 0:
		return firstNaN
	case s.kind != kthOf: // the lower median of the numbers
		rank = (numbers - 1) / 2
	}
	// Equal elements are ranked by index: the result is occurrence rank-less of value.
	value, less := selectRank(ctx, work, rank)
	return occurrence(ctx, line, value, rank-less)
}

// occurrence returns the index of occurrence k of a value in a line. k counts from 0.
func occurrence[T kit.Sortable](ctx context.Context, line []T, value T, k int) int {
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

// maxPivots is the number of pivots after which [selectRank] sorts instead. It also sorts lines of up to maxSortedLen
// elements.
const maxPivots, maxSortedLen = 64, 32

// selectRank returns the element of the given rank, from 0, in ascending order of a line without NaN. less is the
// number of lesser elements. selectRank reorders the line: it partitions the part that contains the rank until it is
// short.
func selectRank[T kit.Sortable](ctx context.Context, line []T, rank int) (value T, less int) {
	before := 0 // number of elements that were cut off before line
	for pivots := 0; len(line) > maxSortedLen && pivots < maxPivots; pivots++ {
		pivot := pivotFor(line, rank-before)
		smaller := partition(ctx, line, func(x T) bool { return x < pivot })
		if rank-before < smaller {
			line = line[:smaller]
			continue
		}
		line, before = line[smaller:], before+smaller
		equal := partition(ctx, line, func(x T) bool { return x == pivot })
		if rank-before < equal {
			return pivot, before
		}
		line, before = line[equal:], before+equal
	}
	kit.Sort(ctx, line, compareNumbers[T])
	value = line[rank-before]
	// In sorted order, the number of elements less than value is the index of the first element that equals value.
	for i := rank - before; i >= 0 && line[i] == value; i-- {
		less = before + i
	}
	return value, less
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
	n := 0
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		for i := begin; i < end; i++ {
			if x := line[i]; isFirst(x) {
				line[i], line[n] = line[n], x
				n++
			}
		}
	})
	return n
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
	outs := make([]*tensor.Tensor, len(c.Out))
	for i, out := range c.Out {
		outs[i] = tensor.Zeros(out.DType, out.Shape...)
	}
	if outs[0].Numel() == 0 {
		return outs, nil
	}
	dim, err := tensor.WrapDim(s.dim, self.Rank())
	if err != nil {
		return nil, err
	}
	n := sizeAt(self.Meta, dim)
	if n == 0 { // the median of no elements
		outs[0].Set(tensor.FloatScalar(math.NaN()))
		return outs, nil
	}
	sortedLines, err := (&ranking{dim: dim, k: n}).reference(self)
	if err != nil {
		return nil, err
	}
	sortedValues, sortedIndices := sortedLines[0], sortedLines[1]
	kit.EachIndex(outs[0].Shape, func(coords []int) {
		from := slices.Clone(coords)
		if self.Rank() > len(coords) && !s.isFlat {
			from = slices.Insert(from, dim, 0)
		} else if s.isFlat {
			from = []int{0}
		}
		moveTo := func(i int) { // moves from to element i of the line
			if len(from) > 0 {
				from[dim] = i
			}
		}
		moveTo(s.sortedRank(n, func(i int) tensor.Scalar {
			moveTo(i)
			return sortedValues.At(from...)
		}))
		outs[0].Set(sortedValues.At(from...), coords...)
		if len(outs) > 1 {
			outs[1].Set(sortedIndices.At(from...), coords...)
		}
	})
	return outs, nil
}

// sortedRank returns the index of the statistic in a sorted line of n elements. value returns element i of the line.
func (s statistic) sortedRank(n int, value func(i int) tensor.Scalar) int {
	numbers := n // NaN is last in the sorted line
	for numbers > 0 && value(numbers-1).Float() != value(numbers-1).Float() {
		numbers--
	}
	switch {
	case s.kind == kthOf:
		return s.k - 1
	case numbers == 0:
		return 0
	case s.kind == medianOf && numbers < n:
		return numbers // the first NaN
	case s.kind != modeOf:
		return (numbers - 1) / 2
	}
	best, bestCount, runStart := 0, 0, 0 // runStart is the start of the current run of equal elements
	for i := range numbers {
		if value(i) != value(runStart) {
			runStart = i
		}
		if count := i - runStart + 1; count > bestCount {
			best, bestCount = i, count // after the loop: the last index of the longest run
		}
	}
	return best
}
