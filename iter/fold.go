package iter

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Fold describes a reduction: accumulators, into which elements are folded and from which results are computed.
// [FoldOf] makes one from functions of single elements, [Folding] and [Yields] from loops over slices. The functions
// are called concurrently. A Fold is immutable; methods and functions that change it return a copy.
//
// Elements are folded in pieces, and the accumulators of the pieces are merged, in an order that depends on shapes and
// strides alone. So zero must be neutral (merging it into an accumulator changes nothing), and merging must be
// associative except for rounding; if it is not commutative, InOrder is required.
//
// Accumulators must be wide enough for all elements of a result; float64 is for float16, bfloat16 and float32. With
// [FoldOf], an element takes part in at most n/32 + 1200 additions of a sum of n elements. With float64 accumulators
// the error of a sum is thus at most (n/32 + 1200)*2^-53 times the sum of magnitudes, plus the rounding of the result:
// within one rounding of the exact sum of float16, bfloat16 or float32 unless it cancels. Accumulators of float32 have
// the same bound with 2^-24.
//
// One Fold works for every layout: results are computed along contiguous runs or in parallel, depending on the strides
// of the operand; other operands are copied through blocks.
type Fold struct {
	in      tensor.DType // dtype of elements in the loops
	acc     reflect.Type
	size    int // of an accumulator
	inOrder bool
	weight  int

	init func(acc unsafe.Pointer, n int)
	// row folds n elements, the first of position at, into one accumulator.
	row func(acc, x unsafe.Pointer, n, at int)
	// columns folds one element of position at into each of n accumulators.
	columns func(acc, x unsafe.Pointer, n, at int)
	// merge folds the accumulators from, of later positions, into acc.
	merge func(acc, from unsafe.Pointer, n int)
	// finish writes the results of n accumulators, of dtype out.
	finish []func(dst, acc unsafe.Pointer, n int)
	out    []tensor.DType
	err    error // a mistake, reported when the Fold is used
	// resume folds earlier results into n accumulators.
	resume []func(acc, from unsafe.Pointer, n int)
}

// Folding makes a Fold of loops over slices. T is the type of elements, A that of accumulators, which must not contain
// pointers.
//
//   - row folds the elements x, the first of which has position at, into one accumulator;
//   - columns folds x[i], all of position at, into a[i];
//   - merge folds from[i], for later positions, into a[i].
//
// A position counts the elements of one result: in the order of the walk or, with [Fold.InOrder], as a row-major index
// over the reduced dimensions.
//
// The Fold has no results yet: see [Yields]. A nil function, and accumulators with pointers, are errors that are
// reported when the Fold is used.
func Folding[T tensor.Element, A any](zero A, row func(a *A, x []T, at int), columns func(a []A, x []T, at int),
	merge func(a, from []A)) *Fold {
	acc := reflect.TypeFor[A]()
	switch {
	case hasPointers(acc):
		return &Fold{acc: acc, err: fmt.Errorf("iter: accumulators of type %v hold pointers", acc)}
	case row == nil || columns == nil || merge == nil:
		return &Fold{acc: acc, err: errNilFoldFunction}
	}
	return &Fold{
		in:     tensor.DTypeOf[T](),
		acc:    acc,
		size:   int(unsafe.Sizeof(zero)),
		weight: 1,
		init: func(acc unsafe.Pointer, n int) {
			a := unsafe.Slice((*A)(acc), n)
			for i := range a {
				a[i] = zero
			}
		},
		row: func(acc, x unsafe.Pointer, n, at int) {
			row((*A)(acc), unsafe.Slice((*T)(x), n), at)
		},
		columns: func(acc, x unsafe.Pointer, n, at int) {
			columns(unsafe.Slice((*A)(acc), n), unsafe.Slice((*T)(x), n), at)
		},
		merge: func(acc, from unsafe.Pointer, n int) {
			merge(unsafe.Slice((*A)(acc), n), unsafe.Slice((*A)(from), n))
		},
	}
}

