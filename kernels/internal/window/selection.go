package window

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// maxPieceElements is the maximum number of elements of a piece of a row. Copying a piece takes at most a few
// milliseconds.
const maxPieceElements = 1 << 20

// selection is the kernel of a [resampling] in which each result is a copy of one element of the operand, or
// outsideValue. Dimensions are in the order of the result's storage, so that a row, which has the elements along the
// last of them, is contiguous. For example, a row of NHWC images has the channels of a pixel. Rows are copied in pieces
// of up to maxPieceElements elements.
//
// Element (i, j) of a 2-dim result is at the byte offset tables[0][i] + tables[1][j] of the operand. If one of the two
// entries is -1, the element is outsideValue. For example, nearest-neighbour interpolation that doubles a row of 3
// float32 elements has the table 0 0 4 4 8 8 for the last dimension.
type selection struct {
	tables         []indexTable       // by dimension: byte offsets in the operand, or -1 for an index without taps
	shape          []int              // of the result
	dstStrides     []int              // of the result, in bytes
	elementSize    int                // of both, in bytes
	outsideElement []byte             // resampling.outsideValue in the dtype of the result
	rowPieces      int                // number of pieces of a row
	copyRow        tensor.ConvertFunc // copies a row if operand and result have it contiguous, else nil
}

// selectionKernel returns the kernel of a call whose resampling is a selection.
func (r *resampling) selectionKernel(c *graph.Call) *graph.Kernel {
	src, dst := c.Meta(0), c.Out[0]
	order := storageOrder(dst)
	last := order[len(order)-1]
	cols, elementSize := dst.Shape[last], dst.DType.Size()
	kernel := &graph.Kernel{}
	s := &selection{elementSize: elementSize, outsideElement: encoded(r.outsideValue, dst.DType),
		rowPieces: kit.DivUp(cols, maxPieceElements)}
	srcStrides, dstStrides := kit.ByteStrides(src), kit.ByteStrides(dst)
	for _, d := range order {
		s.shape, s.dstStrides = append(s.shape, dst.Shape[d]), append(s.dstStrides, dstStrides[d])
		s.tables = append(s.tables, newIndexTable(kernel, dst.Shape[d], func(i int) int {
			index := r.sourceIndex(d, i)
			if index < 0 {
				return -1 // not multiplied by the stride, which may be 0
			}
			return index * srcStrides[d]
		}))
	}
	if r.taps[last] == nil && srcStrides[last] == elementSize && dstStrides[last] == elementSize {
		s.copyRow = kit.RowConverter(dst.DType, src.DType)
	}
	units, unitElements := dst.Numel()/cols*s.rowPieces, min(cols, maxPieceElements)
	kernel.Phases = append(kernel.Phases, copies.ChunkedPhase(units, unitElements,
		func(mem *graph.Mem, begin, end int) error {
			for unit := begin; unit < end; unit++ {
				s.copyPiece(mem, unit/s.rowPieces, unit%s.rowPieces)
			}
			return nil
		}))
	return kernel
}

// encoded returns the bytes of a number in the given dtype.
func encoded(number float64, dtype tensor.DType) []byte {
	element := make([]byte, dtype.Size())
	convert := tensor.Converter(dtype, tensor.Float64)
	convert(unsafe.Pointer(&element[0]), unsafe.Pointer(&number), 0, 0, 1) // one element, so strides are unused
	return element
}

// copyPiece copies a piece of a row. row is the index of the row in the order of the result's storage.
func (s *selection) copyPiece(mem *graph.Mem, row, piece int) {
	last := len(s.shape) - 1
	dstRow, srcRow, isRowOutside := s.rowOffsets(mem, row)
	first := piece * maxPieceElements
	offsets := s.tables[last].indicesOf(mem)[first:min(s.shape[last], first+maxPieceElements)]
	target := unsafe.Add(mem.Ptrs[0], dstRow+first*s.dstStrides[last])
	hasOutside := isRowOutside || slices.ContainsFunc(offsets, func(offset int) bool { return offset < 0 })
	switch {
	case !hasOutside && s.copyRow != nil:
		s.copyRow(target, unsafe.Add(mem.Ptrs[1], srcRow+offsets[0]), s.elementSize, s.elementSize, len(offsets))
		return
	case !hasOutside:
		kit.GatherLoops[s.elementSize](target, unsafe.Add(mem.Ptrs[1], srcRow), s.dstStrides[last], offsets)
		return
	}
	for i, offset := range offsets {
		source := unsafe.Pointer(&s.outsideElement[0])
		if !isRowOutside && offset >= 0 {
			source = unsafe.Add(mem.Ptrs[1], srcRow+offset)
		}
		kit.CopyElement(unsafe.Add(target, i*s.dstStrides[last]), source, s.elementSize)
	}
}

// rowOffsets returns the byte offset dst of a row of the result, and the byte offset src of the operand's row from
// which it is copied. If isOutside is set, the row has no source, and src is not valid.
func (s *selection) rowOffsets(mem *graph.Mem, row int) (dst, src int, isOutside bool) {
	for d := len(s.shape) - 2; d >= 0; d-- {
		i := row % s.shape[d]
		row /= s.shape[d]
		srcOffset := s.tables[d].indicesOf(mem)[i]
		isOutside = isOutside || srcOffset < 0
		dst += i * s.dstStrides[d]
		src += srcOffset
	}
	return dst, src, isOutside
}

// sourceIndex returns the operand's index from which index i of the result is copied along dimension d. It returns -1
// if index i has no tap.
func (r *resampling) sourceIndex(d, i int) int {
	if r.taps[d] == nil {
		return i
	}
	source := -1
	r.taps[d].eachNonzero(i, func(element int, _ float64) { source = element })
	return source
}
