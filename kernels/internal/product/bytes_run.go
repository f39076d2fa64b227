package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file runs the second phase of a product of byte matrices. Operand a has m rows of depth k. Operand b has n
// columns, which the first phase has packed (bytes_prepare.go). The file uses these terms, and these fields and methods
// of byteTiles (bytes_tiled.go):
//
//	entry  one product of a batch; entry e multiplies the matrices aIndex[e] of a and bIndex[e] of b
//	tile   a rectangle of the result whose sums are in registers
//	block  the range of columns of a tile: width() columns
//	panel  a packed block of b
//	strip  a range of rows of the result, in one block: at most stripRows rows
//	group  the elements along the depth that one instruction multiplies; the depth has `groups` of them
//
// For example, with n = 64, blocks of 32 columns and strips of 100 rows, an entry with m = 200 rows has four strips:
//
//	              columns 0-31          columns 32-63
//	rows 0-99     strip 0 of block 0    strip 0 of block 1
//	rows 100-199  strip 1 of block 0    strip 1 of block 1
//
// The arguments of machine code ([jit.Args]) are addresses of operands (Ptr), byte offsets from them (Row), and strides
// or counts (Step). A tile reads the operands In (rows of a), Vec (panels of b) and Bias (initial sums), and writes Out
// (sums). The sums are then converted to results.

// multiplyPhase returns the phase that computes sums and converts them to results.
func (t *byteTiles) multiplyPhase() graph.Phase {
	return graph.Phase{Chunks: t.order.Chunks(), Run: func(mem *graph.Mem, chunk int) error {
		worker := t.workers.Get(mem)
		args := &worker.args
		t.epilogue.SetOperands(args, mem, &worker.lanes)
		if t.hasInitialSums {
			args.Ptr[tile.Bias] = scratchAddress(mem, t.scratchOffsets.initialSums)
		}
		t.setMatrixUnitArgs(mem, worker)
		err := t.order.EachUnit(chunk, func(entry, block, stripIndex int) error {
			strip := t.stripAt(mem, entry, block, stripIndex)
			if err := t.computeStrip(mem, worker, strip); err != nil {
				return err
			}
			return t.convertStrip(mem, worker, strip)
		})
		clear(args.Ptr[:])
		worker.state.Release()
		return err
	}}
}

// byteStrip is a strip of the result. Its sums are in the memory of the result or in worker memory.
type byteStrip struct {
	entry, block   int
	firstRow, rows int            // range of rows
	result         unsafe.Pointer // address of the strip in the result
	sums           unsafe.Pointer // address of the sums
	sumStride      int            // distance between rows of sums, in bytes
}

// stripAt returns the strip with the given index in a block of an entry.
func (t *byteTiles) stripAt(mem *graph.Mem, entry, block, index int) byteStrip {
	firstRow := index * t.stripRows
	strip := byteStrip{entry: entry, block: block, firstRow: firstRow, rows: min(t.m, firstRow+t.stripRows) - firstRow,
		result: unsafe.Add(mem.Ptrs[0], t.resultByteOffset(entry, firstRow, block)), sumStride: t.outStride()}
	strip.sums = strip.result
	if t.storesSums() {
		strip.sums = unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	}
	return strip
}

// computeStrip computes the sums of a strip. It multiplies at most maxCallGroups groups along the depth at a time.
func (t *byteTiles) computeStrip(mem *graph.Mem, worker *byteWorker, strip byteStrip) error {
	args := &worker.args
	t.setStripArgs(mem, args, strip)
	initialSum := t.firstInitialSum()
	for firstGroup := 0; firstGroup < t.groups; firstGroup += maxCallGroups {
		args.InnerCount = min(maxCallGroups, t.groups-firstGroup) // number of groups
		mem.CheckContextAfter(strip.rows * args.InnerCount)
		if err := t.multiplyGroups(args, strip, firstGroup, initialSum); err != nil {
			return err
		}
		initialSum = tile.FromResult // the next groups add to these sums
	}
	return nil
}

