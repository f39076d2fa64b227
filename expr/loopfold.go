package expr

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// foldBody returns the loop that adds n elements at v, the first of which belongs to lane 0, to the lanes at acc.
func foldBody(o Op, d tensor.DType) func(acc, v unsafe.Pointer, n int) {
	switch d {
	case tensor.Bool, tensor.Uint8:
		return foldInt[uint8](o)
	case tensor.Int8:
		return foldInt[int8](o)
	case tensor.Int16:
		return foldInt[int16](o)
	case tensor.Int32:
		return foldInt[int32](o)
	case tensor.Int64:
		return foldInt[int64](o)
	case tensor.Uint16:
		return foldInt[uint16](o)
	case tensor.Uint32:
		return foldInt[uint32](o)
	case tensor.Uint64:
		return foldInt[uint64](o)
	case tensor.Float32:
		return foldFloat[float32, uint32](o)
	}
	return foldFloat[float64, uint64](o)
}

func foldInt[T integer](o Op) func(acc, v unsafe.Pointer, n int) {
	switch o {
	case Add:
		return foldAdd[T]
	case Mul:
		return foldMul[T]
	case And:
		return foldAnd[T]
	case Or:
		return foldOr[T]
	}
	return foldBy(map[Op]body{Min: minInt[T], Max: maxInt[T]}[o], int(unsafe.Sizeof(T(0))))
}

func foldFloat[T float, U uint32 | uint64](o Op) func(acc, v unsafe.Pointer, n int) {
	switch o {
	case Add:
		return foldAdd[T]
	case Mul:
		return foldMul[T]
	}
	if o == Min {
		return foldMin[T, U]
	}
	return foldMax[T, U]
}

// foldBy folds lanes by the loop of the operation.
func foldBy(f body, size int) func(acc, v unsafe.Pointer, n int) {
	by := &strides{d: size, a: size, b: size}
	return func(acc, v unsafe.Pointer, n int) {
		for at := 0; at < n; at += Lanes {
			f(acc, acc, unsafe.Add(v, at*size), nil, nil, nil, min(Lanes, n-at), by)
		}
	}
}

// foldAdd takes 8 lanes at a time, which stay in registers.
func foldAdd[T realNumber](acc, v unsafe.Pointer, n int) {
	lanes, x := (*[Lanes]T)(acc), unsafe.Slice((*T)(v), n)
	whole := n &^ (Lanes - 1)
	for l := 0; l < Lanes; l += 8 {
		a := (*[8]T)(lanes[l:])
		a0, a1, a2, a3, a4, a5, a6, a7 := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		for y := x[:whole]; len(y) >= Lanes; y = y[Lanes:] {
			b := (*[8]T)(y[l:])
			a0, a1, a2, a3 = a0+b[0], a1+b[1], a2+b[2], a3+b[3]
			a4, a5, a6, a7 = a4+b[4], a5+b[5], a6+b[6], a7+b[7]
		}
		*a = [8]T{a0, a1, a2, a3, a4, a5, a6, a7}
	}
	for l, e := range x[whole:] {
		lanes[l&(Lanes-1)] += e
	}
}

func foldMul[T realNumber](acc, v unsafe.Pointer, n int) {
	lanes := (*[Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(Lanes-1)] *= e
	}
}

func foldAnd[T integer](acc, v unsafe.Pointer, n int) {
	lanes := (*[Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(Lanes-1)] &= e
	}
}

func foldOr[T integer](acc, v unsafe.Pointer, n int) {
	lanes := (*[Lanes]T)(acc)
	for i, e := range unsafe.Slice((*T)(v), n) {
		lanes[i&(Lanes-1)] |= e
	}
}

// foldMin and foldMax hold four lanes in registers, as the bits of floats: see minFloat.
func foldMin[T float, U word](acc, v unsafe.Pointer, n int) {
	lanes, whole := (*[Lanes]U)(acc), n&^(Lanes-1)
	x, bits := flat[T](v, n), flat[U](v, n)[:n]
	for l := 0; l < Lanes && whole > 0; l += 4 {
		p := (*[4]U)(lanes[l:])
		p0, p1, p2, p3 := p[0], p[1], p[2], p[3]
		for i := l; i < whole; i += Lanes {
			y, r := (*[4]T)(x[i:]), (*[4]U)(bits[i:])
			p0, p1 = lesser(p0, r[0], y[0]), lesser(p1, r[1], y[1])
			p2, p3 = lesser(p2, r[2], y[2]), lesser(p3, r[3], y[3])
		}
		*p = [4]U{p0, p1, p2, p3}
	}
	for i := whole; i < n; i++ {
		lanes[i-whole] = lesser(lanes[i-whole], bits[i], x[i])
	}
}

func lesser[U word, T float](p, r U, y T) U {
	x := *(*T)(unsafe.Pointer(&p))
	if x < y {
		r = p
	}
	if x != x {
		r = p
	}
	return r
}

func foldMax[T float, U word](acc, v unsafe.Pointer, n int) {
	lanes, whole := (*[Lanes]U)(acc), n&^(Lanes-1)
	x, bits := flat[T](v, n), flat[U](v, n)[:n]
	for l := 0; l < Lanes && whole > 0; l += 4 {
		p := (*[4]U)(lanes[l:])
		p0, p1, p2, p3 := p[0], p[1], p[2], p[3]
		for i := l; i < whole; i += Lanes {
			y, r := (*[4]T)(x[i:]), (*[4]U)(bits[i:])
			p0, p1 = greater(p0, r[0], y[0]), greater(p1, r[1], y[1])
			p2, p3 = greater(p2, r[2], y[2]), greater(p3, r[3], y[3])
		}
		*p = [4]U{p0, p1, p2, p3}
	}
	for i := whole; i < n; i++ {
		lanes[i-whole] = greater(lanes[i-whole], bits[i], x[i])
	}
}

func greater[U word, T float](p, r U, y T) U {
	x := *(*T)(unsafe.Pointer(&p))
	if x > y {
		r = p
	}
	if x != x {
		r = p
	}
	return r
}
