package interp

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// foldBody returns the loop that folds n elements at v into the lanes at acc. The first element is folded into lane 0.
func foldBody(o expr.Op, d tensor.DType) func(acc, v unsafe.Pointer, n int) {
	if !d.IsFloat() && o != expr.Min && o != expr.Max {
		return [...]func(o expr.Op) func(acc, v unsafe.Pointer, n int){foldWord[uint8], foldWord[uint16], foldWord[uint32],
			foldWord[uint64]}[sizeIndex(d.Size())](o)
	}
	switch d {
	case tensor.Bool, tensor.Uint8:
		return foldInt[uint8, int32](o)
	case tensor.Int8:
		return foldInt[int8, int32](o)
	case tensor.Int16:
		return foldInt[int16, int32](o)
	case tensor.Int32:
		return foldInt[int32, int32](o)
	case tensor.Int64:
		return foldInt[int64, int64](o)
	case tensor.Uint16:
		return foldInt[uint16, int32](o)
	case tensor.Uint32:
		return foldInt[uint32, uint32](o)
	case tensor.Uint64:
		return foldInt[uint64, uint64](o)
	case tensor.Float32:
		return foldFloat[float32, uint32](o)
	}
	return foldFloat[float64, uint64](o)
}

// foldWord returns the loop of an operation whose result has the same bits for signed and unsigned integers.
func foldWord[T word](o expr.Op) func(acc, v unsafe.Pointer, n int) {
	switch o {
	case expr.Add:
		return foldAdd[T]
	case expr.Mul:
		return foldMul[T]
	case expr.And:
		return foldAnd[T]
	case expr.Or:
		return foldOr[T]
	}
	return nil
}

func foldInt[T, W integer](o expr.Op) func(acc, v unsafe.Pointer, n int) {
	return foldBy(map[expr.Op]loopFunc{expr.Min: minInt[T, W], expr.Max: maxInt[T, W]}[o], int(unsafe.Sizeof(T(0))))
}

func foldFloat[T float, U uint32 | uint64](o expr.Op) func(acc, v unsafe.Pointer, n int) {
	switch o {
	case expr.Add:
		return foldAdd[T]
	case expr.Mul:
		return foldMul[T]
	}
	return foldBy(map[expr.Op]loopFunc{expr.Min: minFloat[T, U], expr.Max: maxFloat[T, U]}[o], int(unsafe.Sizeof(T(0))))
}

// foldBy folds with the loop f of the operation. size is the size of an element in bytes.
func foldBy(f loopFunc, size int) func(acc, v unsafe.Pointer, n int) {
	by := &strides{d: size, a: size, b: size}
	return func(acc, v unsafe.Pointer, n int) {
		for at := 0; at < n; at += expr.Lanes {
			f(acc, acc, unsafe.Add(v, at*size), nil, nil, nil, min(expr.Lanes, n-at), by)
		}
	}
}

// foldAdd is foldBy for sums. It keeps 8 lanes in registers and passes over the elements four times.
func foldAdd[T realNumber](acc, v unsafe.Pointer, n int) {
	lanes, x := (*[expr.Lanes]T)(acc), unsafe.Slice((*T)(v), n)
	whole := n &^ (expr.Lanes - 1)
	for l := 0; l < expr.Lanes; l += 8 {
		a := (*[8]T)(lanes[l:])
		a0, a1, a2, a3, a4, a5, a6, a7 := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		for y := x[:whole]; len(y) >= expr.Lanes; y = y[expr.Lanes:] {
			b := (*[8]T)(y[l:])
			a0, a1, a2, a3 = a0+b[0], a1+b[1], a2+b[2], a3+b[3]
			a4, a5, a6, a7 = a4+b[4], a5+b[5], a6+b[6], a7+b[7]
		}
		*a = [8]T{a0, a1, a2, a3, a4, a5, a6, a7}
	}
	for l, e := range x[whole:] {
		lanes[l&(expr.Lanes-1)] += e
	}
}

func foldMul[T realNumber](acc, v unsafe.Pointer, n int) {
	lanes := (*[expr.Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(expr.Lanes-1)] *= e
	}
}

func foldAnd[T integer](acc, v unsafe.Pointer, n int) {
	lanes := (*[expr.Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(expr.Lanes-1)] &= e
	}
}

func foldOr[T integer](acc, v unsafe.Pointer, n int) {
	lanes := (*[expr.Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(expr.Lanes-1)] |= e
	}
}
