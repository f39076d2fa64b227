package interp

import "unsafe"

// This file has the loops over a block that do not depend on the operation, and the functions from which table.go makes
// the loops of operations. For example, the loop of a float32 sum is
//
//	func(o operands) { each2(&o, func(x, y float32) float32 { return x + y }) }

// operand is the memory of a result or an operand of a [loop].
type operand struct {
	ptr    unsafe.Pointer
	offset int // offset of the first element in bytes
	stride int // bytes from one element to the next; 0 if all elements are the same number
}

// operands are the arguments of a [loop]. A loop computes offsets of elements, not pointers, so that no pointer is
// beyond the last element.
type operands struct {
	dst, a, b, c, d operand // the result and the operands
	n               int     // the number of elements
}

// loop computes the elements of a result. The elements of the result are contiguous and begin at offset 0. Only
// moveOf, joinOf and conversions support other strides and offsets of the result. The result may have the address of an
// operand with the same stride. Apart from this, it must not overlap operands.
type loop func(o operands)

// each1 computes an operation with one operand. The compiler inlines each1 and the operation, if it is a function
// literal, into the caller: the result is a loop without calls.
func each1[T, R any](o *operands, f func(x T) R) {
	a, dst := o.a, unsafe.Slice((*R)(o.dst.ptr), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.ptr, a.offset)))
		a.offset += a.stride
	}
}

// each2 is each1 for two operands. A longer function would not be inlined.
func each2[T, R any](o *operands, f func(x, y T) R) {
	a, b, dst := o.a, o.b, unsafe.Slice((*R)(o.dst.ptr), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.ptr, a.offset)), *(*T)(unsafe.Add(b.ptr, b.offset)))
		a.offset += a.stride
		b.offset += b.stride
	}
}

// each3 is each1 for three operands. It calls f for each element.
func each3[T any](o *operands, f func(x, y, z T) T) {
	a, b, c, dst := o.a, o.b, o.c, unsafe.Slice((*T)(o.dst.ptr), o.n)
	for i := range dst {
		dst[i] = f(*(*T)(unsafe.Add(a.ptr, a.offset)), *(*T)(unsafe.Add(b.ptr, b.offset)), *(*T)(unsafe.Add(c.ptr, c.offset)))
		a.offset += a.stride
		b.offset += b.stride
		c.offset += c.stride
	}
}

// moveOf copies elements of the size of U. If the operand has stride 0, it repeats one element.
func moveOf[U word](o operands) {
	size, dst, src := int(unsafe.Sizeof(U(0))), o.dst, o.a
	if dst.stride == size && (src.stride == size || src.stride == 0) {
		dstElements, srcCount := unsafe.Slice((*U)(unsafe.Add(dst.ptr, dst.offset)), o.n), o.n
		if src.stride == 0 {
			srcCount = min(1, o.n)
		}
		copied := copy(dstElements, unsafe.Slice((*U)(unsafe.Add(src.ptr, src.offset)), srcCount))
		for copied < o.n { // repeats the element: each copy doubles the number of elements
			copied += copy(dstElements[copied:], dstElements[:copied])
		}
		return
	}
	for range o.n {
		*(*U)(unsafe.Add(dst.ptr, dst.offset)) = *(*U)(unsafe.Add(src.ptr, src.offset))
		dst.offset += dst.stride
		src.offset += src.stride
	}
}

// selectOf selects elements of the size of U: from operand b where the mask a is true, else from c. A block whose mask
// is the same for all elements is copied. Other blocks are selected as 64 bits, because there is no conditional move of
// bytes, and a branch would be unpredictable.
func selectOf[U word](o operands) {
	switch {
	case noElementEquals(o.a, o.n, true): // the mask is false everywhere
		o.a = o.c
		moveOf[U](o)
		return
	case noElementEquals(o.a, o.n, false): // the mask is true everywhere
		o.a = o.b
		moveOf[U](o)
		return
	}
	dst, mask := unsafe.Slice((*U)(o.dst.ptr), o.n), unsafe.Slice((*uint8)(unsafe.Add(o.a.ptr, o.a.offset)), o.n)
	trueElements, falseElements := unsafe.Add(o.b.ptr, o.b.offset), unsafe.Add(o.c.ptr, o.c.offset)
	size := int(unsafe.Sizeof(U(0)))
	switch { // the first two loops have no offsets, and take 0.8 of the time of the last
	case o.b.stride == size && o.c.stride == size:
		trueSlice, falseSlice := unsafe.Slice((*U)(trueElements), len(mask)), unsafe.Slice((*U)(falseElements), len(mask))
		for i, maskByte := range mask {
			whenTrue, selected := uint64(trueSlice[i]), uint64(falseSlice[i])
			if maskByte != 0 {
				selected = whenTrue
			}
			dst[i] = U(selected)
		}
	case o.b.stride == 0 && o.c.stride == size:
		whenTrue, falseSlice := uint64(*(*U)(trueElements)), unsafe.Slice((*U)(falseElements), len(mask))
		for i, maskByte := range mask {
			selected := uint64(falseSlice[i])
			if maskByte != 0 {
				selected = whenTrue
			}
			dst[i] = U(selected)
		}
	default:
		trueOffset, falseOffset := 0, 0
		for i, maskByte := range mask {
			whenTrue, selected := uint64(*(*U)(unsafe.Add(trueElements, trueOffset))),
				uint64(*(*U)(unsafe.Add(falseElements, falseOffset)))
			trueOffset += o.b.stride
			falseOffset += o.c.stride
			if maskByte != 0 {
				selected = whenTrue
			}
			dst[i] = U(selected)
		}
	}
}

// joinOf stores elements of a and b, of the size of U, as pairs: the real and the imaginary parts of complex numbers.
func joinOf[U word](o operands) {
	dst, a, b := o.dst, o.a, o.b
	if size := int(unsafe.Sizeof(U(0))); dst.stride == 2*size && a.stride == size && b.stride == size {
		pairs := unsafe.Slice((*[2]U)(unsafe.Add(dst.ptr, dst.offset)), o.n)
		reals := unsafe.Slice((*U)(unsafe.Add(a.ptr, a.offset)), len(pairs))
		imags := unsafe.Slice((*U)(unsafe.Add(b.ptr, b.offset)), len(pairs))
		for i := range pairs {
			pairs[i] = [2]U{reals[i], imags[i]}
		}
		return
	}
	for range o.n {
		pair := (*[2]U)(unsafe.Add(dst.ptr, dst.offset))
		pair[0], pair[1] = *(*U)(unsafe.Add(a.ptr, a.offset)), *(*U)(unsafe.Add(b.ptr, b.offset))
		dst.offset += dst.stride
		a.offset += a.stride
		b.offset += b.stride
	}
}

// The loops for elements of 1, 2, 4 and 8 bytes, indexed by sizeIndex.
var (
	joins   = [4]loop{joinOf[uint8], joinOf[uint16], joinOf[uint32], joinOf[uint64]}
	moves   = [4]loop{moveOf[uint8], moveOf[uint16], moveOf[uint32], moveOf[uint64]}
	selects = [4]loop{selectOf[uint8], selectOf[uint16], selectOf[uint32], selectOf[uint64]}
)

// sizeIndex returns log2(size) for an element size of 1, 2, 4 or 8 bytes.
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
