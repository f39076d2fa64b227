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

// General registers. The broadcast operand (In) and the vector operand (Vec) have an address of the current tile and an
// address of the current term each.
const (
	// The k-loop.

	broadcastReg target.GReg = iota // address of the current term in the broadcast operand; if rows are dynamic, of row 0
	vecReg                          // address of the current term in the vector operand
	countReg                        // remaining terms or iterations
	nextLineReg                     // address of the next cache line of the operand Prefetched: see Spec.PrefetchedLines

	// The tile.

	broadcastTileReg // address of the tile in the broadcast operand; see broadcastTileLocation
	vecTileReg       // address of the tile in the vector operand
	outTileReg       // address of the tile in the result

	// Dynamic distances.

	rowStepReg        // distance between rows of the broadcast operand
	rowStep3Reg       // three times rowStepReg
	broadcastRow5Reg  // like broadcastReg, for row 5
	broadcastRow10Reg // like broadcastReg, for row 10
	vecStepReg        // distance between terms in the vector operand
	broadcastStepReg  // distance between terms in the broadcast operand
)

// Second roles of general registers.
const (
	tempReg        = broadcastReg      // a temporary outside the k-loop
	packedReg      = vecTileReg        // address of operand Packed: a call with PackedStep has only one tile
	blockTotalsReg = rowStepReg        // address of the totals over blocks: with blocks, offsets of rows are constant
	outRowReg      = broadcastRow5Reg  // address of the current row of the result, outside the k-loop, if Spec.Out is nil
	outRowStepReg  = broadcastRow10Reg // distance between rows of the result, likewise
)

// Indices of 8-byte words of jit.Args.Spill, which hold values that have no register.
const (
	tilesRemaining  = iota // remaining tiles of the call
	blocksRemaining        // remaining blocks of a run

	// The first of four words for each loop: the values of broadcastReg and vecReg at the start of the current iteration,
	// the remaining iterations, and the remaining iterations of the block.
	loopWords

	broadcastTileWord    = loopWords + wordsPerLoop*MaxLoops // address of the broadcast operand at the tile
	epilogueAddressWords = broadcastTileWord + 1             // addresses of the epilogue's tile operands

	spillWords = epilogueAddressWords + jit.MaxOperands - FirstEpilogueOperand // number of words

	wordsPerLoop = 4
)

// maxPrefetches is the maximum length of Spec.Prefetch: each operand needs a register for its address.
const maxPrefetches = 2

// prefetchListRegs are the registers with the addresses of Spec.Prefetch. With such operands, broadcastTileWord
// replaces broadcastTileReg. A Spec with PrefetchedLines has at most one of them, and leaves the second register free.
var prefetchListRegs = [maxPrefetches]target.GReg{broadcastTileReg, nextLineReg}

// DefaultUnroll is the number of terms of an iteration of the k-loop if Spec.Unroll is 0.
const DefaultUnroll = 4

const (
	lineBytes = 64 // size of a cache line
	// maxUnrolled is the maximum number of loads, broadcasts and multiplications of a tile whose terms are all
	// unrolled.
	maxUnrolled = 700
)

// gen emits the code of a spec: a function that computes the tiles of one call. The function has these stages, each
// emitted by the method in parentheses:
//
//	       load the arguments of the call (begin)
//	tile:  initialize the accumulators (initSums)
//	       for each iteration of Spec.Loops (emitKLoop):
//	           for each run: load vectors, broadcast elements, multiply and add (emitRuns)
//	       add the sums of blocks (joinBlocks)
//	       apply the epilogue and store the tile (storeResult)
//	       advance to the next tile; go to tile if there is one (nextTile)
//
// During the k-loop, broadcastReg and vecReg point to the current term of the two operands.
type gen struct {
	target.Writer
	amd64       *amd64.Writer // the same Writer on amd64, for instructions that only amd64 has; nil on arm64
	neon        *arm64.Writer // the same Writer on arm64; nil on amd64
	spec        *Spec         // In and Out have the offsets of the rows; if nil, rows are at a dynamic distance
	cpu         machine.Features
	vectorBytes int // size of a vector in bytes

	sumCount int         // number of accumulators, which start at register 0
	elements elements    // the elements of the broadcast operand that are in registers
	mask     target.VReg // mask of the valid lanes of the last vector, if it is in a vector register
	unitCode *unitGen    // the generator for Spec.MatrixUnit, else nil
}

// newGen returns a generator. It assigns the vector registers in this order: accumulators, vectors of a term, zero
// points, elements of the broadcast operand, mask.
func newGen(spec *Spec, cpu machine.Features, withListing bool) *gen {
	registerCount, vectorBytes := target.VectorRegisters(cpu)
	g := &gen{spec: spec, cpu: cpu, vectorBytes: vectorBytes, sumCount: spec.sumCount()}
	if cpu.Has(machine.NEON) {
		g.neon = arm64.New(spec.ElemBytes, withListing)
		g.Writer = g.neon
	} else {
		g.amd64 = amd64.New(cpu, spec.ElemBytes, withListing)
		g.Writer = g.amd64
	}
	if spec.needsVectorMask(cpu) {
		registerCount--
		g.mask = target.VReg(registerCount)
	}
	g.elements.registerCount = min(elementRegisters(cpu),
		registerCount-g.sumCount-spec.vectorsPerTerm()-spec.zeroPointVectors())
	return g
}

