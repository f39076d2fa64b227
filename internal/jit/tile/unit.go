package tile

import (
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
)

// General registers of the matrix unit. It requires Spec.In, so rowStepReg and rowStep3Reg, which are used only if
// Spec.In is nil, are free. scratchReg has the address of the sums after the loop over terms, when vecReg is free.
const (
	unitRowStepReg  = rowStepReg  // distance between rows of the broadcast operand
	unitTermStepReg = rowStep3Reg // distance between terms of the vector operand
	scratchReg      = vecReg
)

// unitSumRegs is the number of vector registers for sums in the epilogue.
const unitSumRegs = 28

// unitGen emits the code of the matrix unit (AMX), which multiplies matrices in tile registers. A tile of the Spec is
// larger than a tile register: its rows are divided into parts, and its terms into chunks, which fit in these registers
// (unit_split.go has an example).
type unitGen struct {
	*gen
	split unitSplit
	// Tile registers for the broadcast operand (rowTiles) and the vector operand (vecTiles) of a chunk. A run's last
	// chunk has its own registers if it is shorter, because the shape of a register is fixed for the call.
	rowTiles, vecTiles, lastRowTiles, lastVecTiles []amd64.Tile
}

// emitUnit emits the function for Spec.MatrixUnit. It has the loops of gen.emit, but a run is a loop over chunks.
func (g *gen) emitUnit() {
	x := g.newUnitGen()
	g.unitCode = x
	g.begin()
	x.configure()
	g.amd64.MoveDistance(x.split.inRowStep, unitRowStepReg)
	g.amd64.MoveDistance(x.split.vecStep, unitTermStepReg)
	g.Align(32)
	tileStart := g.NewLabel()
	g.Bind(tileStart)
	x.initSumTiles()
	g.emitKLoop()
	x.storeSumTiles()
	g.nextTile(tileStart)
	g.amd64.ReleaseTiles()
	g.Return()
}

// newUnitGen divides the tile registers among the accumulators and the two operands.
func (g *gen) newUnitGen() *unitGen {
	split, _ := g.spec.splitForUnit() // checkMatrixUnit has found no error
	created := &unitGen{gen: g, split: split}
	sums := len(split.firstRows) * g.spec.Vectors
	free := make([]amd64.Tile, 0, amd64.Tiles)
	for i := sums; i < amd64.Tiles; i++ {
		free = append(free, amd64.Tile(i))
	}
	if split.lastChunkTerms > 0 { // half of the registers for the shorter last chunks
		created.lastRowTiles, created.lastVecTiles = created.shareTiles(free[len(free)/2:])
		free = free[:len(free)/2]
	}
	created.rowTiles, created.vecTiles = created.shareTiles(free)
	return created
}

// shareTiles divides tile registers between the broadcast operand and the vector operand. Each operand gets at least
// one register. The remaining registers go first to the vector operand, up to one register for each vector, and then to
// the broadcast operand.
func (x *unitGen) shareTiles(registers []amd64.Tile) (rowTiles, vecTiles []amd64.Tile) {
	rowCount := 1
	if x.spec.Vectors < len(registers) {
		rowCount = min(len(registers)-x.spec.Vectors, len(x.split.firstRows))
	}
	return registers[:rowCount], registers[rowCount:]
}

// configure emits the configuration of the tile registers: their numbers of rows and of bytes in a row.
func (x *unitGen) configure() {
	var shapes [amd64.Tiles]amd64.TileShape
	set := func(registers []amd64.Tile, rows, rowBytes int) {
		for _, register := range registers {
			shapes[register] = amd64.TileShape{Rows: rows, RowBytes: rowBytes}
		}
	}
	x.eachSum(func(register amd64.Tile, _, _ int) {
		shapes[register] = amd64.TileShape{Rows: x.split.partRows, RowBytes: lineBytes}
	})
	set(x.rowTiles, x.split.partRows, x.split.chunkTerms*x.spec.ElemBytes)
	set(x.vecTiles, x.split.chunkTerms, lineBytes)
	set(x.lastRowTiles, x.split.partRows, x.split.lastChunkTerms*x.spec.ElemBytes)
	set(x.lastVecTiles, x.split.lastChunkTerms, lineBytes)
	x.amd64.ConfigureTiles(shapes)
}

// initSumTiles emits the initialization of the accumulators. A bias is equal for all rows. Its address has no index
// register, which would hold the distance between rows, so each row is loaded from the same memory. The memory of the
// bias must have whole vectors.
func (x *unitGen) initSumTiles() {
	if x.spec.InitialSum != FromLanes {
		x.eachSum(func(register amd64.Tile, _, _ int) { x.amd64.ClearTile(register) })
		return
	}
	x.loadAddress(Bias, tempReg)
	x.eachSum(func(register amd64.Tile, _, vector int) {
		x.amd64.LoadTile(target.Addr{Base: tempReg, Disp: vector * lineBytes}, register)
	})
}

// run emits the terms of a run.
func (x *unitGen) run(run *Run) {
	if chunks := run.Terms / x.split.chunkTerms; chunks == 1 {
		x.multiplyChunk(x.rowTiles, x.vecTiles, x.split.chunkTerms)
	} else if chunks > 1 {
		x.Move(target.Imm(chunks), countReg)
		x.Align(32)
		top := x.NewLabel()
		x.Bind(top)
		x.multiplyChunk(x.rowTiles, x.vecTiles, x.split.chunkTerms)
		x.CountDown(countReg, target.NE, top)
	}
	if lastTerms := run.Terms % x.split.chunkTerms; lastTerms > 0 {
		x.multiplyChunk(x.lastRowTiles, x.lastVecTiles, lastTerms)
	}
}

