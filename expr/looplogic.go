package expr

import "unsafe"

// wide takes the elements of an operation on bits eight bytes at a time by f, whatever their dtype, where they lie one
// behind another and words are aligned. It returns how many it has taken.
func wide(f body, d, a, b unsafe.Pointer, n, size int, by *strides) int {
	words := n * size / 8
	if words == 0 || by.d != size || by.a != size || by.b != size || (uintptr(d)|uintptr(a)|uintptr(b))%8 != 0 {
		return 0
	}
	f(d, a, b, nil, nil, nil, words, &wordStrides)
	return words * 8 / size
}

var wordStrides = strides{d: 8, a: 8, b: 8}

func andV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	if size := int(unsafe.Sizeof(T(0))); size < 8 {
		done := wide(andV[uint64], d, a, b, n, size, by)
		if n -= done; n == 0 {
			return
		}
		d, a, b = unsafe.Add(d, done*sd), unsafe.Add(a, done*sa), unsafe.Add(b, done*sb)
	}
	for ; n > 2; n -= 2 {
		*(*T)(d) = *(*T)(a) & *(*T)(b)
		*(*T)(unsafe.Add(d, sd)) = *(*T)(unsafe.Add(a, sa)) & *(*T)(unsafe.Add(b, sb))
		d, a, b = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb)
	}
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = *(*T)(a) & *(*T)(b)
		if n--; n == 0 {
			return
		}
	}
}

func orV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	if size := int(unsafe.Sizeof(T(0))); size < 8 {
		done := wide(orV[uint64], d, a, b, n, size, by)
		if n -= done; n == 0 {
			return
		}
		d, a, b = unsafe.Add(d, done*sd), unsafe.Add(a, done*sa), unsafe.Add(b, done*sb)
	}
	for ; n > 2; n -= 2 {
		*(*T)(d) = *(*T)(a) | *(*T)(b)
		*(*T)(unsafe.Add(d, sd)) = *(*T)(unsafe.Add(a, sa)) | *(*T)(unsafe.Add(b, sb))
		d, a, b = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb)
	}
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = *(*T)(a) | *(*T)(b)
		if n--; n == 0 {
			return
		}
	}
}

func xorV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	if size := int(unsafe.Sizeof(T(0))); size < 8 {
		done := wide(xorV[uint64], d, a, b, n, size, by)
		if n -= done; n == 0 {
			return
		}
		d, a, b = unsafe.Add(d, done*sd), unsafe.Add(a, done*sa), unsafe.Add(b, done*sb)
	}
	for ; n > 2; n -= 2 {
		*(*T)(d) = *(*T)(a) ^ *(*T)(b)
		*(*T)(unsafe.Add(d, sd)) = *(*T)(unsafe.Add(a, sa)) ^ *(*T)(unsafe.Add(b, sb))
		d, a, b = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb)
	}
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = *(*T)(a) ^ *(*T)(b)
		if n--; n == 0 {
			return
		}
	}
}

func notV[T integer](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; n > 2; n -= 2 {
		*(*T)(d) = ^*(*T)(a)
		*(*T)(unsafe.Add(d, sd)) = ^*(*T)(unsafe.Add(a, sa))
		d, a = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa)
	}
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*T)(d) = ^*(*T)(a)
		if n--; n == 0 {
			return
		}
	}
}

func notBool(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa := by.d, by.a
	for ; n > 2; n -= 2 {
		*(*uint8)(d) = *(*uint8)(a) ^ 1
		*(*uint8)(unsafe.Add(d, sd)) = *(*uint8)(unsafe.Add(a, sa)) ^ 1
		d, a = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa)
	}
	for ; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
		*(*uint8)(d) = *(*uint8)(a) ^ 1
		if n--; n == 0 {
			return
		}
	}
}

func shlV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for ; n > 2; n -= 2 {
		*(*T)(d) = *(*T)(a) << (uint64(*(*T)(b)) & mask)
		*(*T)(unsafe.Add(d, sd)) = *(*T)(unsafe.Add(a, sa)) << (uint64(*(*T)(unsafe.Add(b, sb))) & mask)
		d, a, b = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb)
	}
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = *(*T)(a) << (uint64(*(*T)(b)) & mask)
		if n--; n == 0 {
			return
		}
	}
}

