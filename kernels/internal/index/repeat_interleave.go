package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type repeatInterleaveAttrs struct {
	Repeats    *sym.Int `attr:"repeats" default:"none" doc:"number of repetitions of each element or slice, if it is the same for all"`
	Dim        *int     `attr:"dim" default:"none" doc:"dimension whose slices are repeated; none: self is flattened"`
	OutputSize *sym.Int `attr:"output_size" default:"none" doc:"size of the repeated dimension in the result; makes the shape known before the run"`
}

// RepeatInterleave is torch.repeat_interleave in its three forms: with a number of repetitions, with a tensor of such
// numbers, and with a tensor of such numbers as the only operand. For example:
//
//	self [a b c], attribute repeats 2      ->  [a a b b c c]
//	self [a b c], operand repeats [2 0 1]  ->  [a a c]
//	self [2 0 1]                           ->  [0 0 2]
var RepeatInterleave = kit.Define[*repeatInterleaveAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "repeat_interleave",
		Doc: "Repeats every element, or every slice along a dimension. The attribute `repeats` is one number of " +
			"repetitions for all of them; the operand `repeats` has one number for each, or a single number.\nIf `repeats` is " +
			"not given, self has the numbers of repetitions, and the result repeats indices: [2, 0, 1] gives [0, 0, 2].",
		Params: []graph.Param{kit.Self, {Name: "repeats", Optional: true, Overload: "tensor"}},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			repeat, err := newRepeatCall(call)
			if err != nil {
				return nil, err
			}
			if !repeat.isSizeKnown {
				return []graph.Result{rowMajorOutline(repeat.dtype,
					withUnknownSize(repeat.valueType.Shape, repeat.dim)...).Result()}, nil
			}
			out, err := kit.FreshType(repeat.dtype, kit.ReplaceSizes(repeat.valueType.Shape, repeat.dim, repeat.size))
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return repeatInterleave(context.Background(), c, in)
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"repeats": 2, "dim": 1}},
			{In: []tensor.Meta{kit.F32(2, 3).WithStrides([]int{1, 2})}, Attrs: graph.Attrs{"repeats": 3}},
			{In: []tensor.Meta{kit.F32(2, 3), kit.I64(3)}, Attrs: graph.Attrs{"dim": 1}},
			{In: []tensor.Meta{kit.I64(3)}}},
	},
	Facts: graph.Facts{Parallel: repeatInterleaveLoops},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			repeat, err := newRepeatCall(c)
			// If an operand has the repeats, even an empty result has a kernel, which checks the repeats.
			if err != nil || c.Out[0].Numel() == 0 && !repeat.hasRepeatsOperand {
				return &graph.Kernel{}, err
			}
			if !repeat.hasRepeatsOperand {
				return repeat.uniformKernel(c)
			}
			return repeat.operandKernel(c)
		},
		RunDynamic: func(rt graph.Runtime, c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return repeatInterleave(contextOf(rt), c, in)
		},
	},
})

// repeatInterleaveLoops returns the parallel loops over the dimensions that are not repeated.
func repeatInterleaveLoops(c *graph.Call) []graph.Parallel {
	dim := kit.Attrs[*repeatInterleaveAttrs](c).Dim
	if dim == nil {
		return nil
	}
	return kit.LoopsExceptDims(*dim)(c)
}

// The op is computed in one of three ways, all from a repeatCall, which newRepeatCall makes and checks:
//
//	uniformKernel     if the attribute repeats has the number of repetitions: copies a view
//	operandKernel     if an operand has the numbers of repetitions: lists slice indices, then gathers slices
//	repeatInterleave  the reference, also for results whose size is not known before the run (unknownSize)

// listElemBytes is the size of an element of a list of slice indices or of prefix sums.
const listElemBytes = 8

// sliceIndicesGrain is the number of slice indices that a chunk of operandKernel writes.
const sliceIndicesGrain = 1 << 16

// repeatCall is a call of repeat_interleave. It repeats the slices of a value along a dimension.
type repeatCall struct {
	valueType   tensor.Type  // type of the repeated value, after it is flattened
	dtype       tensor.DType // dtype of the result
	isFlattened bool         // the value is flattened, because the attribute dim is absent
	dim         int          // the repeated dimension of the value
	size        sym.Int      // size of dim in the result
	isSizeKnown bool         // whether size is known before the run

	// Numbers of repetitions, called repeats: one for each slice, or one for all.

	hasRepeatsOperand bool    // an operand has the repeats, not the attribute
	repeatsOperand    int     // index of this operand: 1, or 0 if self has the repeats and the result repeats indices
	uniformRepeats    sym.Int // the attribute repeats, if no operand has the repeats
}

