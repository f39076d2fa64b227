package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
)

// This file emits runs, which are sequences of terms with constant steps ([Run]). A term is one product that is added
// to each accumulator (one index k of a matrix product). From term to term, the addresses of the broadcast operand (In)
// and of the vector operand (Vec) advance by steps, which are constants or, if they are Dynamic, in registers.
//
// Terms are unrolled, or a loop computes several terms in each iteration. With four terms in an iteration, a run of 10
// terms becomes a loop of two iterations, followed by two more terms:
//
//	countReg = 2
//	top: term, term, term, term; advance the addresses by four steps; jump to top if --countReg != 0
//	term, term

// emitConstantTerms emits a constant number of terms of a run. With unrollAll, all terms are unrolled. Otherwise a loop
// computes several terms in each iteration.
func (g *gen) emitConstantTerms(run *Run, terms int, unrollAll bool) {
	perIteration := g.spec.unroll()
	if unrollAll {
		perIteration = terms
	}
	iterations, remainingTerms := terms/perIteration, terms%perIteration
	switch {
	case iterations == 1:
		g.emitIteration(run, perIteration)
	case iterations > 1:
		g.Move(target.Imm(iterations), countReg)
		g.Align(32)
		top := g.NewLabel()
		g.Bind(top)
		g.emitIteration(run, perIteration)
		g.CountDown(countReg, target.NE, top)
	}
	if remainingTerms > 0 {
		g.emitTerms(run, remainingTerms)
	}
}

// emitDynamicRun emits a run with a dynamic number of terms: an unrolled loop, and a loop over the remaining terms. In
// the unrolled loop, countReg is the number of remaining terms after the current iteration, so that the loop ends when
// it becomes negative. AddJump adds a number to a register, and jumps if the sum compared with 0 meets the condition.
func (g *gen) emitDynamicRun(run *Run) {
	perIteration := int64(g.spec.unroll())
	unrolled, single, remainder, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Move(target.ArgsWord(jit.OffsetInnerCount), countReg)
	g.AddJump(-perIteration, countReg, target.LT, remainder)
	g.Align(32)
	g.Bind(unrolled)
	g.emitIteration(run, int(perIteration))
	g.AddJump(-perIteration, countReg, target.GE, unrolled)
	g.Bind(remainder) // undo the last subtraction: countReg is the number of remaining terms again
	g.AddJump(perIteration, countReg, target.LE, end)
	g.Align(16)
	g.Bind(single)
	g.emitTerms(run, 1)
	g.CountDown(countReg, target.GT, single)
	g.Bind(end)
}

// emitIteration emits one iteration of the k-loop: its prefetches into L2 (Spec.PrefetchedLines and Spec.Prefetch) and
// its terms.
func (g *gen) emitIteration(run *Run, terms int) {
	for i := range g.spec.PrefetchedLines {
		g.Prefetch(target.L2, target.Addr{Base: nextLineReg, Disp: i * lineBytes})
	}
	g.advance(nextLineReg, g.spec.PrefetchedLines*lineBytes)
	for i, prefetch := range g.spec.Prefetch {
		g.emitPrefetches(i, prefetch)
	}
	g.emitTerms(run, terms)
}

// emitPrefetches emits the prefetches of Spec.Prefetch[i]. They execute only if countReg & (Every-DefaultUnroll) is 0,
// where countReg is the number of remaining terms. An iteration has DefaultUnroll terms, and both numbers are powers of
// two. The mask Every-DefaultUnroll therefore selects the bits of countReg that count iterations within Every terms.
// These bits are all 0 in one iteration per Every terms. For example, with Every 16 and DefaultUnroll 4, the mask is
// 0b1100. If countReg takes the values 30, 26, 22 and 18, the bits are 0 in 18 only.
func (g *gen) emitPrefetches(i int, prefetch Prefetch) {
	skip := g.NewLabel()
	if prefetch.Every > DefaultUnroll {
		g.JumpIfBits(int64(prefetch.Every-DefaultUnroll), countReg, skip)
	}
	for line := range prefetch.Lines {
		g.Prefetch(target.L2, target.Addr{Base: prefetchListRegs[i], Disp: line * lineBytes})
	}
	g.Add(target.ArgsStep(PrefetchStep+i), prefetchListRegs[i])
	g.Bind(skip)
}

