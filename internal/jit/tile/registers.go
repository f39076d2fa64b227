package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
)

// This file assigns roles to registers and to words of the spill area (jit.Args.Spill). A call computes several tiles,
// which are rectangles of the result. Term k adds In[row, k] * Vec[k, column] to each accumulator of a tile. A run is a
// sequence of terms. The terms of a run may be divided into blocks, each with a sum of its own. The vector registers
// are, in this order: accumulators (sumReg), vectors of a term (vectorReg), zero points, elements of the broadcast
// operand, and the mask.

// General registers. The broadcast operand (In) and the vector operand (Vec) have an address of the current tile and an
// address of the current term each.
const (
	// The k-loop.

	broadcastReg target.GReg = iota // address of the current term in the broadcast operand; if rows are dynamic, of row 0
	vecReg                          // address of the current term in the vector operand
	countReg                        // remaining terms or iterations
	nextLineReg                     // with Spec.PrefetchedLines: address of the next line to prefetch

	// The tile.

	broadcastTileReg // address of the tile in the broadcast operand; see broadcastTileLocation
	vecTileReg       // address of the tile in the vector operand
	outTileReg       // address of the tile in the result

	// Dynamic distances, which are arguments of the call. Rows are dynamic if Spec.In is nil.

	rowStepReg        // distance between rows of the broadcast operand
	rowStep3Reg       // three times rowStepReg, because an instruction scales a register only by 1, 2, 4 or 8
	broadcastRow5Reg  // like broadcastReg, for row 5, because 0 to 4 row steps can be added to an address
	broadcastRow10Reg // like broadcastReg, for row 10
	vecStepReg        // distance between terms in the vector operand
	broadcastStepReg  // distance between terms in the broadcast operand
)

// Second roles of general registers. The two roles of a register never apply at the same time.
const (
	tempReg        = broadcastReg      // a temporary outside the k-loop
	packedReg      = vecTileReg        // address to store vectors at (Spec.PackedStep); the call has only one tile
	blockTotalsReg = rowStepReg        // address of the totals over blocks; with blocks, distances of rows are constant
	outRowReg      = broadcastRow5Reg  // address of the current row of the result, outside the k-loop, if Spec.Out is nil
	outRowStepReg  = broadcastRow10Reg // distance between rows of the result, under the same conditions
)

// Indices of 8-byte words of jit.Args.Spill, which hold values that have no register.
const (
	tilesRemaining  = iota // remaining tiles of the call
	blocksRemaining        // remaining blocks of a run

	// The first of four words for each loop: the values of broadcastReg and vecReg at the start of the current iteration,
	// the remaining iterations, and the remaining iterations of the block.
	loopWords
	wordsPerLoop = 4

	broadcastTileWord    = loopWords + wordsPerLoop*MaxLoops // address of the broadcast operand at the tile
	epilogueAddressWords = broadcastTileWord + 1             // addresses of the epilogue's tile operands

	spillWords = epilogueAddressWords + jit.MaxOperands - FirstEpilogueOperand // number of words
)

// maxPrefetches is the maximum length of Spec.Prefetch: each operand needs a register for its address.
const maxPrefetches = 2

// prefetchListRegs are the registers with the addresses of the operands in the list Spec.Prefetch. If the list is not
// empty, broadcastTileWord replaces broadcastTileReg. With Spec.PrefetchedLines, which prefetches the operand
// [Prefetched] and needs nextLineReg, the list has at most one operand.
var prefetchListRegs = [maxPrefetches]target.GReg{broadcastTileReg, nextLineReg}

// declare states the roles of the registers for this spec. A register that is declared twice is an error. tempReg and
// packedReg may have two roles with one spec, so only their first roles are declared.
func (g *gen) declare() {
	g.Declare("an address or a count of the k-loop", broadcastReg, vecReg, countReg)
	g.Declare("the address of a tile", vecTileReg, outTileReg)
	g.Declare("the address of a row", broadcastRow5Reg, broadcastRow10Reg) // of In; outside the k-loop, of the result
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
	for range g.elements.registerCount { // one rotation, after which the next register is the first one again
		g.Declare("an element", g.nextElementRegister())
	}
	if g.spec.needsVectorMask(g.cpu) {
		g.Declare("the mask", g.mask)
	}
}

// broadcastTileLocation returns the register or spill word that has the address of the tile in the broadcast operand.
func (g *gen) broadcastTileLocation() target.Int {
	if len(g.spec.Prefetch) > 0 {
		return target.ArgsSpill(broadcastTileWord)
	}
	return broadcastTileReg
}

// sumReg returns the accumulator for a row and a vector of its columns.
func (g *gen) sumReg(row, vector int) target.VReg { return target.VReg(row*g.spec.Vectors + vector) }

// vectorReg returns the register of a vector of the vector operand, for the current term.
func (g *gen) vectorReg(vector int) target.VReg { return target.VReg(g.sumCount + vector) }

// freeRegister returns the i-th register, from 0, that is free outside the k-loop.
func (g *gen) freeRegister(i int) target.VReg { return target.VReg(g.sumCount + i) }
