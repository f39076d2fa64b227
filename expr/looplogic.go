package expr

import (
	"encoding/binary"
	"unsafe"
)

// wordwise takes the elements of an operation on bits eight bytes at a time, whatever their dtype, where they lie one
// behind another, and returns how many it has taken.
func wordwise(f func(d, a, b []byte), d, a, b unsafe.Pointer, n, size int, by *strides) int {
	if by.d != size || by.a != size || by.b != size {
		return 0
	}
	whole := n * size &^ 7
	f(unsafe.Slice((*byte)(d), whole), unsafe.Slice((*byte)(a), whole), unsafe.Slice((*byte)(b), whole))
	return whole / size
}

func andV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := wordwise(andWords, d, a, b, n, int(unsafe.Sizeof(T(0))), by); i < n; i++ {
		*el[T](d, i*sd) = *el[T](a, i*sa) & *el[T](b, i*sb)
	}
}

func orV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := wordwise(orWords, d, a, b, n, int(unsafe.Sizeof(T(0))), by); i < n; i++ {
		*el[T](d, i*sd) = *el[T](a, i*sa) | *el[T](b, i*sb)
	}
}

func xorV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := wordwise(xorWords, d, a, b, n, int(unsafe.Sizeof(T(0))), by); i < n; i++ {
		*el[T](d, i*sd) = *el[T](a, i*sa) ^ *el[T](b, i*sb)
	}
}

func andWords(d, a, b []byte) {
	for ; len(d) >= 8 && len(a) >= 8 && len(b) >= 8; d, a, b = d[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(d, binary.NativeEndian.Uint64(a)&binary.NativeEndian.Uint64(b))
	}
}

func orWords(d, a, b []byte) {
	for ; len(d) >= 8 && len(a) >= 8 && len(b) >= 8; d, a, b = d[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(d, binary.NativeEndian.Uint64(a)|binary.NativeEndian.Uint64(b))
	}
}

func xorWords(d, a, b []byte) {
	for ; len(d) >= 8 && len(a) >= 8 && len(b) >= 8; d, a, b = d[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(d, binary.NativeEndian.Uint64(a)^binary.NativeEndian.Uint64(b))
	}
}

func notV[T integer](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[T](d, i*sd) = ^*el[T](a, i*sa)
	}
}

func notBool(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for i := range n {
		*el[uint8](d, i*sd) = *el[uint8](a, i*sa) ^ 1
	}
}

func shlV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) << (uint64(*el[T](b, i*sb)) & mask)
	}
}

func shrV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for i := range n {
		*el[T](d, i*sd) = *el[T](a, i*sa) >> (uint64(*el[T](b, i*sb)) & mask)
	}
}

func eqV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[bool](d, i*sd) = *el[T](a, i*sa) == *el[T](b, i*sb)
	}
}

func neV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[bool](d, i*sd) = *el[T](a, i*sa) != *el[T](b, i*sb)
	}
}

func ltV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[bool](d, i*sd) = *el[T](a, i*sa) < *el[T](b, i*sb)
	}
}

func leV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	for i := range n {
		*el[bool](d, i*sd) = *el[T](a, i*sa) <= *el[T](b, i*sb)
	}
}

// selectV moves elements of a size, whatever they mean. Both are loaded, so that there is no branch.
func selectV[U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for i := range n {
		u, v := *el[U](b, i*sb), *el[U](c, i*sc)
		if *el[uint8](a, i*sa) != 0 {
			v = u
		}
		*el[U](d, i*sd) = v
	}
}

// moveV copies elements, or one element all over.
func moveV[U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(U(0)))
	switch {
	case by.d == size && by.a == size && d == a:
	case by.d == size && by.a == size:
		copy(unsafe.Slice((*U)(d), n), unsafe.Slice((*U)(a), n))
	default:
		sd, sa := by.d, by.a
		for i := range n {
			*el[U](d, i*sd) = *el[U](a, i*sa)
		}
	}
}

// sizeIndex is the place of an element's size in tables by size: 1, 2, 4, 8 bytes.
func sizeIndex(size int) int {
	switch size {
	case 1:
		return 0
	case 2:
		return 1
	case 4:
		return 2
	}
	return 3
}

var (
	moves   = [4]body{moveV[uint8], moveV[uint16], moveV[uint32], moveV[uint64]}
	selects = [4]body{selectV[uint8], selectV[uint16], selectV[uint32], selectV[uint64]}
)