// emitTerms emits a number of terms and advances the addresses to the term after them. A constant step adds to the
// offset of the next term, and the address advances at the end. A Dynamic step advances the address after each term.
func (g *gen) emitTerms(run *Run, count int) {
	inOffset, vecOffset := 0, 0
	for i := range count {
		g.emitTerm(run, inOffset, vecOffset, i*g.spec.PackedStep, count-i)
		if run.InStep == Dynamic {
			for _, base := range g.rowBases() { // the registers with addresses of rows
				g.Add(broadcastStepReg, base)
			}
		} else {
			inOffset += run.InStep
		}
		if run.VecStep == Dynamic {
			g.Add(vecStepReg, vecReg)
		} else {
			vecOffset += run.VecStep
		}
	}
	for _, base := range g.rowBases() {
		g.advance(base, inOffset)
	}
	g.advance(vecReg, vecOffset)
	g.advance(packedReg, count*g.spec.PackedStep)
}

// emitTerm emits one term: it loads the vectors and updates the accumulators of the rows that have the term. The
// offsets are byte distances of the term from the addresses in registers. At least termsRemaining terms of the run
// remain, including this term.
func (g *gen) emitTerm(run *Run, inOffset, vecOffset, packedOffset, termsRemaining int) {
	if !g.spec.Int8Matrix { // loads elements of the broadcast operand, or selects loaded ones
		g.beginTerm(run, inOffset, termsRemaining)
	}
	if g.spec.hasLevels() { // the vector operand has quantized elements
		g.loadLevels(vecOffset)
	} else {
		g.loadVectors(vecOffset, packedOffset)
	}
	if g.spec.PrefetchDistance != 0 {
		for offset := 0; offset < g.spec.vectorsPerTerm()*g.storedVectorBytes(); offset += lineBytes {
			g.Prefetch(target.L1, target.Addr{Base: vecReg, Disp: vecOffset + offset + g.spec.PrefetchDistance})
		}
	}
	switch {
	case g.spec.Int8Matrix: // instructions that multiply matrices of bytes
		g.int8MatrixTerm(inOffset)
	case g.spec.hasIntSums() && g.amd64 != nil: // dot products of bytes or words
		g.integerTerm(run, inOffset)
	default: // floats, and dot products of bytes on arm64
		g.emitMultiplyAdds(run, inOffset)
	}
}

// emitMultiplyAdds emits the multiply-adds of a term whose vectors are loaded: for each row, its element times each
// vector.
func (g *gen) emitMultiplyAdds(run *Run, inOffset int) {
	for i := range g.spec.Rows {
		if g.rowMask(run)>>i&1 == 0 {
			continue
		}
		if g.elementsFromMemory() {
			for vector := range g.spec.Vectors {
				g.FMABroadcast(g.rowAddr(i, inOffset), g.vectorReg(vector), g.sumReg(i, vector))
			}
			continue
		}
		element := g.element(run, i, inOffset)
		for vector := range g.spec.Vectors {
			if g.spec.Int8 {
				g.Dot(element, g.vectorReg(vector), g.sumReg(i, vector), g.spec.SignedIn)
			} else {
				g.FMAElement(element, g.vectorReg(vector), g.sumReg(i, vector))
			}
		}
	}
}

// loadVectors loads the vectors of a term and, with PackedStep, stores them to the operand Packed. The offsets are the
// arguments of the same names of emitTerm.
func (g *gen) loadVectors(vecOffset, packedOffset int) {
	for vector := range g.spec.vectorsPerTerm() {
		address := target.Addr{Base: vecReg, Disp: vecOffset + vector*g.storedVectorBytes()}
		if g.spec.Half != target.NotHalf {
			g.LoadHalves(g.spec.Half, address, g.vectorReg(vector))
		} else {
			g.Load(address, g.vectorReg(vector), g.spec.Masked && g.isPartial(vector))
		}
		if g.spec.PackedStep != 0 {
			g.Store(g.vectorReg(vector), target.Addr{Base: packedReg, Disp: packedOffset + vector*g.vectorBytes},
				wholeVector)
		}
	}
}

// storedVectorBytes returns the number of bytes that a vector of the vector operand takes in memory.
func (g *gen) storedVectorBytes() int {
	if g.spec.Half != target.NotHalf {
		return g.vectorBytes / 2
	}
	return g.vectorBytes
}

// rowMask returns the bit set of the rows that have the terms of a run.
func (g *gen) rowMask(run *Run) uint32 {
	if run.Rows != 0 {
		return run.Rows
	}
	return uint32(1<<g.spec.Rows - 1)
}
