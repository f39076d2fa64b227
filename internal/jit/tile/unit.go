package tile

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
)

// Limits of the matrix unit (AMX), which multiplies matrices in 8 tile registers of 16 rows of 64 bytes. It multiplies
// groups of four bytes. In this package, a group counts as one element of an operand (ElemBytes 4). The product of two
// groups (four multiplications) counts as one term. A tile register is not the tile of a Spec. The rows of a tile are
// divided into parts, and there is a tile register with sums for each part and each vector of columns.
//
// For example, a tile has 24 rows, 2 vectors of 16 columns, and 36 terms. Its two parts have 12 rows. The four
// registers 0 to 3 have the sums: 12 rows of 16 columns each. The terms are divided into three chunks of 12 terms. For
// each chunk, the registers 4 and 5 have the broadcast operand: 12 rows of 12 terms, for each part. The registers 6 and
// 7 have the vector operand: 12 terms of 16 columns, for each vector. Four instructions multiply a chunk: one for each
// part and vector.
const (
	// UnitRows is the maximum number of rows of a tile register. A tile has up to two parts of at most UnitRows rows.
	UnitRows = 16
	// UnitTerms is the maximum number of terms of a chunk: the terms that one instruction multiplies.
	UnitTerms = 16
	// UnitVectors is the maximum number of vectors of a tile.
	UnitVectors = 2
	// UnitScratchBytes is the size of the memory for the sums of a tile.
	UnitScratchBytes = 2 * UnitRows * UnitVectors * lineBytes
	// UnitCallGroups is the maximum number of products of groups in a call. It bounds the time of a call, which
	// cannot be preempted, to 25 us at a third of the peak rate.
	UnitCallGroups = 5 << 20
	// UnitMinCallGroups is the desired minimum number of products of groups in a call. Starting a call takes 0.1 us,
	// the time of 1<<16 products, which is 6% of the time of UnitMinCallGroups products.
	UnitMinCallGroups = 1 << 20
	// UnitGrain is the speed of the matrix unit divided by the speed of vectors. A chunk of parallel work for the matrix
	// unit has at least UnitGrain times as many multiplications as a chunk for vectors.
	UnitGrain = 4
	// unitSumRegs is the number of vector registers for sums in the epilogue.
	unitSumRegs = 28
)

// unitSplit is the division of a tile's rows into parts, and of its terms into chunks, for the matrix unit. All parts
// have the same number of rows. For example, 24 rows become two parts of 12 rows, and 23 rows become the rows 0 to 11
// and the rows 11 to 22, where row 11 is computed twice. A run of 36 terms has three chunks of 12 terms. A run of 40
// terms has two chunks of 16 terms and a last chunk of 8 terms, because no three equal chunks have 40 terms.
type unitSplit struct {
	partRows       int   // number of rows of a part
	firstRows      []int // by part: its first row
	inRowStep      int   // distance in bytes between rows of the broadcast operand
	vecStep        int   // distance in bytes between terms of the vector operand
	outRowStep     int   // distance in bytes between rows of the result; 0 if it is not constant
	chunkTerms     int   // number of terms of a chunk
	lastChunkTerms int   // number of terms of a run's last chunk if it is shorter, else 0
}

// splitForUnit divides a tile for the matrix unit. The spec must have passed all other checks.
func (s *Spec) splitForUnit() (split unitSplit, err error) {
	segments := split.divideRows(s.In)
	split.setParts(segments)
	isTooShort := func(segmentRows int) bool { return segmentRows < split.partRows }
	if slices.ContainsFunc(segments, isTooShort) || len(split.firstRows) > 2 {
		return split, fmt.Errorf("tile: the matrix unit supports at most 2 parts of %d rows, of equal length; the segments "+
			"have %v rows", UnitRows, segments)
	}
	split.setOutStep(s.Out)
	return split, split.setChunks(s)
}

// divideRows divides the rows, which have the given offsets, into segments with equal distances between rows. It
// returns the number of rows of each segment. All segments have the distance of the first two rows, which divideRows
// stores in inRowStep.
func (u *unitSplit) divideRows(offsets []int) (segments []int) {
	if len(offsets) > 1 {
		u.inRowStep = offsets[1] - offsets[0]
	}
	for i := range offsets {
		if i == 0 || offsets[i]-offsets[i-1] != u.inRowStep { // a segment begins
			segments = append(segments, 0)
		}
		segments[len(segments)-1]++
	}
	return segments
}

// setParts sets partRows and firstRows. It divides each segment evenly into the fewest parts; the longest part
// determines the length of all.
func (u *unitSplit) setParts(segments []int) {
	for _, rows := range segments {
		parts := (rows + UnitRows - 1) / UnitRows
		u.partRows = max(u.partRows, (rows+parts-1)/parts)
	}
	start := 0 // first row of the segment
	for _, rows := range segments {
		for i := 0; i < rows; i += u.partRows { // the last part may overlap the previous one
			u.firstRows = append(u.firstRows, start+min(i, rows-u.partRows))
		}
		start += rows
	}
}