func shrV[T integer](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb := by.d, by.a, by.b
	mask := uint64(8*unsafe.Sizeof(T(0)) - 1)
	for ; n > 2; n -= 2 {
		*(*T)(d) = *(*T)(a) >> (uint64(*(*T)(b)) & mask)
		*(*T)(unsafe.Add(d, sd)) = *(*T)(unsafe.Add(a, sa)) >> (uint64(*(*T)(unsafe.Add(b, sb))) & mask)
		d, a, b = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb)
	}
	for ; ; d, a, b = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb) {
		*(*T)(d) = *(*T)(a) >> (uint64(*(*T)(b)) & mask)
		if n--; n == 0 {
			return
		}
	}
}

// Comparisons write bools one behind another. Loops over slices take a cycle an element there, others two on some
// processors.

func eqV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, size := by.a, by.b, int(unsafe.Sizeof(T(0)))
	switch dst := unsafe.Slice((*bool)(d), n); {
	case sa == size && sb == size:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] == y[i]
		}
	case sa == size && sb == 0:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], *(*T)(b)
		for i := range dst {
			dst[i] = x[i] == y
		}
	default:
		for i := range dst {
			dst[i] = *(*T)(unsafe.Add(a, i*sa)) == *(*T)(unsafe.Add(b, i*sb))
		}
	}
}

func neV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, size := by.a, by.b, int(unsafe.Sizeof(T(0)))
	switch dst := unsafe.Slice((*bool)(d), n); {
	case sa == size && sb == size:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] != y[i]
		}
	case sa == size && sb == 0:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], *(*T)(b)
		for i := range dst {
			dst[i] = x[i] != y
		}
	default:
		for i := range dst {
			dst[i] = *(*T)(unsafe.Add(a, i*sa)) != *(*T)(unsafe.Add(b, i*sb))
		}
	}
}

func ltV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, size := by.a, by.b, int(unsafe.Sizeof(T(0)))
	switch dst := unsafe.Slice((*bool)(d), n); {
	case sa == size && sb == size:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] < y[i]
		}
	case sa == size && sb == 0:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], *(*T)(b)
		for i := range dst {
			dst[i] = x[i] < y
		}
	case sa == 0 && sb == size:
		x, y := *(*T)(a), unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x < y[i]
		}
	default:
		for i := range dst {
			dst[i] = *(*T)(unsafe.Add(a, i*sa)) < *(*T)(unsafe.Add(b, i*sb))
		}
	}
}

func leV[T realNumber](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	sa, sb, size := by.a, by.b, int(unsafe.Sizeof(T(0)))
	switch dst := unsafe.Slice((*bool)(d), n); {
	case sa == size && sb == size:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x[i] <= y[i]
		}
	case sa == size && sb == 0:
		x, y := unsafe.Slice((*T)(a), n)[:len(dst)], *(*T)(b)
		for i := range dst {
			dst[i] = x[i] <= y
		}
	case sa == 0 && sb == size:
		x, y := *(*T)(a), unsafe.Slice((*T)(b), n)[:len(dst)]
		for i := range dst {
			dst[i] = x <= y[i]
		}
	default:
		for i := range dst {
			dst[i] = *(*T)(unsafe.Add(a, i*sa)) <= *(*T)(unsafe.Add(b, i*sb))
		}
	}
}

// selectV moves elements of a size, whatever they mean. Both are loaded, so that there is no branch.
func selectV[U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	for ; ; d, a, b, c = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc) {
		u, v := *(*U)(b), *(*U)(c)
		if *(*uint8)(a) != 0 {
			v = u
		}
		*(*U)(d) = v
		if n--; n == 0 {
			return
		}
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
		for sd, sa := by.d, by.a; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
			*(*U)(d) = *(*U)(a)
			if n--; n == 0 {
				return
			}
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
