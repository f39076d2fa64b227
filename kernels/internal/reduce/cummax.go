package reduce

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type runningAttrs struct {
	Dim int `attr:"dim" doc:"dimension along which extremes are computed"`
}

// Cummax and Cummin are running extremes with their indices. A line is the sequence of elements along the dimension,
// with all other indices fixed. Result i of a line is the extreme of elements 0 to i of the line. For example, cummax
// of the line [1, 3, 2, 3] has the values [1, 3, 3, 3] and the indices [0, 1, 1, 3].
var (
	Cummax = runningExtremeOp("cummax", "greatest", isMaximum)
	Cummin = runningExtremeOp("cummin", "least", isMinimum)
)

// Values of isMax.
const isMaximum, isMinimum = true, false

// runningExtremeOp defines cummax if isMax is set, else cummin.
func runningExtremeOp(name, extreme string, isMax bool) *graph.Op {
	return kit.Define[*runningAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: "Returns for each element the " + extreme + " element up to it along a dimension, and the last " +
				"index of that value so far. From the first NaN on, the value is NaN, and the index is that of the last NaN so " +
				"far.",
			Params: []graph.Param{kit.Self}, Outputs: []string{"values", "indices"},
			Infer: func(c *graph.Call) ([]graph.Result, error) { return inferRunningExtreme(c, name) },
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				return runningReference(in[0], kit.Attrs[*runningAttrs](c).Dim, isMax)
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3)}, Attrs: graph.Attrs{"dim": 1}},
				{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"dim": 1}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 4},
			Parallel: kit.LoopsExcept(func(c *graph.Call) []int { return []int{kit.Attrs[*runningAttrs](c).Dim} })},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) { return compileRunningExtreme(c, isMax) }},
	})
}

// inferRunningExtreme infers the results of cummax or cummin. name is the name of the op in its error.
func inferRunningExtreme(c *graph.Call, name string) ([]graph.Result, error) {
	self := c.Type(0)
	if _, err := tensor.WrapDim(kit.Attrs[*runningAttrs](c).Dim, self.Rank()); err != nil {
		return nil, err
	}
	if dtype := self.DType; dtype.IsComplex() || dtype.IsBareUnsigned() {
		return nil, kit.NotImplementedBy(name+"_cpu", dtype)
	}
	return kit.WithIndices(c, self.RowMajor()), nil
}

// compileRunningExtreme compiles cummax if isMax is set, else cummin.
func compileRunningExtreme(c *graph.Call, isMax bool) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	switch dtype := kit.LoopDType(c.Meta(0).DType); dtype {
	case tensor.Int64:
		return runningKernel[int64](c, dtype, isMax)
	case tensor.Float32:
		return runningKernel[float32](c, dtype, isMax)
	}
	return runningKernel[float64](c, tensor.Float64, isMax)
}

// runningKernel returns a kernel over row-major elements of the given dtype. A unit of work is a block of adjacent
// lines.
func runningKernel[T kit.Sortable](c *graph.Call, dtype tensor.DType, isMax bool) (*graph.Kernel, error) {
	self := c.Meta(0)
	dim, err := tensor.WrapDim(kit.Attrs[*runningAttrs](c).Dim, self.Rank())
	if err != nil {
		return nil, err
	}
	builder := copies.NewKernelBuilder(c)
	lineLength, inner := kit.SizeOrMissing(self, dim), tensor.Numel(self.Shape[min(dim+1, self.Rank()):])
	blocks := newLineBlocks(self.Numel(), lineLength, inner)
	buffers := []kit.Buffer{builder.Result(0, dtype), builder.Result(1, tensor.Int64),
		builder.ToRowMajor(builder.Operand(0), dtype)}
	blockCost := 4 * blocks.maxElements() // an element costs about as much as four copied elements
	phase := copies.ChunkedPhase(blocks.count, blockCost, func(mem *graph.Mem, begin, end int) error {
		arrays := runningArrays[T]{
			values:  sliceAt[T](mem.Ptrs[0], self.Numel()),
			indices: sliceAt[int64](mem.Ptrs[1], self.Numel()),
			in:      sliceAt[T](mem.Ptrs[2], self.Numel()),
		}
		for block := begin; block < end; block++ {
			arrays.writeBlock(mem, blocks, block, isMax)
		}
		return nil
	})
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	return builder.Kernel()
}

