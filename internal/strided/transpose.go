package strided

import "unsafe"

// transpose copies a block of a.N by b.N elements. A row of src has the b.N elements for one index of a, and a row of
// dst has the a.N elements for one index of b:
//
//	dst[j*b.Dst + i*size] = src[i*a.Src + j*b.Src]    i < a.N, j < b.N, offsets in bytes
//
// If src is dense along b (b.Src is the size of an element), tiles are transposed in registers where possible
// ([matrix.transpose]). Otherwise transpose reads four rows of src at a time: the hardware can prefetch four streams,
// and each iteration writes four adjacent elements.
func transpose[T bits](dst, src unsafe.Pointer, a, b Axis) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	if b.Src == size {
		tile := matrix{dst: dst, src: src, dstStep: b.Dst, srcStep: a.Src, rows: a.N, cols: b.N, elemBytes: size}
		if tile.transpose() {
			return
		}
	}
	if b.N < 8 && b.N < a.N && b.Src == size { // rows of src that are too short for assembly routines (interleave4)
		transposeShortRows[T](dst, src, b.Dst, a.Src, a.N, b.N)
		return
	}
	i := 0
	for ; i+4 <= a.N; i += 4 {
		row0 := unsafe.Add(src, i*a.Src)
		interleave4[T](unsafe.Add(dst, i*size), b.Dst, row0, unsafe.Add(row0, a.Src), unsafe.Add(row0, 2*a.Src),
			unsafe.Add(row0, 3*a.Src), b.Src, b.N)
	}
	if i == a.N {
		return // an address beyond the last row may be invalid
	}
	// One to three rows remain.
	dstColumn, row0 := unsafe.Add(dst, i*size), unsafe.Add(src, i*a.Src)
	switch dstOffset, srcOffset := 0, 0; a.N - i {
	case 3:
		row1, row2 := unsafe.Add(row0, a.Src), unsafe.Add(row0, 2*a.Src)
		for range b.N {
			triple := (*[3]T)(unsafe.Add(dstColumn, dstOffset))
			triple[0], triple[1] = *(*T)(unsafe.Add(row0, srcOffset)), *(*T)(unsafe.Add(row1, srcOffset))
			triple[2] = *(*T)(unsafe.Add(row2, srcOffset))
			dstOffset, srcOffset = dstOffset+b.Dst, srcOffset+b.Src
		}
	case 2:
		row1 := unsafe.Add(row0, a.Src)
		for range b.N {
			pair := (*[2]T)(unsafe.Add(dstColumn, dstOffset))
			pair[0], pair[1] = *(*T)(unsafe.Add(row0, srcOffset)), *(*T)(unsafe.Add(row1, srcOffset))
			dstOffset, srcOffset = dstOffset+b.Dst, srcOffset+b.Src
		}
	case 1:
		move[T](dstColumn, row0, b.Dst, b.Src, b.N)
	}
}

// transposeShortRows is transpose for short rows of src. It reads along these rows, and writes up to four rows of dst
// at the same time.
func transposeShortRows[T bits](dst, src unsafe.Pointer, dstStep, srcStep, rows, cols int) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	dstRow := func(j int) []T { return unsafe.Slice((*T)(unsafe.Add(dst, j*dstStep)), rows) }
	j := 0
	for ; j+4 <= cols; j += 4 {
		dst0, srcOffset := dstRow(j), j*size
		dst1, dst2, dst3 := dstRow(j + 1)[:len(dst0)], dstRow(j + 2)[:len(dst0)], dstRow(j + 3)[:len(dst0)]
		for i := range dst0 {
			elems := (*[4]T)(unsafe.Add(src, srcOffset))
			dst0[i], dst1[i], dst2[i], dst3[i] = elems[0], elems[1], elems[2], elems[3]
			srcOffset += srcStep
		}
	}
	switch srcOffset := j * size; cols - j { // the remaining rows of dst
	case 3:
		dst0 := dstRow(j)
		dst1, dst2 := dstRow(j + 1)[:len(dst0)], dstRow(j + 2)[:len(dst0)]
		for i := range dst0 {
			elems := (*[3]T)(unsafe.Add(src, srcOffset))
			dst0[i], dst1[i], dst2[i] = elems[0], elems[1], elems[2]
			srcOffset += srcStep
		}
	case 2:
		dst0 := dstRow(j)
		dst1 := dstRow(j + 1)[:len(dst0)]
		for i := range dst0 {
			elems := (*[2]T)(unsafe.Add(src, srcOffset))
			dst0[i], dst1[i] = elems[0], elems[1]
			srcOffset += srcStep
		}
	case 1:
		move[T](unsafe.Pointer(unsafe.SliceData(dstRow(j))), unsafe.Add(src, srcOffset), size, srcStep, rows)
	}
}

