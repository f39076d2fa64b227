package product

import (
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// levelPart is the part of the result in a band of rows and in the columns of one panel. A level is a packed integer of
// the weight (see [levelShape]). A term is an index of the depth k, and a block is a range of terms with the same
// scale. Elements of operand, result and bias are float32, of 4 bytes. For example, with 300 rows, bands of 100 rows,
// and panels of 64 columns, the part with panel 1 and row 100 has the rows 100 to 199 and the columns 64 to 127.
type levelPart struct {
	*levelProduct
	panel     int            // index of the panel
	row, rows int            // first row; number of rows
	columns   int            // number of columns: the panel's width, or fewer in the last panel
	dst       unsafe.Pointer // address of the part's first element in the result or, if columns < width, in worker memory
	rowStep   int            // bytes between rows at dst
	bias      unsafe.Pointer // bias of the columns, or nil
	converted unsafe.Pointer // worker memory for converted levels
}

// newPart returns the part of a panel in the band that begins at a row. The last panel may extend beyond the last
// column. Its tiles write to worker memory, and read a padded copy of the bias. Worker memory has the copy of the bias,
// the results of this panel, and converted levels.
func (p *levelProduct) newPart(mem *graph.Mem, panel, row int, bias unsafe.Pointer) levelPart {
	firstColumn := panel * p.width()
	part := levelPart{levelProduct: p, panel: panel, row: row, rows: min(p.bandRows, p.m-row),
		columns: min(p.width(), p.n-firstColumn), rowStep: 4 * p.n,
		dst: kit.AddressOf[float32](mem.Ptrs[0], row*p.n+firstColumn)}
	if bias != nil {
		part.bias = kit.AddressOf[float32](bias, firstColumn)
	}
	memory := unsafe.Pointer(unsafe.SliceData(mem.WorkerScratch))
	biasBytes := kit.AlignUp(4 * p.width())
	part.converted = unsafe.Add(memory, biasBytes+4*p.bandRows*p.width())
	if part.columns < p.width() {
		part.dst, part.rowStep = unsafe.Add(memory, biasBytes), 4*p.width()
		if bias != nil {
			padded := kit.ElementsOf[float32](memory, p.width())
			clear(padded)
			copy(padded, kit.ElementsOf[float32](part.bias, part.columns))
			part.bias = memory
		}
	}
	return part
}

// multiplyLevels computes the part by tiles that read levels. A call of code computes one tile for some blocks of the
// depth, which all have part.blockElements terms, or for the shorter last block.
func (part *levelPart) multiplyLevels(mem *graph.Mem, worker *levelWorker) error {
	part.bind(mem, worker)
	args := &worker.args
	args.Ptr[tile.Vec], args.Ptr[tile.LevelScales] = part.levelProduct.panel(mem, blocksWeight, part.panel),
		part.levelProduct.panel(mem, blocksScale, part.panel)
	args.Ptr[tile.LevelZeros], args.Rows = part.levelProduct.panel(mem, blocksZero, part.panel), 1
	callBlocks := max(1, levelCallMACs/(part.maxHeight*part.width()*part.blockElements))
	wholeBlocks := part.k / part.blockElements
	height, tallTiles := part.tileHeights(part.rows)
	for row := 0; row < part.rows; row += height {
		if tallTiles == 0 { // all tiles of the greater height are computed
			height--
		}
		tallTiles--
		for block := 0; block < part.blocks; {
			firstTerm, terms, count := block*part.blockElements, part.blockElements, min(callBlocks, wholeBlocks-block)
			if block == wholeBlocks { // the shorter last block
				terms, count = part.k-firstTerm, 1
			}
			part.setOffsets(worker, row, firstTerm, 0)
			args.Row[tile.Vec] = firstTerm * part.termBytes()
			args.Row[tile.LevelScales], args.Row[tile.LevelZeros] = block*part.width()*4, block*part.width()
			args.Step[tile.LoopTrips] = count
			block += count
			mem.CheckContextAfter(2 * height * count * terms * part.width())
			key := levelCodeKey{rows: height, terms: terms, initialSum: part.initialSum(firstTerm), isLast: block == part.blocks}
			if err := part.codes[key].Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// multiplyConverted computes the part by tiles that read levels converted to float32. It converts and multiplies
// levelTerms terms at a time. A call of code computes tiles of equal height.
func (part *levelPart) multiplyConverted(mem *graph.Mem, worker *levelWorker) error {
	part.bind(mem, worker)
	args := &worker.args
	args.Ptr[tile.Vec] = part.converted
	for firstTerm := 0; firstTerm < part.k; firstTerm += levelTerms {
		args.InnerCount = min(levelTerms, part.k-firstTerm)
		part.convertTerms(mem, worker, firstTerm, args.InnerCount)
		tileColumns := part.tileVectors() * part.lanes
		for column := 0; column < part.width(); column += tileColumns {
			if err := part.multiplyColumns(mem, worker, firstTerm, column, tileColumns); err != nil {
				return err
			}
		}
	}
	return nil
}

// multiplyColumns multiplies the converted terms, which begin at firstTerm, for the columns of one column of tiles.
func (part *levelPart) multiplyColumns(mem *graph.Mem, worker *levelWorker, firstTerm, column, tileColumns int) error {
	args := &worker.args
	args.Row[tile.Vec] = 4 * column
	maxTiles := max(1, levelCallMACs/(part.maxHeight*tileColumns*args.InnerCount))
	height, tiles := part.tileHeights(part.rows)
	for row := 0; row < part.rows; row += args.Rows * height {
		if tiles == 0 { // all tiles of the greater height are computed
			height--
			tiles = (part.rows - row) / height
		}
		args.Rows = min(tiles, maxTiles)
		tiles -= args.Rows
		args.Step[tile.InTile], args.Step[tile.OutTile] = 4*height*part.k, height*part.rowStep
		part.setOffsets(worker, row, firstTerm, column)
		mem.CheckContextAfter(2 * height * args.Rows * args.InnerCount * tileColumns)
		key := levelCodeKey{rows: height, initialSum: part.initialSum(firstTerm), isLast: firstTerm+args.InnerCount == part.k}
		if err := part.codes[key].Call(args); err != nil {
			return err
		}
	}
	return nil
}

// convertTerms converts the levels of termCount terms of a panel, from firstTerm on, to float32 in worker memory.
func (part *levelPart) convertTerms(mem *graph.Mem, worker *levelWorker, firstTerm, termCount int) {
	levels := part.levelProduct.panel(mem, blocksWeight, part.panel)
	scales := part.levelProduct.panel(mem, blocksScale, part.panel)
	zeros := part.levelProduct.panel(mem, blocksZero, part.panel)
	// A panel of 4-bit levels has two columns per byte, which are converted by two loops: one for each half of the
	// panel.
	width, columns := part.width(), part.width() // columns is the number of columns that one loop converts
	if part.levelBits() == 4 {
		columns /= 2
	}
	for term := firstTerm; term < firstTerm+termCount; {
		block := term / part.blockElements
		terms := min(firstTerm+termCount, (block+1)*part.blockElements) - term
		for half := range part.width() / columns {
			first := half * columns
			ptrs := [4]unsafe.Pointer{kit.AddressOf[float32](part.converted, (term-firstTerm)*width+first),
				unsafe.Add(levels, term*part.termBytes()), kit.AddressOf[float32](scales, block*width+first)}
			strides := [4]int{4 * width, part.termBytes()}
			operandCount := 3
			if part.hasZeros {
				ptrs[3], operandCount = unsafe.Add(zeros, block*width+first), 4
			}
			part.converters[half].Run(&worker.state, ptrs[:operandCount], strides[:operandCount], columns, terms)
		}
		term += terms
	}
}

// conversionOperands returns the names and dtypes of the operands of loops that convert levels.
func (p *levelProduct) conversionOperands() ([]string, []tensor.DType) {
	names, types := []string{"q", "scale"}, []tensor.DType{tensor.Int8, tensor.Float32}
	if p.hasZeros {
		names, types = append(names, "zero"), append(types, tensor.Int8)
	}
	return names, types
}

// bind sets the addresses of the operands of all tiles.
func (part *levelPart) bind(mem *graph.Mem, worker *levelWorker) {
	args := &worker.args
	args.Ptr[tile.In], args.Ptr[tile.Out], args.Ptr[tile.Bias] = mem.Ptrs[1+blocksInput], part.dst, part.bias
	args.Step[tile.InRow], args.Step[tile.OutRow] = 4*part.k, part.rowStep
	args.Row[tile.Bias] = 0
}

// setOffsets sets the offsets of a tile that begins at a row of the part and a column of the panel, and multiplies
// terms from firstTerm on.
func (part *levelPart) setOffsets(worker *levelWorker, row, firstTerm, panelColumn int) {
	args, column := &worker.args, part.panel*part.width()+panelColumn
	args.Row[tile.In], args.Row[tile.Out] = 4*((part.row+row)*part.k+firstTerm), row*part.rowStep+4*panelColumn
	args.Row[tile.Bias] = 4 * panelColumn
	part.epilogue.SetOffsets(args, 4*((part.row+row)*part.n+column), 4*column)
}

// initialSum returns the initial values of the sums for a tile that multiplies terms from firstTerm on.
func (part *levelPart) initialSum(firstTerm int) tile.InitialSum {
	switch {
	case firstTerm > 0:
		return tile.FromResult
	case part.hasBias:
		return tile.FromLanes
	}
	return tile.Zero
}

// copyResult copies the part from worker memory to the result if its panel extends beyond the last column.
func (part *levelPart) copyResult(mem *graph.Mem) {
	if part.columns == part.width() {
		return
	}
	for row := range part.rows {
		result := kit.AddressOf[float32](mem.Ptrs[0], (part.row+row)*part.n+part.panel*part.width())
		copy(kit.ElementsOf[float32](result, part.columns), kit.ElementsOf[float32](unsafe.Add(part.dst, row*part.rowStep),
			part.columns))
	}
}
