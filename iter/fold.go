package iter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/graphrun/graphrun/internal/axes"
	"github.com/graphrun/graphrun/tensor"
)

// Fold describes a reduction. A fold adds elements to accumulators, and then computes results from the accumulators.
// [FoldOf] makes a Fold from functions of single elements. [NewFold] and [WithResult] make a Fold from loops over
// slices. The functions are called concurrently. A Fold is immutable: methods and functions that change a Fold return
// a copy. The sum of float32 elements in float64 is:
//
//	FoldOf(0.0,
//		func(sum float64, x float32, pos int) float64 { return sum + float64(x) }, // add
//		func(sum, later float64) float64 { return sum + later },                   // merge
//		func(sum float64) float32 { return float32(sum) })                         // finish
//
// Elements are folded in pieces, and then the accumulators of the pieces are merged. Each piece begins with the initial
// accumulator, which must be neutral: merging it into an accumulator leaves that accumulator unchanged. Merging must be
// associative except for rounding. If merging is not commutative, [Fold.InOrder] is required. Pieces and order depend
// only on shapes and strides.
//
// Accumulators must be precise enough for all elements of a result. If [FoldOf] makes a Fold that computes a sum of n
// elements, each element takes part in at most n/32 + 1200 additions. With float64 accumulators, the error of the sum
// is therefore at most (n/32 + 1200)*2^-53 times the sum of magnitudes, before the result is rounded to its dtype. A
// result of float16, bfloat16 or float32 is then within one rounding of the exact sum, unless the elements nearly
// cancel. For float32 accumulators, the bound has 2^-24 instead of 2^-53.
//
// One Fold works for every layout. The strides of the operand decide between two methods. By rows, a result is computed
// from a contiguous run of elements. By columns, several adjacent results are computed together. Elements that are not
// contiguous are copied to blocks first.
type Fold struct {
	inDType  tensor.DType // dtype of the elements
	accType  reflect.Type // type of the accumulators
	accBytes int          // bytes of an accumulator
	inOrder  bool         // elements are folded in row-major order
	weight   int          // time to fold an element, relative to an addition

	// init sets n accumulators to the initial accumulator.
	init func(acc unsafe.Pointer, n int)
	// row folds n elements into one accumulator. The first element has position pos.
	row func(acc, x unsafe.Pointer, n, pos int)
	// columns folds one element into each of n accumulators. All n elements have position pos in their results.
	columns func(acc, x unsafe.Pointer, n, pos int)
	// merge merges from[i] into acc[i], for n accumulators. The elements in `from` have later positions.
	merge func(acc, from unsafe.Pointer, n int)

	outDTypes []tensor.DType // dtypes of the results
	// finish[i] computes n elements of result i from n accumulators.
	finish []func(dst, acc unsafe.Pointer, n int)
	// resume[i] merges n earlier elements of result i into n accumulators.
	resume []func(acc, from unsafe.Pointer, n int)

	err error // the first mistake in the construction; uses of the Fold report it
}

// NewFold makes a Fold from loops over slices. T is the type of elements. A is the type of accumulators, and must not
// contain pointers. zero is the neutral initial accumulator.
//
//   - row folds the elements x into one accumulator; x[0] has position pos;
//   - columns folds x[i] into a[i] for all i; all elements have position pos;
//   - merge merges from[i], which has elements of later positions, into a[i].
//
// The position of an element is its index in the order in which the elements of one result are folded. With
// [Fold.InOrder], this order is the row-major order of the reduced dimensions.
//
// The Fold has no results until [WithResult] adds them. If a function is nil or accumulators contain pointers, the
// functions that use the Fold return an error.
func NewFold[T tensor.Element, A any](zero A, row func(a *A, x []T, pos int), columns func(a []A, x []T, pos int),
	merge func(a, from []A)) *Fold {
	accType := reflect.TypeFor[A]()
	switch {
	case hasPointers(accType): // the garbage collector must see pointers
		return &Fold{accType: accType,
			err: fmt.Errorf("iter: accumulators of type %v contain pointers, which is not permitted", accType)}
	case row == nil || columns == nil || merge == nil:
		return &Fold{accType: accType, err: errNilFoldFunction}
	}
	return &Fold{
		inDType:  tensor.DTypeOf[T](),
		accType:  accType,
		accBytes: int(unsafe.Sizeof(zero)),
		weight:   1,
		init: func(acc unsafe.Pointer, n int) {
			a := unsafe.Slice((*A)(acc), n)
			for i := range a {
				a[i] = zero
			}
		},
		row: func(acc, x unsafe.Pointer, n, pos int) {
			row((*A)(acc), unsafe.Slice((*T)(x), n), pos)
		},
		columns: func(acc, x unsafe.Pointer, n, pos int) {
			columns(unsafe.Slice((*A)(acc), n), unsafe.Slice((*T)(x), n), pos)
		},
		merge: func(acc, from unsafe.Pointer, n int) {
			merge(unsafe.Slice((*A)(acc), n), unsafe.Slice((*A)(from), n))
		},
	}
}

