package iter

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// An operand that a loop cannot use in place is staged. A stager divides an iteration into pieces, which are rectangles
// of elements. It copies each piece of an input into a block, a small contiguous buffer. It copies the block of an
// output back to memory. Both copies may convert the elements. For each piece of out = f(x, y), where only x is staged:
//
//	copy the piece of x to the block of x; call f(piece of out, block of x, piece of y)
//
// The walk is the loop nest over the dimensions of an iteration, fastest first. A step of the walk (eachStep) is a
// group of adjacent rows: the first dimension of the walk is along a row, and the second from row to row. If the
// columns of x, instead of its rows, are contiguous, x is transposed. A piece of long rows of float32 then has 16 rows,
// because a cache line of x has 16 elements.
//
// Meta.DType of an operand is its dtype in memory, and TargetDType the dtype in which the loop computes.

// blockBytes is the size of a block in bytes. The blocks of a few operands fit into the L1 cache.
const blockBytes = machine.BlockBytes

// stager is the state of a walk over the pieces of an iteration with staged operands.
type stager struct {
	iterator        *Iterator
	cursor          *Cursor
	blockLen        int    // number of elements of a block
	rowsPerLine     int    // minimum rows of a piece: Iterator.rowsPerLine, or 1 if it does not apply
	needsBlocks     bool   // the loop needs contiguous operands; if false, only converted operands are staged
	transposeBuffer []byte // buffer for a block that is transposed before it is converted
	nonTemporal     bool   // outputs use non-temporal stores
}

// forBlocks computes range r, which is within the iteration, with a body for contiguous blocks. If passesRows is set
// (see [Iterator.passesRows]), it calls body for each row in place. Otherwise it copies strided operands to blocks.
func (it *Iterator) forBlocks(c *Cursor, ptrs []unsafe.Pointer, r Range, passesRows bool, body rule.Block) error {
	c.ptrs = withLen(c.ptrs, len(it.operands))
	if passesRows {
		return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rowCount int) error {
			for j := range rowCount {
				for i := range addrs {
					_, rowStride := it.pieceStrides(i)
					c.ptrs[i] = unsafe.Add(addrs[i], j*rowStride)
				}
				if err := body(c.ptrs, rowLen); err != nil {
					return err
				}
			}
			return nil
		})
	}
	const needsBlocks = true
	s := it.newStager(c, needsBlocks)
	if s.nonTemporal {
		defer strided.Fence()
	}
	// eachStep calls its function for groups of rows.
	return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rowCount int) error {
		return s.eachPiece(addrs, rowLen, rowCount, func(pieceLen, pieceRows int) error {
			return body(c.ptrs, pieceLen*pieceRows)
		})
	})
}

// forConverted is ForRange for an iterator with converted operands.
func (it *Iterator) forConverted(c *Cursor, ptrs []unsafe.Pointer, r Range, loop Loop) error {
	operandCount := len(it.operands)
	c.ptrs = withLen(c.ptrs, operandCount)
	c.strides = withLen(c.strides, 2*operandCount)
	const needsBlocks = false // blocks only for converted operands
	s := it.newStager(c, needsBlocks)
	return it.eachStep(c, ptrs, r, func(addrs []unsafe.Pointer, rowLen, rowCount int) error {
		return s.eachPiece(addrs, rowLen, rowCount, func(pieceLen, pieceRows int) error {
			// c.strides has the element strides of all operands, then the row strides of all operands.
			for i := range operandCount {
				c.strides[i], c.strides[operandCount+i] = it.pieceStrides(i)
				if operand := &it.operands[i]; operand.Converted() {
					c.strides[i], c.strides[operandCount+i] = operand.TargetDType.Size(), pieceLen*operand.TargetDType.Size()
				}
			}
			return loop(c.ptrs, c.strides, pieceLen, pieceRows)
		})
	})
}

// passesRows reports whether a block function should be called for single rows in place. Rows are then contiguous
// in all operands, and so long that copying several rows into a block would be slower.
func (it *Iterator) passesRows() bool {
	if it.Converts() || len(it.walkShape) > 1 && it.walkShape[0] < shortRow {
		return false
	}
	for i := range it.operands {
		if it.walkStrides[i] != it.operands[i].Meta.DType.Size() && it.numel != 1 {
			return false
		}
	}
	return true
}