// repeatCounts returns how often slice i is repeated, or index i if the result repeats indices.
type repeatCounts func(i int) int

// repeatsOf returns the repeats in a tensor. A single number applies to all indices.
func repeatsOf(list *tensor.Tensor) repeatCounts {
	return func(i int) int {
		switch {
		case list.Rank() == 0:
			return int(list.At().Int())
		case list.Shape[0] == 1:
			return int(list.At(0).Int())
		}
		return int(list.At(i).Int())
	}
}

// checkTotal returns the sum of the repeats of the indices 0 to count-1. It fails if the sum differs from size, unless
// size is unknownSize.
func (r repeatCounts) checkTotal(ctx context.Context, count, size int) (total int, err error) {
	if total, err = r.total(ctx, count); err == nil && size != unknownSize && total != size {
		err = fmt.Errorf("repeat_interleave: output_size is %d, the repeats sum to %d", size, total)
	}
	return total, err
}

// total returns the sum of the repeats of the indices 0 to count-1.
func (r repeatCounts) total(ctx context.Context, count int) (total int, err error) {
	for i := range count {
		if i%kit.CheckEvery == kit.CheckEvery-1 {
			interrupt.Check(ctx)
		}
		repetitions := r(i)
		switch {
		case repetitions < 0:
			return 0, errors.New("repeats can not be negative")
		case repetitions > tensor.MaxBytes/listElemBytes-total: // the list takes more than MaxBytes
			return 0, errors.New("numel: integer multiplication overflow")
		}
		total += repetitions
	}
	return total, nil
}

// newRepeatCall checks a call of repeat_interleave and returns its description. The numbers of repetitions are operand
// 1 or the attribute repeats. If the call has neither, they are self.
func newRepeatCall(call *graph.Call) (*repeatCall, error) {
	attrs, self := kit.Attrs[*repeatInterleaveAttrs](call), call.Type(0)
	if call.HasOperand(1) && attrs.Repeats != nil {
		return nil, errors.New("repeat_interleave: repeats is given twice, as an operand and as an attribute")
	}
	repeat := &repeatCall{valueType: self, dtype: self.DType}
	if !call.HasOperand(1) && attrs.Repeats == nil {
		return repeat, repeat.setRepeatedIndices(call)
	}
	if err := repeat.setDim(call); err != nil {
		return nil, err
	}
	if call.HasOperand(1) {
		return repeat, repeat.setRepeatsOperand(call)
	}
	return repeat, repeat.setUniformRepeats(attrs)
}

// setDim sets the repeated dimension, and the type of the value that has it.
func (r *repeatCall) setDim(call *graph.Call) (err error) {
	attrs, self := kit.Attrs[*repeatInterleaveAttrs](call), call.Type(0)
	if attrs.Dim == nil {
		r.valueType, r.isFlattened = tensor.NewType(self.DType, self.Numel()), true
		return nil
	}
	if self.Rank() == 0 && call.HasOperand(1) {
		return errors.New("Dimension specified as 0 but tensor has no dimensions")
	}
	if r.dim, err = tensor.WrapDim(*attrs.Dim, self.Rank()); err != nil {
		return err
	}
	if self.Rank() == 0 {
		r.valueType, r.isFlattened = tensor.NewType(self.DType, sym.Of(1)), true
	}
	return nil
}

// setRepeatsOperand sets the fields for a call in which operand 1 has the numbers of repetitions.
func (r *repeatCall) setRepeatsOperand(call *graph.Call) error {
	repeatsType, sliceCount := call.Type(1), r.valueType.Shape[r.dim]
	r.hasRepeatsOperand, r.repeatsOperand = true, 1
	switch {
	case repeatsType.Rank() > 1:
		return errors.New("repeats must be 0-dim or 1-dim tensor")
	case repeatsType.Rank() == 1 && repeatsType.Shape[0].Ne(sym.Of(1)).And(repeatsType.Shape[0].Ne(sliceCount)).Holds():
		return fmt.Errorf("repeats must have the same size as input along dim, but got repeats.size(0) = %v and "+
			"input.size(%d) = %v", repeatsType.Shape[0], r.dim, sliceCount)
	}
	return r.setSize(call, repeatsType.DType)
}

