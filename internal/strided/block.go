package strided

import "unsafe"

// CopyBlock copies a block of a.N by b.N elements, without a plan and without allocation. The axes a and b have strides
// in bytes (see [Axis]). For example, Axis{N: 3, Dst: 4, Src: 20} and Axis{N: 5, Dst: 12, Src: 4} transpose 3 rows of 5
// float32. CopyBlock is fast if source and destination both fit the private caches of a core.
func (e *Elem) CopyBlock(dst, src unsafe.Pointer, a, b Axis) {
	if a.N == 1 {
		a, b = b, a // the elements of a single row or column are now along a
	}
	switch {
	case a.N <= 0 || b.N <= 0:
	case b.N == 1:
		e.Row(dst, src, a.Dst, a.Src, a.N)
	case e.copiesUnchanged:
		blocksBySize[e.DstSize](dst, src, a, b)
	default:
		if prefersRowsAlongB(a, b) {
			a, b = b, a
		}
		for i := range b.N {
			e.Row(unsafe.Add(dst, i*b.Dst), unsafe.Add(src, i*b.Src), a.Dst, a.Src, a.N)
		}
	}
}

// longRow is the row length, in elements, from which the overhead per row is negligible.
const longRow = 16

// prefersRowsAlongB reports whether the inner loop runs along b instead of a. The inner loop is along the longer axis
// or, if both are long, along the axis with the smaller stride in src.
func prefersRowsAlongB(a, b Axis) bool {
	if min(a.N, b.N) < longRow {
		return b.N > a.N
	}
	return abs(b.Src) < abs(a.Src)
}

// blocksBySize has the functions that copy blocks, by element size in bytes.
var blocksBySize = [17]func(dst, src unsafe.Pointer, a, b Axis){
	1: moveBlock[uint8], 2: moveBlock[uint16], 4: moveBlock[uint32], 8: moveBlock[uint64], 16: moveBlock[[2]uint64]}

// moveBlock moves a.N by b.N elements. Both axes have at least two elements. In order of preference, it copies whole
// rows, fills rows with one element each, transposes, or moves element by element.
func moveBlock[T bits](dst, src unsafe.Pointer, a, b Axis) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	// If dst is dense along an axis, make this axis a. If dst is dense along both axes, src decides.
	if b.Dst == size && (a.Dst != size || b.Src == size) {
		a, b = b, a
	}
	switch {
	case a.Dst == size && a.Src == size:
		copyRows(dst, src, a.N*size, b)
		return
	case a.Dst == size && a.Src == 0 && a.N >= longRow:
		for i := range b.N {
			fill(unsafe.Slice((*T)(unsafe.Add(dst, i*b.Dst)), a.N), *(*T)(unsafe.Add(src, i*b.Src)))
		}
		return
	case a.Dst == size && abs(b.Src) < abs(a.Src): // the strides of src have the other order
		transpose[T](dst, src, a, b)
		return
	}
	if prefersRowsAlongB(a, b) {
		a, b = b, a
	}
	for i := range b.N {
		move[T](unsafe.Add(dst, i*b.Dst), unsafe.Add(src, i*b.Src), a.Dst, a.Src, a.N)
	}
}

// abs returns the absolute value of n.
func abs(n int) int { return max(n, -n) }