// interleave4 stores dst[k*dstStep + i*size] = element k of row i, for four rows and k < n. Adjacent elements of a row
// are srcStep bytes apart; dstStep is also in bytes. interleave32 and interleave64 are assembly routines.
func interleave4[T bits](dst unsafe.Pointer, dstStep int, row0, row1, row2, row3 unsafe.Pointer, srcStep, n int) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	k := 0
	switch {
	case !hasInterleave || srcStep != size || n < 8: // the loop below stores all elements
	case size == 4:
		k = n &^ 7 // a multiple of 8
		interleave32(k, dst, dstStep, row0, row1, row2, row3)
	case size == 8:
		k = n &^ 3 // a multiple of 4
		interleave64(k, dst, dstStep, row0, row1, row2, row3)
	}
	dstOffset, srcOffset := k*dstStep, k*srcStep
	for ; k < n; k++ {
		quad := (*[4]T)(unsafe.Add(dst, dstOffset))
		quad[0], quad[1] = *(*T)(unsafe.Add(row0, srcOffset)), *(*T)(unsafe.Add(row1, srcOffset))
		quad[2], quad[3] = *(*T)(unsafe.Add(row2, srcOffset)), *(*T)(unsafe.Add(row3, srcOffset))
		dstOffset, srcOffset = dstOffset+dstStep, srcOffset+srcStep
	}
}

// Interleave transposes runs of n elements at arbitrary addresses. It stores dst[k*step + l*size] = runs[l][k] for
// k < n and every run. The elements of a nil run are 0. size is 1, 2, 4, 8 or 16 bytes.
func Interleave(size int, dst unsafe.Pointer, step int, runs []unsafe.Pointer, n int) {
	if n > 0 && len(runs) > 0 {
		interleavesBySize[size](dst, step, runs, n)
	}
}

// interleavesBySize has the functions of [Interleave] by element size in bytes.
var interleavesBySize = [17]func(dst unsafe.Pointer, step int, runs []unsafe.Pointer, n int){1: interleave[uint8],
	2: interleave[uint16], 4: interleave[uint32], 8: interleave[uint64], 16: interleave[[2]uint64]}

// interleave is Interleave for one type of elements. It processes four runs at a time.
func interleave[T bits](dst unsafe.Pointer, step int, runs []unsafe.Pointer, n int) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	for first := 0; first < len(runs); first += 4 {
		column, group := unsafe.Add(dst, first*size), runs[first:min(first+4, len(runs))]
		if len(group) == 4 && group[0] != nil && group[1] != nil && group[2] != nil && group[3] != nil {
			interleave4[T](column, step, group[0], group[1], group[2], group[3], size, n)
			continue
		}
		for lane, run := range group {
			interleaveOne[T](unsafe.Add(column, lane*size), step, run, n)
		}
	}
}

// interleaveOne stores dst[k*step] = run[k] for k < n, or zeros if run is nil. step is in bytes.
func interleaveOne[T bits](dst unsafe.Pointer, step int, run unsafe.Pointer, n int) {
	if run != nil {
		move[T](dst, run, step, int(unsafe.Sizeof(*(*T)(nil))), n)
		return
	}
	var zero T
	for k := range n {
		*(*T)(unsafe.Add(dst, k*step)) = zero
	}
}
