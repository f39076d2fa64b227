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
// index of the other dimensions; without dim, all elements are one line.
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
		Many: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(medianOf) })
	Nanmedian = orderStatistic[medianAttrs](graph.Semantics{
		Name: "nanmedian",
		Doc: "Returns the median of all elements that are not NaN, or the medians along a dimension and their indices. " +
			"The median of an even number of elements is the lower of the two in the middle.",
		Many: true, Examples: medianExamples,
	}, func(a *medianAttrs) statistic { return a.statistic(nanmedianOf) })
	Mode = orderStatistic[modeAttrs](graph.Semantics{
		Name: "mode",
		Doc: "Returns the most frequent element along a dimension and the index of its last occurrence. Of several most " +
			"frequent elements, it is the least. NaN differs from every element, including itself.",
		Outputs: valuesAndIndices, Examples: kit.OneExample(kit.F32(3, 5), nil),
	}, func(a *modeAttrs) statistic { return statistic{kind: modeOf, dim: a.Dim, keepdim: a.Keepdim} })
)

var medianExamples = []graph.Example{{In: []tensor.Meta{kit.F32(3, 5)}},
	{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1}}}

func (a *medianAttrs) statistic(kind statisticKind) statistic {
	s := statistic{kind: kind, keepdim: a.Keepdim, all: a.Dim == nil}
	if a.Dim != nil {
		s.dim = *a.Dim
	}
	return s
}

type statisticKind uint8

const (
	kthOf statisticKind = iota
	medianOf
	nanmedianOf
	modeOf
)

// statistic describes the element that an op takes of each line.
type statistic struct {
	kind    statisticKind
	k       int // for kthOf
	dim     int
	keepdim bool
	all     bool // all elements are one line, and there is no result of indices
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
		Facts:     graph.Facts{WritesAnyOrder: true, Each: orderingEach},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return statisticOf(kit.Attrs[A](c)).compile(c)
		}},
	})
}

func (s statistic) infer(name string, call *graph.Call) ([]graph.Result, error) {
	t := call.Type(0)
	if err := s.checkDType(name, t.DType); err != nil {
		return nil, err
	}
	if s.all {
		return call.One(tensor.NewType(t.DType)), nil
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
	case s.all:
		return kit.NotImplementedBy("median_cpu", d)
	}
	return kit.NotImplementedBy("median_out", d)
}

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
	in, dtype := builder.In(0), call.Meta(0).DType
	outs := []tensor.Meta{call.Out[0], call.Out[0]}
	dim := 0
	if stat.all {
		in = builder.Dense(in, dtype)
		in = in.View(tensor.New(dtype, in.Meta.Numel()))
		outs[0] = tensor.New(dtype, 1)
		outs[1] = outs[0]
	} else {
		var err error
		if dim, err = tensor.WrapDim(stat.dim, in.Meta.Rank()); err != nil {
			return nil, err
		}
		for i, o := range call.Out {
			outs[i] = o
			// Without keepdim, the results get dim back with size 1, so that all values have the same dimensions.
			if o.Rank() < in.Meta.Rank() {
				outs[i].Shape = slices.Insert(slices.Clone(o.Shape), dim, 1)
				outs[i].Strides = slices.Insert(slices.Clone(o.Strides), dim, 0)
			}
		}
	}
	m := in.Meta
	n, step, size := sizeAt(m, dim), kit.StepAt(m, dim), dtype.Size()
	buffers := []kit.Buffer{kit.OutBuffer(call, 0), in}
	if !stat.all {
		buffers = append(buffers, kit.OutBuffer(call, 1))
	}
	lines := kit.NewLineSet(m.Shape, dim, m, outs[0], outs[1])
	load := tensor.Converter(kit.LoopDType(dtype), dtype)
	nan := tensor.FloatScalar(math.NaN()).Tensor(dtype)
	// Worker memory has a copy of the line, then memory for indexOf: 2*n elements of at most 8 bytes.
	builder.AddPhases(0, 16*n, buffers, lines.Phase(16*n, func(mem *graph.Mem, off [4]int) error {
		dst, src := unsafe.Add(mem.Ptrs[0], off[1]), unsafe.Add(mem.Ptrs[1], off[0])
		if n == 0 { // only for the median of no elements, without dim
			kit.CopyElement(dst, nan.Pointer(), size)
			return nil
		}
		both := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), 2*n)
		line := both[:n]
		kit.Blocks(mem.Context, n, func(begin, end int) {
			load(unsafe.Pointer(&line[begin]), unsafe.Add(src, begin*step), int(unsafe.Sizeof(line[0])), step, end-begin)
			if dtype == tensor.Uint64 {
				for i := begin; i < end; i++ {
					flipSign(&line[i])
				}
			}
		})
		index := indexOf(mem.Context, stat, line, both[n:])
		kit.CopyElement(dst, unsafe.Add(src, index*step), size)
		if !stat.all {
			*(*int64)(unsafe.Add(mem.Ptrs[2], off[2])) = int64(index)
		}
		return nil
	}))
	return builder.Kernel()
}