// setOutStep sets outRowStep from the offsets of the rows in the result. The distance must be the same for all adjacent
// rows of a part, and for all parts.
func (u *unitSplit) setOutStep(offsets []int) {
	for part, first := range u.firstRows {
		for row := first + 1; row < first+u.partRows; row++ {
			step := offsets[row] - offsets[row-1]
			if part == 0 && row == first+1 {
				u.outRowStep = step
			}
			if step != u.outRowStep {
				u.outRowStep = 0
				return
			}
		}
	}
	if u.partRows == 1 {
		u.outRowStep = lineBytes // parts have one row: any constant other than 0
	}
}

// setChunks sets chunkTerms, lastChunkTerms and vecStep. Chunks have equal lengths if this does not increase their
// number. Otherwise they have UnitTerms terms, and the last chunk of a run may be shorter. setChunks returns an error
// if the matrix unit does not support the runs.
func (u *unitSplit) setChunks(spec *Spec) error {
	u.vecStep = spec.Runs[0].VecStep
	u.chunkTerms = equalChunkTerms(spec.Runs)
	if u.chunkTerms == 0 {
		u.chunkTerms = UnitTerms
	}
	for _, run := range spec.Runs {
		lastTerms := run.Terms % u.chunkTerms
		hasOtherLastChunk := lastTerms > 0 && u.lastChunkTerms > 0 && lastTerms != u.lastChunkTerms
		if run.VecStep != u.vecStep || run.InStep != spec.ElemBytes || hasOtherLastChunk {
			return fmt.Errorf("tile: the matrix unit requires VecStep %d and InStep %d, and a common length of "+
				"the runs' last chunks if they are shorter than %d terms: the run is %+v", u.vecStep, spec.ElemBytes, u.chunkTerms,
				run)
		}
		u.lastChunkTerms = max(u.lastChunkTerms, lastTerms)
	}
	return nil
}

// equalChunkTerms returns the greatest number of terms that divides the length of each run and gives the fewest
// possible chunks, or 0 if there is none.
func equalChunkTerms(runs []Run) int {
	fewest := 0
	for _, run := range runs {
		fewest += (run.Terms + UnitTerms - 1) / UnitTerms
	}
	for terms := UnitTerms; terms > 0; terms-- {
		count := 0
		for _, run := range runs {
			if run.Terms%terms > 0 { // the number does not divide the run: a count above fewest rejects it
				count = fewest + 1
			}
			count += run.Terms / terms
		}
		if count == fewest {
			return terms
		}
	}
	return 0
}

// checkMatrixUnit returns an error if the matrix unit does not support a spec.
func (s *Spec) checkMatrixUnit() error {
	hasAllRows := func(run Run) bool { return run.Rows == 0 || run.Rows == uint32(1<<s.Rows-1) }
	isByRows := func(step EpilogueStep) bool { return step.Op == AddRows || step.Op == MulRows }
	lacksRequired := !s.Int8 || s.In == nil || s.Out == nil
	hasUnsupported := s.InitialSum == FromRows || s.Masked || s.PackedStep != 0 || len(s.Prefetch) > 0
	switch {
	case lacksRequired || hasUnsupported:
		return fmt.Errorf("tile: the matrix unit requires Int8, In and Out, and supports neither InitialSum FromRows " +
			"nor Masked, PackedStep or Prefetch")
	case s.Vectors > UnitVectors || s.Rows > 2*UnitRows:
		return fmt.Errorf("tile: %d rows of %d vectors: the matrix unit supports at most %d rows of %d vectors", s.Rows,
			s.Vectors, 2*UnitRows, UnitVectors)
	case slices.ContainsFunc(s.Epilogue, isByRows):
		return fmt.Errorf("tile: the matrix unit does not support epilogues by rows")
	}
	for _, run := range s.Runs {
		if run.Terms == Dynamic || !hasAllRows(run) {
			return fmt.Errorf("tile: the matrix unit requires a constant number of terms and all rows in each run: the run "+
				"is %+v", run)
		}
	}
	_, err := s.splitForUnit()
	return err
}

// General registers of the matrix unit. The first two replace registers for the distances between rows if Spec.In is
// nil; the matrix unit requires Spec.In. scratchReg has the address of the sums after the loop over terms, when vecReg
// is free.
const (
	unitRowStepReg  = rowStepReg  // distance between rows of the broadcast operand
	unitTermStepReg = rowStep3Reg // distance between terms of the vector operand
	scratchReg      = vecReg
)

// unitGen emits the code of the matrix unit.
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
// one register. The vectors get the others first, up to one for each vector, and then the parts.
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

// initSumTiles emits the initialization of the accumulators. A bias is equal for all rows: each row is loaded from the
// same address. The memory of the bias must have whole vectors.
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
