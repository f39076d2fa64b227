package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// rowsFunc copies n rows of at least 64 bytes; with non-temporal stores, of whole cache lines to aligned
// addresses. Rows have strides dstStep and srcStep, and src is prefetched ahead bytes in advance.
type rowsFunc = func(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

// longBytes is the row length from which the hardware prefetches well by itself.
const longBytes = 2048

// aheadRows is the prefetch distance in rows.
const aheadRows = 16

// copyRows copies b.N rows of n bytes. Rows with the typical lengths of panels and pixels are moved without a
// call.
func copyRows(dst, src unsafe.Pointer, n int, b Axis) {
	if b.Dst == n && b.Src == n {
		copy(unsafe.Slice((*byte)(dst), n*b.N), unsafe.Slice((*byte)(src), n*b.N))
		return
	}
	switch {
	case vectorRows != nil && machine.LineBytes <= n && n < longBytes:
		vectorRows(b.N, dst, b.Dst, src, b.Src, n, aheadRows*b.Src)
		return
	case n < len(runs) && runs[n] != nil:
		runs[n](dst, src, b)
		return
	}
	to, at := 0, 0
	for range b.N {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, to)), n), unsafe.Slice((*byte)(unsafe.Add(src, at)), n))
		to, at = to+b.Dst, at+b.Src
	}
}

// Far reports whether a result of that size is better written by non-temporal stores.
func Far(bytes int) bool { return streamRows != nil && bytes >= streamBytes }

// BlockPast is [Elem.Block] with non-temporal stores if dst consists of whole cache lines. [Fence] must
// follow before another goroutine uses the result.
func (e *Elem) BlockPast(dst, src unsafe.Pointer, a, b Axis) {
	if !e.moves || a.Dst != e.Dst || a.Src != e.Src || !passRows(dst, src, a.N*e.Dst, b) {
		e.Block(dst, src, a, b)
	}
}

// Fence orders non-temporal stores before all later stores of this goroutine.
func Fence() { fence() }

// passRows is copyRows with non-temporal stores, if most of the touched cache lines are whole. It reports
// whether it copied; then [Fence] must follow.
func passRows(dst, src unsafe.Pointer, n int, b Axis) bool {
	const line = machine.LineBytes
	if b.Dst == n && b.Src == n {
		n, b = n*b.N, Axis{N: 1}
	}
	whole := (uintptr(dst)|uintptr(b.Dst)|uintptr(n))%line == 0
	switch {
	case streamRows == nil || n < line || !whole && n < 16*line:
		return false
	case whole && n < longBytes:
		streamRows(b.N, dst, b.Dst, src, b.Src, n, aheadRows*b.Src)
		return true
	}
	for i := range b.N {
		passRow(unsafe.Add(dst, i*b.Dst), unsafe.Add(src, i*b.Src), n)
	}
	return true
}

// passRow copies one row; the parts before the first and after the last whole cache line use normal stores.
func passRow(dst, src unsafe.Pointer, n int) {
	const line, ahead = machine.LineBytes, 1024
	head := int(-uintptr(dst) % line)
	body := (n - head) / line * line
	copy(unsafe.Slice((*byte)(dst), head), unsafe.Slice((*byte)(src), head))
	streamRows(1, unsafe.Add(dst, head), 0, unsafe.Add(src, head), 0, body, ahead)
	if at := head + body; at < n {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, at)), n-at), unsafe.Slice((*byte)(unsafe.Add(src, at)), n-at))
	}
}

// runs holds the loops over rows of a fixed number of bytes.
var runs = [257]func(dst, src unsafe.Pointer, b Axis){
	2: run[[2]byte], 3: run[[3]byte], 4: run[[4]byte], 6: run[[6]byte], 8: run[[8]byte], 12: run[[12]byte],
	16: run[[16]byte], 24: run[[24]byte], 32: run[[32]byte], 48: run[[48]byte], 64: run[[64]byte],
	96: run[[96]byte], 128: run[[128]byte], 256: run[[256]byte],
}

func run[A any](dst, src unsafe.Pointer, b Axis) {
	to, at := 0, 0
	for range b.N {
		*(*A)(unsafe.Add(dst, to)) = *(*A)(unsafe.Add(src, at))
		to, at = to+b.Dst, at+b.Src
	}
}
