package tile

import (
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// General registers. The addresses of the current tile and of the current term have separate registers.
const (
	inTile    = asm.SI  // broadcast operand at the tile; in the spill area if Prefetch occupies the register
	vecTile   = asm.R8  // vector operand at the tile
	outTile   = asm.R9  // result at the tile
	packed    = vecTile // with PackStep: the call has one tile, whose address is not needed in the k-loop
	in        = asm.AX  // broadcast operand at the term; only for rows 0 to 4 if the distance of rows is dynamic
	inRow5    = asm.R12 // the same for rows 5 to 9
	inRow10   = asm.R13 // the same for rows 10 to 14
	stride    = asm.R10 // distance between rows, if dynamic
	stride3   = asm.R11 // three times the distance
	vec       = asm.BX  // vector operand at the term
	count     = asm.CX  // remaining terms or iterations
	ahead     = asm.DX  // operand Ahead at the next prefetched line
	vecStep   = asm.R14 // distance between terms in the vector operand, if dynamic
	inStep    = asm.R15 // distance between terms in the broadcast operand, if dynamic
	blockSums = stride  // sums of blocks, which require rows at constant offsets
)

// Words of the spill area: the remaining tiles of the call, the remaining blocks of a run, four words for each loop,
// the address of the broadcast operand at the tile (see gen.inTile), and the addresses of the epilogue's tile operands.
const (
	tilesLeft = iota
	blocksLeft
	loopWords     // of each loop: in, vec, remaining iterations, remaining iterations of the block
	inWord        = loopWords + wordsPerLoop*MaxLoops
	epilogueWords = inWord + 1
	spillWords    = epilogueWords + jit.MaxOperands - EpilogueOperands // number of words

	wordsPerLoop = 4
)

// maxPrefetches is the maximum length of Spec.Prefetch; the addresses are in registers.
const maxPrefetches = 2

// prefetchRegs has the addresses of Spec.Prefetch.
var prefetchRegs = [maxPrefetches]asm.Reg{inTile, ahead}

// DefaultUnroll is the number of terms of an iteration of the k-loop if Spec.Unroll is 0.
const DefaultUnroll = 4

const (
	lineBytes = 64
	// maxUnrolled bounds the instructions of fully unrolled terms.
	maxUnrolled = 700
)

// gen emits the code of a spec.
type gen struct {
	asm.Assembler
	s     *Spec
	cpu   machine.Features
	bytes int // size of a vector in bytes

	sumCount         int // number of accumulators, which start at register 0
	broadcastRegs    int // number of registers for broadcast elements, after the registers of the vectors
	nextBroadcastReg int // index of the next register for a broadcast element
	mask             asm.Vec
	unitCode         *unitGen // for Spec.Unit
}

func newGen(s *Spec, cpu machine.Features, list bool) *gen {
	n, bytes := registers(cpu)
	g := &gen{Assembler: asm.Assembler{NoEVEX: !cpu.Has(machine.Vector512), List: list}, s: s, cpu: cpu, bytes: bytes,
		sumCount: s.Rows * s.Vectors}
	if s.masksTerms(cpu) {
		n--
		g.mask = g.register(n)
	}
	g.broadcastRegs = min(3, n-g.sumCount-s.Vectors)
	return g
}

func (g *gen) register(n int) asm.Vec {
	if g.bytes == 64 {
		return asm.Z(n)
	}
	return asm.Y(n)
}

func (g *gen) sum(row, v int) asm.Vec { return g.register(row*g.s.Vectors + v) }
func (g *gen) vector(v int) asm.Vec   { return g.register(g.sumCount + v) }

// free returns the registers that are free outside the k-loop, except for the mask.
func (g *gen) free(i int) asm.Vec { return g.register(g.sumCount + i) }

// op appends the letter for the size of elements to the name of an instruction.
func (g *gen) op(name string) string {
	if g.s.Size == 8 {
		return name + "D"
	}
	return name + "S"
}

func ptrOf(k Slot) asm.Mem    { return asm.Mem{Base: asm.DI, Disp: jit.OffsetPtr + int32(8*k)} }
func offsetOf(k Slot) asm.Mem { return asm.Mem{Base: asm.DI, Disp: jit.OffsetRow + int32(8*k)} }
func stepOf(k Slot) asm.Mem   { return asm.Mem{Base: asm.DI, Disp: jit.OffsetStep + int32(8*k)} }
func spillWord(k int) asm.Mem { return asm.Mem{Base: asm.DI, Disp: jit.OffsetSpill + int32(8*k)} }

// emit emits the function.
func (g *gen) emit() {
	if g.s.Unit {
		g.emitUnit()
		return
	}
	g.begin()
	g.Align(32)
	tile := g.NewLabel()
	g.Bind(tile)
	g.start()
	g.loops(0)
	g.joinBlocks()
	g.finish()
	g.nextTile(tile)
	g.Emit("VZEROUPPER")
	g.Emit("RET")
}

// begin emits the loads of the registers and words whose values do not change during the call.
func (g *gen) begin() {
	g.operand(In, in)
	g.Emit("MOVQ", in, g.inTile())
	g.operand(Vec, vecTile)
	g.operand(Out, outTile)
	if g.s.AheadLines > 0 {
		g.operand(Ahead, ahead)
	}
	for i := range g.s.Prefetch {
		g.operand(PrefetchOperands+i, prefetchRegs[i])
	}
	for _, k := range g.tileOperands() {
		g.operand(EpilogueOperands+k, in)
		g.Emit("MOVQ", in, spillWord(epilogueWords+k))
	}
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRows}, in)
	g.Emit("MOVQ", in, spillWord(tilesLeft))
	if g.s.In == nil {
		g.Emit("MOVQ", stepOf(InRow), stride)
		g.Emit("LEAQ", asm.Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	}
	for _, r := range g.s.Runs {
		if r.VecStep == Dynamic {
			g.Emit("MOVQ", stepOf(VecTerm), vecStep)
		}
		if r.InStep == Dynamic {
			g.Emit("MOVQ", stepOf(InTerm), inStep)
		}
	}
	if g.s.hasBlocks() {
		g.Emit("LEAQ", spillWord(spillWords+lineBytes/8-1), blockSums)
		g.Emit("ANDQ", asm.Imm(-lineBytes), blockSums)
	}
	g.beginMask()
	g.beginQuantized()
}

