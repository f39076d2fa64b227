package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// levelStrip is the part of the result in a band of rows and in the columns of one panel. A level is a packed integer
// of the weight (see [levelShape]). A term is an index of the depth k, and a block is a range of terms with the same
// scale. Elements of operand, result and bias are float32. For example, with 300 rows, bands of 100 rows, and panels of
// 64 columns, the strip with panel 1 and first row 100 has rows 100 to 199 and columns 64 to 127.
//
// Register tiles divide the rows of a strip. A tile multiplies rows of the input (In) by a panel (Vec), from the
// addresses in Ptr, at the byte offsets in Row, and with the strides and counts in Step. A panel stores levels as
// [term][column], and scales and zero points as [block][column].
type levelStrip struct {
	*levelProduct
	panel          int // index of the panel
	firstRow, rows int
	columns        int            // number of columns: the panel's width, or fewer in the last panel
	dst            unsafe.Pointer // address of the strip in the result or, if columns < width, in worker memory
	dstRowStride   int            // bytes between rows at dst
	bias           unsafe.Pointer // bias of the columns, or nil
	converted      unsafe.Pointer // worker memory for converted levels
}

// newStrip returns the strip of a panel and of the band that begins at firstRow. The last panel may extend beyond the
// last column. Its tiles write to worker memory, and read a padded copy of the bias. Worker memory has the copy of the
// bias, the results of this panel, and converted levels.
func (p *levelProduct) newStrip(mem *graph.Mem, panel, firstRow int, bias unsafe.Pointer) levelStrip {
	firstColumn := panel * p.width()
	strip := levelStrip{levelProduct: p, panel: panel, firstRow: firstRow, rows: min(p.bandRows, p.m-firstRow),
		columns: min(p.width(), p.n-firstColumn), dstRowStride: floatBytes * p.n,
		dst: kit.AddressOf[float32](mem.Ptrs[0], firstRow*p.n+firstColumn)}
	if bias != nil {
		strip.bias = kit.AddressOf[float32](bias, firstColumn)
	}
	memory := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	biasBytes := kit.AlignUp(floatBytes * p.width())
	strip.converted = unsafe.Add(memory, biasBytes+floatBytes*p.bandRows*p.width())
	if strip.columns < p.width() {
		strip.dst, strip.dstRowStride = unsafe.Add(memory, biasBytes), floatBytes*p.width()
		if bias != nil {
			padded := kit.ElementsOf[float32](memory, p.width())
			clear(padded)
			copy(padded, kit.ElementsOf[float32](strip.bias, strip.columns))
			strip.bias = memory
		}
	}
	return strip
}

// compute computes the strip.
func (strip *levelStrip) compute(mem *graph.Mem, worker *levelWorker) error {
	if strip.algorithm == thinLevels {
		return strip.multiplyLevels(mem, worker)
	}
	return strip.multiplyConverted(mem, worker)
}

// multiplyLevels computes the strip by tiles that read levels.
func (strip *levelStrip) multiplyLevels(mem *graph.Mem, worker *levelWorker) error {
	strip.bindOperands(mem, worker)
	args := &worker.args
	args.Ptr[tile.Vec] = strip.panelAddress(mem, blocksWeight, strip.panel)
	args.Ptr[tile.LevelScales] = strip.panelAddress(mem, blocksScale, strip.panel)
	args.Ptr[tile.LevelZeros] = strip.panelAddress(mem, blocksZero, strip.panel)
	args.Rows = 1                                                   // number of tiles of a call
	for _, stack := range tileStacks(strip.rows, strip.maxHeight) { // a stack has tiles of equal height
		for i := range stack.tiles {
			if err := strip.multiplyTile(mem, worker, stack.firstRow+i*stack.height, stack.height); err != nil {
				return err
			}
		}
	}
	return nil
}

// multiplyTile computes the tile that begins at a row of the strip and has the given height. A call of code multiplies
// some whole blocks of the depth, or the shorter last block.
func (strip *levelStrip) multiplyTile(mem *graph.Mem, worker *levelWorker, row, height int) error {
	args := &worker.args
	// levelCallMACs bounds the number of multiplications of a call, so that a call takes less than 50 us.
	maxCallBlocks := max(1, levelCallMACs/(strip.maxHeight*strip.width()*strip.blockElements))
	wholeBlocks, nextBlock := strip.k/strip.blockElements, 0
	for block := 0; block < strip.blocks; block = nextBlock {
		firstTerm, terms := block*strip.blockElements, strip.blockElements
		nextBlock = min(block+maxCallBlocks, wholeBlocks)
		if block == wholeBlocks { // the shorter last block
			terms, nextBlock = strip.k-firstTerm, block+1
		}
		const panelColumn = 0 // a tile has all columns of the panel
		strip.setOffsets(worker, row, firstTerm, panelColumn)
		args.Row[tile.Vec] = firstTerm * strip.termBytes()
		args.Row[tile.LevelScales], args.Row[tile.LevelZeros] = block*strip.width()*floatBytes, block*strip.width()
		args.Step[tile.LoopTrips] = nextBlock - block
		mem.CheckContextAfter(2 * height * (nextBlock - block) * terms * strip.width())
		key := levelCodeKey{rows: height, terms: terms, initialSum: strip.initialSum(firstTerm),
			isLast: nextBlock == strip.blocks}
		if err := strip.codes[key].Call(args); err != nil {
			return err
		}
	}
	return nil
}

