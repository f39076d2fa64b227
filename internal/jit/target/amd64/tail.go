package amd64

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// This file writes the masked passes for the tail of a row, the elements after the last iteration of the main loop. It
// also writes the copies of elements that AVX2 cannot mask, between operands and bounce buffers in the spill area.
//
// regIndex is the index of the next element of the row, and regDoubleIndex is twice regIndex. regLimit is the number of
// remaining elements. regSpill is the address of the spill area. regTemp is temporary.

// writeTailLoop writes the loop over the tail of a row, in masked passes. With totals, successive passes use successive
// sets of accumulators, so an iteration has a pass for each set.
func (g *generator) writeTailLoop() {
	emit, assembler := g.asm.Emit, g.asm
	loop, done, executedBefore := assembler.NewLabel(), assembler.NewLabel(), g.executedCount()
	assembler.Bind(loop)
	sets := 1
	if g.loop.CombinesLanes {
		sets = g.accSets // the number of full passes is a multiple of accSets, so the tail starts with set 0
	}
	for g.firstAccSet = range sets {
		emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetInnerCount}, regLimit)
		emit("SUBQ", regIndex, regLimit)
		emit("JLE", done)
		if g.avx512 {
			g.writeTailMasks()
		} else {
			g.writeTailVectors()
			g.copyTailIn()
		}
		g.inTail = true
		g.writeInsts(g.tailCode.Insts, 0)
		g.inTail = false
		if !g.avx512 {
			g.copyTailOut()
		}
		g.advance(g.lanes)
	}
	g.firstAccSet = 0
	emit("JMP", loop)
	assembler.Bind(done)
	executed := g.executedCount() - executedBefore
	// TailIteration is for one masked pass: its share of the iteration, rounded up.
	g.work.TailIteration, g.work.TailElements = (executed+sets-1)/sets, g.lanes
	const emptyTailCheck = 3 // MOVQ, SUBQ and JLE, which a row without a tail executes, too
	g.work.Row += emptyTailCheck - executed
}

// writeTailMasks sets the tail masks for min(regLimit, g.lanes) elements, with AVX-512. regLimit complex elements have
// 2*regLimit parts, which fill two vectors of g.lanes lanes. The two masks after tailMask select the parts in the first
// and in the second of these vectors.
func (g *generator) writeTailMasks() {
	emit := g.asm.Emit
	emit("MOVQ", asm.Imm(-1), regTemp)
	emit("BZHIQ", regLimit, regTemp, regTemp) // keeps the lowest regLimit bits
	move := "KMOVW"
	if g.lanes == 8 {
		move = "KMOVB"
	}
	emit(move, regTemp, tailMask)
	if !g.hasComplex() {
		return
	}
	emit("MOVQ", asm.Imm(-1), regTemp)
	emit("ADDQ", regLimit, regLimit)
	emit("BZHIQ", regLimit, regTemp, regTemp)
	emit(move, regTemp, tailMask+1)
	emit("SHRQ", asm.Imm(g.lanes), regTemp)
	emit(move, regTemp, tailMask+2)
}

// writeTailVectors sets the tail masks without AVX-512, in vector registers: lane k is all ones if k < regLimit, else
// 0.
func (g *generator) writeTailVectors() {
	emit := g.asm.Emit
	mask32 := vectorRegister(wideTailMask, g.width(4)) // in lanes of 32 bits
	if g.has64Bits {
		// wideTailMask then has lanes of 64 bits, and is extended from mask32 below.
		mask32 = vectorRegister(narrowTailMask, g.width(4))
	}
	var laneNumbers []byte
	for k := range max(g.lanes, 4) { // a vector register has at least 4 lanes of 32 bits
		laneNumbers = append(laneNumbers, byte(k), 0, 0, 0)
	}
	emit("VMOVD", regLimit, mask32.X())
	emit("VPBROADCASTD", mask32.X(), mask32)
	emit("VPCMPGTD", g.asm.Constant(laneNumbers), mask32, mask32)
	if g.has64Bits {
		emit("VPMOVSXDQ", mask32, vectorRegister(wideTailMask, g.width(8)))
	}
}

// copyTailIn writes copies of the elements of a tail to bounce buffers in the spill area, for operands that AVX2 cannot
// load with a mask.
func (g *generator) copyTailIn() {
	for k, ptr := range g.loop.Ptrs {
		if _, ok := g.bounceVectors[k]; ok && ptr.Kind == lane.Operand {
			g.copyTail(k, ptr.DType.Size(), intoBuffer)
		}
	}
	g.restoreDoubleIndex()
}