// setUniformRepeats sets the fields for a call in which the attribute repeats is the number of repetitions of all
// slices.
func (r *repeatCall) setUniformRepeats(attrs *repeatInterleaveAttrs) error {
	sliceCount := r.valueType.Shape[r.dim]
	if kit.IsNegative(*attrs.Repeats) {
		return errors.New("repeats can not be negative")
	}
	r.uniformRepeats, r.isSizeKnown = *attrs.Repeats, true
	if kit.RepeatTooLarge(sliceCount, r.uniformRepeats) {
		return fmt.Errorf("repeat_interleave: %v repeats of each of %v elements are too many", r.uniformRepeats, sliceCount)
	}
	r.size = sliceCount.Mul(r.uniformRepeats)
	if attrs.OutputSize != nil && attrs.OutputSize.Ne(r.size).Holds() {
		return fmt.Errorf("repeat_interleave: output_size is %v, the repeats sum to %v", *attrs.OutputSize, r.size)
	}
	return nil
}

// setRepeatedIndices sets the fields for a call with self as its only operand. self then has the numbers of
// repetitions: the result has index i repeated self[i] times.
func (r *repeatCall) setRepeatedIndices(call *graph.Call) error {
	selfType := r.valueType
	switch {
	case kit.Attrs[*repeatInterleaveAttrs](call).Dim != nil:
		return errors.New("repeat_interleave: repeats is missing")
	case selfType.Rank() != 1:
		return errors.New("repeat_interleave only accept 1D vector as repeat")
	}
	r.hasRepeatsOperand, r.repeatsOperand = true, 0
	return r.setSize(call, selfType.DType)
}

// setSize sets r.size and r.isSizeKnown. dtype is the dtype of the operand that has the repeats.
func (r *repeatCall) setSize(call *graph.Call, dtype tensor.DType) error {
	if dtype != tensor.Int64 && dtype != tensor.Int32 {
		return errors.New("repeats has to be Long or Int tensor")
	}
	if size := kit.Attrs[*repeatInterleaveAttrs](call).OutputSize; size != nil {
		if kit.IsNegative(*size) {
			return errors.New("repeat_interleave: output_size can not be negative")
		}
		r.size, r.isSizeKnown = *size, true
	} else if constant := call.Const(r.repeatsOperand); constant != nil {
		sliceCount := r.valueType.Shape[r.dim].Specialize()
		total, err := repeatsOf(constant).total(context.Background(), sliceCount)
		r.size, r.isSizeKnown = sym.Of(total), true
		return err
	}
	return nil
}

// uniformKernel returns the kernel for a number of repetitions that is the same for all slices. It copies a view of
// self. In the view, the repetitions are a dimension of stride 0 after the repeated dimension.
func (r *repeatCall) uniformKernel(c *graph.Call) (*graph.Kernel, error) {
	dst, src := kit.OutBuffer(c, 0), kit.InBuffer(c, 0)
	repetitionDim := r.dim + 1 // the dimension of the repetitions
	if r.isFlattened {
		repetitionDim = src.Meta.Rank() // after all dimensions: each element is repeated
	}
	srcView := src.Meta
	srcView.Shape = slices.Insert(slices.Clone(srcView.Shape), repetitionDim, kit.KnownSize(r.uniformRepeats))
	srcView.Strides = slices.Insert(slices.Clone(srcView.Strides), repetitionDim, 0)
	dstView, err := dst.Meta.View(srcView.Shape)
	if err != nil {
		return nil, err
	}
	return copies.Kernel(copies.Job{Dst: dst.View(dstView), Src: src.View(srcView)}), nil
}