// FoldOf makes a Fold with one result from functions of single values: add folds element x at position at into an
// accumulator, merge folds two accumulators, the second for later positions, and finish computes the result. [Folding]
// is several times faster if add is cheap.
func FoldOf[T tensor.Element, A any, R tensor.Element](zero A, add func(a A, x T, at int) A, merge func(a, b A) A,
	finish func(a A) R) *Fold {
	if add == nil || merge == nil || finish == nil {
		return &Fold{acc: reflect.TypeFor[A](), err: errNilFoldFunction}
	}
	f := Folding(zero, func(a *A, x []T, at int) {
		// Each block has its own accumulator, so that rounding errors do not grow with the number of elements.
		s := zero
		for i, v := range x {
			s = add(s, v, at+i)
		}
		*a = merge(*a, s)
	}, func(a []A, x []T, at int) {
		for i, v := range x {
			a[i] = add(a[i], v, at)
		}
	}, func(a, from []A) {
		for i, v := range from {
			a[i] = merge(a[i], v)
		}
	})
	return Yields(f, func(dst []R, a []A) {
		for i, v := range a {
			dst[i] = finish(v)
		}
	})
}

// Yields returns the Fold with one more result: finish computes results from accumulators. The results are the outputs
// of the iteration, in order.
func Yields[R tensor.Element, A any](f *Fold, finish func(dst []R, a []A)) *Fold {
	if f = f.with(reflect.TypeFor[A](), finish == nil); f.err != nil {
		return f
	}
	f.out = append(f.out, tensor.DTypeOf[R]())
	f.finish = append(f.finish, func(dst, acc unsafe.Pointer, n int) {
		finish(unsafe.Slice((*R)(dst), n), unsafe.Slice((*A)(acc), n))
	})
	return f
}

// Resumes returns the Fold with the inverse of one more result, in the order of the outputs: load folds the earlier
// result from[i] into a[i], which starts as zero. A Fold that can resume from all results works for iterations that
// continue another ([Iterator.Accumulates]).
func Resumes[R tensor.Element, A any](f *Fold, load func(a []A, from []R)) *Fold {
	if f = f.with(reflect.TypeFor[A](), load == nil); f.err != nil {
		return f
	}
	k := len(f.resume)
	if d := tensor.DTypeOf[R](); k >= len(f.out) || f.out[k] != d {
		f.err = fmt.Errorf("iter: a fold with results %v cannot resume from result %d as %v", f.out, k, d)
		return f
	}
	f.resume = append(f.resume, func(acc, from unsafe.Pointer, n int) {
		load(unsafe.Slice((*A)(acc), n), unsafe.Slice((*R)(from), n))
	})
	return f
}

var errNilFoldFunction = errors.New("iter: a fold of a nil function")

// with returns a copy of the Fold to which the caller adds a function of accumulators of type acc.
func (f *Fold) with(acc reflect.Type, isNil bool) *Fold {
	if f == nil {
		return &Fold{acc: acc, err: errNilFold}
	}
	c := *f
	switch {
	case c.err != nil:
	case acc != f.acc:
		c.err = fmt.Errorf("iter: a function of %v for a fold with accumulators of type %v", acc, f.acc)
	case isNil:
		c.err = errNilFoldFunction
	}
	c.out, c.finish, c.resume = clip(f.out), clip(f.finish), clip(f.resume)
	return &c
}

func clip[T any](s []T) []T { return s[:len(s):len(s)] }

// InOrder returns the Fold with logical positions: row-major indices over the reduced dimensions, folded in ascending
// order. This leaves less freedom for efficient walks.
func (f *Fold) InOrder() *Fold {
	c := *f
	c.inOrder = true
	return &c
}

// Weight returns the Fold with the cost of an element relative to an addition: tasks are smaller for an expensive Fold.
// It determines where pieces are cut, and so the rounding.
func (f *Fold) Weight(cost int) *Fold {
	c := *f
	c.weight = max(cost, 1)
	return &c
}

// In returns the dtype of the elements that the Fold takes.
func (f *Fold) In() tensor.DType { return f.in }

// Out returns the dtypes of the results.
func (f *Fold) Out() []tensor.DType { return append([]tensor.DType(nil), f.out...) }

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
