package tile

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// lineBytes is the size of a cache line.
const lineBytes = 64

// DefaultUnroll is the number of terms of an iteration of the k-loop if Spec.Unroll is 0.
const DefaultUnroll = 4

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
// The last operand of Move, Add and Lea is the destination. target.ArgsWord, ArgsStep and ArgsSpill select a word of
// the call's arguments (jit.Args): ArgsStep has distances and counts, and ArgsSpill has values without a register.
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

// newGen returns a generator. Of the vector registers that sums, vectors of a term, zero points and the mask leave
// free, at most elementRegisters are for elements of the broadcast operand.
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
	g.declare() // emitUnit does not declare registers, because it gives some of them other roles
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
	g.Move(target.ArgsWord(jit.OffsetRows), tempReg) // jit.Args.Rows is the number of tiles
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
	if distance == Dynamic {
		g.Move(target.ArgsStep(slot), tempReg)
		g.Add(tempReg, address)
	} else {
		g.advance(address, distance)
	}
}

// advance emits the addition of a constant distance to an address.
func (g *gen) advance(address target.Int, distance int) {
	if distance != 0 {
		g.Add(target.Imm(distance), address)
	}
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
