package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// PackFunc packs panels of an operand that is not stored as a matrix, such as the implicit im2col matrix of a
// convolution. For lanes l in [l0, l1) (rows of A or columns of B) and depths k in [k0, k1) it stores element (l, k)
// at
//
//	dst[(l-l0)/W*W*(k1-k0) + (k-k0)*W + (l-l0)%W]
//
// Indices of dst count elements here. W is the width of a panel: Plan.PackRows for A and Plan.PackCols for B. l0 is a
// multiple of W. dst has whole panels. In the last panel, lanes from l1 on need not be written, because no element of C
// depends on them. Calls may be concurrent if the caller runs tiles concurrently.
type PackFunc func(dst []byte, k0, k1, l0, l1 int)

// PackA packs the m×k matrix at src, with the strides rowStride and colStride in elements, into
// dst[:PackedABytes(dtype, m, k)], for an operand whose Source is Prepacked. Products read a dst faster if it is
// aligned to 64 bytes. The format depends on the CPU, so dst must not be written to files.
func PackA(dtype tensor.DType, dst []byte, src unsafe.Pointer, m, k, rowStride, colStride int) {
	PackPanels(dtype, dst, kernelsOf(dtype).mr, src, k, m, colStride, rowStride) // as the transposed k×m matrix
}

// PackB packs the k×n matrix at src, with the strides rowStride and colStride in elements, into
// dst[:PackedBBytes(dtype, k, n)]; see PackA.
func PackB(dtype tensor.DType, dst []byte, src unsafe.Pointer, k, n, rowStride, colStride int) {
	PackPanels(dtype, dst, kernelsOf(dtype).nr, src, k, n, rowStride, colStride)
}

// PackPanels packs B as PackB does, into panels of `width` columns. width must equal the Panel of
// the [Operand] that will have dst. With exchanged strides, PackPanels packs A.
func PackPanels(dtype tensor.DType, dst []byte, width int, src unsafe.Pointer, k, n, rowStride, colStride int) {
	elemBytes := dtype.Size()
	panels := dst[:roundUp(n, width)*k*elemBytes]
	packPanels(elemBytes, panels, width, src, colStride, rowStride, 0, k, 0, n) // all terms and lanes
}

// packPanels packs a strided operand into panels of the given width, as a [PackFunc] does for other operands. Element
// (l, k) is at distance laneStride·l + termStride·k from src, in elements. In the last panel, lanes from l1 on become
// zero.
func packPanels(elemBytes int, dst []byte, width int, src unsafe.Pointer, laneStride, termStride, k0, k1, l0, l1 int) {
	depth := k1 - k0
	if depth == 0 {
		return
	}
	mover, panelBytes := strided.MoverOf(elemBytes), width*depth*elemBytes
	for lane := l0; lane < l1; lane += width {
		panel := dst[:panelBytes]
		dst = dst[panelBytes:]
		lanes := min(width, l1-lane)
		if lanes < width {
			clear(panel)
		}
		laneSrc := unsafe.Add(src, (lane*laneStride+k0*termStride)*elemBytes)
		mover.CopyBlock(unsafe.Pointer(unsafe.SliceData(panel)), laneSrc,
			strided.Axis{N: lanes, Dst: elemBytes, Src: laneStride * elemBytes},
			strided.Axis{N: depth, Dst: width * elemBytes, Src: termStride * elemBytes})
	}
}

// PackedABytes returns the size in bytes of PackA's result for an m×k matrix.
func PackedABytes(dtype tensor.DType, m, k int) int {
	return roundUp(m, kernelsOf(dtype).mr) * k * dtype.Size()
}

// PackedBBytes returns the size in bytes of PackB's result for a k×n matrix.
func PackedBBytes(dtype tensor.DType, k, n int) int {
	return roundUp(n, kernelsOf(dtype).nr) * k * dtype.Size()
}

// Interleave stores runs[l][k] as element dst[k*width+l], for k < depth and l < len(runs) <= width. A nil run counts as
// zeros. Interleave is the inner step of a PackFunc whose lanes are contiguous along K, such as pixels of an NHWC
// image. dst may be a part of a panel. elemBytes is the number of bytes of an element.
func Interleave(elemBytes int, dst []byte, width int, runs []unsafe.Pointer, depth int) {
	if depth == 0 || len(runs) == 0 {
		return
	}
	dst = dst[:((depth-1)*width+len(runs))*elemBytes]
	strided.Interleave(elemBytes, unsafe.Pointer(unsafe.SliceData(dst)), width*elemBytes, runs, depth)
}

// roundUp returns the least multiple of b that is at least a.
func roundUp(a, b int) int { return ceilDiv(a, b) * b }

// ceilDiv returns a/b rounded up.
func ceilDiv(a, b int) int { return (a + b - 1) / b }