// inTile holds the address of the tile in the broadcast operand.
func (g *gen) inTile() asm.Arg {
	if len(g.s.Prefetch) > 0 {
		return spillWord(inWord)
	}
	return inTile
}

func (g *gen) operand(k Slot, to asm.Reg) {
	g.Emit("MOVQ", ptrOf(k), to)
	g.Emit("ADDQ", offsetOf(k), to)
}

// tileOperands lists the operands of the epilogue that move with the tiles, without duplicates.
func (g *gen) tileOperands() []int {
	var list []int
	for _, t := range g.s.Epilogue {
		if (t.Op == AddTile || t.Op == MulTile) && !slices.Contains(list, t.Operand) {
			list = append(list, t.Operand)
		}
	}
	return list
}

// nextTile emits the step to the next tile, and the jump if a tile is left.
func (g *gen) nextTile(tile asm.Label) {
	if g.s.PackStep != 0 {
		return
	}
	move := func(d int, slot Slot, to asm.Arg) {
		switch {
		case d == Dynamic:
			g.Emit("MOVQ", stepOf(slot), in)
			g.Emit("ADDQ", in, to)
		case d != 0:
			g.Emit("ADDQ", asm.Imm(d), to)
		}
	}
	move(g.s.Tiles.In, InTile, g.inTile())
	move(g.s.Tiles.Vec, VecTile, vecTile)
	move(g.s.Tiles.Out, OutTile, outTile)
	for _, k := range g.tileOperands() {
		move(g.s.Tiles.Out, OutTile, spillWord(epilogueWords+k))
	}
	g.Emit("DECQ", spillWord(tilesLeft))
	g.Emit("JNE", tile)
}

