package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// Combine returns a loop over n rows. For each row it combines the [expr.Lanes] accumulators into one number. The
// accumulators are stored row after row. Lane k is first combined with lane k+16, then lane k with k+8, and so on, as
// halves of vectors are combined. Combine returns nil for operations and dtypes without folds.
func Combine(o expr.Op, d tensor.DType) func(dst, acc unsafe.Pointer, n int) {
	if !d.Valid() || d.IsComplex() || d.IsReducedFloat() {
		return nil
	}
	if !d.IsFloat() && o != expr.Min && o != expr.Max {
		return [...]func(o expr.Op) func(dst, acc unsafe.Pointer, n int){combineWord[uint8], combineWord[uint16],
			combineWord[uint32], combineWord[uint64]}[sizeIndex(d.Size())](o)
	}
	switch d {
	case tensor.Bool, tensor.Uint8:
		return combineInt[uint8, int32](o)
	case tensor.Int8:
		return combineInt[int8, int32](o)
	case tensor.Int16:
		return combineInt[int16, int32](o)
	case tensor.Int32:
		return combineInt[int32, int32](o)
	case tensor.Int64:
		return combineInt[int64, int64](o)
	case tensor.Uint16:
		return combineInt[uint16, int32](o)
	case tensor.Uint32:
		return combineInt[uint32, uint32](o)
	case tensor.Uint64:
		return combineInt[uint64, uint64](o)
	case tensor.Float32:
		return combineFloat[float32, uint32](o)
	case tensor.Float64:
		return combineFloat[float64, uint64](o)
	}
	return nil
}

// combineWord returns the loop of an operation whose result has the same bits for signed and unsigned integers.
func combineWord[T word](o expr.Op) func(dst, acc unsafe.Pointer, n int) {
	switch o {
	case expr.Add:
		return combineAdd[T]
	case expr.Mul:
		return combineMul[T]
	case expr.And:
		return combineBy(andV[T], int(unsafe.Sizeof(T(0))))
	case expr.Or:
		return combineBy(orV[T], int(unsafe.Sizeof(T(0))))
	}
	return nil
}

func combineInt[T, W integer](o expr.Op) func(dst, acc unsafe.Pointer, n int) {
	if o == expr.Min {
		return combineBy(minInt[T, W], int(unsafe.Sizeof(T(0))))
	}
	return combineBy(maxInt[T, W], int(unsafe.Sizeof(T(0))))
}

func combineFloat[T float, U uint32 | uint64](o expr.Op) func(dst, acc unsafe.Pointer, n int) {
	switch o {
	case expr.Add:
		return combineAdd[T]
	case expr.Mul:
		return combineMul[T]
	case expr.Min:
		return combineBy(minFloat[T, U], int(unsafe.Sizeof(T(0))))
	case expr.Max:
		return combineBy(maxFloat[T, U], int(unsafe.Sizeof(T(0))))
	}
	return nil
}

// combineBy combines halves in place with the loop f of the operation. size is the size of an element in bytes.
func combineBy(f loopFunc, size int) func(dst, acc unsafe.Pointer, n int) {
	by := &strides{d: size, a: size, b: size}
	return func(dst, acc unsafe.Pointer, n int) {
		for i := range n {
			a := unsafe.Add(acc, i*expr.Lanes*size)
			for half := expr.Lanes / 2; half > 1; half /= 2 {
				f(a, a, unsafe.Add(a, half*size), nil, nil, nil, half, by)
			}
			f(unsafe.Add(dst, i*size), a, unsafe.Add(a, size), nil, nil, nil, 1, by)
		}
	}
}

// combineAdd is combineBy for sums, with intermediate results in registers.
func combineAdd[T realNumber](dst, acc unsafe.Pointer, n int) {
	lanes := unsafe.Slice((*[expr.Lanes]T)(acc), n)
	for i := range unsafe.Slice((*T)(dst), n) {
		a := &lanes[i]
		// four combines lanes k, k+4, k+8 ... in the order of Combine.
		four := func(k int) T {
			return ((a[k] + a[k+16]) + (a[k+8] + a[k+24])) + ((a[k+4] + a[k+20]) + (a[k+12] + a[k+28]))
		}
		*(*T)(unsafe.Add(dst, i*int(unsafe.Sizeof(a[0])))) = (four(0) + four(2)) + (four(1) + four(3))
	}
}

func combineMul[T realNumber](dst, acc unsafe.Pointer, n int) {
	lanes := unsafe.Slice((*[expr.Lanes]T)(acc), n)
	for i := range unsafe.Slice((*T)(dst), n) {
		a := &lanes[i]
		four := func(k int) T {
			return ((a[k] * a[k+16]) * (a[k+8] * a[k+24])) * ((a[k+4] * a[k+20]) * (a[k+12] * a[k+28]))
		}
		*(*T)(unsafe.Add(dst, i*int(unsafe.Sizeof(a[0])))) = (four(0) * four(2)) * (four(1) * four(3))
	}
}
