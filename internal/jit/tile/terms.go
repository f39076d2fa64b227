package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
)

// rowMask returns the bit mask of the rows that have a run's terms.
func (g *gen) rowMask(r *Run) uint32 {
	if r.Rows != 0 {
		return r.Rows
	}
	return uint32(1<<g.s.Rows - 1)
}

// constantTerms emits a constant number of terms of a run. If full is true, all terms are unrolled. Otherwise they are
// in a loop that computes several terms in each iteration.
func (g *gen) constantTerms(r *Run, terms int, full bool) {
	n := g.s.unroll()
	if full {
		n = terms
	}
	trips, rest := terms/n, terms%n
	switch {
	case trips == 1:
		g.iteration(r, n)
	case trips > 1:
		g.Emit("MOVL", asm.Imm(trips), count)
		g.Align(32)
		top := g.NewLabel()
		g.Bind(top)
		g.iteration(r, n)
		g.Emit("DECQ", count)
		g.Emit("JNE", top)
	}
	if rest > 0 {
		g.terms(r, rest)
	}
}

// dynamicRun emits a run with a dynamic number of terms: an unrolled loop, and a loop over the remaining terms.
func (g *gen) dynamicRun(r *Run) {
	n := int64(g.s.unroll())
	unrolled, single, rest, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetN}, count)
	g.Emit("SUBQ", asm.Imm(n), count)
	g.Emit("JLT", rest)
	g.Align(32)
	g.Bind(unrolled)
	g.iteration(r, int(n))
	g.Emit("SUBQ", asm.Imm(n), count)
	g.Emit("JGE", unrolled)
	g.Bind(rest)
	g.Emit("ADDQ", asm.Imm(n), count)
	g.Emit("JLE", end)
	g.Align(16)
	g.Bind(single)
	g.terms(r, 1)
	g.Emit("DECQ", count)
	g.Emit("JGT", single)
	g.Bind(end)
}

// iteration emits an iteration of the k-loop: its prefetches and n terms.
func (g *gen) iteration(r *Run, n int) {
	for i := range g.s.AheadLines {
		g.Emit("PREFETCHT1", asm.Mem{Base: ahead, Disp: int32(i * lineBytes)})
	}
	g.advance(ahead, g.s.AheadLines*lineBytes)
	for i, f := range g.s.Prefetch {
		g.prefetch(i, f)
	}
	g.terms(r, n)
}

// prefetch emits the prefetches of Spec.Prefetch[i]. count, the remaining terms, selects the iterations that execute
// them; an iteration has DefaultUnroll terms.
func (g *gen) prefetch(i int, f Prefetch) {
	later := g.NewLabel()
	if f.Every > DefaultUnroll {
		g.Emit("TESTL", asm.Imm(f.Every-DefaultUnroll), count)
		g.Emit("JNE", later)
	}
	for line := range f.Lines {
		g.Emit("PREFETCHT1", asm.Mem{Base: prefetchRegs[i], Disp: int32(line * lineBytes)})
	}
	g.Emit("ADDQ", stepOf(PrefetchStep+i), prefetchRegs[i])
	g.Bind(later)
}

// terms emits n terms and advances the addresses past them.
func (g *gen) terms(r *Run, n int) {
	atIn, atVec := 0, 0
	for i := range n {
		g.term(r, atIn, atVec, i*g.s.PackStep)
		if r.InStep == Dynamic {
			for _, b := range g.rowBases() {
				g.Emit("ADDQ", inStep, b)
			}
		} else {
			atIn += r.InStep
		}
		if r.VecStep == Dynamic {
			g.Emit("ADDQ", vecStep, vec)
		} else {
			atVec += r.VecStep
		}
	}
	for _, b := range g.rowBases() {
		g.advance(b, atIn)
	}
	g.advance(vec, atVec)
	g.advance(packed, n*g.s.PackStep)
}

// term emits one term: it loads the vectors and updates the accumulators of the rows that have it.
func (g *gen) term(r *Run, atIn, atVec, atPacked int) {
	last := g.s.Vectors - 1
	for v := range g.s.Vectors {
		at := asm.Mem{Base: vec, Disp: int32(atVec + v*g.bytes)}
		g.load(at, g.vector(v), g.s.Masked && v == last)
		if g.s.PackStep != 0 {
			g.store(g.vector(v), asm.Mem{Base: packed, Disp: int32(atPacked + v*g.bytes)}, false)
		}
	}
	if g.s.PrefetchDistance != 0 {
		for d := 0; d < g.s.Vectors*g.bytes; d += lineBytes {
			g.Emit("PREFETCHT0", asm.Mem{Base: vec, Disp: int32(atVec + d + g.s.PrefetchDistance)})
		}
	}
	if g.s.hasIntSums() {
		g.integerTerm(r, atIn)
		return
	}
	fma := g.op("VFMADD231P")
	for i := range g.s.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		at := g.row(i, atIn)
		if g.broadcastRegs <= 0 {
			at.Broadcast = true
			for v := range g.s.Vectors {
				g.Emit(fma, at, g.vector(v), g.sum(i, v))
			}
			continue
		}
		x := g.nextBroadcast()
		g.Emit(g.op("VBROADCASTS"), at, x)
		for v := range g.s.Vectors {
			g.Emit(fma, x, g.vector(v), g.sum(i, v))
		}
	}
}

// nextBroadcast returns the register for the next broadcast element, in rotation.
func (g *gen) nextBroadcast() asm.Vec {
	x := g.register(g.sumCount + g.s.Vectors + g.nextBroadcastReg)
	g.nextBroadcastReg = (g.nextBroadcastReg + 1) % g.broadcastRegs
	return x
}

// integerTerm emits the multiplications of a term of bytes or words. VPDPBUSD reads its unsigned operand from a
// register, so the element is broadcast first. VPMADDWD does not add to an accumulator, so the products are added by
// another instruction.
func (g *gen) integerTerm(r *Run, atIn int) {
	last := g.s.Vectors - 1
	for i := range g.s.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		x := g.nextBroadcast()
		g.Emit("VPBROADCASTD", g.row(i, atIn), x)
		for v := range g.s.Vectors {
			if g.s.Bytes {
				g.Emit("VPDPBUSD", g.vector(v), x, g.sum(i, v))
				continue
			}
			to := x // free after the last vector
			for v < last && to == x {
				to = g.nextBroadcast()
			}
			g.Emit("VPMADDWD", g.vector(v), x, to)
			g.Emit("VPADDD", to, g.sum(i, v), g.sum(i, v))
		}
	}
}
