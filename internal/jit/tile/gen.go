package tile

import (
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// General registers. The addresses of the current tile and of the current term have separate registers.
const (
	inReg           target.GReg = iota // broadcast operand at the term; if the distance of rows is dynamic, of rows 0 to 4
	vecReg                             // vector operand at the term
	countReg                           // remaining terms or iterations
	prefetchedReg                      // next cache line of the operand Prefetched
	inTileReg                          // broadcast operand at the tile; in the spill area if Prefetch uses the register
	vecTileReg                         // vector operand at the tile
	outTileReg                         // result at the tile
	strideReg                          // distance between rows, if dynamic
	strideTimes3Reg                    // three times the distance
	inRow5Reg                          // like inReg, for rows 5 to 9
	inRow10Reg                         // like inReg, for rows 10 to 14
	vecStepReg                         // distance between terms in the vector operand, if dynamic
	inStepReg                          // distance between terms in the broadcast operand, if dynamic

	packedReg    = vecTileReg // with PackStep: address of the packed operand. The call has one tile, so vecTileReg is free
	blockSumsReg = strideReg  // sums of blocks, which require rows at constant offsets
)

// Words of the spill area: the remaining tiles of the call, the remaining blocks of a run, four words for each loop,
// the address of the tile in the broadcast operand (see gen.inTile), and the addresses of the epilogue's tile operands.
const (
	tilesLeft = iota
	blocksLeft
	loopWords     // of each loop: inReg, vecReg, remaining iterations, remaining iterations of the block
	inWord        = loopWords + wordsPerLoop*MaxLoops
	epilogueWords = inWord + 1
	spillWords    = epilogueWords + jit.MaxOperands - EpilogueOperands // number of words

	wordsPerLoop = 4
)

// maxPrefetches is the maximum length of Spec.Prefetch; the addresses are in registers.
const maxPrefetches = 2

// prefetchRegs has the addresses of Spec.Prefetch.
var prefetchRegs = [maxPrefetches]target.GReg{inTileReg, prefetchedReg}

// DefaultUnroll is the number of terms of an iteration of the k-loop if Spec.Unroll is 0.
const DefaultUnroll = 4

const (
	lineBytes = 64
	// maxUnrolled bounds the instructions of fully unrolled terms.
	maxUnrolled = 700
)

// gen emits the code of a spec.
type gen struct {
	target.Writer
	amd64 *amd64.Writer // the same Writer on amd64, for instructions that only amd64 has
	neon  *arm64.Writer // the same Writer on arm64
	s     *Spec
	cpu   machine.Features
	bytes int // size of a vector in bytes

	sumCount int // number of accumulators, which start at register 0
	elements elements
	mask     target.VReg
	unitCode *unitGen // for Spec.MatrixUnit
}

func newGen(s *Spec, cpu machine.Features, withListing bool) *gen {
	n, bytes := target.Vectors(cpu)
	g := &gen{s: s, cpu: cpu, bytes: bytes, sumCount: s.sumCount()}
	if cpu.Has(machine.NEON) {
		g.neon = arm64.New(s.Size, withListing)
		g.Writer = g.neon
	} else {
		g.amd64 = amd64.New(cpu, s.Size, withListing)
		g.Writer = g.amd64
	}
	if s.masksTerms(cpu) {
		n--
		g.mask = target.VReg(n)
	}
	g.elements.registers = min(elementRegisters(cpu), n-g.sumCount-s.termVectors()-s.zeroVectors())
	return g
}

func (g *gen) sum(row, v int) target.VReg { return target.VReg(row*g.s.Vectors + v) }
func (g *gen) vector(v int) target.VReg   { return target.VReg(g.sumCount + v) }

// freeRegister returns the i-th register that is free outside the k-loop.
func (g *gen) freeRegister(i int) target.VReg { return target.VReg(g.sumCount + i) }

func ptrOf(k Slot) target.Word    { return target.Word(jit.OffsetPtr + int32(8*k)) }
func offsetOf(k Slot) target.Word { return target.Word(jit.OffsetRow + int32(8*k)) }
func stepOf(k Slot) target.Word   { return target.Word(jit.OffsetStep + int32(8*k)) }
func spillWord(k int) target.Word { return target.Word(jit.OffsetSpill + int32(8*k)) }

// emit emits the function.
func (g *gen) emit() {
	if g.s.MatrixUnit {
		g.emitUnit()
		return
	}
	g.begin()
	g.Align(32)
	tile := g.NewLabel()
	g.Bind(tile)
	g.initSums()
	g.loops(0)
	g.joinBlocks()
	g.storeResult()
	g.nextTile(tile)
	g.Return()
}

// declare declares the registers of the spec.
func (g *gen) declare() {
	g.Declare("an address or a count of the k-loop", inReg, vecReg, countReg)
	g.Declare("the address of a tile", vecTileReg, outTileReg)
	g.Declare("the address of a row", inRow5Reg, inRow10Reg) // of the result, outside the k-loop
	g.Declare("a distance between terms", vecStepReg, inStepReg)
	if len(g.s.Prefetch) == 0 {
		g.Declare("the address of a tile", inTileReg)
	}
	for i := range g.s.Prefetch {
		g.Declare("a prefetched address", prefetchRegs[i])
	}
	if g.s.PrefetchedLines > 0 {
		g.Declare("a prefetched address", prefetchedReg)
	}
	if g.s.In == nil {
		g.Declare("a distance between rows", strideReg, strideTimes3Reg)
	}
	if g.s.hasBlocks() {
		g.Declare("the address of the sums of blocks", blockSumsReg)
	}
	for i := range g.sumCount {
		g.Declare("a sum", target.VReg(i))
	}
	for v := range g.s.termVectors() {
		g.Declare("a vector of a term", g.vector(v))
	}
	for v := range g.s.zeroVectors() {
		g.Declare("zero points", g.zero(v))
	}
	for range g.elements.registers {
		g.Declare("an element", g.nextElement())
	}
	if g.s.masksTerms(g.cpu) {
		g.Declare("the mask", g.mask)
	}
}

// begin emits the loads of values that do not change during the call to registers and spill words.
func (g *gen) begin() {
	if !g.s.MatrixUnit {
		g.declare()
	}
	g.operand(In, inReg)
	g.Move(inReg, g.inTile())
	g.operand(Vec, vecTileReg)
	g.operand(Out, outTileReg)
	if g.s.PrefetchedLines > 0 {
		g.operand(Prefetched, prefetchedReg)
	}
	for i := range g.s.Prefetch {
		g.operand(PrefetchOperands+i, prefetchRegs[i])
	}
	for _, k := range g.tileOperands() {
		g.operand(EpilogueOperands+k, inReg)
		g.Move(inReg, spillWord(epilogueWords+k))
	}
	g.Move(target.Word(jit.OffsetRows), inReg)
	g.Move(inReg, spillWord(tilesLeft))
	if g.s.In == nil {
		g.Move(stepOf(InRow), strideReg)
		g.Lea(target.Addr{Base: strideReg, Index: strideReg, Scale: 2}, strideTimes3Reg)
	}
	for _, r := range g.s.Runs {
		if r.VecStep == Dynamic {
			g.Move(stepOf(VecTerm), vecStepReg)
		}
		if r.InStep == Dynamic {
			g.Move(stepOf(InTerm), inStepReg)
		}
	}
	if g.s.hasBlocks() {
		g.Lea(target.Addr{Base: target.Args, Disp: int(spillWord(spillWords)) + lineBytes - 8}, blockSumsReg)
		g.AlignDown(lineBytes, blockSumsReg)
	}
	g.setTermMask()
	g.beginQuantized()
}

// inTile returns the register or spill word that has the address of the tile in the broadcast operand.
func (g *gen) inTile() target.Int {
	if len(g.s.Prefetch) > 0 {
		return spillWord(inWord)
	}
	return inTileReg
}

func (g *gen) operand(k Slot, to target.GReg) {
	g.Move(ptrOf(k), to)
	g.Add(offsetOf(k), to)
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
func (g *gen) nextTile(tile target.Label) {
	if g.s.PackStep != 0 {
		return
	}
	advance := func(distance int, slot Slot, to target.Int) {
		switch {
		case distance == Dynamic:
			g.Move(stepOf(slot), inReg)
			g.Add(inReg, to)
		case distance != 0:
			g.Add(target.Imm(distance), to)
		}
	}
	advance(g.s.Tiles.In, InTile, g.inTile())
	advance(g.s.Tiles.Vec, VecTile, vecTileReg)
	advance(g.s.Tiles.Out, OutTile, outTileReg)
	for _, k := range g.tileOperands() {
		advance(g.s.Tiles.Out, OutTile, spillWord(epilogueWords+k))
	}
	g.CountDown(spillWord(tilesLeft), target.NE, tile)
}

// loops emits the loop of a level, the loops inside it, and the runs. Each level stores the addresses at the start of
// its current iteration.
func (g *gen) loops(level int) {
	if level == 0 {
		g.setAddresses(g.inTile(), vecTileReg)
		g.beginLevels()
	}
	if level == len(g.s.Loops) {
		g.loadZeros()
		g.runs()
		return
	}
	l := &g.s.Loops[level]
	word := loopWords + wordsPerLoop*level
	end := g.NewLabel()
	if l.Trips == Dynamic {
		g.Move(stepOf(LoopTrips+level), countReg)
		g.AddJump(0, countReg, target.LE, end)
	} else {
		g.Move(target.Imm(l.Trips), countReg)
	}
	g.Move(countReg, spillWord(word+2))
	g.Move(inReg, spillWord(word))
	g.Move(vecReg, spillWord(word+1))
	if l.Block > 1 {
		g.Move(target.Imm(l.Block), spillWord(word+3))
	}
	g.Align(16)
	top := g.NewLabel()
	g.Bind(top)
	g.loops(level + 1)
	g.endIteration(l, spillWord(word+3))
	g.Move(spillWord(word), inReg)
	g.Move(spillWord(word+1), vecReg)
	g.advance(inReg, l.In)
	g.advance(vecReg, l.Vec)
	g.Move(inReg, spillWord(word))
	g.Move(vecReg, spillWord(word+1))
	g.setRowBases()
	g.CountDown(spillWord(word+2), target.NE, top)
	g.Bind(end)
}

// setAddresses sets the addresses of the first term.
func (g *gen) setAddresses(fromIn, fromVec target.Int) {
	g.Move(fromIn, inReg)
	g.Move(fromVec, vecReg)
	if g.s.PackStep != 0 {
		g.operand(Packed, packedReg)
	}
	g.setRowBases()
}

// setRowBases computes the addresses of rows 5 and 10 if the distance between rows is dynamic.
func (g *gen) setRowBases() {
	if g.s.In != nil {
		return
	}
	for i, r := range g.rowBases()[1:] {
		from := [...]target.GReg{inReg, inRow5Reg}[i]
		g.Lea(target.Addr{Base: from, Index: strideReg, Scale: 4}, r)
		g.Add(strideReg, r)
	}
}

// rowBases lists the registers from which the rows are addressed.
func (g *gen) rowBases() []target.GReg {
	bases := []target.GReg{inReg, inRow5Reg, inRow10Reg}
	if g.s.In != nil {
		return bases[:1]
	}
	return bases[:(g.s.Rows+4)/5]
}

// row returns the address of a row's element, disp bytes after the current term.
func (g *gen) row(i, disp int) target.Addr {
	if g.s.In != nil {
		return target.Addr{Base: inReg, Disp: g.s.In[i] + disp}
	}
	m := target.Addr{Base: g.rowBases()[i/5], Disp: disp}
	switch i % 5 {
	case 1, 2, 4:
		m.Index, m.Scale = strideReg, uint8(i%5)
	case 3:
		m.Index, m.Scale = strideTimes3Reg, 1
	}
	return m
}

func (g *gen) advance(r target.GReg, d int) {
	if d != 0 {
		g.Add(target.Imm(d), r)
	}
}

// runs emits the runs of an iteration of the innermost loop.
func (g *gen) runs() {
	isUnrolled := g.unitCode == nil && g.isFullyUnrolled()
	inOffset, vecOffset := 0, 0
	for i := range g.s.Runs {
		r := &g.s.Runs[i]
		for _, b := range g.rowBases() {
			g.advance(b, r.In-inOffset)
		}
		g.advance(vecReg, r.Vec-vecOffset)
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
			g.constantTerms(r, r.Terms, isUnrolled)
		}
		inOffset, vecOffset = r.In+r.Terms*r.InStep, r.Vec+r.Terms*r.VecStep
	}
}

// isFullyUnrolled reports whether all terms are unrolled.
func (g *gen) isFullyUnrolled() bool {
	n := 0
	for _, r := range g.s.Runs {
		if r.Terms == Dynamic || r.Block > 0 {
			return false
		}
		n += r.Terms * (g.s.Vectors + bits.OnesCount32(g.rowMask(&r))*(1+g.s.Vectors))
	}
	return n <= maxUnrolled && g.s.Unroll == 0 && g.s.PrefetchedLines == 0
}