// FoldOf makes a Fold with one result from functions of single values. zero is the neutral initial accumulator. add
// folds element x, which has position pos, into accumulator a. merge combines two accumulators; b has elements of later
// positions. finish computes the result. If add is cheap, [NewFold] is several times faster.
func FoldOf[T tensor.Element, A any, R tensor.Element](zero A, add func(a A, x T, pos int) A, merge func(a, b A) A,
	finish func(a A) R) *Fold {
	if add == nil || merge == nil || finish == nil {
		return &Fold{accType: reflect.TypeFor[A](), err: errNilFoldFunction}
	}
	row := func(a *A, x []T, pos int) {
		// Each block has its own accumulator, which bounds rounding errors.
		blockAcc := zero
		for i, v := range x {
			blockAcc = add(blockAcc, v, pos+i)
		}
		*a = merge(*a, blockAcc)
	}
	columns := func(a []A, x []T, pos int) {
		for i, v := range x {
			a[i] = add(a[i], v, pos)
		}
	}
	mergeAll := func(a, from []A) {
		for i, v := range from {
			a[i] = merge(a[i], v)
		}
	}
	return WithResult(NewFold(zero, row, columns, mergeAll), func(dst []R, a []A) {
		for i, v := range a {
			dst[i] = finish(v)
		}
	})
}

// WithResult returns the Fold with one more result. finish computes dst[i], an element of this result, from accumulator
// a[i]. The results of a Fold are the outputs of the iteration, in order.
func WithResult[R tensor.Element, A any](f *Fold, finish func(dst []R, a []A)) *Fold {
	if f = f.withFunctionOf(reflect.TypeFor[A](), finish == nil); f.err != nil {
		return f
	}
	f.outDTypes = append(f.outDTypes, tensor.DTypeOf[R]())
	f.finish = append(f.finish, func(dst, acc unsafe.Pointer, n int) {
		finish(unsafe.Slice((*R)(dst), n), unsafe.Slice((*A)(acc), n))
	})
	return f
}

// Resumes adds a function that restores accumulators from earlier results. The first call is for result 0, the next for
// result 1, and so on. load merges the earlier result from[i] into a[i], which is initially neutral. A Fold with such a
// function for each result can run iterations that continue an earlier part of a reduction ([Iterator.Accumulates]).
func Resumes[R tensor.Element, A any](f *Fold, load func(a []A, from []R)) *Fold {
	if f = f.withFunctionOf(reflect.TypeFor[A](), load == nil); f.err != nil {
		return f
	}
	index := len(f.resume)
	if dtype := tensor.DTypeOf[R](); index >= len(f.outDTypes) || f.outDTypes[index] != dtype {
		f.err = fmt.Errorf("iter: the fold has results %v, so it cannot resume from result %d as %v", f.outDTypes, index,
			dtype)
		return f
	}
	f.resume = append(f.resume, func(acc, from unsafe.Pointer, n int) {
		load(unsafe.Slice((*A)(acc), n), unsafe.Slice((*R)(from), n))
	})
	return f
}

// InOrder returns a Fold that folds elements in row-major order of the reduced dimensions. Positions are indices in
// this order. Such a Fold may be slower, because elements are not read in the order of memory.
func (f *Fold) InOrder() *Fold {
	copied := *f
	copied.inOrder = true
	return &copied
}

// Weight returns the Fold with a weight: the time to fold an element, relative to an addition. Tasks of a Fold with a
// great weight have fewer elements. The weight affects the lengths of pieces, and therefore the rounding.
func (f *Fold) Weight(weight int) *Fold {
	copied := *f
	copied.weight = max(weight, 1)
	return &copied
}

// In returns the dtype of the elements.
func (f *Fold) In() tensor.DType { return f.inDType }

// Out returns the dtypes of the results.
func (f *Fold) Out() []tensor.DType { return append([]tensor.DType(nil), f.outDTypes...) }

// withFunctionOf returns a copy of the Fold to which the caller adds a function of accumulators of a type. If the
// function does not fit the Fold or is nil, the copy has an error.
func (f *Fold) withFunctionOf(accType reflect.Type, functionIsNil bool) *Fold {
	if f == nil {
		return &Fold{accType: accType, err: errNilFold}
	}
	copied := *f
	switch {
	case copied.err != nil: // the first mistake remains
	case accType != f.accType:
		copied.err = fmt.Errorf("iter: the function takes accumulators of type %v, but the fold has accumulators of type %v",
			accType, f.accType)
	case functionIsNil:
		copied.err = errNilFoldFunction
	}
	copied.outDTypes, copied.finish, copied.resume = clipCap(f.outDTypes), clipCap(f.finish), clipCap(f.resume)
	return &copied
}

