// Package strided copies elements between two layouts of one shape. It serves tensors, temporary blocks of loops,
// panels of matrix products, and copy ops.
//
// It works on addresses and strides in bytes, without tensors. An [Elem] describes how an element is copied: it is
// moved unchanged, or converted by a row loop. The ways to use the package are:
//
//   - [Elem.CopyBlock] copies two dimensions without a plan and without allocation, for hot loops.
//   - [New] plans a copy of any number of dimensions. It coalesces dimensions and cuts them into tiles that workers may
//     share. If the layouts differ in their fastest dimension, the copy is transposed panel by panel. If the result
//     exceeds the caches, it is written by non-temporal stores.
//   - [Elem.Run] copies once, in this goroutine. [Elem.InOrder] copies element by element in the order of the
//     dimensions, for a destination that overlaps itself.
//
// Source strides may be 0 or negative. Unless stated otherwise, source and destination must either not overlap, or have
// the same addresses and element size. Moved elements are copied bit for bit.
package strided

import "unsafe"

// Row copies n elements with strides of dstStep and srcStep bytes.
type Row = func(dst, src unsafe.Pointer, dstStep, srcStep, n int)

// Elem describes how an element is copied. DstSize and SrcSize are its sizes in bytes in the destination and in the
// source. Row copies a row of elements.
type Elem struct {
	DstSize, SrcSize int
	Row              Row
	copiesUnchanged  bool // elements are moved bit for bit, not converted
}

// MoverOf returns the Elem that moves elements of 1, 2, 4, 8 or 16 bytes unchanged.
func MoverOf(size int) Elem { return Elem{size, size, movesBySize[size], true} }

// ConverterOf returns the Elem that converts elements by a row loop.
func ConverterOf(dst, src int, row Row) Elem { return Elem{DstSize: dst, SrcSize: src, Row: row} }

// Axis is a dimension of a copy. N is its size. Dst and Src are the strides of destination and source, in bytes.
type Axis struct{ N, Dst, Src int }

// Swapped returns the axis of the copy in the other direction, from the destination to the source.
func (x Axis) Swapped() Axis { return Axis{x.N, x.Src, x.Dst} }

// bits lists one type for each size of a moved element.
type bits interface {
	uint8 | uint16 | uint32 | uint64 | [2]uint64
}

// movesBySize has the functions that move rows, by element size in bytes.
var movesBySize = [17]Row{1: move[uint8], 2: move[uint16], 4: move[uint32], 8: move[uint64], 16: move[[2]uint64]}

// move is the Row of elements that are moved unchanged.
func move[T bits](dst, src unsafe.Pointer, dstStep, srcStep, n int) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
	switch {
	case n == 1:
		*(*T)(dst) = *(*T)(src)
	case dstStep == size && srcStep == size:
		copy(unsafe.Slice((*T)(dst), n), unsafe.Slice((*T)(src), n))
	case dstStep == size && srcStep == 0:
		fill(unsafe.Slice((*T)(dst), n), *(*T)(src))
	case dstStep == size:
		i, srcOffset := 0, 0 // no address is computed beyond the last element
		for last := n - 4; i <= last; i += 4 {
			quad := (*[4]T)(unsafe.Add(dst, i*size))
			quad[0], quad[1] = *(*T)(unsafe.Add(src, srcOffset)), *(*T)(unsafe.Add(src, srcOffset+srcStep))
			quad[2], quad[3] = *(*T)(unsafe.Add(src, srcOffset+2*srcStep)), *(*T)(unsafe.Add(src, srcOffset+3*srcStep))
			srcOffset += 4 * srcStep
		}
		for ; i < n; i++ {
			*(*T)(unsafe.Add(dst, i*size)) = *(*T)(unsafe.Add(src, srcOffset))
			srcOffset += srcStep
		}
	default:
		dstOffset, srcOffset := 0, 0
		for range n {
			*(*T)(unsafe.Add(dst, dstOffset)) = *(*T)(unsafe.Add(src, srcOffset))
			dstOffset, srcOffset = dstOffset+dstStep, srcOffset+srcStep
		}
	}
}

// fill sets every element of dst to value, 64 bytes at a time.
func fill[T bits](dst []T, value T) {
	const blockBytes = 64
	size := int(unsafe.Sizeof(value))
	wholeBytes := len(dst) * size / blockBytes * blockBytes
	if wholeBytes >= 2*blockBytes {
		var block [blockBytes]byte
		for i := 0; i < blockBytes; i += size {
			*(*T)(unsafe.Pointer(&block[i])) = value
		}
		base := unsafe.Pointer(unsafe.SliceData(dst))
		for offset := 0; offset < wholeBytes; offset += blockBytes {
			*(*[blockBytes]byte)(unsafe.Add(base, offset)) = block
		}
		dst = dst[wholeBytes/size:]
	}
	for i := range dst {
		dst[i] = value
	}
}