// newStager returns the stager of a walk with cursor c.
func (it *Iterator) newStager(c *Cursor, needsBlocks bool) stager {
	elemBytes := 1
	for i := range it.operands {
		elemBytes = max(elemBytes, it.operands[i].TargetDType.Size())
	}
	s := stager{iterator: it, cursor: c, blockLen: blockBytes / elemBytes, rowsPerLine: 1, needsBlocks: needsBlocks}
	if needsBlocks && !it.IsReduction() {
		s.rowsPerLine = it.rowsPerLine()
		s.nonTemporal = s.rowsPerLine > 1 && it.outputsExceedCaches()
	}
	// c.blockMemory has a block for each operand, then the transpose buffer.
	totalBytes := len(it.operands) * blockBytes
	transposeOffset := totalBytes
	if s.rowsPerLine > 1 {
		// An operand that is transposed and converted is transposed first.
		totalBytes += s.blockLen * it.maxConvertedBytes()
	}
	if len(c.blockMemory) < totalBytes {
		c.blockMemory = tensor.NewStorage(totalBytes).Bytes()
	}
	s.transposeBuffer = c.blockMemory[transposeOffset:totalBytes]
	c.filledFrom = withLen(c.filledFrom, len(it.operands))
	clear(c.filledFrom) // the blocks hold no elements yet
	return s
}

// outputsExceedCaches reports whether all outputs exceed the caches and no output is also an input.
func (it *Iterator) outputsExceedCaches() bool {
	for i := range it.outCount {
		if it.operands[i].ReadWrite || !strided.PrefersNonTemporal(it.numel*it.operands[i].Meta.DType.Size()) {
			return false
		}
	}
	return true
}

// maxConvertedBytes returns the size in bytes of the largest element in memory among converted operands.
func (it *Iterator) maxConvertedBytes() int {
	bytes := 0
	for i := range it.operands {
		if operand := &it.operands[i]; operand.Converted() {
			bytes = max(bytes, operand.Meta.DType.Size())
		}
	}
	return bytes
}

// rowsPerLine returns the number of adjacent rows that have elements in the same cache line of a transposed operand; 1
// if no operand is transposed.
func (it *Iterator) rowsPerLine() int {
	rows := 1
	if len(it.walkShape) < 2 {
		return rows
	}
	for i := range it.operands {
		if it.isTransposed(i) {
			_, rowStride := it.pieceStrides(i)
			rows = max(rows, machine.LineBytes/max(rowStride, -rowStride))
		}
	}
	return rows
}

// pieceStrides returns the strides in bytes of operand i within a piece: from element to element of a row, and from row
// to row. They are the strides of the first two dimensions of the walk.
func (it *Iterator) pieceStrides(i int) (elemStride, rowStride int) {
	return it.byteStride(0, i), it.byteStride(1, i)
}

// isTransposed reports whether adjacent rows of operand i are closer in memory than adjacent elements of a row, and
// within a cache line.
func (it *Iterator) isTransposed(i int) bool {
	elemStride, rowStride := it.pieceStrides(i)
	elemStride, rowStride = max(elemStride, -elemStride), max(rowStride, -rowStride)
	return 0 < rowStride && rowStride < machine.LineBytes && rowStride < elemStride
}

// maxPanelPieces is the maximum number of pieces (see eachPiece) of a panel. The pieces of a panel have the same
// columns and adjacent rows, and are processed one after another. In each column of the transposed operand, a piece
// reads one cache line, and the next piece of the panel reads the next line.
const maxPanelPieces = 4

// piece is a rectangle of elements: consecutive elements of consecutive rows.
type piece struct {
	firstElem int // index of the first element in each row
	firstRow  int // index of the first row
	elems     int // number of elements in each row
	rows      int // number of rows
	rowLen    int // elements per whole row of the step
}