// indexOf returns the index of the element that s takes of a line. work is temporary memory of the length of the line:
// it gets the numbers of the line, in the order of the line. NaN comes after all numbers.
func indexOf[T kit.Sortable](ctx context.Context, s statistic, line, work []T) int {
	numbers, firstNaN := 0, -1
	kit.Blocks(ctx, len(line), func(begin, end int) {
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
		v := mostFrequent(ctx, work)
		last := 0
		kit.Blocks(ctx, len(line), func(begin, end int) {
			for i, x := range line[begin:end] {
				if x == v {
					last = begin + i
				}
			}
		})
		return last
	case numbers == 0 || s.kind == medianOf && firstNaN >= 0:
		// A median with NaN is the first NaN, and so is every statistic but kthOf of a line of NaN only: k is 0, so
		// rank is -1. kthOf takes index rank: all elements are NaN, so firstNaN is 0.
		return firstNaN + max(0, min(rank, len(line)-1))
	case s.kind != kthOf: // the lower median of the numbers
		rank = (numbers - 1) / 2
	case rank >= numbers: // kthOf beyond the numbers
		return nthNaN(ctx, line, rank-numbers)
	}
	// Of equal elements, the one at position rank-less of them has the rank.
	v, less := selectRank(ctx, work, rank)
	return occurrence(ctx, line, v, rank-less)
}

// occurrence returns the index of occurrence k of a value in a line, from 0.
func occurrence[T kit.Sortable](ctx context.Context, line []T, v T, k int) int {
	at := 0
	kit.Blocks(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] == v {
				at = i
				k--
			}
		}
	})
	return at
}

// nthNaN returns the index of NaN k of a line, from 0.
func nthNaN[T kit.Sortable](ctx context.Context, line []T, k int) int {
	at := 0
	kit.Blocks(ctx, len(line), func(begin, end int) {
		for i := begin; i < end && k >= 0; i++ {
			if line[i] != line[i] {
				at = i
				k--
			}
		}
	})
	return at
}

// mostFrequent sorts a line without NaN and returns the least of its most frequent elements.
func mostFrequent[T kit.Sortable](ctx context.Context, line []T) T {
	kit.Sort(ctx, line, compareNumbers[T])
	best, bestCount, begin := line[0], 0, 0 // begin is the start of the current run of equal elements
	kit.Blocks(ctx, len(line), func(first, end int) {
		for i := first; i < end; i++ {
			if line[i] != line[begin] {
				begin = i
			}
			if n := i - begin + 1; n > bestCount {
				best, bestCount = line[i], n
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

// maxPivots is the number of pivots after which [selectRank] sorts instead.
const maxPivots = 64

// selectRank reorders a line without NaN. It returns the element of the given rank, from 0, and the number of lesser
// elements.
func selectRank[T kit.Sortable](ctx context.Context, line []T, rank int) (v T, less int) {
	before := 0                                                       // elements that precede line
	for pivots := 0; len(line) > 32 && pivots < maxPivots; pivots++ { // shorter lines are sorted
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
	v = line[rank-before]
	// The first element that equals v has as many lesser elements as elements before it.
	for i := rank - before; i >= 0 && line[i] == v; i-- {
		less = before + i
	}
	return v, less
}

// pivotFor returns an element whose rank in the line is near the given rank. It takes 31 elements at equal distances,
// sorts them, and returns the one at rank*31/len(line).
func pivotFor[T kit.Sortable](line []T, rank int) T {
	var sample [31]T
	step := len(line) / len(sample)
	for i := range sample {
		sample[i] = line[i*step+step/2]
	}
	slices.Sort(sample[:])
	return sample[min(len(sample)-1, rank*len(sample)/len(line))]
}

// partition moves the elements that satisfy first to the front and returns their number.
func partition[T kit.Sortable](ctx context.Context, line []T, first func(x T) bool) int {
	n := 0
	kit.Blocks(ctx, len(line), func(begin, end int) {
		for i := begin; i < end; i++ {
			if x := line[i]; first(x) {
				line[i], line[n] = line[n], x
				n++
			}
		}
	})
	return n
}

// reference sorts the lines by the reference of sort and takes an element of each.
func (s statistic) reference(c *graph.Call, self *tensor.Tensor) ([]*tensor.Tensor, error) {
	if s.all {
		flat, err := self.CopyTo(tensor.New(self.DType, self.Shape...)).View(tensor.New(self.DType, self.Numel()))
		if err != nil {
			return nil, err
		}
		self = flat
	}
	outs := make([]*tensor.Tensor, len(c.Out))
	for i, o := range c.Out {
		outs[i] = tensor.Zeros(o.DType, o.Shape...)
	}
	if outs[0].Numel() == 0 {
		return outs, nil
	}
	dim, err := tensor.WrapDim(s.dim, self.Rank())
	if err != nil {
		return nil, err
	}
	n := sizeAt(self.Meta, dim)
	if n == 0 {
		outs[0].Set(tensor.FloatScalar(math.NaN()))
		return outs, nil
	}
	sortedLines, err := (&ranking{dim, n, false}).reference(self)
	if err != nil {
		return nil, err
	}
	kit.EachIndex(outs[0].Shape, func(at []int) {
		from := slices.Clone(at)
		if self.Rank() > len(at) && !s.all {
			from = slices.Insert(from, dim, 0)
		} else if s.all {
			from = []int{0}
		}
		element := func(i int) (tensor.Scalar, tensor.Scalar) {
			if len(from) > 0 {
				from[dim] = i
			}
			return sortedLines[0].At(from...), sortedLines[1].At(from...)
		}
		value, index := element(s.sortedRank(n, func(i int) tensor.Scalar { v, _ := element(i); return v }))
		outs[0].Set(value, at...)
		if len(outs) > 1 {
			outs[1].Set(index, at...)
		}
	})
	return outs, nil
}

// sortedRank returns the position of the statistic in a sorted line of n elements.
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
	best, bestCount, begin := 0, 0, 0
	for i := range numbers {
		if value(i) != value(begin) {
			begin = i
		}
		if i-begin+1 > bestCount {
			best, bestCount = i, i-begin+1 // ends at the last of the equal elements, which has the greatest index
		}
	}
	return best
}
