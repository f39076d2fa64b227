package interp

import "unsafe"

// Floats are equal if their difference is 0. A test of the bits of the difference takes half the time of a comparison
// of floats, which Go compiles with a separate case for NaN. The difference of equal infinities is NaN, so the loops
// compare the floats if a difference in a group of four is NaN.

func eqFloat[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	size, i, step := int(unsafe.Sizeof(T(0))), 0, by.b
	if by.a == size && (step == size || step == 0) {
		var y *[4]T // b may be one element
		if step == 0 {
			v := *(*T)(b)
			y = &[4]T{v, v, v, v}
		}
		for last := n - 4; i <= last; i += 4 {
			x, r := (*[4]T)(unsafe.Add(a, i*size)), (*[4]bool)(unsafe.Add(d, i))
			if step != 0 {
				y = (*[4]T)(unsafe.Add(b, i*size))
			}
			d0, d1, d2, d3 := x[0]-y[0], x[1]-y[1], x[2]-y[2], x[3]-y[3]
			if sum := d0 + d1 + (d2 + d3); sum != sum {
				eqV[T](unsafe.Pointer(r), unsafe.Pointer(x), unsafe.Add(b, i*step), nil, nil, nil, 4, by)
				continue
			}
			r[0], r[1] = bitsOf[U](d0)<<1 == 0, bitsOf[U](d1)<<1 == 0
			r[2], r[3] = bitsOf[U](d2)<<1 == 0, bitsOf[U](d3)<<1 == 0
		}
		if i == n {
			return
		}
	}
	eqV[T](unsafe.Add(d, i), unsafe.Add(a, i*by.a), unsafe.Add(b, i*step), nil, nil, nil, n-i, by)
}

func neFloat[T float, U word](d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
	size, i, step := int(unsafe.Sizeof(T(0))), 0, by.b
	if by.a == size && (step == size || step == 0) {
		var y *[4]T // b may be one element
		if step == 0 {
			v := *(*T)(b)
			y = &[4]T{v, v, v, v}
		}
		for last := n - 4; i <= last; i += 4 {
			x, r := (*[4]T)(unsafe.Add(a, i*size)), (*[4]bool)(unsafe.Add(d, i))
			if step != 0 {
				y = (*[4]T)(unsafe.Add(b, i*size))
			}
			d0, d1, d2, d3 := x[0]-y[0], x[1]-y[1], x[2]-y[2], x[3]-y[3]
			if sum := d0 + d1 + (d2 + d3); sum != sum {
				neV[T](unsafe.Pointer(r), unsafe.Pointer(x), unsafe.Add(b, i*step), nil, nil, nil, 4, by)
				continue
			}
			r[0], r[1] = bitsOf[U](d0)<<1 != 0, bitsOf[U](d1)<<1 != 0
			r[2], r[3] = bitsOf[U](d2)<<1 != 0, bitsOf[U](d3)<<1 != 0
		}
		if i == n {
			return
		}
	}
	neV[T](unsafe.Add(d, i), unsafe.Add(a, i*by.a), unsafe.Add(b, i*step), nil, nil, nil, n-i, by)
}
