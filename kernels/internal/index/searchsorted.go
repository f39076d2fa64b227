package index

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type searchsortedAttrs struct {
	OutInt32 bool   `attr:"out_int32" default:"false" doc:"return int32, else int64"`
	Right    bool   `attr:"right" default:"false" doc:"return the position after equal elements; false: before them"`
	Side     string `attr:"side" default:"none" oneof:"none|left|right" doc:"left: before equal elements; right: after them; none: as right says"`
}

type bucketizeAttrs struct {
	OutInt32 bool `attr:"out_int32" default:"false" doc:"return int32, else int64"`
	Right    bool `attr:"right" default:"false" doc:"return the position after equal elements; false: before them"`
}

// Searchsorted and Bucketize find positions by binary search in a sorted sequence. For example, the position of 3 in
// [1 3 3 5] is 1, before the equal elements, or 3 with right. After a comparison with NaN, the search continues behind
// the compared element, as PyTorch's does.
var (
	Searchsorted = kit.Define[*searchsortedAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "searchsorted",
			Doc: "Returns the positions at which elements of self can be inserted so that `sorted_sequence` stays sorted. " +
				"The sequence is a vector, or has a sorted row for each row of self. `sorter`, if given, has the indices that " +
				"sort the sequence.",
			Params: []graph.Param{{Name: "sorted_sequence"}, {Name: "self", AcceptsNumber: true},
				{Name: "sorter", Optional: true}},
			Infer: inferSearchsorted,
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				attrs := kit.Attrs[*searchsortedAttrs](c)
				var sorter *tensor.Tensor
				if len(in) > 2 {
					sorter = in[2]
				}
				return searchRef(c, in[0], in[1], sorter, attrs.wantsRight())
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(5), kit.F32(2, 3)}},
				{In: []tensor.Meta{kit.F32(2, 5), kit.F32(2, 3)}, Attrs: graph.Attrs{"right": true}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Function: 2},
			Parallel: searchsortedOperands.loops},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return compileSearch(c, searchsortedOperands, kit.Attrs[*searchsortedAttrs](c).wantsRight())
		}},
	})
	Bucketize = kit.Define[*bucketizeAttrs](graph.Op{
		Semantics: graph.Semantics{
			Name: "bucketize",
			Doc: "Returns the index of the bucket of each element of self. `boundaries` is a sorted vector. Bucket i " +
				"ends at boundary i.",
			Params: []graph.Param{{Name: "self", AcceptsNumber: true}, {Name: "boundaries"}},
			Infer:  inferBucketize,
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				var noSorter *tensor.Tensor
				return searchRef(c, in[1], in[0], noSorter, kit.Attrs[*bucketizeAttrs](c).Right)
			},
			Examples: []graph.Example{{In: []tensor.Meta{kit.F32(2, 3), kit.F32(5)}}},
		},
		Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Function: 2},
			Parallel: bucketizeOperands.loops},
		Lowerings: graph.Lowerings{Compile: func(c *graph.Call) (*graph.Kernel, error) {
			return compileSearch(c, bucketizeOperands, kit.Attrs[*bucketizeAttrs](c).Right)
		}},
	})
)

// searchOperands has indices of operands: of the sorted sequence, and of the values to search.
type searchOperands struct{ sequence, values int }

var (
	searchsortedOperands = searchOperands{sequence: 0, values: 1}
	bucketizeOperands    = searchOperands{sequence: 1, values: 0}
)

// loops returns the parallel loops of a call: over all dimensions of the values if the sequence is a vector, else over
// the dimensions before the last.
func (operands searchOperands) loops(c *graph.Call) []graph.Parallel {
	if c.Meta(operands.sequence).Rank() != 1 {
		return kit.LoopsExceptLast(1)(c)
	}
	return kit.LoopsOverDims(c, operands.values, c.Meta(operands.values).Rank())
}

// wantsRight reports whether the position after equal elements is wanted.
func (a *searchsortedAttrs) wantsRight() bool { return a.Right || a.Side == "right" }

// inferSearchsorted checks the attributes and the sorter, and infers the result.
func inferSearchsorted(c *graph.Call) ([]graph.Result, error) {
	attrs := kit.Attrs[*searchsortedAttrs](c)
	if attrs.Side == "left" && attrs.Right {
		return nil, errors.New("torch.searchsorted(): side and right can't be set to opposites, got side " +
			"of left while right was True")
	}
	sequence := c.Type(0)
	if c.HasOperand(2) {
		sorter := c.Type(2)
		if !tensor.SameSizes(sorter.Shape, sequence.Shape) {
			return nil, fmt.Errorf("torch.searchsorted(): boundary and sorter must have the same size, but got boundary "+
				"tensor %sand got sorter tensor %s", tensor.Sizes(sequence.Shape), tensor.Sizes(sorter.Shape))
		}
		if sorter.DType != tensor.Int64 {
			return nil, fmt.Errorf("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
				kit.CppName(sorter.DType))
		}
	}
	return inferSearch(c, searchsortedOperands, attrs.OutInt32)
}

