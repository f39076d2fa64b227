package strided

import "unsafe"

// Block copies a times b elements. It takes no memory and plans nothing, so both sides should
// fit the caches that are near.
func (e *Elem) Block(dst, src unsafe.Pointer, a, b Axis) {
	if a.N == 1 {
		a, b = b, a
	}
	switch {
	case b.N == 1:
		if a.N > 0 {
			e.Row(dst, src, a.Dst, a.Src, a.N)
		}
	case a.N <= 0 || b.N <= 0:
	case e.moves:
		blocks[e.Dst](dst, src, a, b)
	default:
		if across(a, b) {
			a, b = b, a
		}
		for i := range b.N {
			e.Row(unsafe.Add(dst, i*b.Dst), unsafe.Add(src, i*b.Src), a.Dst, a.Src, a.N)
		}
	}
}

// across reports whether rows run along b rather than along a: along the longer one, or, where
// both are long, along the one that is read closer together.
func across(a, b Axis) bool {
	if min(a.N, b.N) < longRow {
		return b.N > a.N
	}
	return abs(b.Src) < abs(a.Src)
}

// longRow is the number of elements of a row from which on its own cost does not matter.
const longRow = 16

func abs(n int) int { return max(n, -n) }

var blocks = [17]func(dst, src unsafe.Pointer, a, b Axis){
	1: block[uint8], 2: block[uint16], 4: block[uint32], 8: block[uint64], 16: block[[2]uint64]}

// block moves a times b elements, at least two of each.
func block[T bits](dst, src unsafe.Pointer, a, b Axis) {
	size := int(unsafe.Sizeof(*(*T)(nil)))
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
	case a.Dst == size && abs(b.Src) < abs(a.Src):
		transpose[T](dst, src, a, b)
		return
	}
	if across(a, b) {
		a, b = b, a
	}
	for i := range b.N {
		d, s := unsafe.Add(dst, i*b.Dst), unsafe.Add(src, i*b.Src)
		to, at := 0, 0
		for range a.N {
			*(*T)(unsafe.Add(d, to)) = *(*T)(unsafe.Add(s, at))
			to, at = to+a.Dst, at+a.Src
		}
	}
}

// copyRows copies b.N runs of n bytes. Runs of the lengths that panels and pixels have are moved
// without a call.
func copyRows(dst, src unsafe.Pointer, n int, b Axis) {
	if b.Dst == n && b.Src == n {
		copy(unsafe.Slice((*byte)(dst), n*b.N), unsafe.Slice((*byte)(src), n*b.N))
		return
	}
	if n < len(runs) && runs[n] != nil {
		runs[n](dst, src, b)
		return
	}
	to, at := 0, 0
	for range b.N {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, to)), n), unsafe.Slice((*byte)(unsafe.Add(src, at)), n))
		to, at = to+b.Dst, at+b.Src
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
