package expr

import (
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Of each loop here one case is what lies one behind another, a loop over slices, and the other one any strides.

// flat returns n elements that lie one behind another.
func flat[T any](p unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(p), n) }

// logicalBody returns the loop of an operation on what is not 0. The sign does not tell a float from 0.
func logicalBody(o Op) func(d tensor.DType) body {
	return func(d tensor.DType) body {
		mask := ^uint64(0) >> (64 - 8*d.Size())
		if d.IsFloat() {
			mask >>= 1
		}
		switch {
		case o == And && d.Size() == 1:
			return logicalAnd(uint8(mask))
		case o == And && d.Size() == 4:
			return logicalAnd(uint32(mask))
		case o == And:
			return logicalAnd64(mask)
		case d.Size() == 1:
			return logicalOf(o, uint8(mask))
		case d.Size() == 4:
			return logicalOf(o, uint32(mask))
		}
		return logicalOf(o, mask)
	}
}

func logicalOf[U word](o Op, mask U) body {
	if o == Or {
		return logicalOr(mask)
	}
	return logicalXor(mask)
}

// logicalAnd asks whether a product is not 0: two conditions would be a branch.
func logicalAnd[U uint8 | uint32](mask U) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := flat[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := flat[U](a, n)[:len(dst)], flat[U](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = uint64(x[i]&mask)*uint64(y[i]&mask) != 0
			}
			return
		}
		for i := range dst {
			dst[i] = uint64(*(*U)(unsafe.Add(a, i*by.a))&mask)*uint64(*(*U)(unsafe.Add(b, i*by.b))&mask) != 0
		}
	}
}

func logicalAnd64(mask uint64) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst := flat[bool](d, n)
		if by.a == 8 && by.b == 8 {
			x, y := flat[uint64](a, n)[:len(dst)], flat[uint64](b, n)[:len(dst)]
			for i := range dst {
				high, low := bits.Mul64(x[i]&mask, y[i]&mask)
				dst[i] = high|low != 0
			}
			return
		}
		for i := range dst {
			high, low := bits.Mul64(*(*uint64)(unsafe.Add(a, i*by.a))&mask, *(*uint64)(unsafe.Add(b, i*by.b))&mask)
			dst[i] = high|low != 0
		}
	}
}

func logicalOr[U word](mask U) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := flat[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := flat[U](a, n)[:len(dst)], flat[U](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = (x[i]|y[i])&mask != 0
			}
			return
		}
		for i := range dst {
			dst[i] = (*(*U)(unsafe.Add(a, i*by.a))|*(*U)(unsafe.Add(b, i*by.b)))&mask != 0
		}
	}
}

func logicalXor[U word](mask U) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := flat[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := flat[U](a, n)[:len(dst)], flat[U](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = (x[i]&mask != 0) != (y[i]&mask != 0)
			}
			return
		}
		for i := range dst {
			dst[i] = (*(*U)(unsafe.Add(a, i*by.a))&mask != 0) != (*(*U)(unsafe.Add(b, i*by.b))&mask != 0)
		}
	}
}

// shiftLeft8 takes the lowest 5 bits of the number of places.
func shiftLeft8(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	if *by == (strides{d: 1, a: 1, b: 1}) {
		dst := flat[uint8](d, n)
		x, y := flat[uint8](a, n)[:len(dst)], flat[uint8](b, n)[:len(dst)]
		for i := range dst {
			dst[i] = uint8(uint32(x[i]) << (y[i] & 31))
		}
		return
	}
	for i := range n {
		x, y := *(*uint8)(unsafe.Add(a, i*by.a)), *(*uint8)(unsafe.Add(b, i*by.b))
		*(*uint8)(unsafe.Add(d, i*by.d)) = uint8(uint32(x) << (y & 31))
	}
}

func shiftRight8(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	if *by == (strides{d: 1, a: 1, b: 1}) {
		dst := flat[uint8](d, n)
		x, y := flat[uint8](a, n)[:len(dst)], flat[uint8](b, n)[:len(dst)]
		for i := range dst {
			dst[i] = uint8(uint32(x[i]) >> (y[i] & 31))
		}
		return
	}
	for i := range n {
		x, y := *(*uint8)(unsafe.Add(a, i*by.a)), *(*uint8)(unsafe.Add(b, i*by.b))
		*(*uint8)(unsafe.Add(d, i*by.d)) = uint8(uint32(x) >> (y & 31))
	}
}

// stepsInt is heaviside of integers: b where a is 0, else whether a is above 0.
func stepsInt[T int32 | int64](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if *by == (strides{d: size, a: size, b: size}) {
		dst := flat[T](d, n)
		x, y := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)]
		for i := range dst {
			dst[i] = stepAt(x[i], y[i])
		}
		return
	}
	for i := range n {
		*(*T)(unsafe.Add(d, i*by.d)) = stepAt(*(*T)(unsafe.Add(a, i*by.a)), *(*T)(unsafe.Add(b, i*by.b)))
	}
}

func stepAt[T int32 | int64](x, at0 T) T {
	above := uint8(0)
	if x > 0 {
		above = 1
	}
	r := T(above)
	if x == 0 {
		r = at0
	}
	return r
}

// reluInt clears what is below 0 by its sign, spread over all bits.
func reluInt[T int32 | int64](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if *by == (strides{d: size, a: size}) {
		dst := flat[T](d, n)
		x := flat[T](a, n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] &^ (x[i] >> (8*unsafe.Sizeof(T(0)) - 1))
		}
		return
	}
	for i := range n {
		x := *(*T)(unsafe.Add(a, i*by.a))
		*(*T)(unsafe.Add(d, i*by.d)) = x &^ (x >> (8*unsafe.Sizeof(T(0)) - 1))
	}
}