// emit emits the function.
func (g *gen) emit() {
	if g.spec.MatrixUnit {
		g.emitUnit()
		return
	}
	g.begin()
	g.Align(32)
	tile := g.NewLabel()
	g.Bind(tile)
	g.initSums()
	g.emitKLoop()
	g.joinBlocks()
	g.storeResult()
	g.nextTile(tile)
	g.Return()
}

// begin emits the prologue: it loads the arguments of the call into registers and spill words.
func (g *gen) begin() {
	if !g.spec.MatrixUnit { // emitUnit gives some registers other roles
		g.declare()
	}
	g.loadAddress(In, tempReg)
	g.Move(tempReg, g.broadcastTileLocation())
	g.loadAddress(Vec, vecTileReg)
	g.loadAddress(Out, outTileReg)
	if g.spec.PrefetchedLines > 0 {
		g.loadAddress(Prefetched, nextLineReg)
	}
	for i := range g.spec.Prefetch {
		g.loadAddress(PrefetchOperands+i, prefetchListRegs[i])
	}
	for _, operand := range g.tileOperands() {
		g.loadAddress(FirstEpilogueOperand+operand, tempReg)
		g.Move(tempReg, target.ArgsSpill(epilogueAddressWords+operand))
	}
	g.Move(target.ArgsWord(jit.OffsetRows), tempReg)
	g.Move(tempReg, target.ArgsSpill(tilesRemaining))
	g.loadSteps()
	if g.spec.hasBlocks() {
		// The totals start at the end of the spill words, rounded up to a cache line. This is (end + lineBytes - 8),
		// rounded down, because the end is a multiple of 8.
		g.Lea(target.Addr{Base: target.Args, Disp: int(target.ArgsSpill(spillWords)) + lineBytes - 8}, blockTotalsReg)
		g.AlignDown(lineBytes, blockTotalsReg)
	}
	g.loadKLoopMask()
	g.beginQuantized()
}

// loadSteps emits the loads of the dynamic distances between rows and between terms.
func (g *gen) loadSteps() {
	if g.spec.In == nil {
		g.Move(target.ArgsStep(InRow), rowStepReg)
		g.Lea(target.Addr{Base: rowStepReg, Index: rowStepReg, Scale: 2}, rowStep3Reg)
	}
	for _, run := range g.spec.Runs {
		if run.VecStep == Dynamic {
			g.Move(target.ArgsStep(VecTerm), vecStepReg)
		}
		if run.InStep == Dynamic {
			g.Move(target.ArgsStep(InTerm), broadcastStepReg)
		}
	}
}

// declare states the roles of the registers, so that a register with two roles is an error.
func (g *gen) declare() {
	g.Declare("an address or a count of the k-loop", broadcastReg, vecReg, countReg)
	g.Declare("the address of a tile", vecTileReg, outTileReg)
	g.Declare("the address of a row", broadcastRow5Reg, broadcastRow10Reg) // of the result, outside the k-loop
	g.Declare("a distance between terms", vecStepReg, broadcastStepReg)
	if len(g.spec.Prefetch) == 0 {
		g.Declare("the address of a tile", broadcastTileReg)
	}
	for i := range g.spec.Prefetch {
		g.Declare("a prefetched address", prefetchListRegs[i])
	}
	if g.spec.PrefetchedLines > 0 {
		g.Declare("a prefetched address", nextLineReg)
	}
	if g.spec.In == nil {
		g.Declare("a distance between rows", rowStepReg, rowStep3Reg)
	}
	if g.spec.hasBlocks() {
		g.Declare("the address of the totals over blocks", blockTotalsReg)
	}
	for i := range g.sumCount {
		g.Declare("a sum", target.VReg(i))
	}
	for vector := range g.spec.vectorsPerTerm() {
		g.Declare("a vector of a term", g.vectorReg(vector))
	}
	for vector := range g.spec.zeroPointVectors() {
		g.Declare("zero points", g.zeroPointReg(vector))
	}
	for range g.elements.registerCount {
		g.Declare("an element", g.nextElementRegister())
	}
	if g.spec.needsVectorMask(g.cpu) {
		g.Declare("the mask", g.mask)
	}
}

