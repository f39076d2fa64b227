package iter

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// This file runs reductions. A [Fold] has the functions of a reduction. [Fold.Over] is for a tensor,
// [Iterator.RunReduce] for the tensors of an iteration, and [Iterator.Reduce] for addresses. All three make a [Reducer]
// and run its phases. Callers that have their own workers and memory use [Iterator.Reducer] and do the same.
//
// The walk of an iteration visits its dimensions in the order of strides, after dimensions were merged where possible.

// Over reduces x over the given dimensions, or over all dimensions if dims is empty. It uses all cores. The results are
// row-major and have the dtypes of the Fold. If keepdim is set, the results have the reduced dimensions with size 1.
// [Reduction] allows outputs of other dtypes and layouts.
func (f *Fold) Over(x *tensor.Tensor, keepdim bool, dims ...int) ([]*tensor.Tensor, error) {
	switch {
	case f == nil:
		return nil, errNilFold
	case f.err != nil:
		return nil, f.err
	case x == nil || len(x.Shape) != len(x.Strides):
		return nil, errors.New("iter: the tensor to reduce is nil or inconsistent")
	}
	mask, err := ReduceMask(dims, x.Rank())
	if err != nil {
		return nil, err
	}
	outs := make([]*tensor.Tensor, len(f.outDTypes))
	config := New().IsReduction(true).ResizeOutputs(false).CheckAllSameDType(false)
	for i, dtype := range f.outDTypes {
		outs[i] = tensor.Empty(tensor.New(dtype, ReduceShape(x.Shape, mask, keepdim)...))
		view, err := outs[i].View(ReduceOutput(outs[i].Meta, mask, keepdim))
		if err != nil {
			return nil, err
		}
		config = config.Output(OperandOfTensor(view))
	}
	it, err := config.Input(OperandOfTensor(x)).Build()
	if err != nil {
		return nil, err
	}
	const workers = 0 // all cores
	if _, err = it.RunReduce(context.Background(), workers, f); err != nil {
		return nil, err
	}
	return outs, nil
}

// RunReduce is [Iterator.Reduce] over the tensors of the operands. It returns the outputs.
func (it *Iterator) RunReduce(ctx context.Context, workers int, f *Fold) ([]*tensor.Tensor, error) {
	r, err := it.Reducer(f)
	if err != nil {
		return nil, err
	}
	tensors, err := it.Tensors()
	if err != nil {
		return nil, err
	}
	ptrs, err := it.Bind(tensors...)
	if err != nil {
		return nil, err
	}
	return tensors[:it.outCount], r.runAll(ctx, ptrs, workers)
}

// Reduce reduces the whole iteration by f on at most the given number of worker goroutines; 0 means all cores. The
// functions of f are called concurrently. Each task computes several results. If there are few results, a first phase
// reduces pieces of the reduced range, and a second phase merges the pieces in order (parallel_reduce). The pieces
// depend only on shapes and strides, so the bits of the results do not depend on the number of workers.
//
// If ctx ends, Reduce returns the cause of ctx. No goroutine runs after Reduce returns. Reduce is as unsafe as
// [Iterator.ForEach], and makes the same checks. [Iterator.RunReduce] is safe.
func (it *Iterator) Reduce(ctx context.Context, ptrs []unsafe.Pointer, workers int, f *Fold) error {
	r, err := it.Reducer(f)
	if err != nil {
		return err
	}
	return r.runAll(ctx, ptrs, workers)
}