func inferBucketize(c *graph.Call) ([]graph.Result, error) {
	if rank := c.Type(1).Rank(); rank != 1 {
		return nil, fmt.Errorf("torch.searchsorted(): boundaries tensor should be 1 dimension, but got dim %d", rank)
	}
	return inferSearch(c, bucketizeOperands, kit.Attrs[*bucketizeAttrs](c).OutInt32)
}

// inferSearch infers the result of a search: int32 if outInt32 is set, else int64.
func inferSearch(c *graph.Call, operands searchOperands, outInt32 bool) ([]graph.Result, error) {
	sequence, outDType := c.Type(operands.sequence), tensor.Int64
	if outInt32 {
		outDType = tensor.Int32
	}
	const scalarMessage = "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1"
	if sequence.Rank() == 0 {
		return nil, errors.New("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 " +
			"dimension")
	}
	if c.In[operands.values].Kind == graph.NumberArg {
		if sequence.Rank() != 1 {
			return nil, errors.New(scalarMessage)
		}
		return c.NewResult(tensor.NewType(outDType)), checkSearchDType(c)
	}
	values := c.Type(operands.values)
	batchRank := sequence.Rank() - 1
	if values.Rank() == 0 && sequence.Rank() != 1 {
		return nil, errors.New(scalarMessage)
	}
	rowsMatch := values.Rank() == sequence.Rank() &&
		tensor.SameSizes(values.Shape[:batchRank], sequence.Shape[:batchRank])
	if sequence.Rank() > 1 && !rowsMatch {
		return nil, fmt.Errorf("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "+
			"of boundaries tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s",
			tensor.Sizes(sequence.Shape), tensor.Sizes(values.Shape))
	}
	return c.NewResult(tensor.NewType(outDType, values.Shape...)), checkSearchDType(c)
}

// searchDType returns the dtype to which the sequence and the values are promoted.
func searchDType(c *graph.Call) (tensor.DType, error) {
	var promotion tensor.Promotion
	for _, arg := range c.In[:2] {
		if arg.Kind == graph.NumberArg {
			promotion.AddNumber(arg.Number)
		} else {
			promotion.Add(arg.Type().DType, arg.Type().Rank())
		}
	}
	return promotion.Result()
}

// checkSearchDType returns PyTorch's error if the promoted dtype is not supported.
func checkSearchDType(c *graph.Call) error {
	dtype, err := searchDType(c)
	if err != nil {
		return err
	}
	if dtype == tensor.Bool || dtype.IsComplex() || dtype.IsBareUnsigned() {
		return kit.NotImplementedBy("searchsorted_out_cpu", dtype)
	}
	return nil
}

// compileSearch returns the kernel of a search. If isRight is set, results are positions after equal elements, else
// before them.
func compileSearch(c *graph.Call, operands searchOperands, isRight bool) (*graph.Kernel, error) {
	if c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	dtype, err := searchDType(c)
	if err != nil {
		return nil, err
	}
	switch kit.LoopDType(dtype) {
	case tensor.Int64:
		return searchKernel[int64](c, operands, dtype, isRight)
	case tensor.Float32:
		return searchKernel[float32](c, operands, dtype, isRight)
	}
	return searchKernel[float64](c, operands, dtype, isRight)
}

// searchKernel returns a kernel that searches in row-major operands, which are first converted to the given dtype. A
// unit of work is the search for one value.
func searchKernel[T kit.Sortable](c *graph.Call, operands searchOperands, dtype tensor.DType,
	isRight bool) (*graph.Kernel, error) {
	builder := copies.NewKernelBuilder(c)
	values := builder.Operand(operands.values)
	if arg := c.In[operands.values]; arg.Kind == graph.NumberArg {
		values = kit.DataBuffer(arg.Number.Tensor(dtype))
	}
	// Operands are rounded to dtype before they are converted to the dtype of the loop.
	asRowMajor := func(buffer kit.Buffer) kit.Buffer {
		return builder.ToRowMajor(builder.ToRowMajor(buffer, dtype), kit.LoopDType(dtype))
	}
	sequence, values := asRowMajor(builder.Operand(operands.sequence)), asRowMajor(values)
	buffers := []kit.Buffer{builder.Result(0, c.Out[0].DType), sequence, values}
	// Only searchsorted has an operand sorter.
	isSorted := operands == bucketizeOperands || !c.HasOperand(2)
	if !isSorted {
		buffers = append(buffers, builder.ToRowMajor(builder.Operand(2), tensor.Int64))
	}
	batchRank := sequence.Meta.Rank() - 1
	length, rows := sequence.Meta.Shape[batchRank], tensor.Numel(sequence.Meta.Shape[:batchRank])
	search := &rowSearch[T]{length: length, rows: rows, valuesPerRow: values.Meta.Numel() / max(1, rows),
		isSorted: isSorted, isRight: isRight, isInt32: c.Out[0].DType == tensor.Int32}
	const stepCost = 4 // cost of a step of the search; copying one element costs 1
	searchCost := stepCost * bisectionSteps(length)
	phase := copies.ChunkedPhase(values.Meta.Numel(), searchCost, search.run)
	builder.AddPhases(copies.NoScratch, copies.NoScratch, buffers, phase)
	return builder.Kernel()
}

