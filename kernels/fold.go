package kernels

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// fold is how a reduction works on contiguous blocks: accumulators of size bytes into
// which elements are folded. A position counts elements of the reduced range.
type fold struct {
	in      tensor.DType // dtype of the elements that loops take
	size    int
	inOrder bool // positions must be logical indices
	weight  int  // cost of an element; 1 for an addition

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
}

// folding makes a fold of typed loops. T is the type of elements, A of accumulators.
func folding[T tensor.Element, A any](zero A, row func(a *A, x []T, at int), columns func(a []A, x []T, at int), merge func(a, from []A)) *fold {
	return &fold{
		in:     tensor.DTypeOf[T](),
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

// yields adds a result to a fold.
func yields[A any, R tensor.Element](f *fold, finish func(dst []R, a []A)) *fold {
	f.out = append(f.out, tensor.DTypeOf[R]())
	f.finish = append(f.finish, func(dst, acc unsafe.Pointer, n int) {
		finish(unsafe.Slice((*R)(dst), n), unsafe.Slice((*A)(acc), n))
	})
	return f
}

// same yields the accumulators themselves.
func same[A tensor.Element](f *fold) *fold {
	return yields(f, func(dst, a []A) { copy(dst, a) })
}

// wide returns the dtype in which loops take elements of d: float32 for 16-bit floats,
// int64 for integers and bool.
func wide(d tensor.DType) tensor.DType {
	if d.IsIntegral(true) {
		return tensor.Int64
	}
	return d.OpMath()
}

// notServed is notImplemented for kernels whose name does not end in _cpu.
func notServed(name string, d tensor.DType) error {
	return fmt.Errorf("\"%s\" not implemented for '%s'", name, d.TorchName())
}
