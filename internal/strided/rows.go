package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// rowsFunc copies n rows of `bytes` bytes, at least 64. dstStep and srcStep are the strides of rows. src is prefetched
// `ahead` bytes in advance. Two variables have the functions for this processor: vectorRows uses normal stores, and
// streamRows uses non-temporal stores. Either may be nil. streamRows requires rows of whole cache lines and an aligned
// dst.
type rowsFunc = func(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

// hardwarePrefetchBytes is the minimum row length in bytes for which hardware prefetching suffices.
const hardwarePrefetchBytes = 2048

// prefetchRows is the prefetch distance in rows.
const prefetchRows = 16

// copyRows copies rows.N rows of rowBytes bytes. rows.Dst and rows.Src are the strides in bytes. For the lengths of
// vectorRows and fixedRows, it makes no function call per row.
func copyRows(dst, src unsafe.Pointer, rowBytes int, rows Axis) {
	if rows.Dst == rowBytes && rows.Src == rowBytes {
		copy(unsafe.Slice((*byte)(dst), rowBytes*rows.N), unsafe.Slice((*byte)(src), rowBytes*rows.N))
		return
	}
	switch { // long rows, and short rows of other lengths, are copied below
	case vectorRows != nil && machine.LineBytes <= rowBytes && rowBytes < hardwarePrefetchBytes:
		vectorRows(rows.N, dst, rows.Dst, src, rows.Src, rowBytes, prefetchRows*rows.Src)
		return
	case rowBytes < len(fixedRows) && fixedRows[rowBytes] != nil:
		fixedRows[rowBytes](dst, src, rows)
		return
	}
	dstOffset, srcOffset := 0, 0
	for range rows.N {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, dstOffset)), rowBytes),
			unsafe.Slice((*byte)(unsafe.Add(src, srcOffset)), rowBytes))
		dstOffset, srcOffset = dstOffset+rows.Dst, srcOffset+rows.Src
	}
}

// PrefersNonTemporal reports whether a result of the given size is written faster by non-temporal stores.
func PrefersNonTemporal(bytes int) bool { return streamRows != nil && bytes >= minStreamBytes }

// minStreamLines is the minimum length of a row for non-temporal stores, in cache lines. It applies to rows that do not
// consist of whole lines.
const minStreamLines = 16

// StreamBlock is [Elem.CopyBlock], but uses non-temporal stores if rows are contiguous and streamBlock can copy them.
// row is the axis along a row, and rows the axis across rows. The caller must call [Fence] before another goroutine
// uses the result.
func (e *Elem) StreamBlock(dst, src unsafe.Pointer, row, rows Axis) {
	isContiguous := row.Dst == e.DstSize && row.Src == e.SrcSize
	if e.copiesUnchanged && isContiguous && streamBlock(dst, src, row.N*e.DstSize, rows) {
		return
	}
	e.CopyBlock(dst, src, row, rows)
}

// Fence orders non-temporal stores before all later stores of this goroutine.
func Fence() { fence() }

// streamBlock is copyRows with non-temporal stores. The ends of rows that do not consist of whole aligned cache lines
// need normal stores, so such rows must have at least minStreamLines lines. If rows are shorter, or if there is no
// streamRows, streamBlock returns false and copies nothing. After a copy, [Fence] must follow.
func streamBlock(dst, src unsafe.Pointer, rowBytes int, rows Axis) bool {
	const line = machine.LineBytes
	if rows.Dst == rowBytes && rows.Src == rowBytes {
		rowBytes, rows = rowBytes*rows.N, Axis{N: 1} // one row; its strides of 0 do not affect the alignment
	}
	hasWholeLines := (uintptr(dst)|uintptr(rows.Dst)|uintptr(rowBytes))%line == 0
	isShort := rowBytes < line || !hasWholeLines && rowBytes < minStreamLines*line
	switch {
	case streamRows == nil || isShort:
		return false
	case hasWholeLines && rowBytes < hardwarePrefetchBytes:
		streamRows(rows.N, dst, rows.Dst, src, rows.Src, rowBytes, prefetchRows*rows.Src)
		return true
	}
	for i := range rows.N { // streamRow prefetches within the row
		streamRow(unsafe.Add(dst, i*rows.Dst), unsafe.Add(src, i*rows.Src), rowBytes)
	}
	return true
}

// streamRow copies one row. The parts before the first and after the last whole cache line use normal stores.
func streamRow(dst, src unsafe.Pointer, rowBytes int) {
	const line, ahead = machine.LineBytes, 1024 // ahead is the prefetch distance in bytes
	head := int(-uintptr(dst) % line)           // bytes before the first whole cache line
	body := (rowBytes - head) / line * line
	copy(unsafe.Slice((*byte)(dst), head), unsafe.Slice((*byte)(src), head))
	const rows, rowStep = 1, 0 // a single row needs no step
	streamRows(rows, unsafe.Add(dst, head), rowStep, unsafe.Add(src, head), rowStep, body, ahead)
	if tail := head + body; tail < rowBytes {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, tail)), rowBytes-tail),
			unsafe.Slice((*byte)(unsafe.Add(src, tail)), rowBytes-tail))
	}
}

// fixedRows holds the loops over rows of a fixed number of bytes.
var fixedRows = [257]func(dst, src unsafe.Pointer, rows Axis){
	2: fixedRow[[2]byte], 3: fixedRow[[3]byte], 4: fixedRow[[4]byte], 6: fixedRow[[6]byte], 8: fixedRow[[8]byte],
	12: fixedRow[[12]byte], 16: fixedRow[[16]byte], 24: fixedRow[[24]byte], 32: fixedRow[[32]byte],
	48: fixedRow[[48]byte], 64: fixedRow[[64]byte], 96: fixedRow[[96]byte], 128: fixedRow[[128]byte],
	256: fixedRow[[256]byte],
}

// fixedRow copies rows that have the type A.
func fixedRow[A any](dst, src unsafe.Pointer, rows Axis) {
	dstOffset, srcOffset := 0, 0
	for range rows.N {
		*(*A)(unsafe.Add(dst, dstOffset)) = *(*A)(unsafe.Add(src, srcOffset))
		dstOffset, srcOffset = dstOffset+rows.Dst, srcOffset+rows.Src
	}
}