// operandKernel returns the kernel for repeats in an operand. It has three steps: compute the prefix sums of the
// repeats, list for each slice of the result the index of the slice of self to copy, and gather these slices. For
// example, the repeats [2 0 1] have the prefix sums [2 2 3] and the slice indices [0 0 2]. Scratch memory has the list
// and then the prefix sums; both have elements of listElemBytes.
func (r *repeatCall) operandKernel(call *graph.Call) (*graph.Kernel, error) {
	repeatsMeta, out := call.Meta(r.repeatsOperand), call.Out[0]
	valueMeta, size := kit.KnownMeta(r.valueType), kit.KnownSize(r.size)
	lists := scratchLists{indexCount: size, sliceCount: valueMeta.Shape[r.dim]}
	if out.Numel() == 0 { // slices may be empty: there is nothing to gather
		lists.indexCount = 0
	}
	kernel := &graph.Kernel{Phases: []graph.Phase{r.sumPhase(lists, repeatsMeta, size), lists.listPhase()},
		Scratch: listElemBytes * (lists.indexCount + lists.sliceCount)}
	if out.Numel() == 0 {
		return kernel, nil
	}
	gather := r.gatherKernel(call, kit.ScratchBuffer(0, tensor.New(tensor.Int64, size)))
	kernel.Phases, kernel.WorkerScratch = append(kernel.Phases, gather.Phases...), gather.WorkerScratch
	return kernel, nil
}

// gatherKernel returns the kernel that gathers the slices of the value at the given indices.
func (r *repeatCall) gatherKernel(call *graph.Call, indices kit.Buffer) *graph.Kernel {
	out := call.Out[0]
	switch {
	case r.repeatsOperand == 0: // self has the repeats, and the result is the list of indices
		return copies.Kernel(copies.Job{Dst: kit.PtrBuffer(0, out), Src: indices})
	case !r.isFlattened:
		return selectKernel(call, indices, lookupAlong(call.Meta(0), indices.Meta, r.dim))
	}
	// The list has flat row-major indices of self. For each element of the result, the walk (walk.go) looks an index up
	// in the list and computes the offset at which it reads self.
	selfMeta := call.Meta(0)
	walk := &indexedWalk{shape: out.Shape,
		operands: []walkOperand{operandAt(0, out),
			{Buffer: kit.InBuffer(call, 0), byteStrides: []int{0}}, // self, read only at the offsets
			{Buffer: indices, byteStrides: kit.ByteStrides(indices.Meta)}},
		lookups: []lookup{{operand: 2, isInt64: true, size: selfMeta.Numel(), byteStride: selfMeta.DType.Size(),
			flatLayout: &selfMeta}}}
	return walk.kernel(kit.GatherRowLoops(out.DType))
}

// scratchLists describes the lists in the scratch memory of operandKernel.
type scratchLists struct {
	indexCount int // number of slice indices: one for each slice of the result
	sliceCount int // number of slices, each with a prefix sum
}

// sliceIndices returns the list of slice indices.
func (l scratchLists) sliceIndices(mem *graph.Mem) []int {
	return kit.SliceOf[int](mem.Scratch, 0, l.indexCount)
}

// sums returns the prefix sums: sums[i] is the sum of the repeats of the slices 0 to i.
func (l scratchLists) sums(mem *graph.Mem) []int {
	return kit.SliceOf[int](mem.Scratch, listElemBytes*l.indexCount, l.sliceCount)
}

// sumPhase returns the phase that computes the prefix sums of the repeats. Their total must be size.
func (r *repeatCall) sumPhase(lists scratchLists, repeatsMeta tensor.Meta, size int) graph.Phase {
	load := tensor.Converter(tensor.Int64, repeatsMeta.DType)
	return graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		if repeatsMeta.Numel() == 0 || lists.sliceCount == 0 { // an empty tensor has no address, and its total is 0
			var none repeatCounts // not called
			_, err := none.checkTotal(mem.Context, 0, size)
			return err
		}
		sums := lists.sums(mem)
		step := repeatStep(repeatsMeta)
		if repeatsMeta.Numel() == 1 { // one number for all slices
			step = 0
		}
		// Load the repeats to sums. After their check, the last loop makes prefix sums of them.
		kit.ForEachBlock(mem.Context, len(sums), func(begin, end int) {
			src := unsafe.Add(mem.Ptrs[1+r.repeatsOperand], begin*step)
			load(unsafe.Pointer(&sums[begin]), src, listElemBytes, step, end-begin)
		})
		counts := repeatCounts(func(i int) int { return sums[i] })
		if _, err := counts.checkTotal(mem.Context, len(sums), size); err != nil {
			return err
		}
		for i := 1; i < len(sums); i++ {
			if i%kit.CheckEvery == 0 {
				mem.CheckContext()
			}
			sums[i] += sums[i-1]
		}
		return nil
	}}
}