// loops emits the loops from a level inwards, with the runs inside. Each level stores the addresses at which its
// current iteration started.
func (g *gen) loops(level int) {
	if level == 0 {
		g.setAddresses(g.inTile(), vecTile)
	}
	if level == len(g.s.Loops) {
		g.runs()
		return
	}
	l := &g.s.Loops[level]
	at := loopWords + wordsPerLoop*level
	end := g.NewLabel()
	if l.Trips == Dynamic {
		g.Emit("MOVQ", stepOf(LoopTrips+level), count)
		g.Emit("TESTQ", count, count)
		g.Emit("JLE", end)
	} else {
		g.Emit("MOVL", asm.Imm(l.Trips), count)
	}
	g.Emit("MOVQ", count, spillWord(at+2))
	g.Emit("MOVQ", in, spillWord(at))
	g.Emit("MOVQ", vec, spillWord(at+1))
	if l.Block > 1 {
		g.Emit("MOVQ", asm.Imm(l.Block), spillWord(at+3))
	}
	g.Align(16)
	top := g.NewLabel()
	g.Bind(top)
	g.loops(level + 1)
	g.endIteration(l, spillWord(at+3))
	g.Emit("MOVQ", spillWord(at), in)
	g.Emit("MOVQ", spillWord(at+1), vec)
	g.advance(in, l.In)
	g.advance(vec, l.Vec)
	g.Emit("MOVQ", in, spillWord(at))
	g.Emit("MOVQ", vec, spillWord(at+1))
	g.setRowBases()
	g.Emit("DECQ", spillWord(at+2))
	g.Emit("JNE", top)
	g.Bind(end)
}

// setAddresses sets the addresses of the first term.
func (g *gen) setAddresses(fromIn, fromVec asm.Arg) {
	g.Emit("MOVQ", fromIn, in)
	g.Emit("MOVQ", fromVec, vec)
	if g.s.PackStep != 0 {
		g.operand(Packed, packed)
	}
	g.setRowBases()
}

// setRowBases computes the addresses of rows 5 and 10 if the distance between rows is dynamic.
func (g *gen) setRowBases() {
	if g.s.In != nil {
		return
	}
	for i, r := range g.rowBases()[1:] {
		from := [...]asm.Reg{in, inRow5}[i]
		g.Emit("LEAQ", asm.Mem{Base: from, Index: stride, Scale: 4}, r)
		g.Emit("ADDQ", stride, r)
	}
}

// rowBases lists the registers from which the rows are addressed.
func (g *gen) rowBases() []asm.Reg {
	bases := []asm.Reg{in, inRow5, inRow10}
	if g.s.In != nil {
		return bases[:1]
	}
	return bases[:(g.s.Rows+4)/5]
}

// row returns the address of a row's element, disp bytes after the term that the registers point to.
func (g *gen) row(i, disp int) asm.Mem {
	if g.s.In != nil {
		return asm.Mem{Base: in, Disp: int32(g.s.In[i] + disp)}
	}
	m := asm.Mem{Base: g.rowBases()[i/5], Disp: int32(disp)}
	switch i % 5 {
	case 1, 2, 4:
		m.Index, m.Scale = stride, uint8(i%5)
	case 3:
		m.Index, m.Scale = stride3, 1
	}
	return m
}

func (g *gen) advance(r asm.Reg, d int) {
	if d != 0 {
		g.Emit("ADDQ", asm.Imm(d), r)
	}
}

// runs emits the runs of an iteration of the innermost loop.
func (g *gen) runs() {
	full := g.unitCode == nil && g.fullyUnrolled()
	atIn, atVec := 0, 0
	for i := range g.s.Runs {
		r := &g.s.Runs[i]
		for _, b := range g.rowBases() {
			g.advance(b, r.In-atIn)
		}
		g.advance(vec, r.Vec-atVec)
		if r.Terms == Dynamic {
			g.dynamicRun(r)
			return
		}
		switch {
		case g.unitCode != nil:
			g.unitCode.run(r)
		case r.Block > 0:
			g.blockedRun(r)
		default:
			g.constantTerms(r, r.Terms, full)
		}
		atIn, atVec = r.In+r.Terms*r.InStep, r.Vec+r.Terms*r.VecStep
	}
}

// fullyUnrolled reports whether all terms are unrolled.
func (g *gen) fullyUnrolled() bool {
	n := 0
	for _, r := range g.s.Runs {
		if r.Terms == Dynamic || r.Block > 0 {
			return false
		}
		n += r.Terms * (g.s.Vectors + bits.OnesCount32(g.rowMask(&r))*(1+g.s.Vectors))
	}
	return n <= maxUnrolled && g.s.Unroll == 0 && g.s.AheadLines == 0
}
