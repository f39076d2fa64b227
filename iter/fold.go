package iter

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Fold describes a reduction. Elements are folded into accumulators, and results are computed from accumulators.
// [FoldOf] makes a Fold from functions of single elements. [Folding] and [Yields] make a Fold from loops over slices.
// The functions are called concurrently. A Fold is immutable: methods and functions that change a Fold return a copy.
//
// Elements are folded in pieces, and then the accumulators of the pieces are merged. The order depends only on shapes
// and strides. Therefore the initial accumulator must be neutral: merging it into another accumulator changes nothing.
// Merging must be associative except for rounding. If merging is not commutative, [Fold.InOrder] is required.
//
// Accumulators must be wide enough for all elements of a result: float64 suits elements of float16, bfloat16 and
// float32. With [FoldOf], each element of a sum of n elements takes part in at most n/32 + 1200 additions. With float64
// accumulators, the error of a sum before the rounding of the result is therefore at most (n/32 + 1200)*2^-53 times the
// sum of magnitudes. Unless the sum cancels, a result of float16, bfloat16 or float32 is thus within one rounding of
// the exact sum. For float32 accumulators the bound has 2^-24 instead of 2^-53.
//
// One Fold works for every layout. Depending on the strides of the operand, a result is computed along a contiguous run
// of elements, or several results are computed in parallel. Operands that suit neither are copied to blocks first.
type Fold struct {
	in      tensor.DType // dtype of the elements that the functions take
	acc     reflect.Type
	size    int // bytes of an accumulator
	inOrder bool
	weight  int

	init func(acc unsafe.Pointer, n int)
	// row folds n elements into one accumulator. The first element has position at.
	row func(acc, x unsafe.Pointer, n, at int)
	// columns folds one element into each of n accumulators. All n elements have position at.
	columns func(acc, x unsafe.Pointer, n, at int)
	// merge folds n accumulators (from), for elements of later positions, into n accumulators (acc).
	merge func(acc, from unsafe.Pointer, n int)
	// By result: finish computes the results of n accumulators, whose dtype is in out.
	finish []func(dst, acc unsafe.Pointer, n int)
	out    []tensor.DType
	err    error // a mistake, reported when the Fold is used
	// By result: resume folds earlier results into n accumulators.
	resume []func(acc, from unsafe.Pointer, n int)
}

// Folding makes a Fold from loops over slices. T is the type of elements. A is the type of accumulators, and must not
// contain pointers. zero is the neutral initial accumulator.
//
//   - row folds the elements x, the first of which has position at, into one accumulator;
//   - columns folds x[i], all of position at, into a[i];
//   - merge folds from[i], for later positions, into a[i].
//
// The position of an element is its index among the elements of one result: in the order in which they are walked or,
// with [Fold.InOrder], in row-major order of the reduced dimensions.
//
// The Fold has no results yet: see [Yields]. If a function is nil or accumulators contain pointers, the functions that
// use the Fold return an error.
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

// FoldOf makes a Fold with one result from functions of single values. zero is the neutral initial accumulator. add
// folds element x, which has position at, into accumulator a. merge combines two accumulators; b has elements of later
// positions. finish computes the result. If add is cheap, [Folding] is several times faster.
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

// Yields returns the Fold with one more result. finish computes dst[i], an element of this result, from accumulator
// a[i]. The results of a Fold are the outputs of the iteration, in order.
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

// Resumes adds the inverse of a result: the first call is for result 0, the next for result 1, and so on. load folds
// the earlier result from[i] into accumulator a[i], which is initially zero. A Fold with the inverses of all results
// works for iterations that continue others ([Iterator.Accumulates]).
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

// with returns a copy of the Fold, to which the caller then adds a function of accumulators of type acc. isNil says
// that this function is nil.
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

// InOrder returns the Fold with elements folded in row-major order of the reduced dimensions. Positions are indices in
// this order. InOrder may be slower, because elements cannot be read in the order of memory.
func (f *Fold) InOrder() *Fold {
	c := *f
	c.inOrder = true
	return &c
}

// Weight returns the Fold with the cost of folding an element, relative to an addition. Tasks of an expensive Fold have
// fewer elements. The cost determines where pieces are cut, and thereby the rounding.
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
