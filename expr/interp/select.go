package interp

import "unsafe"

// wordwise applies f, a bitwise operation of uint64, to words of eight bytes if the operands are contiguous and
// aligned. It returns the number of elements that it has processed, which is 0 for other operands.
func wordwise(f loopFunc, d, a, b unsafe.Pointer, n, size int, by *strides) int {
	words := n * size / 8
	if words == 0 || by.d != size || by.a != size || by.b != size || (uintptr(d)|uintptr(a)|uintptr(b))%8 != 0 {
		return 0
	}
	f(d, a, b, nil, nil, nil, words, &wordStrides)
	return words * 8 / size
}

var wordStrides = strides{d: 8, a: 8, b: 8}

// selectV selects elements with the size of U. It loads both operands and selects by a conditional move of 64 bits. For
// bytes there is no conditional move, and a branch would be unpredictable.
func selectV[U word](d, a, b, c, _, _ unsafe.Pointer, n int, by *strides) {
	sd, sa, sb, sc := by.d, by.a, by.b, by.c
	if size := int(unsafe.Sizeof(U(0))); *by == (strides{d: size, a: 1, b: size, c: size}) {
		i := 0
		for last := n - 4; i <= last; i += 4 {
			r, m := (*[4]U)(unsafe.Add(d, i*size)), (*[4]uint8)(unsafe.Add(a, i))
			x, y := (*[4]U)(unsafe.Add(b, i*size)), (*[4]U)(unsafe.Add(c, i*size))
			r[0] = choose64(m[0], x[0], y[0])
			r[1] = choose64(m[1], x[1], y[1])
			r[2] = choose64(m[2], x[2], y[2])
			r[3] = choose64(m[3], x[3], y[3])
		}
		if n -= i; n == 0 {
			return
		}
		d, a, b, c = unsafe.Add(d, i*size), unsafe.Add(a, i), unsafe.Add(b, i*size), unsafe.Add(c, i*size)
	}
	for ; n > 2; n -= 2 {
		u, v, w, x := uint64(*(*U)(b)), uint64(*(*U)(c)), uint64(*(*U)(unsafe.Add(b, sb))), uint64(*(*U)(unsafe.Add(c, sc)))
		if *(*uint8)(a) != 0 {
			v = u
		}
		if *(*uint8)(unsafe.Add(a, sa)) != 0 {
			x = w
		}
		*(*U)(d), *(*U)(unsafe.Add(d, sd)) = U(v), U(x)
		d, a, b, c = unsafe.Add(d, 2*sd), unsafe.Add(a, 2*sa), unsafe.Add(b, 2*sb), unsafe.Add(c, 2*sc)
	}
	for ; ; d, a, b, c = unsafe.Add(d, sd), unsafe.Add(a, sa), unsafe.Add(b, sb), unsafe.Add(c, sc) {
		u, v := uint64(*(*U)(b)), uint64(*(*U)(c))
		if *(*uint8)(a) != 0 {
			v = u
		}
		*(*U)(d) = U(v)
		if n--; n == 0 {
			return
		}
	}
}

// choose64 returns x or y by a conditional move of 64 bits.
func choose64[U word](which uint8, x, y U) U {
	u, v := uint64(x), uint64(y)
	if which != 0 {
		v = u
	}
	return U(v)
}

// select16 returns x or y by a conditional move.
func select16[T ~uint16](which bool, x, y T) T {
	if which {
		y = x
	}
	return y
}

// moveV copies elements, or repeats one element.
func moveV[U word](d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
	size := int(unsafe.Sizeof(U(0)))
	switch {
	case by.d == size && by.a == size && d == a:
	case by.d == size && by.a == size:
		copy(contiguousElements[U](d, n), contiguousElements[U](a, n))
	case by.d == size && by.a == 0:
		dst := contiguousElements[U](d, n)
		dst[0] = *(*U)(a)
		for done := 1; done < n; done *= 2 {
			copy(dst[done:], dst[:done])
		}
	default:
		for sd, sa := by.d, by.a; ; d, a = unsafe.Add(d, sd), unsafe.Add(a, sa) {
			*(*U)(d) = *(*U)(a)
			if n--; n == 0 {
				return
			}
		}
	}
}

// sizeIndex returns the index in tables of an element size of 1, 2, 4 or 8 bytes.
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
	moves   = [4]loopFunc{moveV[uint8], moveV[uint16], moveV[uint32], moveV[uint64]}
	selects = [4]loopFunc{selectV[uint8], selectV[uint16], selectV[uint32], selectV[uint64]}
)