// emitKLoop emits the loops and the runs of a tile.
func (g *gen) emitKLoop() {
	g.setAddresses()
	g.loadLevelAddresses()
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
	if loop.Block > 1 {
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
	if g.spec.PackedStep != 0 {
		g.loadAddress(Packed, packedReg)
	}
	g.setRowBases()
}

// setRowBases computes the addresses of rows 5 and 10 if the distance between rows is dynamic.
func (g *gen) setRowBases() {
	if g.spec.In != nil {
		return
	}
	for i, reg := range g.rowBases()[1:] { // five rows after the previous base: previous + 4*step + step
		previous := [...]target.GReg{broadcastReg, broadcastRow5Reg}[i]
		g.Lea(target.Addr{Base: previous, Index: rowStepReg, Scale: 4}, reg)
		g.Add(rowStepReg, reg)
	}
}

// emitRuns emits the runs of an iteration of the innermost loop.
func (g *gen) emitRuns() {
	isUnrolled := g.unitCode == nil && g.isFullyUnrolled()
	inOffset, vecOffset := 0, 0 // the distance of the addresses from the start of the iteration
	for i := range g.spec.Runs {
		run := &g.spec.Runs[i]
		for _, base := range g.rowBases() {
			g.advance(base, run.In-inOffset)
		}
		g.advance(vecReg, run.Vec-vecOffset)
		if run.Terms == Dynamic {
			g.emitDynamicRun(run)
			return // a run with Dynamic fields is the only one
		}
		switch {
		case g.unitCode != nil:
			g.unitCode.run(run)
		case run.Block > 0:
			g.emitBlockedRun(run)
		default:
			g.emitConstantTerms(run, run.Terms, isUnrolled)
		}
		inOffset, vecOffset = run.In+run.Terms*run.InStep, run.Vec+run.Terms*run.VecStep
	}
}

// isFullyUnrolled reports whether all terms are unrolled. Three conditions must hold: the numbers of terms are
// constants; there are at most maxUnrolled instructions; neither blocks, Unroll nor PrefetchedLines require a loop.
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

// nextTile advances the addresses to the next tile, and jumps to the label tile if the call has another tile.
func (g *gen) nextTile(tile target.Label) {
	if g.spec.PackedStep != 0 { // a call has one tile
		return
	}
	g.advanceTile(g.broadcastTileLocation(), g.spec.Tiles.InStep, InTile)
	g.advanceTile(vecTileReg, g.spec.Tiles.VecStep, VecTile)
	g.advanceTile(outTileReg, g.spec.Tiles.OutStep, OutTile)
	for _, operand := range g.tileOperands() {
		g.advanceTile(target.ArgsSpill(epilogueAddressWords+operand), g.spec.Tiles.OutStep, OutTile)
	}
	g.CountDown(target.ArgsSpill(tilesRemaining), target.NE, tile)
}

// advanceTile adds the distance between tiles to an address. If the distance is Dynamic, the code reads it from the
// call's argument `slot`.
func (g *gen) advanceTile(address target.Int, distance int, slot Slot) {
	switch {
	case distance == Dynamic:
		g.Move(target.ArgsStep(slot), tempReg)
		g.Add(tempReg, address)
	case distance != 0:
		g.Add(target.Imm(distance), address)
	}
}

// broadcastTileLocation returns the register or spill word that has the address of the tile in the broadcast operand.
func (g *gen) broadcastTileLocation() target.Int {
	if len(g.spec.Prefetch) > 0 {
		return target.ArgsSpill(broadcastTileWord)
	}
	return broadcastTileReg
}

// loadAddress emits the load of an operand's address.
func (g *gen) loadAddress(slot Slot, to target.GReg) {
	target.LoadAddress(g, slot, to)
}

// tileOperands lists the operands of the epilogue that move with the tiles, without duplicates.
func (g *gen) tileOperands() []int {
	var list []int
	for _, step := range g.spec.Epilogue {
		if (step.Op == AddTile || step.Op == MulTile) && !slices.Contains(list, step.Operand) {
			list = append(list, step.Operand)
		}
	}
	return list
}

// rowBases lists the registers with the addresses of rows 0, 5 and 10, as far as the tile has these rows. Each is the
// base of up to five rows. Rows at constant offsets need only the first register.
func (g *gen) rowBases() []target.GReg {
	bases := []target.GReg{broadcastReg, broadcastRow5Reg, broadcastRow10Reg}
	if g.spec.In != nil {
		return bases[:1]
	}
	return bases[:(g.spec.Rows+4)/5] // rounded up: each base has five rows
}

// rowAddr returns the address of row i in the broadcast operand, disp bytes after the current term. A row at a dynamic
// distance has the address of row 5*(i/5), plus i%5 times the distance. Addresses cannot scale an index by 3.
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

// advance emits the addition of a constant distance to an address.
func (g *gen) advance(reg target.GReg, distance int) {
	if distance != 0 {
		g.Add(target.Imm(distance), reg)
	}
}

// sumReg returns the accumulator for a row and a vector of its columns.
func (g *gen) sumReg(row, vector int) target.VReg { return target.VReg(row*g.spec.Vectors + vector) }

// vectorReg returns the register of a vector of the vector operand, for the current term.
func (g *gen) vectorReg(vector int) target.VReg { return target.VReg(g.sumCount + vector) }

// freeRegister returns the i-th register, from 0, that is free outside the k-loop.
func (g *gen) freeRegister(i int) target.VReg { return target.VReg(g.sumCount + i) }
