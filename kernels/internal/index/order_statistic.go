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

// The ops of this file take one element of each line of the operand, and its index in the line. A line has the elements
// along one dimension (dim), at one index of the other dimensions: an operand [3, 5] has 3 lines of 5 elements along
// dimension 1. If the op median is called without dim, all elements are one line.
//
// Equal elements of a line are ranked by index, and NaN is ranked last. The line [5 2 9 2] is ranked 2 (index 1), 2
// (index 3), 5, 9. The ops take these elements of the line:
//
//	kthvalue, k=3:  the third element, 5, index 0
//	median:         the second of four elements, 2, index 3
//	mode:           the last of the most frequent elements, 2, index 3
//
// A statistic (order_statistic_select.go) describes the element that a call takes: its kind (the op), k, dim, keepdim,
// and isFlat, which is set if all elements are one line.
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

// orderStatistic defines an op that takes one element of each line. statisticOf returns the statistic of a call with
// the given attributes.
func orderStatistic[A any](semantics graph.Semantics, statisticOf func(a A) statistic) *graph.Op {
	name := semantics.Name
	semantics.Params = []graph.Param{kit.Self}
	semantics.Infer = func(c *graph.Call) ([]graph.Result, error) { return statisticOf(kit.Attrs[A](c)).infer(name, c) }
	semantics.Ref = func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return statisticOf(kit.Attrs[A](c)).reference(c, in[0])
	}
	return kit.Define[A](graph.Op{
		Semantics: semantics,
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: orderingFlops,
			Parallel: func(c *graph.Call) []graph.Parallel { return statisticOf(kit.Attrs[A](c)).loops(c) }},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return statisticOf(kit.Attrs[A](c)).compile(c)
		}},
	})
}

// loops returns the parallel loops of a call: over the dimensions of self other than dim.
func (s statistic) loops(c *graph.Call) []graph.Parallel {
	const self = 0
	lineDim := kit.WrappedDim(s.dim, c.Meta(self).Rank())
	if s.isFlat || lineDim == nil {
		return nil
	}
	var loops []graph.Parallel
	for dim := range c.Meta(self).Rank() {
		switch {
		case dim < lineDim[0] || dim > lineDim[0] && s.keepdim:
			loops = append(loops, kit.LoopOver(c, self, dim, dim))
		case dim > lineDim[0]:
			loops = append(loops, kit.LoopOver(c, self, dim, dim-1))
		}
	}
	return loops
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
		shape = kit.ReplaceSizes(shape, dim, sym.Of(1))
		if !s.keepdim {
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

// compile returns the kernel of a call, which computes in the loop dtype of the operand: int64, float32 or float64.
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

// lineTaker takes the element of a statistic of each line of an operand. It computes with elements of type T.
type lineTaker[T kit.Sortable] struct {
	statistic
	dtype     tensor.DType       // of the operand
	length    int                // number of elements of a line
	stepBytes int                // distance between elements of a line in the operand, in bytes
	load      tensor.ConvertFunc // converts elements of the operand to T
}

// statisticKernel returns the kernel of a call. The kernel computes the index of the element that it takes of a line.
// It then copies the element from the operand to the result, which preserves the bits.
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
	lines := kit.NewLineSet(in.Meta.Shape, dim, in.Meta, values, indices) // the offsets of each line in these values
	taker := &lineTaker[T]{statistic: stat, dtype: dtype, length: sizeAt(in.Meta, dim),
		stepBytes: kit.ByteStride(in.Meta, dim), load: tensor.Converter(kit.LoopDType(dtype), dtype)}
	const costPerElement = 16 // of loading and selecting, in copied elements
	phase := lines.Phase(costPerElement*taker.length, taker.take)
	buffers := []kit.Buffer{kit.OutBuffer(call, 0), in} // the buffers of mem.Ptrs
	if !stat.isFlat {
		buffers = append(buffers, kit.OutBuffer(call, 1))
	}
	workerBytes := 2 * taker.length * 8 // two lines, of elements of at most 8 bytes
	builder.AddPhases(copies.NoScratch, workerBytes, buffers, phase)
	return builder.Kernel()
}

// take computes the results for one line. offsets are the byte offsets of the line in the operand, the values and the
// indices; the last element is not used. mem.Ptrs has the addresses of the values, the operand and the indices. Worker
// memory has room for two lines: a copy of the line, and the temporary memory of selectIndex.
func (t *lineTaker[T]) take(mem *graph.Mem, offsets [4]int) error {
	operandOffset, valueOffset, indexOffset := offsets[0], offsets[1], offsets[2]
	value, src := unsafe.Add(mem.Ptrs[0], valueOffset), unsafe.Add(mem.Ptrs[1], operandOffset)
	if t.length == 0 { // only for the median of no elements, if dim is not given
		nan := tensor.FloatScalar(math.NaN()).Tensor(t.dtype)
		kit.CopyElement(value, nan.Pointer(), t.dtype.Size())
		return nil
	}
	memory := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))), 2*t.length)
	line := memory[:t.length]
	t.loadLine(mem.Context, line, src)
	index := selectIndex(mem.Context, t.statistic, line, memory[t.length:])
	kit.CopyElement(value, unsafe.Add(src, index*t.stepBytes), t.dtype.Size())
	if !t.isFlat {
		*(*int64)(unsafe.Add(mem.Ptrs[2], indexOffset)) = int64(index)
	}
	return nil
}

