package interp

import "unsafe"

// operand is the memory of a result or an operand of a [loop].
type operand struct {
	p  unsafe.Pointer
	at int // offset of the first element in bytes
	by int // bytes between elements; 0 if all elements are the same number
}

// operands are the arguments of a [loop]. Its elements are indexed by offsets, so that no address beyond the last
// element is computed.
type operands struct {
	d, a, b, c operand // the result and the operands
	n          int     // the number of elements
}

// loop computes the elements of a result. The elements of the result are contiguous and begin at offset 0, except in
// moves. The result may have the address of an operand with the same distance of elements, and must not overlap
// operands otherwise.
type loop func(o operands)

// each1 computes an operation with one operand. The compiler inlines each1 and the operation, if it is a function
// literal, into the caller: the result is a loop without calls.
func each1[T, R any](o *operands, f func(x T) R) {
	a, dst := o.a, unsafe.Slice((*R)(o.d.p), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.p, a.at)))
		a.at += a.by
	}
}

// each2 is each1 for two operands. A longer function would not be inlined.
func each2[T, R any](o *operands, f func(x, y T) R) {
	a, b, dst := o.a, o.b, unsafe.Slice((*R)(o.d.p), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.p, a.at)), *(*T)(unsafe.Add(b.p, b.at)))
		a.at += a.by
		b.at += b.by
	}
}

// each3 is each1 for three operands. It calls f for each element.
func each3[T any](o *operands, f func(x, y, z T) T) {
	a, b, c, dst := o.a, o.b, o.c, unsafe.Slice((*T)(o.d.p), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.p, a.at)), *(*T)(unsafe.Add(b.p, b.at)), *(*T)(unsafe.Add(c.p, c.at)))
		a.at += a.by
		b.at += b.by
		c.at += c.by
	}
}

// moveOf copies elements of the size of U, or repeats one element.
func moveOf[U word](o operands) {
	size, d, a := int(unsafe.Sizeof(U(0))), o.d, o.a
	if d.by == size && (a.by == size || a.by == 0) {
		dst := unsafe.Slice((*U)(unsafe.Add(d.p, d.at)), o.n)
		done := copy(dst, unsafe.Slice((*U)(unsafe.Add(a.p, a.at)), max(1, o.n*min(a.by, 1))))
		for done < o.n {
			done += copy(dst[done:], dst[:done])
		}
		return
	}
	for range o.n {
		*(*U)(unsafe.Add(d.p, d.at)) = *(*U)(unsafe.Add(a.p, a.at))
		d.at += d.by
		a.at += a.by
	}
}

// selectOf selects elements of the size of U. A block whose mask is the same for all elements is copied. Other blocks
// are selected as 64 bits, because there is no conditional move of bytes, and a branch would be unpredictable.
func selectOf[U word](o operands) {
	for _, want := range []bool{true, false} {
		if noElementWanted(o.a, o.n, want) {
			if o.a = o.b; want {
				o.a = o.c
			}
			moveOf[U](o)
			return
		}
	}
	b, c, dst := o.b, o.c, unsafe.Slice((*U)(o.d.p), o.n)
	for i, m := range unsafe.Slice((*uint8)(unsafe.Add(o.a.p, o.a.at)), len(dst)) {
		x, y := uint64(*(*U)(unsafe.Add(b.p, b.at))), uint64(*(*U)(unsafe.Add(c.p, c.at)))
		if m != 0 {
			y = x
		}
		dst[i] = U(y)
		b.at += b.by
		c.at += c.by
	}
}

var (
	moves   = [4]loop{moveOf[uint8], moveOf[uint16], moveOf[uint32], moveOf[uint64]}
	selects = [4]loop{selectOf[uint8], selectOf[uint16], selectOf[uint32], selectOf[uint64]}
)

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