// multiplyGroups adds the products of args.InnerCount groups of the depth, from firstGroup on, to the sums of all tiles
// of a strip. The tiles of a strip form two stacks, one below the other. The tiles of a stack have equal height. A call
// of machine code computes several tiles of a stack.
func (t *byteTiles) multiplyGroups(args *jit.Args, strip byteStrip, firstGroup int, initialSum tile.InitialSum) error {
	isLastBlock := strip.block == t.blocks()-1
	rowStride := t.rowCopier.tileRowStride()
	args.Row[tile.Vec] = strip.block*t.panelBytes() + firstGroup*t.width()*t.groupBytes
	maxGroupProducts := maxCallGroupProducts // per call
	if t.usesMatrixUnit {
		maxGroupProducts = tile.UnitCallGroups
	}
	maxTiles := max(1, maxGroupProducts/(t.width()*t.height*args.InnerCount)) // per call
	for _, stack := range tileStacks(strip.rows, t.height) {
		args.Step[tile.InTile], args.Step[tile.OutTile] = stack.height*rowStride, stack.height*strip.sumStride
		for i := 0; i < stack.tiles; i += maxTiles {
			row := stack.firstRow + i*stack.height   // in the strip
			args.Rows = min(maxTiles, stack.tiles-i) // number of tiles
			args.Row[tile.In] = (strip.firstRow+row)*rowStride + firstGroup*t.groupBytes
			args.Row[tile.Out] = row * strip.sumStride
			t.epilogue.SetOffsets(args, t.resultOffset(strip.entry, strip.firstRow+row, strip.block)*sumBytes,
				strip.block*t.width()*sumBytes)
			if err := t.codes[t.codeKey(stack.height, isLastBlock, initialSum, args.InnerCount)].Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// setStripArgs sets the arguments that all calls for a strip have in common.
func (t *byteTiles) setStripArgs(mem *graph.Mem, args *jit.Args, strip byteStrip) {
	aMatrix, bMatrix, block := t.aIndex[strip.entry], t.bIndex[strip.entry], strip.block
	args.Ptr[tile.In] = unsafe.Add(mem.Ptrs[1+bytesA], t.aOffsets[aMatrix])
	if t.rowCopier.copiesRows {
		args.Ptr[tile.In] = scratchAddress(mem, t.scratchOffsets.packedRows+aMatrix*t.m*t.rowBytes())
	}
	args.Ptr[tile.Vec], args.Ptr[tile.Out] = t.panels(mem, bMatrix), strip.sums
	args.Step[tile.InRow], args.Step[tile.OutRow] = t.rowCopier.tileRowStride(), strip.sumStride
	args.Step[tile.LastLanes] = (t.n - block*t.width()) % t.lanes // columns of the last vector; 0 if it is full
	args.Row[tile.Bias] = (bMatrix*t.blocks() + block) * t.width() * sumBytes
	if t.tileConversion != tile.NotQuantized {
		args.Row[tile.Scales], args.Row[tile.ZeroPoint] = block*t.width()*sumBytes, 0
	}
	// The tiles of this strip prefetch a part of the next block's panel. A strip with a tenth of the rows prefetches a
	// tenth of the panel.
	args.Ptr[tile.Prefetched] = args.Ptr[tile.Vec]
	args.Row[tile.Prefetched] = (block+1)%t.blocks()*t.panelBytes() + strip.firstRow*t.panelBytes()/t.m
}

// convertStrip converts the sums of a strip to results. It does nothing if the sums are the results or if tiles convert
// them.
func (t *byteTiles) convertStrip(mem *graph.Mem, worker *byteWorker, strip byteStrip) error {
	switch firstColumn := strip.block * t.width(); {
	case t.requantizer != nil:
		scales := kit.AddressOf[float32](t.operand(mem, bytesScale), firstColumn)
		return t.requantizer.ConvertRows(mem, strip.result, strip.sums, scales, t.operand(mem, bytesZero),
			t.outRowStride*t.resultDType.Size(), strip.sumStride, min(t.width(), t.n-firstColumn), strip.rows)
	case t.conversionLoop != nil:
		t.runConversionLoop(mem, worker, strip)
	}
	return nil
}

// runConversionLoop converts the sums of a strip by conversionLoop. Its three optional steps ([multiply.SumConversion])
// are sum += rowCorrection * columnZeroPoint, sum -= rowZeroPoint * columnSum, and result = round(scale*sum) + zero
// point. The operands of the loop are the result, the sums, and two operands for each step, in the order of the steps.
func (t *byteTiles) runConversionLoop(mem *graph.Mem, worker *byteWorker, strip byteStrip) {
	const maxSteps = 3 // of SumConversion
	var ptrs [2 + 2*maxSteps]unsafe.Pointer
	var strides [2 + 2*maxSteps]int
	count := 0
	addOperand := func(address unsafe.Pointer, rowStride int) {
		ptrs[count], strides[count] = address, rowStride
		count++
	}
	column := strip.block * t.width()
	addOperand(strip.result, t.outRowStride*t.resultDType.Size())
	addOperand(strip.sums, strip.sumStride)
	if t.conversion.AddsProduct {
		rowIndex := t.aIndex[strip.entry]*t.m + strip.firstRow
		addOperand(scratchAddress(mem, t.scratchOffsets.rowCorrections+rowIndex*sumBytes), sumBytes)
		addOperand(scratchAddress(mem, t.scratchOffsets.columnZeroPoints+column*sumBytes), 0)
	}
	if t.conversion.SubtractsProduct {
		addOperand(scratchAddress(mem, t.scratchOffsets.rowZeroPoints+strip.firstRow*sumBytes), sumBytes)
		addOperand(t.columnSums(t.panels(mem, t.bIndex[strip.entry]), strip.block), 0)
	}
	if t.conversion.IsScaled {
		addOperand(kit.AddressOf[float32](t.operand(mem, bytesScale), column*t.scaleStep), 0)
		addOperand(t.operand(mem, bytesZero), 0)
	}
	t.conversionLoop.Run(&worker.state, ptrs[:count], strides[:count], min(t.width(), t.n-column), strip.rows)
}

// setMatrixUnitArgs sets the arguments that only tiles on the matrix unit have. It does nothing for other tiles. Worker
// memory has the sums of a strip (see storesSums), followed by the scratch memory of the tiles.
func (t *byteTiles) setMatrixUnitArgs(mem *graph.Mem, worker *byteWorker) {
	if !t.usesMatrixUnit {
		return
	}
	scratchOffset := 0
	if t.storesSums() {
		scratchOffset = t.stripRows * t.width() * sumBytes
	}
	args := &worker.args
	args.Ptr[tile.Scratch] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch)), scratchOffset)
	if t.tileConversion != tile.NotQuantized {
		worker.zeroPoint = byteAt(t.operand(mem, bytesZero), t.resultDType, 0)
		args.Ptr[tile.Scales], args.Ptr[tile.ZeroPoint] = t.operand(mem, bytesScale), unsafe.Pointer(&worker.zeroPoint)
	}
}

// storesSums reports whether the sums of a strip are stored in worker memory before they are scaled.
func (t *byteTiles) storesSums() bool {
	return t.conversion.IsScaled && t.tileConversion == tile.NotQuantized
}

// outStride returns the row stride of the tiles' output, in bytes.
func (t *byteTiles) outStride() int {
	switch {
	case t.storesSums():
		return t.width() * sumBytes
	case t.tileConversion != tile.NotQuantized:
		return t.outRowStride * t.resultDType.Size()
	}
	return t.outRowStride * sumBytes
}

// resultOffset returns the offset, in elements, of a block's first element in a row of the result.
func (t *byteTiles) resultOffset(entry, row, block int) int {
	return t.outOffsets[entry] + row*t.outRowStride + block*t.width()
}

// resultByteOffset returns resultOffset in bytes.
func (t *byteTiles) resultByteOffset(entry, row, block int) int {
	return t.resultOffset(entry, row, block) * t.resultDType.Size()
}

// scratchAddress returns the address at an offset in scratch memory, in bytes.
func scratchAddress(mem *graph.Mem, offset int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem.Scratch)), offset)
}