// multiplyConverted computes the strip by tiles that read levels converted to float32. It converts and multiplies
// levelTerms terms at a time. A call of code computes tiles of equal height.
func (strip *levelStrip) multiplyConverted(mem *graph.Mem, worker *levelWorker) error {
	strip.bindOperands(mem, worker)
	args := &worker.args
	args.Ptr[tile.Vec] = strip.converted
	for firstTerm := 0; firstTerm < strip.k; firstTerm += levelTerms {
		args.InnerCount = min(levelTerms, strip.k-firstTerm) // number of terms
		strip.convertTerms(mem, worker, firstTerm, args.InnerCount)
		tileColumns := strip.tileVectors() * strip.lanes
		for column := 0; column < strip.width(); column += tileColumns {
			if err := strip.multiplyColumns(mem, worker, firstTerm, column, tileColumns); err != nil {
				return err
			}
		}
	}
	return nil
}

// multiplyColumns multiplies args.InnerCount converted terms, from firstTerm on, for one column of tiles. These tiles
// have tileColumns columns of the panel, from the given column on.
func (strip *levelStrip) multiplyColumns(mem *graph.Mem, worker *levelWorker,
	firstTerm, column, tileColumns int) error {
	args := &worker.args
	args.Row[tile.Vec] = floatBytes * column
	maxTiles := max(1, levelCallMACs/(strip.maxHeight*tileColumns*args.InnerCount))
	for _, stack := range tileStacks(strip.rows, strip.maxHeight) {
		key := levelCodeKey{rows: stack.height, initialSum: strip.initialSum(firstTerm),
			isLast: firstTerm+args.InnerCount == strip.k}
		args.Step[tile.InTile] = floatBytes * stack.height * strip.k
		args.Step[tile.OutTile] = stack.height * strip.dstRowStride
		for i := 0; i < stack.tiles; i += maxTiles {
			args.Rows = min(maxTiles, stack.tiles-i) // number of tiles
			strip.setOffsets(worker, stack.firstRow+i*stack.height, firstTerm, column)
			mem.CheckContextAfter(2 * stack.height * args.Rows * args.InnerCount * tileColumns)
			if err := strip.codes[key].Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertTerms converts the levels of termCount terms of a panel, from firstTerm on, to float32 in worker memory.
func (strip *levelStrip) convertTerms(mem *graph.Mem, worker *levelWorker, firstTerm, termCount int) {
	levels := strip.panelAddress(mem, blocksWeight, strip.panel)
	scales := strip.panelAddress(mem, blocksScale, strip.panel)
	zeros := strip.panelAddress(mem, blocksZero, strip.panel)
	// In a panel of 4-bit levels, a byte has the levels of two columns, one in each half of the panel. A separate loop
	// converts each half.
	width := strip.width()
	loopCount, loopColumns := 1, width
	if strip.levelBits() == 4 {
		loopCount, loopColumns = 2, width/2
	}
	for term := firstTerm; term < firstTerm+termCount; {
		block := term / strip.blockElements
		terms := min(firstTerm+termCount, (block+1)*strip.blockElements) - term // up to the end of the block
		for i := range loopCount {
			first := i * loopColumns
			// The operands are the converted levels, the levels, the scales and the zero points.
			ptrs := [4]unsafe.Pointer{kit.AddressOf[float32](strip.converted, (term-firstTerm)*width+first),
				unsafe.Add(levels, term*strip.termBytes()), kit.AddressOf[float32](scales, block*width+first)}
			strides := [4]int{floatBytes * width, strip.termBytes()} // between terms; 0 for scales and zero points
			operandCount := 3
			if strip.hasZeros {
				ptrs[3], operandCount = unsafe.Add(zeros, block*width+first), 4
			}
			strip.converters[i].Run(&worker.state, ptrs[:operandCount], strides[:operandCount], loopColumns, terms)
		}
		term += terms
	}
}

// bindOperands sets the addresses of the operands of all tiles. Ptrs has the result, then the operands of the call.
// blocksInput is the operand index of the input.
func (strip *levelStrip) bindOperands(mem *graph.Mem, worker *levelWorker) {
	args := &worker.args
	args.Ptr[tile.In], args.Ptr[tile.Out], args.Ptr[tile.Bias] = mem.Ptrs[1+blocksInput], strip.dst, strip.bias
	args.Step[tile.InRow], args.Step[tile.OutRow] = floatBytes*strip.k, strip.dstRowStride
	args.Row[tile.Bias] = 0
}

// setOffsets sets the offsets of a tile that begins at a row of the strip and a column of the panel, and multiplies
// terms from firstTerm on.
func (strip *levelStrip) setOffsets(worker *levelWorker, row, firstTerm, panelColumn int) {
	args, column := &worker.args, strip.panel*strip.width()+panelColumn
	args.Row[tile.In] = floatBytes * ((strip.firstRow+row)*strip.k + firstTerm)
	args.Row[tile.Out] = row*strip.dstRowStride + floatBytes*panelColumn
	args.Row[tile.Bias] = floatBytes * panelColumn
	strip.epilogue.SetOffsets(args, floatBytes*((strip.firstRow+row)*strip.n+column), floatBytes*column)
}

// copyResult copies the strip from worker memory to the result if its panel extends beyond the last column.
func (strip *levelStrip) copyResult(mem *graph.Mem) {
	if strip.columns == strip.width() {
		return
	}
	for row := range strip.rows {
		result := kit.AddressOf[float32](mem.Ptrs[0], (strip.firstRow+row)*strip.n+strip.panel*strip.width())
		src := unsafe.Add(strip.dst, row*strip.dstRowStride)
		copy(kit.ElementsOf[float32](result, strip.columns), kit.ElementsOf[float32](src, strip.columns))
	}
}