// listPhase returns the phase that lists the slice indices. A chunk finds its first slice index by a search of the
// prefix sums.
func (l scratchLists) listPhase() graph.Phase {
	return graph.Phase{Chunks: kit.DivUp(l.indexCount, sliceIndicesGrain), Run: func(mem *graph.Mem, chunk int) error {
		sliceIndices, sums := l.sliceIndices(mem), l.sums(mem)
		position, end := chunk*sliceIndicesGrain, min((chunk+1)*sliceIndicesGrain, l.indexCount)
		// sliceIndices[position] is the first slice i with sums[i] > position.
		i, _ := slices.BinarySearch(sums, position+1)
		for ; position < end; i++ {
			for ; position < min(sums[i], end); position++ {
				sliceIndices[position] = i
			}
		}
		return nil
	}}
}

// repeatStep returns the stride in bytes of repeats with the given meta.
func repeatStep(meta tensor.Meta) int {
	if meta.Rank() == 0 {
		return 0
	}
	return kit.ByteStride(meta, 0)
}

// repeatInterleave computes all forms of the op from a list of slice indices. It is the reference, and computes results
// with shapes that depend on data.
func repeatInterleave(ctx context.Context, c *graph.Call, in []*tensor.Tensor) (results []*tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	repeat, err := newRepeatCall(c)
	if err != nil {
		return nil, err
	}
	sliceCount, size := kit.KnownSize(repeat.valueType.Shape[repeat.dim]), unknownSize
	if repeat.isSizeKnown {
		size = kit.KnownSize(repeat.size)
		shape := kit.KnownSizes(kit.ReplaceSizes(repeat.valueType.Shape, repeat.dim, repeat.size))
		if tensor.Numel(shape) == 0 { // only the repeats are checked
			if repeat.hasRepeatsOperand {
				_, err = repeatsOf(in[repeat.repeatsOperand]).checkTotal(ctx, sliceCount, size)
			}
			return []*tensor.Tensor{tensor.Zeros(repeat.dtype, shape...)}, err
		}
	}
	sliceIndices, err := repeat.listSlices(ctx, in, sliceCount, size)
	if err != nil {
		return nil, err
	}
	if repeat.hasRepeatsOperand && repeat.repeatsOperand == 0 { // the result is the list
		out := tensor.Zeros(repeat.dtype, len(sliceIndices))
		for i, index := range sliceIndices {
			if i%kit.CheckEvery == 0 {
				interrupt.Check(ctx)
			}
			out.Set(tensor.IntScalar(int64(index)), i)
		}
		return []*tensor.Tensor{out}, nil
	}
	value := in[0]
	if repeat.isFlattened {
		if value, err = kit.ReshapeRowMajor(ctx, value, value.Numel()); err != nil {
			return nil, err
		}
	}
	out, err := pickSlices(ctx, value, repeat.dim, sliceIndices)
	return []*tensor.Tensor{out}, err
}

// listSlices returns, for each slice of the result, the index of the slice of the value that it copies.
func (r *repeatCall) listSlices(ctx context.Context, in []*tensor.Tensor, sliceCount, size int) ([]int, error) {
	if r.hasRepeatsOperand {
		return repeatedIndices(ctx, in[r.repeatsOperand], sliceCount, size)
	}
	repetitions := kit.KnownSize(r.uniformRepeats)
	indices := kit.NewInts[int](sliceCount * repetitions)
	for i := range indices {
		indices[i] = i / repetitions
	}
	return indices, nil
}

// repeatedIndices returns a list of the indices 0 to count-1, in which index i is repeated repeatsTensor[i] times.
// size is the required length of the list, or unknownSize. If memory is short, it panics as [tensor.NewStorage] does.
func repeatedIndices(ctx context.Context, repeatsTensor *tensor.Tensor, count, size int) ([]int, error) {
	repeatsAt := repeatsOf(repeatsTensor)
	total, err := repeatsAt.checkTotal(ctx, count, size)
	if err != nil || total == 0 {
		return nil, err
	}
	indices := kit.SliceOf[int](tensor.NewStorage(listElemBytes*total).Bytes(), 0, total)
	filled := 0
	for i := range count {
		if i%kit.CheckEvery == 0 {
			interrupt.Check(ctx)
		}
		repetitions := indices[filled : filled+repeatsAt(i)]
		kit.ForEachBlock(ctx, len(repetitions), func(begin, end int) {
			for k := range repetitions[begin:end] {
				repetitions[begin+k] = i
			}
		})
		filled += len(repetitions)
	}
	return indices, nil
}