// multiplyChunk emits the products of a chunk of terms and advances the addresses. Every other part visits the vectors
// in reverse order, so that its first vector is still in a register even if all vectors share one register.
func (x *unitGen) multiplyChunk(rowTiles, vecTiles []amd64.Tile, terms int) {
	x.prefetch(terms)
	loadedRow, loadedVec := [amd64.Tiles]int{}, [amd64.Tiles]int{} // by register: 1 + the part or vector in it, or 0
	for part, row := range x.split.firstRows {
		rowTile := rowTiles[part%len(rowTiles)]
		for i := range x.spec.Vectors {
			vector := i
			if part%2 > 0 {
				vector = x.spec.Vectors - 1 - i
			}
			vecTile := vecTiles[vector%len(vecTiles)]
			if loadedRow[rowTile] != part+1 {
				x.amd64.LoadTile(target.Addr{Base: broadcastReg, Index: unitRowStepReg, Scale: 1, Disp: x.spec.In[row]}, rowTile)
				loadedRow[rowTile] = part + 1
			}
			if loadedVec[vecTile] != vector+1 {
				x.amd64.LoadTile(target.Addr{Base: vecReg, Index: unitTermStepReg, Scale: 1, Disp: vector * lineBytes}, vecTile)
				loadedVec[vecTile] = vector + 1
			}
			x.amd64.DotTiles(rowTile, vecTile, x.sumTile(part, vector))
		}
	}
	x.advance(broadcastReg, terms*x.spec.ElemBytes)
	x.advance(vecReg, terms*x.split.vecStep)
}

// prefetch emits the prefetches of a chunk: PrefetchedLines for every DefaultUnroll terms into L2, and the vectors that
// are PrefetchDistance ahead into L1.
func (x *unitGen) prefetch(terms int) {
	for i := range x.spec.PrefetchedLines * terms / DefaultUnroll {
		x.Prefetch(target.L2, target.Addr{Base: nextLineReg, Disp: i * lineBytes})
	}
	x.advance(nextLineReg, x.spec.PrefetchedLines*terms/DefaultUnroll*lineBytes)
	if x.spec.PrefetchDistance == 0 {
		return
	}
	for i := range terms {
		for vector := range x.spec.Vectors {
			offset := i*x.split.vecStep + vector*lineBytes
			x.Prefetch(target.L1, target.Addr{Base: vecReg, Disp: offset + x.spec.PrefetchDistance})
		}
	}
}

// storeSumTiles stores the accumulators: directly to the result, or to scratch memory from which the epilogue loads
// them.
func (x *unitGen) storeSumTiles() {
	spec := x.spec
	sumsAreResult := spec.Quantized == NotQuantized && len(spec.Epilogue) == 0 && spec.InitialSum != FromResult
	canStoreTiles := x.split.outRowStep != 0 && !spec.mayBePartial(x.cpu) // rows at one distance, of whole vectors
	if sumsAreResult && canStoreTiles {
		x.amd64.MoveDistance(x.split.outRowStep, countReg)
		x.eachSum(func(register amd64.Tile, row, vector int) {
			x.amd64.StoreTile(register, target.Addr{Base: outTileReg, Index: countReg, Scale: 1,
				Disp: spec.Out[row] + vector*lineBytes})
		})
		return
	}
	scratchRowBytes := spec.Vectors * lineBytes
	x.loadAddress(Scratch, scratchReg)
	x.Move(target.Imm(scratchRowBytes), countReg)
	x.eachSum(func(register amd64.Tile, row, vector int) {
		x.amd64.StoreTile(register, target.Addr{Base: scratchReg, Index: countReg, Scale: 1,
			Disp: row*scratchRowBytes + vector*lineBytes})
	})
	rowsAtOnce := unitSumRegs / spec.Vectors &^ 1 // the greatest even number of rows whose sums fit in unitSumRegs
	for row := 0; row < spec.Rows; row += rowsAtOnce {
		x.storeRows(row, min(rowsAtOnce, spec.Rows-row))
	}
}

// storeRows loads the sums of the rows from first on into vector registers, applies the epilogue and stores them. The
// methods that emit the epilogue read the fields spec and sumCount of gen, so values for only these rows replace them.
// Afterwards spec is restored; the code that is emitted later does not depend on sumCount.
func (x *unitGen) storeRows(first, rows int) {
	spec := x.spec
	rowsSpec := *spec
	rowsSpec.Rows, rowsSpec.Out = rows, spec.Out[first:first+rows]
	x.gen.spec, x.sumCount = &rowsSpec, rows*spec.Vectors
	for i := range rows {
		for vector := range spec.Vectors {
			x.Load(target.Addr{Base: scratchReg, Disp: ((first+i)*spec.Vectors + vector) * lineBytes},
				x.sumReg(i, vector), wholeVector)
		}
	}
	if spec.InitialSum == FromResult {
		x.eachResult(outTileReg, func(i, vector int, addr target.Addr) {
			x.Load(addr, x.freeRegister(0), x.isPartial(vector))
			x.amd64.AddIntegers(x.freeRegister(0), x.sumReg(i, vector))
		})
	}
	x.gen.storeResult()
	x.gen.spec = spec
}

// eachSum visits the tile registers with accumulators. row is the first row of the register's part.
func (x *unitGen) eachSum(visit func(register amd64.Tile, row, vector int)) {
	for part, row := range x.split.firstRows {
		for vector := range x.spec.Vectors {
			visit(x.sumTile(part, vector), row, vector)
		}
	}
}

// sumTile returns the tile register with the accumulators of a part and a vector.
func (x *unitGen) sumTile(part, vector int) amd64.Tile {
	return amd64.Tile(part*x.spec.Vectors + vector)
}
