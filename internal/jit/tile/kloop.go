package tile

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit/target"
)

// This file emits the k-loop of a tile, which adds in[row, term] * vec[term, lane] to the accumulators:
//
//	for each iteration of the nest of Spec.Loops
//		for each run of Spec.Runs: a sequence of terms at equal distances
//			for each term: load vectors of vec; for each row, broadcast an element of in, multiply and add
//
// During the k-loop, broadcastReg points to the current term of in, and vecReg to the current term of vec. A sum may be
// divided into blocks, which are summed separately. A block has Run.Block terms of a run, or Loop.Block iterations.
//
// The last operand of Move, Add and Lea is the destination. target.ArgsStep and target.ArgsSpill select a word of the
// call's arguments (jit.Args): ArgsStep has distances and counts, and ArgsSpill has values without a register.

// maxUnrolled is the maximum number of loads, broadcasts and multiplications of a tile whose terms are all unrolled.
const maxUnrolled = 700

// emitKLoop emits the loops and the runs of a tile.
func (g *gen) emitKLoop() {
	g.setAddresses()
	g.loadLevelAddresses() // of the scales and zero points of quantized elements
	g.emitLoop(0)
}

// emitLoop emits the loop at a depth of the nest (0 is the outermost loop), the loops inside it, and the runs. Each
// loop keeps the addresses at the start of its current iteration in spill words.
func (g *gen) emitLoop(depth int) {
	if depth == len(g.spec.Loops) {
		g.loadZeroPoints()
		g.emitRuns()
		return
	}
	loop := &g.spec.Loops[depth]
	firstWord := loopWords + wordsPerLoop*depth
	inWord, vecWord := target.ArgsSpill(firstWord), target.ArgsSpill(firstWord+1)
	tripsRemaining, blockTripsRemaining := target.ArgsSpill(firstWord+2), target.ArgsSpill(firstWord+3)
	end := g.NewLabel()
	if loop.Trips == Dynamic {
		g.Move(target.ArgsStep(LoopTrips+depth), countReg)
		g.AddJump(0, countReg, target.LE, end) // adds nothing, and jumps if there are no iterations
	} else {
		g.Move(target.Imm(loop.Trips), countReg)
	}
	g.Move(countReg, tripsRemaining)
	g.Move(broadcastReg, inWord)
	g.Move(vecReg, vecWord)
	if loop.Block > 1 { // with Block 1, every iteration ends a block
		g.Move(target.Imm(loop.Block), blockTripsRemaining)
	}
	g.Align(16)
	top := g.NewLabel()
	g.Bind(top)
	g.emitLoop(depth + 1)
	g.endIteration(loop, blockTripsRemaining)
	// The inner loops have advanced the addresses. The next iteration starts at a constant distance from the start of
	// this iteration.
	g.Move(inWord, broadcastReg)
	g.Move(vecWord, vecReg)
	g.advance(broadcastReg, loop.InStep)
	g.advance(vecReg, loop.VecStep)
	g.Move(broadcastReg, inWord)
	g.Move(vecReg, vecWord)
	g.setRowBases()
	g.CountDown(tripsRemaining, target.NE, top)
	g.Bind(end)
}

// setAddresses sets the addresses of the first term in both operands to the addresses of the tile.
func (g *gen) setAddresses() {
	g.Move(g.broadcastTileLocation(), broadcastReg)
	g.Move(vecTileReg, vecReg)
	if g.spec.PackedStep != 0 { // the tile also stores its vectors of vec in the operand Packed, for later tiles
		g.loadAddress(Packed, packedReg)
	}
	g.setRowBases()
}

// setRowBases computes the addresses of rows 5 and 10 (see rowBases) if the distance between rows is dynamic.
func (g *gen) setRowBases() {
	bases := g.rowBases()
	for i := 1; i < len(bases); i++ { // five rows after the previous base: previous + 4*step + step
		g.Lea(target.Addr{Base: bases[i-1], Index: rowStepReg, Scale: 4}, bases[i])
		g.Add(rowStepReg, bases[i])
	}
}

// emitRuns emits the runs of an iteration of the innermost loop.
func (g *gen) emitRuns() {
	isUnrolled := g.isFullyUnrolled()
	inOffset, vecOffset := 0, 0 // the distance of the addresses from the start of the iteration
	for i := range g.spec.Runs {
		run := &g.spec.Runs[i]
		for _, base := range g.rowBases() {
			g.advance(base, run.In-inOffset)
		}
		g.advance(vecReg, run.Vec-vecOffset)
		switch {
		case run.Terms == Dynamic:
			g.emitDynamicRun(run)
			return // a run with Dynamic fields is the only one
		case g.unitCode != nil: // Spec.MatrixUnit
			g.unitCode.run(run)
		case run.Block > 0:
			g.emitBlockedRun(run)
		default:
			g.emitConstantTerms(run, run.Terms, isUnrolled)
		}
		inOffset, vecOffset = run.In+run.Terms*run.InStep, run.Vec+run.Terms*run.VecStep
	}
}

// isFullyUnrolled reports whether all terms are unrolled. The numbers of terms must be constants, and there must be at
// most maxUnrolled instructions. Blocks, a number of terms per iteration (Unroll) and prefetches in each iteration
// (PrefetchedLines) require a loop.
func (g *gen) isFullyUnrolled() bool {
	instructions := 0
	for _, run := range g.spec.Runs {
		if run.Terms == Dynamic || run.Block > 0 {
			return false
		}
		// A term loads its vectors. Each row broadcasts an element and has a multiplication for each vector.
		instructions += run.Terms * (g.spec.Vectors + bits.OnesCount32(g.rowMask(&run))*(1+g.spec.Vectors))
	}
	return instructions <= maxUnrolled && g.spec.Unroll == 0 && g.spec.PrefetchedLines == 0
}

// rowBases lists the registers with the addresses of rows 0, 5 and 10, if the tile has these rows. Each register is the
// base of up to five rows, because an address can add 0, 1, 2 or 4 times rowStepReg, or rowStep3Reg. Rows at constant
// offsets need only the first register.
func (g *gen) rowBases() []target.GReg {
	bases := []target.GReg{broadcastReg, broadcastRow5Reg, broadcastRow10Reg}
	if g.spec.In != nil { // rows at constant offsets
		return bases[:1]
	}
	return bases[:(g.spec.Rows+4)/5] // rounded up: each base has five rows
}

// rowAddr returns the address of row i in the broadcast operand, disp bytes after the current term. A row at a dynamic
// distance has the address of row 5*(i/5), plus i%5 times the distance.
func (g *gen) rowAddr(i, disp int) target.Addr {
	if g.spec.In != nil {
		return target.Addr{Base: broadcastReg, Disp: g.spec.In[i] + disp}
	}
	addr := target.Addr{Base: g.rowBases()[i/5], Disp: disp}
	switch i % 5 {
	case 1, 2, 4:
		addr.Index, addr.Scale = rowStepReg, uint8(i%5)
	case 3:
		addr.Index, addr.Scale = rowStep3Reg, 1
	}
	return addr
}
