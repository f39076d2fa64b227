package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file runs the first phase of a product of byte matrices, which packs the operands and prepares sums. The second
// phase multiplies (bytes_run.go). Operand a has m rows of depth k, and operand b has n columns. A block is the range
// of columns of a register tile, and a panel is a packed block of b. With the zero points za of a row and zb of a
// column, a sum is
//
//	sum(a*b) + (bias - za*sum(b)) + (k*za - sum(a))*zb
//
// Tiles add the first term to the second, the initial sum. If rows have different za, the initial sum is the bias, and
// the conversion of sums to results subtracts za*sum(b) (SubtractsProduct). If b has zero points, the conversion adds
// the third term (AddsProduct): the row correction times zb. rowCopier copies the rows of a, and packer packs the
// blocks of b. The first phase writes to scratch memory, at scratchOffsets. aOffsets and bOffsets are the offsets of
// the matrices in the operands.

// preparePhase returns the phase that packs operands and computes the contributions of zero points and bias. Its chunks
// are chunks of the rows of operand a, then chunks of the blocks of operand b.
func (t *byteTiles) preparePhase() graph.Phase {
	rowChunks, blockChunks := 0, 0                                                           // of a matrix
	if t.rowCopier.copiesRows || t.conversion.AddsProduct || t.conversion.SubtractsProduct { // see prepareRows
		rowChunks = kit.DivUp(t.m, t.rowCopier.rowsPerChunk)
	}
	// If b is packed, the blocks of a matrix are one chunk, because only their initial sums remain to be computed.
	blocksPerChunk := t.blocks()
	if !t.isPacked {
		blocksPerChunk = max(1, machine.MoveGrain/(t.width()*t.k))
	}
	if !t.isPacked || t.hasInitialSums || t.conversion.AddsProduct { // see prepareBlock
		blockChunks = kit.DivUp(t.blocks(), blocksPerChunk)
	}
	firstBlockChunk := len(t.aOffsets) * rowChunks
	chunks := firstBlockChunk + len(t.bOffsets)*blockChunks
	return graph.Phase{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
		worker := t.workers.Get(mem)
		worker.state.Context = mem.Context
		defer worker.state.Release()
		if chunk < firstBlockChunk {
			t.prepareRows(mem, worker, chunk/rowChunks, chunk%rowChunks)
			return nil
		}
		chunk -= firstBlockChunk
		matrix, firstBlock := chunk/blockChunks, chunk%blockChunks*blocksPerChunk
		for block := firstBlock; block < min(t.blocks(), firstBlock+blocksPerChunk); block++ {
			t.prepareBlock(mem, worker, matrix, block)
		}
		return nil
	}}
}

// prepareRows copies a chunk of the rows of a matrix, and stores the zero points and row corrections of these rows. It
// skips values that are not needed.
func (t *byteTiles) prepareRows(mem *graph.Mem, worker *byteWorker, matrix, chunk int) {
	first := chunk * t.rowCopier.rowsPerChunk
	end := min(t.m, first+t.rowCopier.rowsPerChunk)
	zeroPoints := t.operand(mem, bytesAZero)
	if t.conversion.SubtractsProduct && matrix == 0 { // all matrices have the same zero points
		rowZeroPoints := kit.SliceOf[int32](mem.Scratch, t.scratchOffsets.rowZeroPoints, t.m)
		for row := first; row < end; row++ {
			rowZeroPoints[row] = t.zeroPoints.zeroPoint(bytesA, zeroPoints, row)
		}
	}
	var corrections []int32 // of the rows of the chunk; copyRows first stores the sums of the rows there
	if t.conversion.AddsProduct {
		offset := t.scratchOffsets.rowCorrections + matrix*t.m*sumBytes
		corrections = kit.SliceOf[int32](mem.Scratch, offset, t.m)[first:end]
	}
	t.rowCopier.copyRows(&worker.state, scratchAddress(mem, t.scratchOffsets.packedRows+matrix*t.m*t.rowBytes()),
		unsafe.Add(mem.Ptrs[1+bytesA], t.aOffsets[matrix]), first, end,
		unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), corrections)
	for i, sum := range corrections {
		corrections[i] = int32(t.k)*t.zeroPoints.zeroPoint(bytesA, zeroPoints, first+i) - sum
	}
}

// prepareBlock packs a block of a matrix of operand b if it is not packed yet. It also computes the initial sums of the
// block's columns, and stores the zero points of these columns.
func (t *byteTiles) prepareBlock(mem *graph.Mem, worker *byteWorker, matrix, block int) {
	if !t.isPacked {
		t.packer.packBlock(worker, t.panels(mem, matrix), unsafe.Add(mem.Ptrs[1+bytesB], t.bOffsets[matrix]),
			t.bRowStride, t.bColStride, block, unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)))
	}
	firstColumn := block * t.width()
	columns := min(t.width(), t.n-firstColumn)
	if t.hasInitialSums {
		t.storeInitialSums(mem, matrix, block, firstColumn, columns)
	}
	if t.conversion.AddsProduct && matrix == 0 { // all matrices have the same zero points
		zeroPoints := t.operand(mem, bytesBZero)
		offset := t.scratchOffsets.columnZeroPoints + firstColumn*sumBytes
		columnZeroPoints := kit.SliceOf[int32](mem.Scratch, offset, columns)
		for i := range columnZeroPoints {
			columnZeroPoints[i] = t.zeroPoints.zeroPoint(bytesB, zeroPoints, firstColumn+i)
		}
	}
}

// storeInitialSums stores the initial sums of the given columns, which are a block. An initial sum is bias - za*sum(b),
// or the bias alone if rows have different zero points za.
func (t *byteTiles) storeInitialSums(mem *graph.Mem, matrix, block, firstColumn, columns int) {
	offset := t.scratchOffsets.initialSums + (matrix*t.blocks()+block)*t.width()*sumBytes
	initialSums := kit.SliceOf[int32](mem.Scratch, offset, columns)
	columnSums := kit.ElementsOf[int32](t.columnSums(t.panels(mem, matrix), block), columns)
	aZeroPoint, bias := int32(0), t.operand(mem, bytesBias)
	if !t.conversion.SubtractsProduct { // all rows have the same zero point
		aZeroPoint = t.zeroPoints.zeroPoint(bytesA, t.operand(mem, bytesAZero), 0)
	}
	for i := range initialSums {
		initialSums[i] = -aZeroPoint * columnSums[i]
		if bias != nil {
			initialSums[i] += *(*int32)(kit.AddressOf[int32](bias, (firstColumn+i)*t.biasStride))
		}
	}
}

// panels returns the address of the panels of a matrix of operand b.
func (t *byteTiles) panels(mem *graph.Mem, matrix int) unsafe.Pointer {
	offset := matrix * t.matrixBytes()
	if t.isPacked {
		return unsafe.Add(mem.Ptrs[1+bytesB], offset)
	}
	return scratchAddress(mem, t.scratchOffsets.panels+offset)
}

// operand returns the address of an operand, or nil if the call omits it.
func (t *byteTiles) operand(mem *graph.Mem, index int) unsafe.Pointer {
	return operandAddress(t.call, mem, index)
}