// runAll allocates working memory and runs all phases.
func (r *Reducer) runAll(ctx context.Context, ptrs []unsafe.Pointer, workers int) error {
	scratch := tensor.NewStorage(r.Scratch()).Bytes()
	for phase := range r.Phases() {
		err := forTasks(ctx, r.Chunks(phase), workers, func(c *Cursor, chunk int) error {
			if len(c.blockMemory) < r.WorkerScratch() {
				c.blockMemory = tensor.NewStorage(r.WorkerScratch()).Bytes()
			}
			return r.Run(phase, chunk, ptrs, scratch, c.blockMemory)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Reducer prepares the reduction of the iteration's input into its outputs by f.
//
// The iteration has one input. Its outputs must be defined, and have size 1 or stride 0 in the reduced dimensions,
// which are the same for all outputs ([ReduceOutput]). Elements of the input may be widened to the dtype of the Fold
// if both dtypes are of the same kind (bool and integers, floats, complex numbers). Results are converted to the
// dtypes of the outputs.
//
// For a part of an iteration ([Iterator.Narrow] and similar), only the elements of the part are reduced, and the
// results overwrite the outputs. If [Iterator.Accumulates] is true, the Fold instead resumes from the contents of the
// outputs, which requires [Resumes]. Between two parts, sums are rounded to the dtype of the outputs. Positions count
// from the start of the whole iteration. With [Fold.InOrder], the positions of a part must be one contiguous range.
//
// Reducer fails if f is nil, if the functions of f are inconsistent, or if the iteration is not a reduction.
func (it *Iterator) Reducer(f *Fold) (*Reducer, error) {
	if it == nil {
		return nil, errNilIterator
	}
	if err := it.checkFold(f); err != nil {
		return nil, err
	}
	r := &Reducer{fold: f, resumes: it.hasEarlierPart}
	in := &it.operands[it.outCount]
	r.loader = axes.NewLoader(in.Meta.DType, in.TargetDType, f.inDType)
	for i, dtype := range f.outDTypes {
		storedDType := it.operands[i].Meta.DType // dtype of the output in memory
		r.outs = append(r.outs, reduceOut{size: dtype.Size(), sameDType: storedDType == dtype,
			store: tensor.Converter(storedDType, dtype), load: tensor.Converter(dtype, storedDType)})
	}
	if it.offsets == nil { // the iteration is whole
		mask := make([]bool, len(it.shape))
		for dim := range mask {
			mask[dim] = it.reduces(0, dim) // the same for all outputs
		}
		r.keptAxes, r.reducedAxes = axes.Split(it.dims(), mask, f.inOrder)
	} else if err := it.partAxes(r); err != nil {
		return nil, err
	}
	if it.operands[0].Meta.Numel() == 0 {
		r.keptAxes = []axes.Axis{{}} // one axis of size 0, because there are no results
	}
	r.plan()
	return r, nil
}

// dims returns the dimensions of the whole iteration as axes (see [axes.Axis]), with strides in bytes.
func (it *Iterator) dims() []axes.Axis {
	dims := make([]axes.Axis, len(it.shape))
	for d, size := range it.shape {
		byteStride := func(i int) int {
			meta := it.operands[i].Meta
			return it.stride(meta, d) * meta.DType.Size()
		}
		dims[d] = axes.Axis{Size: size, InStride: byteStride(it.outCount)}
		for i := range it.outCount {
			dims[d].OutStrides[i] = byteStride(i)
		}
	}
	return dims
}

// reduces reports whether output i is reduced along a dimension: the output has stride 0, or size 1 while the iteration
// has another size.
func (it *Iterator) reduces(i, dim int) bool {
	meta := it.operands[i].Meta
	outputDim := dim - (len(it.shape) - len(meta.Shape)) // index of the dimension in the output's own shape
	switch {
	case outputDim < 0 || meta.Shape[outputDim] == 1:
		return it.shape[dim] != 1
	case meta.Shape[outputDim] == 0:
		return false
	}
	return meta.Strides[outputDim] == 0
}

// partAxes sets the axes of a reduction over a part of an iteration, from its walk shape and strides.
func (it *Iterator) partAxes(r *Reducer) error {
	operandCount := len(it.operands)
	r.inOffset = it.offsets[it.outCount]
	for i := range r.outs {
		r.outs[i].offset = it.offsets[i]
	}
	// Lists of axes begin with the slowest dimension, and walks with the fastest.
	dimCount := len(it.walkShape)
	dims, mask := make([]axes.Axis, dimCount), make([]bool, dimCount)
	for d := range dimCount {
		byteStrides := it.walkStrides[d*operandCount:]
		axis := &dims[dimCount-1-d]
		*axis = axes.Axis{Size: it.walkShape[d], InStride: byteStrides[it.outCount]}
		copy(axis.OutStrides[:], byteStrides[:it.outCount])
		mask[dimCount-1-d] = it.wholeWalkShape[d] != 1 && byteStrides[0] == 0 // output 0 is reduced
	}
	r.keptAxes, r.reducedAxes = axes.Split(dims, mask, r.fold.inOrder)
	if !r.fold.inOrder {
		return nil
	}
	return it.partPositions(r)
}

// partPositions sets r.firstPosition for a part of an in-order reduction. The position of an element is its index in
// the row-major order of the reduced dimensions of the whole iteration. partPositions fails if the positions of the
// part's elements are not contiguous. In the reduced dimensions [8, 3], for example, the indices 2 and 3 of dimension 0
// have the positions 6 to 11. The indices 1 and 2 of dimension 1 have positions with gaps: 1, 2, 4, 5 and so on.
func (it *Iterator) partPositions(r *Reducer) error {
	// The walk must have the reduced dimensions in row-major order: from the last to the first.
	previous := len(it.shape)
	for _, d := range it.perm { // from the fastest to the slowest dimension of the walk
		if it.reduces(0, d) {
			if d > previous {
				return fmt.Errorf("iter: the reduced dimensions of input %v are walked in the order %v: in a part "+
					"of the walk, the elements have no positions in row-major order", it.operands[it.outCount].Meta, it.perm)
			}
			previous = d
		}
	}
	// step is the number of positions between neighbours along dimension d. If the part has only some indices of a
	// dimension (the dimension is cut), it must have one index in each slower dimension.
	step, isCut := 1, false
	for d, size := range it.walkShape {
		if it.wholeWalkShape[d] == 1 || it.byteStride(d, 0) != 0 { // output 0 is not reduced along d
			continue
		}
		if isCut && size != 1 {
			return fmt.Errorf("iter: the part %v of the walk %v of input %v has logical positions with gaps", it.walkShape,
				it.wholeWalkShape, it.operands[it.outCount].Meta)
		}
		r.firstPosition += it.starts[d] * step
		step *= it.wholeWalkShape[d]
		isCut = isCut || size != it.wholeWalkShape[d]
	}
	return nil
}