// copyTailOut writes copies of the results of a tail from bounce buffers to outputs.
func (g *generator) copyTailOut() {
	hasBounced := false
	for k := range g.outputCount {
		if _, ok := g.bounceVectors[k]; ok {
			hasBounced = true
		}
	}
	if !hasBounced {
		return
	}
	// The pass may have changed regLimit.
	g.asm.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetInnerCount}, regLimit)
	g.asm.Emit("SUBQ", regIndex, regLimit)
	for k := range g.outputCount {
		if _, ok := g.bounceVectors[k]; ok {
			g.copyTail(k, g.loop.Ptrs[k].DType.Size(), outOfBuffer)
		}
	}
	g.restoreDoubleIndex()
}

// restoreDoubleIndex writes the computation of regDoubleIndex after copyTail has changed it.
func (g *generator) restoreDoubleIndex() {
	if g.hasWideElements {
		g.asm.Emit("LEAQ", asm.Mem{Base: regIndex, Index: regIndex, Scale: 1}, regDoubleIndex)
	}
}

// copyDirection is a direction of copyTail.
type copyDirection uint8

const (
	outOfBuffer copyDirection = iota
	intoBuffer
)

// copyTail writes a loop that copies min(regLimit, g.lanes) elements between pointer k and its bounce buffer, one piece
// at a time. size is the size of an element in bytes. A piece is an element or, if the element has 16 bytes, half of
// it. The code changes regTemp, and regDoubleIndex, which gets the address of the first element.
func (g *generator) copyTail(k, size int, direction copyDirection) {
	emit, assembler := g.asm.Emit, g.asm
	base := g.loadPointer(k)
	piece := min(size, 8) // bytes
	emit("LEAQ", asm.Mem{Base: base, Index: regIndex, Scale: uint8(piece)}, regDoubleIndex)
	if size == 16 { // an index has no scale of 16, so 8*regIndex is added twice
		emit("LEAQ", asm.Mem{Base: regDoubleIndex, Index: regIndex, Scale: 8}, regDoubleIndex)
	}
	// regTemp counts the pieces down, from the number of pieces of min(regLimit, g.lanes) elements.
	emit("MOVL", asm.Imm(g.lanes), regTemp)
	emit("CMPQ", regLimit, regTemp)
	emit("CMOVQLT", regLimit, regTemp)
	if size == 16 { // two pieces for each element
		emit("ADDQ", regTemp, regTemp)
	}
	loop := assembler.NewLabel()
	assembler.Bind(loop)
	executedBefore := g.executedCount()
	buffer := int32(64 * g.bounceVectors[k]) // offset in the spill area
	// If regTemp is n, the loop copies piece n-1, which is n-1 pieces after the start.
	from := asm.Mem{Base: regDoubleIndex, Index: regTemp, Scale: uint8(piece), Disp: int32(-piece)}
	to := asm.Mem{Base: regSpill, Index: regTemp, Scale: uint8(piece), Disp: buffer - int32(piece)}
	if direction == outOfBuffer {
		from, to = to, from
	}
	g.copyPiece(from, to, piece)
	emit("DECL", regTemp)
	emit("JNE", loop)
	// The loop has at most g.lanes*size/piece iterations. executedCount has counted the first.
	g.extraExecuted += (g.executedCount() - executedBefore) * (g.lanes*size/piece - 1)
}

// copyPiece writes the copy of 1, 2 or 8 bytes through a free vector register. size is the number of bytes.
func (g *generator) copyPiece(from, to asm.Mem, size int) {
	emit := g.asm.Emit
	scratch := asm.X(g.scratchVector())
	switch size {
	case 1:
		emit("VPINSRB", asm.Imm(0), from, scratch, scratch)
		emit("VPEXTRB", asm.Imm(0), scratch, to)
	case 2:
		emit("VPINSRW", asm.Imm(0), from, scratch, scratch)
		emit("VPEXTRW", asm.Imm(0), scratch, to)
	default:
		emit("VMOVQ", from, scratch)
		emit("VMOVQ", scratch, to)
	}
}

// scratchVector returns a vector register that is free in tails.
func (g *generator) scratchVector() int {
	n := 31
	for g.tailRegisters.Pool[alloc.Vectors]>>n&1 == 0 {
		n--
	}
	return n
}
