package expr

import (
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
		switch d.Size() {
		case 1:
			return logicalOf(o, uint8(mask))
		case 4:
			return logicalOf(o, uint32(mask))
		}
		return logicalOf(o, mask)
	}
}

func logicalOf[U word](o Op, mask U) body {
	switch o {
	case And:
		return logicalAnd(mask)
	case Or:
		return logicalOr(mask)
	}
	return logicalXor(mask)
}

// logicalAnd has both conditions at hand before it joins them, or else there would be a branch.
func logicalAnd[U word](mask U) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		dst, size := flat[bool](d, n), int(unsafe.Sizeof(mask))
		if by.a == size && by.b == size {
			x, y := flat[U](a, n)[:len(dst)], flat[U](b, n)[:len(dst)]
			for i := range dst {
				u, v := x[i]&mask != 0, y[i]&mask != 0
				dst[i] = u && v
			}
			return
		}
		for i := range dst {
			u, v := *(*U)(unsafe.Add(a, i*by.a))&mask != 0, *(*U)(unsafe.Add(b, i*by.b))&mask != 0
			dst[i] = u && v
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

// remInt gives a of a divisor of 0, as a - a / b * b does.
func remInt[T int32 | int64 | uint8](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(T(0)))
	if *by == (strides{d: size, a: size, b: size}) {
		dst := flat[T](d, n)
		x, y := flat[T](a, n)[:len(dst)], flat[T](b, n)[:len(dst)]
		for i := range dst {
			r := x[i]
			if u := y[i]; u != 0 {
				r %= u
			}
			dst[i] = r
		}
		return
	}
	for i := range n {
		r := *(*T)(unsafe.Add(a, i*by.a))
		if u := *(*T)(unsafe.Add(b, i*by.b)); u != 0 {
			r %= u
		}
		*(*T)(unsafe.Add(d, i*by.d)) = r
	}
}
