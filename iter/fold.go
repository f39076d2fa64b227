package iter

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

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
