package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
)

// PackFunc fills packed panels from a source only the caller knows, such as
// the implicit im2col matrix of a convolution. For lanes l in [l0, l1) (rows
// of A or columns of B) and depths k in [k0, k1) it stores element (l, k) at
//
//	dst[(l-l0)/W*W*(k1-k0) + (k-k0)*W + (l-l0)%W]
//
// where W is Plan.PackRows for A and Plan.PackCols for B. l0 is a multiple of
// W. Lanes of the last panel past l1 may be left unwritten: they reach no
// element of C. dst holds exactly the whole panels. Calls for different tiles
// run concurrently when the caller runs those tiles concurrently.
type PackFunc[T Number] func(dst []T, k0, k1, l0, l1 int)

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceilDiv(a, b) * b }

// PackedALen is the length of PackA's result for an m×k matrix.
func PackedALen[T Number](m, k int) int { return roundUp(m, kernelsOf[T]().mr) * k }

// PackedBLen is the length of PackB's result for a k×n matrix.
func PackedBLen[T Number](k, n int) int { return roundUp(n, kernelsOf[T]().nr) * k }

// PackA packs the m×k matrix at src, with element strides rs and cs, into
// dst[:PackedALen(m, k)] for Source Prepacked. A 64-byte aligned dst is
// faster to read. The format depends on the CPU: it must not be stored.
func PackA[T Number](dst []T, src unsafe.Pointer, m, k, rs, cs int) {
	set := kernelsOf[T]()
	packPanels(dst[:roundUp(m, set.mr)*k], set.mr, src, rs, cs, 0, k, 0, m)
}

// PackB packs the k×n matrix at src, with element strides rs and cs, into
// dst[:PackedBLen(k, n)]; see PackA.
func PackB[T Number](dst []T, src unsafe.Pointer, k, n, rs, cs int) {
	PackPanels(dst, kernelsOf[T]().nr, src, k, n, rs, cs)
}

// PackPanels is PackB into panels of a width, that of Operand.Panel.
func PackPanels[T Number](dst []T, width int, src unsafe.Pointer, k, n, rs, cs int) {
	packPanels(dst[:roundUp(n, width)*k], width, src, cs, rs, 0, k, 0, n)
}

// Interleave stores dst[k*w+l] = runs[l][k] for k < depth and l < len(runs)
// <= w, reading zeros for a nil run. It is the inner step of a PackFunc whose
// lanes are contiguous along K, such as pixels of an NHWC image: dst starts at
// the panel's row for the first k and may cover only part of its depth.
func (p *Plan[T]) Interleave(dst []T, w int, runs []unsafe.Pointer, depth int) {
	if depth == 0 || len(runs) == 0 {
		return
	}
	dst = dst[:(depth-1)*w+len(runs)]
	size := int(unsafe.Sizeof(dst[0]))
	strided.Interleave(size, unsafe.Pointer(unsafe.SliceData(dst)), w*size, runs, depth)
}

// packPanels is the PackFunc of a strided operand: element (l, k) lies ls·l +
// ks·k elements from src. Lanes past l1 are stored as zero.
func packPanels[T Number](dst []T, w int, src unsafe.Pointer, ls, ks, k0, k1, l0, l1 int) {
	depth := k1 - k0
	if depth == 0 {
		return
	}
	size := int(unsafe.Sizeof(*(*T)(nil)))
	e := strided.Move(size)
	for l := l0; l < l1; l += w {
		panel := dst[:w*depth]
		dst = dst[w*depth:]
		lanes := min(w, l1-l)
		if lanes < w {
			clear(panel)
		}
		e.Block(unsafe.Pointer(unsafe.SliceData(panel)), unsafe.Pointer(at[T](src, l*ls+k0*ks)),
			strided.Axis{N: lanes, Dst: size, Src: ls * size}, strided.Axis{N: depth, Dst: w * size, Src: ks * size})
	}
}
