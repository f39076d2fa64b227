package tile

import (
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// General registers. Where a tile is stays in three of them, where its terms are in others.
const (
	inTile  = asm.SI // a word of the spill area where something is fetched, which takes it
	vecTile = asm.R8
	outTile = asm.R9
	kept    = vecTile // of a tile that is the only one, once its terms begin
	in      = asm.AX  // of rows at told places 0 to 4
	in5     = asm.R12 // 5 to 9
	in10    = asm.R13 // 10 to 14
	stride  = asm.R10 // from a row to the next
	stride3 = asm.R11
	vec     = asm.BX
	count   = asm.CX // terms
	ahead   = asm.DX
	vecStep = asm.R14
	inStep  = asm.R15
	apart   = stride // the sums of blocks, where rows are at told places
)

// Words of the spill area.
const (
	tilesLeft = iota
	termsLeft // blocks of terms of a run
	loopWords // in, vec, turns left of each loop and of its block
	inWord    = loopWords + wordsPerLoop*MaxLoops
	tailWords = inWord + 1
	words     = tailWords + jit.MaxOperands - Tails

	wordsPerLoop = 4
)

// maxFetches is how many registers there are for what is fetched.
const maxFetches = 2

// fetched are these registers.
var fetched = [maxFetches]asm.Reg{inTile, ahead}

// FewTerms are a turn's, where no spec says otherwise.
const FewTerms = 4

const (
	lineBytes = 64
	// longCode bounds the instructions of terms that are written out in full, rather than in a loop of a few.
	longCode = 700
)

// gen writes the code of a spec.
type gen struct {
	asm.Assembler
	s     *Spec
	isa   machine.ISA
	bytes int // of a vector

	sums   int // registers of them, from 0 on
	bcasts int // registers of elements that are broadcast, behind the vectors'
	bcast  int // the one that is next
	mask   asm.Vec
	unit   *unitGen // of a spec that says so
}

func newGen(s *Spec, isa machine.ISA, list bool) *gen {
	n, bytes := registers(isa)
	g := &gen{Assembler: asm.Assembler{NoEVEX: isa != machine.AVX512, List: list}, s: s, isa: isa, bytes: bytes,
		sums: s.Rows * s.Vectors}
	if s.masksTerms(isa) {
		n--
		g.mask = g.register(n)
	}
	g.bcasts = min(3, n-g.sums-s.Vectors)
	return g
}

func (g *gen) register(n int) asm.Vec {
	if g.bytes == 64 {
		return asm.Z(n)
	}
	return asm.Y(n)
}

func (g *gen) sum(row, v int) asm.Vec { return g.register(row*g.s.Vectors + v) }
func (g *gen) vector(v int) asm.Vec   { return g.register(g.sums + v) }

// free returns the registers that are free outside of terms, the mask's aside.
func (g *gen) free(i int) asm.Vec { return g.register(g.sums + i) }

// op returns an instruction's name for the elements' size.
func (g *gen) op(name string) string {
	if g.s.Size == 8 {
		return name + "D"
	}
	return name + "S"
}

func ptrOf(k Slot) asm.Mem   { return asm.Mem{Base: asm.DI, Disp: jit.OffsetPtr + int32(8*k)} }
func beginOf(k Slot) asm.Mem { return asm.Mem{Base: asm.DI, Disp: jit.OffsetRow + int32(8*k)} }
func stepOf(k Slot) asm.Mem  { return asm.Mem{Base: asm.DI, Disp: jit.OffsetStep + int32(8*k)} }
func word(k int) asm.Mem     { return asm.Mem{Base: asm.DI, Disp: jit.OffsetSpill + int32(8*k)} }

// emit writes the whole function.
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
	g.join()
	g.finish()
	g.nextTile(tile)
	g.Emit("VZEROUPPER")
	g.Emit("RET")
}

// begin loads what stays in registers.
func (g *gen) begin() {
	g.operand(In, in)
	g.Emit("MOVQ", in, g.inTile())
	g.operand(Vec, vecTile)
	g.operand(Out, outTile)
	if g.s.Ahead > 0 {
		g.operand(Ahead, ahead)
	}
	for i := range g.s.Fetch {
		g.operand(Fetches+i, fetched[i])
	}
	for _, k := range g.tileOperands() {
		g.operand(Tails+k, in)
		g.Emit("MOVQ", in, word(tailWords+k))
	}
	g.Emit("MOVQ", asm.Mem{Base: asm.DI, Disp: jit.OffsetRows}, in)
	g.Emit("MOVQ", in, word(tilesLeft))
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
	if g.s.blocks() {
		g.Emit("LEAQ", word(words+lineBytes/8-1), apart)
		g.Emit("ANDQ", asm.Imm(-lineBytes), apart)
	}
	g.beginMask()
	g.beginLevels()
}