// sliceAt returns the elements from an address on.
func sliceAt[T any](address unsafe.Pointer, count int) []T { return unsafe.Slice((*T)(address), count) }

// runningArrays has the row-major elements of the results and of the operand.
type runningArrays[T kit.Sortable] struct {
	values  []T
	indices []int64
	in      []T
}

// writeBlock writes the results of a block of lines. If inner is 1, a block is one contiguous line, processed from
// first to last. Otherwise the adjacent lines of a block are processed together, index by index.
func (a *runningArrays[T]) writeBlock(mem *graph.Mem, blocks lineBlocks, block int, isMax bool) {
	first, lines := blocks.position(block)
	if blocks.inner == 1 {
		end := first + blocks.lineLength
		writeLineExtremes(mem, a.values[first:end], a.indices[first:end], a.in[first:end], isMax)
		return
	}
	for i := range blocks.lineLength {
		if i*lines%kit.CheckEvery < lines { // about once per CheckEvery elements
			mem.CheckContext()
		}
		offset := first + i*blocks.inner
		end := offset + lines
		previous := max(first, offset-blocks.inner) // the results of index i-1; not read if i is 0
		writeStepExtremes(a.values[offset:end], a.indices[offset:end], a.in[offset:end],
			a.values[previous:previous+lines], a.indices[previous:previous+lines], int64(i), isMax)
	}
}

// writeLineExtremes writes the extremes of one line and their indices. A NaN replaces any extreme, and only a NaN
// replaces NaN.
func writeLineExtremes[T kit.Sortable](mem *graph.Mem, values []T, indices []int64, in []T, isMax bool) {
	best, bestIndex := in[0], 0
	kit.ForEachBlock(mem.Context, len(in), func(begin, end int) {
		extreme, position := best, bestIndex
		for i := begin; i < end; i++ {
			if element := in[i]; element != element ||
				extreme == extreme && (isMax && element >= extreme || !isMax && element <= extreme) {
				extreme, position = element, i
			}
			values[i], indices[i] = extreme, int64(position)
		}
		best, bestIndex = extreme, position
	})
}

// writeStepExtremes writes the extremes of adjacent lines at index i of the dimension. Each slice has one element per
// line. best and bestIndices are the extremes at index i-1 and their indices. Both are ignored if i is 0.
func writeStepExtremes[T kit.Sortable](values []T, indices []int64, in, best []T, bestIndices []int64, i int64,
	isMax bool) {
	indices, best, bestIndices, values = indices[:len(in)], best[:len(in)], bestIndices[:len(in)], values[:len(in)]
	for line, element := range in {
		extreme, position := best[line], bestIndices[line]
		if i == 0 || element != element ||
			extreme == extreme && (isMax && element >= extreme || !isMax && element <= extreme) {
			extreme, position = element, i
		}
		values[line], indices[line] = extreme, position
	}
}

// runningReference computes result i of a line from the elements 0 to i.
func runningReference(self *tensor.Tensor, dim int, isMax bool) ([]*tensor.Tensor, error) {
	dim, err := tensor.WrapDim(dim, self.Rank())
	if err != nil {
		return nil, err
	}
	values, indices := tensor.Zeros(self.DType, self.Shape...), tensor.Zeros(tensor.Int64, self.Shape...)
	kit.EachIndex(self.Shape, func(index []int) {
		elementIndex, last := append([]int(nil), index...), 0
		if len(elementIndex) > 0 {
			last = elementIndex[dim]
		}
		best, bestPosition := tensor.Scalar{}, 0
		for position := range last + 1 {
			if len(elementIndex) > 0 {
				elementIndex[dim] = position
			}
			element := self.At(elementIndex...)
			x, bestX := element.Float(), best.Float()
			replaces := isMax && x >= bestX || !isMax && x <= bestX
			if self.DType.IsIntegral(true) { // x and bestX are float64, which cannot represent all int64
				replaces = isMax && element.Int() >= best.Int() || !isMax && element.Int() <= best.Int()
			}
			if position == 0 || x != x || bestX == bestX && replaces {
				best, bestPosition = element, position
			}
		}
		values.Set(best, index...)
		indices.Set(tensor.IntScalar(int64(bestPosition)), index...)
	})
	return []*tensor.Tensor{values, indices}, nil
}
