package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
)

// valid are the rows of a run, a bit each.
func (g *gen) valid(r *Run) uint32 {
	if r.Rows != 0 {
		return r.Rows
	}
	return uint32(1<<g.s.Rows - 1)
}

// known writes so many terms of a run, in a loop of a few or all of them.
func (g *gen) known(r *Run, terms int, full bool) {
	n := g.s.unroll()
	if full {
		n = terms
	}
	turns, rest := terms/n, terms%n
	switch {
	case turns == 1:
		g.turn(r, n)
	case turns > 1:
		g.Emit("MOVL", asm.Imm(turns), count)
		g.Align(32)
		top := g.NewLabel()
		g.Bind(top)
		g.turn(r, n)
		g.Emit("DECQ", count)
		g.Emit("JNE", top)
	}
	if rest > 0 {
		g.terms(r, rest)
	}
}

// told writes a run whose number of terms a call tells: a loop of a few, and one of single terms.
func (g *gen) told(r *Run) {
	n := int64(g.s.unroll())
	few, single, rest, end := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetN}, count)
	g.Emit("SUBQ", asm.Imm(n), count)
	g.Emit("JLT", rest)
	g.Align(32)
	g.Bind(few)
	g.turn(r, int(n))
	g.Emit("SUBQ", asm.Imm(n), count)
	g.Emit("JGE", few)
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

// turn writes the terms of a loop's turn.
func (g *gen) turn(r *Run, n int) {
	for i := range g.s.Ahead {
		g.Emit("PREFETCHT1", asm.Mem{Base: ahead, Disp: int32(i * lineBytes)})
	}
	g.advance(ahead, g.s.Ahead*lineBytes)
	for i, f := range g.s.Fetch {
		g.fetch(i, f)
	}
	g.terms(r, n)
}

// fetch asks for the next lines, in one turn of some: by how many terms are left, of which a turn has FewTerms.
func (g *gen) fetch(i int, f Fetch) {
	later := g.NewLabel()
	if f.Every > FewTerms {
		g.Emit("TESTL", asm.Imm(f.Every-FewTerms), count)
		g.Emit("JNE", later)
	}
	for line := range f.Lines {
		g.Emit("PREFETCHT1", asm.Mem{Base: fetched[i], Disp: int32(line * lineBytes)})
	}
	g.Emit("ADDQ", stepOf(FetchStep+i), fetched[i])
	g.Bind(later)
}

// terms writes n terms and moves behind them.
func (g *gen) terms(r *Run, n int) {
	atIn, atVec := 0, 0
	for i := range n {
		g.term(r, atIn, atVec, i*g.s.Keep)
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
	g.advance(kept, n*g.s.Keep)
}

// term adds one term to all sums that have it.
func (g *gen) term(r *Run, atIn, atVec, atKept int) {
	last := g.s.Vectors - 1
	for v := range g.s.Vectors {
		at := asm.Mem{Base: vec, Disp: int32(atVec + v*g.bytes)}
		g.load(at, g.vector(v), g.s.Masked && v == last)
		if g.s.Keep != 0 {
			g.store(g.vector(v), asm.Mem{Base: kept, Disp: int32(atKept + v*g.bytes)}, false)
		}
	}
	if g.s.Near != 0 {
		for d := 0; d < g.s.Vectors*g.bytes; d += lineBytes {
			g.Emit("PREFETCHT0", asm.Mem{Base: vec, Disp: int32(atVec + d + g.s.Near)})
		}
	}
	if g.s.integers() {
		g.integerTerm(r, atIn)
		return
	}
	fma := g.op("VFMADD231P")
	for i := range g.s.Rows {
		if g.valid(r)>>i&1 == 0 {
			continue
		}
		at := g.row(i, atIn)
		if g.bcasts <= 0 {
			at.Broadcast = true
			for v := range g.s.Vectors {
				g.Emit(fma, at, g.vector(v), g.sum(i, v))
			}
			continue
		}
		x := g.next()
		g.Emit(g.op("VBROADCASTS"), at, x)
		for v := range g.s.Vectors {
			g.Emit(fma, x, g.vector(v), g.sum(i, v))
		}
	}
}

// next returns the register for the next element that is broadcast.
func (g *gen) next() asm.Vec {
	x := g.register(g.sums + g.s.Vectors + g.bcast)
	g.bcast = (g.bcast + 1) % g.bcasts
	return x
}

// integerTerm is the rest of a term whose elements are four bytes or two words. The instruction for bytes takes those
// without sign from a register. That for words makes products, which are added behind it.
func (g *gen) integerTerm(r *Run, atIn int) {
	last := g.s.Vectors - 1
	for i := range g.s.Rows {
		if g.valid(r)>>i&1 == 0 {
			continue
		}
		x := g.next()
		g.Emit("VPBROADCASTD", g.row(i, atIn), x)
		for v := range g.s.Vectors {
			if g.s.Bytes {
				g.Emit("VPDPBUSD", g.vector(v), x, g.sum(i, v))
				continue
			}
			to := x // which nobody needs behind the last vector
			for v < last && to == x {
				to = g.next()
			}
			g.Emit("VPMADDWD", g.vector(v), x, to)
			g.Emit("VPADDD", to, g.sum(i, v), g.sum(i, v))
		}
	}
}