// loadLine reads the elements of a line from address src on, and converts them to T. uint64 elements are converted to
// int64 elements in the same order.
func (t *lineTaker[T]) loadLine(ctx context.Context, line []T, src unsafe.Pointer) {
	kit.ForEachBlock(ctx, len(line), func(begin, end int) {
		t.load(unsafe.Pointer(&line[begin]), unsafe.Add(src, begin*t.stepBytes), int(unsafe.Sizeof(line[0])),
			t.stepBytes, end-begin)
		if t.dtype == tensor.Uint64 {
			for i := begin; i < end; i++ {
				flipSign(&line[i])
			}
		}
	})
}

// alignResults returns the dimension of the lines, and the metas of the results. A result without the dimension of the
// lines gets this dimension with size 1, so that the results have the rank of the operand. If there is no result of
// indices, indices equals values.
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
		if out.Rank() < rank { // keepdim is not set
			out.Shape = slices.Insert(slices.Clone(out.Shape), dim, 1)
			out.Strides = slices.Insert(slices.Clone(out.Strides), dim, 0)
		}
	}
	return dim, values, indices, nil
}

// reference is the reference implementation. It sorts the lines by the reference of the op sort, and takes an element
// of each sorted line.
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
	sorted, err := (&ranking{dim: dim, k: length}).reference(self)
	if err != nil {
		return nil, err
	}
	sortedValues, sortedIndices := sorted[0], sorted[1]
	line := make([]tensor.Scalar, length)
	kit.EachIndex(outputs[0].Shape, func(coords []int) {
		for i := range line {
			line[i] = sortedValues.At(s.elementCoords(coords, self.Rank(), dim, i)...)
		}
		rank := s.rankInSorted(line)
		outputs[0].Set(line[rank], coords...)
		if len(outputs) > 1 {
			outputs[1].Set(sortedIndices.At(s.elementCoords(coords, self.Rank(), dim, rank)...), coords...)
		}
	})
	return outputs, nil
}

// elementCoords returns the index of element i of a line in an operand of the given rank. coords is the index of the
// line in the result, which may lack dim.
func (s statistic) elementCoords(coords []int, rank, dim, i int) []int {
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

// rankInSorted returns the rank of the statistic, from 0, in a sorted line.
func (s statistic) rankInSorted(line []tensor.Scalar) int {
	numberCount := len(line) // NaN is last in the line
	for numberCount > 0 && line[numberCount-1].Float() != line[numberCount-1].Float() {
		numberCount--
	}
	switch {
	case s.kind == kthKind:
		return s.k - 1
	case numberCount == 0:
		return 0
	case s.kind == medianKind && numberCount < len(line):
		return numberCount // the first NaN
	case s.kind != modeKind:
		return (numberCount - 1) / 2
	}
	best, bestCount, runStart := 0, 0, 0 // runStart is the start of the current run of equal elements
	for i := range numberCount {
		if line[i] != line[runStart] {
			runStart = i
		}
		if count := i - runStart + 1; count > bestCount {
			best, bestCount = i, count // after the loop: the last index of the longest run
		}
	}
	return best
}

// flipSign inverts the highest bit of a number of 64 bits: it maps a uint64 to an int64, in order.
func flipSign[T kit.Sortable](number *T) {
	bits := (*int64)(unsafe.Pointer(number))
	*bits = int64(uint64(*bits) ^ 1<<63)
}

// orderingFlops estimates the cost per element of selecting from a line: the comparisons and moves of an element count
// as 7 calls of a function such as exp.
var orderingFlops = graph.ElementFlops{Function: 7}