// eachPiece cuts rowCount rows of rowLen elements into pieces, and calls compute for each piece. addrs has the address
// of the first row in each operand. A piece has pieceRows rows of pieceLen elements, and fits into a block. During the
// call of compute, s.cursor.ptrs has the addresses of the piece. Pieces are whole rows if possible. If an operand is
// transposed, a piece has as many rows as a cache line has elements. Each line is then read once. Such pieces are
// processed in panels (maxPanelPieces).
func (s stager) eachPiece(addrs []unsafe.Pointer, rowLen, rowCount int,
	compute func(pieceLen, pieceRows int) error) error {
	// Without transposed operands, a piece is several whole rows, or a part of a row.
	pieceRows, pieceLen := max(1, s.blockLen/rowLen), s.blockLen
	panelRows := pieceRows
	if lineRows := min(s.rowsPerLine, rowCount); pieceRows < lineRows {
		pieceRows, pieceLen = lineRows, s.blockLen/lineRows
		panelRows = maxPanelPieces * pieceRows
	}
	for panel := 0; panel < rowCount; panel += panelRows { // panel is the first row of the panel
		panelEnd := min(panel+panelRows, rowCount)
		for firstElem := 0; firstElem < rowLen; firstElem += pieceLen {
			for firstRow := panel; firstRow < panelEnd; firstRow += pieceRows {
				rect := piece{firstElem: firstElem, firstRow: firstRow, elems: min(pieceLen, rowLen-firstElem),
					rows: min(pieceRows, rowCount-firstRow), rowLen: rowLen}
				if err := s.runPiece(addrs, rect, compute); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// runPiece loads the inputs of a piece, calls compute and stores the outputs.
func (s stager) runPiece(addrs []unsafe.Pointer, rect piece, compute func(pieceLen, pieceRows int) error) error {
	for i := range addrs {
		s.loadPiece(i, addrs[i], rect)
	}
	if err := compute(rect.elems, rect.rows); err != nil {
		return err
	}
	for i := range s.iterator.outCount {
		s.storePiece(i, addrs[i], rect)
	}
	return nil
}

// isInPlace reports whether the elements of a piece of operand i can be passed without a copy.
func (s stager) isInPlace(i int, rect piece) bool {
	operand := &s.iterator.operands[i]
	if operand.Converted() {
		return false
	}
	if !s.needsBlocks {
		return true
	}
	size := operand.Meta.DType.Size()
	elemStride, rowStride := s.iterator.pieceStrides(i)
	// The elements of a row are contiguous, and each row begins where the previous one ends.
	return (elemStride == size || rect.elems == 1) &&
		(rect.rows == 1 || rowStride == rect.elems*size && rect.elems == rect.rowLen)
}

// block returns the address of the block of operand i.
func (s stager) block(i int) unsafe.Pointer {
	return unsafe.Pointer(&s.cursor.blockMemory[i*blockBytes])
}

// loadPiece sets s.cursor.ptrs[i] to the address of a piece of operand i. If the piece cannot be used in place, this is
// the address of the operand's block, which is filled for an input.
func (s stager) loadPiece(i int, base unsafe.Pointer, rect piece) {
	src := s.pieceAddress(i, base, rect)
	if s.isInPlace(i, rect) {
		s.cursor.ptrs[i] = src
		return
	}
	s.cursor.ptrs[i] = s.block(i)
	if isOutput := i < s.iterator.outCount; !isOutput || s.iterator.IsReduction() { // reductions also read their outputs
		s.fillBlock(i, src, rect)
	}
}

// pieceAddress returns the address of a piece of operand i in memory. base is the address of the operand's first row.
func (s stager) pieceAddress(i int, base unsafe.Pointer, rect piece) unsafe.Pointer {
	elemStride, rowStride := s.iterator.pieceStrides(i)
	return unsafe.Add(base, rect.firstElem*elemStride+rect.firstRow*rowStride)
}

// fillBlock copies a piece of operand i to the operand's block. src is the address of the piece.
func (s stager) fillBlock(i int, src unsafe.Pointer, rect piece) {
	it, operand, blockAddr := s.iterator, &s.iterator.operands[i], s.block(i)
	elemStride, rowStride := it.pieceStrides(i)
	converter := inputConversion(operand)
	if elemStride == 0 && (rowStride == 0 || rect.rows == 1) {
		// The operand is constant in the block, so the next piece with the same address (filledFrom) reuses the block.
		if s.cursor.filledFrom[i] != src {
			converter.Row(blockAddr, src, converter.DstSize, 0, s.blockLen) // fills the block: the stride in src is 0
			s.cursor.filledFrom[i] = src
		}
		return
	}
	s.cursor.filledFrom[i] = nil
	if s.rowsPerLine > 1 && operand.Converted() && it.isTransposed(i) {
		// Transpose first, then convert.
		size := operand.Meta.DType.Size()
		transposed := unsafe.Pointer(unsafe.SliceData(s.transposeBuffer))
		mover := strided.MoverOf(size)
		mover.CopyBlock(transposed, src, strided.Axis{N: rect.elems, Dst: size, Src: elemStride},
			strided.Axis{N: rect.rows, Dst: rect.elems * size, Src: rowStride})
		converter.Row(blockAddr, transposed, converter.DstSize, size, rect.elems*rect.rows)
		return
	}
	converter.CopyBlock(blockAddr, src, strided.Axis{N: rect.elems, Dst: converter.DstSize, Src: elemStride},
		strided.Axis{N: rect.rows, Dst: rect.elems * converter.DstSize, Src: rowStride})
}

// storePiece copies the block of output i to memory, unless the output was used in place.
func (s stager) storePiece(i int, base unsafe.Pointer, rect piece) {
	if s.isInPlace(i, rect) {
		return
	}
	it, operand := s.iterator, &s.iterator.operands[i]
	elemStride, rowStride := it.pieceStrides(i)
	size := operand.TargetDType.Size()
	if operand.Cast != tensor.Invalid { // results are rounded to the dtype Cast
		roundBlock(operand, s.block(i), rect.elems*rect.rows)
	}
	converter := conversion(operand.Meta.DType, operand.TargetDType)
	copyBlock := converter.CopyBlock
	if s.nonTemporal {
		copyBlock = converter.StreamBlock
	}
	copyBlock(s.pieceAddress(i, base, rect), s.block(i), strided.Axis{N: rect.elems, Dst: elemStride, Src: size},
		strided.Axis{N: rect.rows, Dst: rowStride, Src: rect.elems * size})
}