// inTile is where the tile is in the broadcast operand.
func (g *gen) inTile() asm.Arg {
	if len(g.s.Fetch) > 0 {
		return word(inWord)
	}
	return inTile
}

func (g *gen) operand(k Slot, to asm.Reg) {
	g.Emit("MOVQ", ptrOf(k), to)
	g.Emit("ADDQ", beginOf(k), to)
}

// tileOperands are the tail's operands that move with the tiles, each once.
func (g *gen) tileOperands() []int {
	var list []int
	for _, t := range g.s.Tail {
		if (t.Op == AddTile || t.Op == MulTile) && !slices.Contains(list, t.Operand) {
			list = append(list, t.Operand)
		}
	}
	return list
}

// nextTile moves on to the next tile, if there is one.
func (g *gen) nextTile(tile asm.Label) {
	if g.s.Keep != 0 {
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
		move(g.s.Tiles.Out, OutTile, word(tailWords+k))
	}
	g.Emit("DECQ", word(tilesLeft))
	g.Emit("JNE", tile)
}

// loops writes the loops from a level on, around the runs. Each level keeps where its turn began.
func (g *gen) loops(level int) {
	if level == 0 {
		g.place(g.inTile(), vecTile)
	}
	if level == len(g.s.Loops) {
		g.runs()
		return
	}
	l := &g.s.Loops[level]
	at := loopWords + wordsPerLoop*level
	end := g.NewLabel()
	if l.Turns == Dynamic {
		g.Emit("MOVQ", stepOf(LoopTurns+level), count)
		g.Emit("TESTQ", count, count)
		g.Emit("JLE", end)
	} else {
		g.Emit("MOVL", asm.Imm(l.Turns), count)
	}
	g.Emit("MOVQ", count, word(at+2))
	g.Emit("MOVQ", in, word(at))
	g.Emit("MOVQ", vec, word(at+1))
	if l.Block > 1 {
		g.Emit("MOVQ", asm.Imm(l.Block), word(at+3))
	}
	g.Align(16)
	top := g.NewLabel()
	g.Bind(top)
	g.loops(level + 1)
	g.endTurn(l, word(at+3))
	g.Emit("MOVQ", word(at), in)
	g.Emit("MOVQ", word(at+1), vec)
	g.advance(in, l.In)
	g.advance(vec, l.Vec)
	g.Emit("MOVQ", in, word(at))
	g.Emit("MOVQ", vec, word(at+1))
	g.spread()
	g.Emit("DECQ", word(at+2))
	g.Emit("JNE", top)
	g.Bind(end)
}

// place begins the terms at addresses.
func (g *gen) place(fromIn, fromVec asm.Arg) {
	g.Emit("MOVQ", fromIn, in)
	g.Emit("MOVQ", fromVec, vec)
	if g.s.Keep != 0 {
		g.operand(Kept, kept)
	}
	g.spread()
}

// spread finds the further rows at told places from the first.
func (g *gen) spread() {
	if g.s.In != nil {
		return
	}
	for i, r := range g.rowBases()[1:] {
		from := [...]asm.Reg{in, in5}[i]
		g.Emit("LEAQ", asm.Mem{Base: from, Index: stride, Scale: 4}, r)
		g.Emit("ADDQ", stride, r)
	}
}

// rowBases are the registers that rows are found from.
func (g *gen) rowBases() []asm.Reg {
	bases := []asm.Reg{in, in5, in10}
	if g.s.In != nil {
		return bases[:1]
	}
	return bases[:(g.s.Rows+4)/5]
}

// row is an element of a row, so many bytes behind the term that registers are at.
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

// runs writes the terms of a turn.
func (g *gen) runs() {
	full := g.unit == nil && g.writtenOut()
	atIn, atVec := 0, 0
	for i := range g.s.Runs {
		r := &g.s.Runs[i]
		for _, b := range g.rowBases() {
			g.advance(b, r.In-atIn)
		}
		g.advance(vec, r.Vec-atVec)
		if r.Terms == Dynamic {
			g.told(r)
			return
		}
		switch {
		case g.unit != nil:
			g.unit.run(r)
		case r.Block > 0:
			g.inBlocks(r)
		default:
			g.known(r, r.Terms, full)
		}
		atIn, atVec = r.In+r.Terms*r.InStep, r.Vec+r.Terms*r.VecStep
	}
}

// writtenOut reports whether all terms are written one after the other.
func (g *gen) writtenOut() bool {
	n := 0
	for _, r := range g.s.Runs {
		if r.Terms == Dynamic || r.Block > 0 {
			return false
		}
		n += r.Terms * (g.s.Vectors + bits.OnesCount32(g.valid(&r))*(1+g.s.Vectors))
	}
	return n <= longCode && g.s.Unroll == 0 && g.s.Ahead == 0
}