// hasPointers reports whether values of a type contain pointers for the garbage collector.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.String,
		reflect.UnsafePointer:
		return true
	}
	return false
}

// clipCap returns the slice without spare capacity, so that an append copies it.
func clipCap[T any](s []T) []T { return s[:len(s):len(s)] }

var errNilFoldFunction = errors.New("iter: a function of the fold is nil")

var errNilFold = errors.New("iter: the Fold is nil")

// checkFold returns an error for an iteration that the Fold cannot reduce. The iteration must be a reduction with one
// input, whose elements widen to the dtype of the Fold, and one output for each result of the Fold. A Fold of float64
// with a float32 result, for example, accepts an input of float32, and outputs of float32 or float64.
func (it *Iterator) checkFold(f *Fold) error {
	inputs := len(it.operands) - it.outCount
	switch {
	case f == nil:
		return errNilFold
	case f.err != nil:
		return f.err
	case !it.IsReduction():
		return fmt.Errorf("iter: the iteration is not marked as a reduction")
	case inputs != 1:
		return fmt.Errorf("iter: a reduction takes one input, but the iteration has %d", inputs)
	case len(f.outDTypes) == 0:
		return fmt.Errorf("iter: the fold yields no result")
	case len(f.outDTypes) != it.outCount:
		return fmt.Errorf("iter: the fold has %d results, but the iteration has %d outputs", len(f.outDTypes), it.outCount)
	case it.outCount > axes.MaxOutputs:
		return fmt.Errorf("iter: the reduction has %d outputs; the limit is %d", it.outCount, axes.MaxOutputs)
	}
	input := &it.operands[it.outCount]
	if !widens(input.TargetDType, f.inDType) {
		return fmt.Errorf("iter: the fold takes %v, but the iteration reads input 0 (%v) as %v", f.inDType, input.Meta,
			input.TargetDType)
	}
	for i, dtype := range f.outDTypes {
		if err := it.checkFoldOutput(i, dtype); err != nil {
			return err
		}
	}
	// If the iteration is a later part of a split reduction, each result resumes: it continues from the value in its
	// output. f.resume has a function for each result that can.
	if it.hasEarlierPart && len(f.resume) != len(f.outDTypes) {
		return fmt.Errorf("iter: the iteration resumes from all its outputs, but the fold can resume from only %d of "+
			"its %d results", len(f.resume), len(f.outDTypes))
	}
	return nil
}

// checkFoldOutput returns an error if output i cannot store results of a dtype, or has other reduced dimensions than
// output 0.
func (it *Iterator) checkFoldOutput(i int, dtype tensor.DType) error {
	output := &it.operands[i]
	if output.RuleChoosesLayout() {
		return fmt.Errorf("iter: output %d of the reduction is undefined, or its shape is not the shape of the result; "+
			"pass a tensor of that shape and set ResizeOutputs(false)", i)
	}
	if output.Meta.DType != dtype && !canStore(dtype, output.Meta.DType) {
		return fmt.Errorf("result type %s can't be cast to the desired output type %s (output %d, %v)", dtype.TorchName(),
			output.Meta.DType.TorchName(), i, output.Meta)
	}
	for dim := range it.shape {
		if it.reduces(i, dim) != it.reduces(0, dim) {
			return fmt.Errorf("iter: dimension %d of shape %s is reduced in one output and kept in another: output 0, %v, "+
				"and output %d, %v",
				dim, tensor.ListString(it.shape), it.operands[0].Meta, i, output.Meta)
		}
	}
	return nil
}

// widens reports whether a fold of dtype `to` may take elements of dtype `from`: the dtypes are equal, or have the same
// kind and `to` has more bytes. Integers may also have the same size, and their signs are not compared: ops fold all
// integers in int64, where sums and products of uint64 have the same bits.
func widens(from, to tensor.DType) bool {
	switch {
	case from == to:
		return true
	case from.IsIntegral(true):
		return to.IsIntegral(false) && to.Size() >= from.Size()
	case from.IsFloat():
		return to.IsFloat() && to.Size() > from.Size()
	}
	return from.IsComplex() && to.IsComplex() && to.Size() > from.Size()
}

// canStore reports whether results of dtype `from` may be written to an output of dtype `to`. It accepts more than
// [tensor.CanCast]: integers may be narrowed, and may become bool.
func canStore(from, to tensor.DType) bool {
	return tensor.CanCast(from, to) || from.IsIntegral(true) && to.IsIntegral(true)
}

// This part runs reductions. A [Fold] has the functions of a reduction. [Fold.Over] is for a tensor,
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
