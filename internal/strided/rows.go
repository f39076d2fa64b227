package strided

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
)

// rowsFunc copies n rows of at least 64 bytes, and of whole cache lines to aligned addresses where it writes
// past the caches. Rows are dstStep and srcStep apart; what is ahead bytes further in src is fetched.
type rowsFunc = func(n int, dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, bytes, ahead int)

// longBytes is the length of a row from which on it does better by itself: it is read ahead as it goes.
const longBytes = 2048

// aheadRows is how many rows ahead are fetched.
const aheadRows = 16

// copyRows copies b.N runs of n bytes. Runs of the lengths that panels and pixels have are moved
// without a call.
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

// Far reports whether a result of so many bytes is better written past the caches.
func Far(bytes int) bool { return streamRows != nil && bytes >= far }

// BlockPast is [Elem.Block] past the caches where dst is written in whole cache lines, as [Elem.Block] elsewhere.
// [Fence] must follow before another goroutine is told of it.
func (e *Elem) BlockPast(dst, src unsafe.Pointer, a, b Axis) {
	if !e.moves || a.Dst != e.Dst || a.Src != e.Src || !passRows(dst, src, a.N*e.Dst, b) {
		e.Block(dst, src, a, b)
	}
}

// Fence orders what was written past the caches before all that this goroutine writes later.
func Fence() { fence() }

// passRows is copyRows past the caches, where most of the lines that rows touch are whole ones. It reports whether
// they are, and [Fence] must follow.
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

// passRow copies what lies before the first whole line and behind the last one as usual.
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

// runs holds the loops over runs of a fixed number of bytes.
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