// bisectionSteps returns the number of steps of a binary search: log2(length), rounded up, but at least 1.
func bisectionSteps(length int) int {
	steps := 1
	for 1<<steps < length {
		steps++
	}
	return steps
}

// rowSearch searches values in the rows of a sequence. A vector is one row.
type rowSearch[T kit.Sortable] struct {
	length       int  // number of elements of a row
	rows         int  // number of rows
	valuesPerRow int  // number of values that are searched in a row
	isSorted     bool // whether rows are sorted; if not, operand sorter has their order
	isRight      bool // whether results are positions after equal elements, else before them
	isInt32      bool // whether results are int32, else int64
}

// run searches the values from begin to end. mem.Ptrs has the result, the sequence, the values and the sorter.
func (s *rowSearch[T]) run(mem *graph.Mem, begin, end int) error {
	elementSize := int(unsafe.Sizeof(T(0)))
	for i := begin; i < end; i++ {
		row := 0
		if s.rows > 1 {
			row = i / s.valuesPerRow
		}
		line := unsafe.Slice((*T)(unsafe.Add(mem.Ptrs[1], row*s.length*elementSize)), s.length)
		value := *(*T)(unsafe.Add(mem.Ptrs[2], i*elementSize))
		var position int
		if s.isSorted {
			position = searchLine(line, value, s.isRight)
		} else {
			var err error
			order := unsafe.Slice((*int64)(unsafe.Add(mem.Ptrs[3], row*s.length*8)), s.length)
			if position, err = searchOrder(line, order, value, s.isRight); err != nil {
				return err
			}
		}
		if s.isInt32 {
			*(*int32)(unsafe.Add(mem.Ptrs[0], i*4)) = int32(position)
		} else {
			*(*int64)(unsafe.Add(mem.Ptrs[0], i*8)) = int64(position)
		}
	}
	return nil
}

// searchLine returns the position of x in a sorted line: after equal elements if isRight is set, else before them.
func searchLine[T kit.Sortable](line []T, x T, isRight bool) int {
	begin, count := 0, len(line) // the position is from begin to begin+count, inclusive
	if isRight {
		for count > 0 {
			half := count / 2
			if element := line[begin+half]; !(element > x) { // also true if an operand is NaN
				begin, count = begin+half+1, count-half-1
			} else {
				count = half
			}
		}
		return begin
	}
	for count > 0 {
		half := count / 2
		if element := line[begin+half]; !(element >= x) {
			begin, count = begin+half+1, count-half-1
		} else {
			count = half
		}
	}
	return begin
}

// searchOrder is searchLine for a line that is not sorted. order has the indices that sort the line.
func searchOrder[T kit.Sortable](line []T, order []int64, x T, isRight bool) (int, error) {
	begin, count := 0, len(line)
	for count > 0 {
		half := count / 2
		i := order[begin+half]
		if i < 0 || i >= int64(len(line)) {
			return 0, fmt.Errorf("torch.searchsorted(): sorter index %d is out of range for a sequence of %d elements",
				i, len(line))
		}
		element := line[i]
		isBefore := !(element >= x) // whether the element is before the position
		if isRight {
			isBefore = !(element > x)
		}
		if isBefore {
			begin, count = begin+half+1, count-half-1
		} else {
			count = half
		}
	}
	return begin, nil
}

// searchRef is the reference of a search.
func searchRef(c *graph.Call, sequence, values, sorter *tensor.Tensor, isRight bool) ([]*tensor.Tensor, error) {
	dtype, err := searchDType(c)
	if err != nil {
		return nil, err
	}
	sequence = sequence.CopyTo(tensor.New(dtype, sequence.Shape...))
	values = values.CopyTo(tensor.New(dtype, values.Shape...))
	out := tensor.Zeros(c.Out[0].DType, values.Shape...)
	length := sequence.Shape[sequence.Rank()-1]
	kit.EachIndex(values.Shape, func(coords []int) {
		line := make([]float64, length)
		row := []int{}
		if sequence.Rank() > 1 {
			row = coords[:sequence.Rank()-1]
		}
		order := make([]int64, length)
		for i := range length {
			elementIndex := append(append([]int(nil), row...), i)
			line[i], order[i] = sequence.At(elementIndex...).Float(), int64(i)
			if sorter != nil {
				order[i] = sorter.At(elementIndex...).Int()
			}
		}
		position, searchErr := searchOrder(line, order, values.At(coords...).Float(), isRight)
		if searchErr != nil {
			err = searchErr
		}
		out.Set(tensor.IntScalar(int64(position)), coords...)
	})
	return []*tensor.Tensor{out}, err
}
