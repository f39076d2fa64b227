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
	return uint32(1<<g.s.Rows - 1)
}

// constantTerms emits a constant number of terms of a run. If unrollAll is true, all terms are unrolled. Otherwise they
// are in a loop that computes several terms in each iteration.
func (g *gen) constantTerms(r *Run, terms int, unrollAll bool) {
	n := g.s.unroll()
	if unrollAll {
		n = terms
	}
	trips, rest := terms/n, terms%n
	switch {
	case trips == 1:
		g.iteration(r, n)
	case trips > 1:
		g.Move(target.Imm(trips), countReg)
		g.Align(32)
		top := g.NewLabel()
		g.Bind(top)
		g.iteration(r, n)
		g.CountDown(countReg, target.NE, top)
	}
	if rest > 0 {
		g.terms(r, rest)
	}
}

// dynamicRun emits a run with a dynamic number of terms: an unrolled loop, and a loop over the remaining terms.
func (g *gen) dynamicRun(r *Run) {
	n := int64(g.s.unroll())
	unrolled, single, rest, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Move(target.Word(jit.OffsetN), countReg)
	g.AddJump(-n, countReg, target.LT, rest)
	g.Align(32)
	g.Bind(unrolled)
	g.iteration(r, int(n))
	g.AddJump(-n, countReg, target.GE, unrolled)
	g.Bind(rest)
	g.AddJump(n, countReg, target.LE, end)
	g.Align(16)
	g.Bind(single)
	g.terms(r, 1)
	g.CountDown(countReg, target.GT, single)
	g.Bind(end)
}

// iteration emits an iteration of the k-loop: its prefetches and n terms.
func (g *gen) iteration(r *Run, n int) {
	for i := range g.s.PrefetchedLines {
		g.Prefetch(2, target.Addr{Base: prefetchedReg, Disp: i * lineBytes})
	}
	g.advance(prefetchedReg, g.s.PrefetchedLines*lineBytes)
	for i, f := range g.s.Prefetch {
		g.prefetch(i, f)
	}
	g.terms(r, n)
}

// prefetch emits the prefetches of Spec.Prefetch[i], which execute once per f.Every terms. They are skipped unless
// countReg, the number of remaining terms, has zeros in all bits of f.Every-DefaultUnroll. Both are powers of two, so
// that this occurs in one iteration per f.Every terms.
func (g *gen) prefetch(i int, f Prefetch) {
	skip := g.NewLabel()
	if f.Every > DefaultUnroll {
		g.JumpIfBits(int64(f.Every-DefaultUnroll), countReg, skip)
	}
	for line := range f.Lines {
		g.Prefetch(2, target.Addr{Base: prefetchRegs[i], Disp: line * lineBytes})
	}
	g.Add(stepOf(PrefetchStep+i), prefetchRegs[i])
	g.Bind(skip)
}

// terms emits n terms and advances the addresses past them.
func (g *gen) terms(r *Run, n int) {
	inOffset, vecOffset := 0, 0
	for i := range n {
		g.term(r, inOffset, vecOffset, i*g.s.PackStep, n-i)
		if r.InStep == Dynamic {
			for _, b := range g.rowBases() {
				g.Add(inStepReg, b)
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
	for _, b := range g.rowBases() {
		g.advance(b, inOffset)
	}
	g.advance(vecReg, vecOffset)
	g.advance(packedReg, n*g.s.PackStep)
}

// term emits one term: it loads the vectors and updates the accumulators of the rows that have the term. The run has at
// least termsLeft terms left.
func (g *gen) term(r *Run, inOffset, vecOffset, packedOffset, termsLeft int) {
	if !g.s.Matrix {
		g.beginTerm(r, inOffset, termsLeft)
	}
	if g.s.hasLevels() {
		g.loadLevels(vecOffset)
	} else {
		g.loadVectors(vecOffset, packedOffset)
	}
	if g.s.PrefetchDistance != 0 {
		for d := 0; d < g.s.termVectors()*g.bytes; d += lineBytes {
			g.Prefetch(1, target.Addr{Base: vecReg, Disp: vecOffset + d + g.s.PrefetchDistance})
		}
	}
	switch {
	case g.s.Matrix:
		g.matrixTerm(inOffset)
		return
	case g.s.hasIntSums() && g.amd64 != nil:
		g.integerTerm(r, inOffset)
		return
	}
	for i := range g.s.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		if g.elementsFromMemory() {
			for v := range g.s.Vectors {
				g.FMAMemory(g.row(i, inOffset), g.vector(v), g.sum(i, v))
			}
			continue
		}
		x := g.element(r, i, inOffset)
		for v := range g.s.Vectors {
			if g.s.Bytes {
				g.Dot(x, g.vector(v), g.sum(i, v), g.s.SignedIn)
			} else {
				g.FMA(x, g.vector(v), g.sum(i, v))
			}
		}
	}
}

// loadVectors loads the vectors of a term.
func (g *gen) loadVectors(offset, packedOffset int) {
	for v := range g.s.termVectors() {
		g.Load(target.Addr{Base: vecReg, Disp: offset + v*g.bytes}, g.vector(v), g.s.Masked && g.isPartial(v))
		if g.s.PackStep != 0 {
			g.Store(g.vector(v), target.Addr{Base: packedReg, Disp: packedOffset + v*g.bytes}, false)
		}
	}
}
