package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
)

// rowMask returns the bit mask of the rows of the tile to which the terms of a run are added.
func (g *gen) rowMask(r *Run) uint32 {
	if r.Rows != 0 {
		return r.Rows
	}
	return uint32(1<<g.spec.Rows - 1)
}

// constantTerms emits a constant number of terms of a run. With unrollAll, all terms are unrolled. Otherwise a loop
// computes several terms in each iteration.
func (g *gen) constantTerms(r *Run, terms int, unrollAll bool) {
	perIteration := g.spec.unroll()
	if unrollAll {
		perIteration = terms
	}
	trips, rest := terms/perIteration, terms%perIteration
	switch {
	case trips == 1:
		g.iteration(r, perIteration)
	case trips > 1:
		g.Move(target.Imm(trips), countReg)
		g.Align(32)
		top := g.NewLabel()
		g.Bind(top)
		g.iteration(r, perIteration)
		g.CountDown(countReg, target.NE, top)
	}
	if rest > 0 {
		g.terms(r, rest)
	}
}

// dynamicRun emits a run with a dynamic number of terms: an unrolled loop, and a loop over the remaining terms. In the
// unrolled loop, countReg is the number of remaining terms after the current iteration, so that the loop ends when it
// becomes negative.
func (g *gen) dynamicRun(r *Run) {
	perIteration := int64(g.spec.unroll())
	unrolled, single, rest, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Move(target.Word(jit.OffsetN), countReg)
	g.AddJump(-perIteration, countReg, target.LT, rest)
	g.Align(32)
	g.Bind(unrolled)
	g.iteration(r, int(perIteration))
	g.AddJump(-perIteration, countReg, target.GE, unrolled)
	g.Bind(rest)
	g.AddJump(perIteration, countReg, target.LE, end)
	g.Align(16)
	g.Bind(single)
	g.terms(r, 1)
	g.CountDown(countReg, target.GT, single)
	g.Bind(end)
}

// iteration emits n terms, one iteration of the k-loop, and its prefetches.
func (g *gen) iteration(r *Run, n int) {
	for i := range g.spec.PrefetchedLines {
		g.Prefetch(2, target.Addr{Base: prefetchedReg, Disp: i * lineBytes})
	}
	g.advance(prefetchedReg, g.spec.PrefetchedLines*lineBytes)
	for i, prefetch := range g.spec.Prefetch {
		g.prefetch(i, prefetch)
	}
	g.terms(r, n)
}

// prefetch emits the prefetches of Spec.Prefetch[i], which execute once per Every terms. They are skipped unless
// countReg, the number of remaining terms, has zeros in all bits of Every-DefaultUnroll. Both are powers of two, so
// that this occurs in one iteration per Every terms.
func (g *gen) prefetch(i int, prefetch Prefetch) {
	skip := g.NewLabel()
	if prefetch.Every > DefaultUnroll {
		g.JumpIfBits(int64(prefetch.Every-DefaultUnroll), countReg, skip)
	}
	for line := range prefetch.Lines {
		g.Prefetch(2, target.Addr{Base: prefetchRegs[i], Disp: line * lineBytes})
	}
	g.Add(stepOf(PrefetchStep+i), prefetchRegs[i])
	g.Bind(skip)
}

// terms emits n terms and advances the addresses past them.
func (g *gen) terms(r *Run, n int) {
	inOffset, vecOffset := 0, 0
	for i := range n {
		g.term(r, inOffset, vecOffset, i*g.spec.PackStep, n-i)
		if r.InStep == Dynamic {
			for _, base := range g.rowBases() {
				g.Add(inStepReg, base)
			}
		} else {
			inOffset += r.InStep
		}
		if r.VecStep == Dynamic {
			g.Add(vecStepReg, vecReg)
		} else {
			vecOffset += r.VecStep
		}
	}
	for _, base := range g.rowBases() {
		g.advance(base, inOffset)
	}
	g.advance(vecReg, vecOffset)
	g.advance(packedReg, n*g.spec.PackStep)
}

// term emits one term: it loads the vectors and updates the accumulators of the rows that have the term. The run has
// at least termsLeft terms left.
func (g *gen) term(r *Run, inOffset, vecOffset, packedOffset, termsLeft int) {
	if !g.spec.Int8Matrix {
		g.beginTerm(r, inOffset, termsLeft)
	}
	if g.spec.hasLevels() {
		g.loadLevels(vecOffset)
	} else {
		g.loadVectors(vecOffset, packedOffset)
	}
	if g.spec.PrefetchDistance != 0 {
		for d := 0; d < g.spec.termVectors()*g.vectorBytes; d += lineBytes {
			g.Prefetch(1, target.Addr{Base: vecReg, Disp: vecOffset + d + g.spec.PrefetchDistance})
		}
	}
	switch {
	case g.spec.Int8Matrix:
		g.matrixTerm(inOffset)
		return
	case g.spec.hasIntSums() && g.amd64 != nil:
		g.integerTerm(r, inOffset)
		return
	}
	for i := range g.spec.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		if g.elementsFromMemory() {
			for v := range g.spec.Vectors {
				g.FMAMemory(g.rowAddr(i, inOffset), g.vectorReg(v), g.sumReg(i, v))
			}
			continue
		}
		x := g.element(r, i, inOffset)
		for v := range g.spec.Vectors {
			if g.spec.Int8 {
				g.Dot(x, g.vectorReg(v), g.sumReg(i, v), g.spec.SignedIn)
			} else {
				g.FMA(x, g.vectorReg(v), g.sumReg(i, v))
			}
		}
	}
}

// loadVectors loads the vectors of a term.
func (g *gen) loadVectors(offset, packedOffset int) {
	for v := range g.spec.termVectors() {
		g.Load(target.Addr{Base: vecReg, Disp: offset + v*g.vectorBytes}, g.vectorReg(v), g.spec.Masked &&
			g.isPartial(v))
		if g.spec.PackStep != 0 {
			g.Store(g.vectorReg(v), target.Addr{Base: packedReg, Disp: packedOffset + v*g.vectorBytes}, false)
		}
	}
}
