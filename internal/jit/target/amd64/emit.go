package amd64

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// emit writes the code:
//
//	load pointers and constants                           (startCall)
//	for each row {
//		compute row constants                             (startRow, rowCode)
//		for each iteration: passes of g.lanes elements    (writeFullPasses, bodyCode)
//		for the remaining elements: masked passes         (writeTailLoop, tailCode)
//		store totals, and end after the last row          (countRow)
//		advance pointers to the next row                  (advanceRow)
//	}
//
// For example, a row of 100 elements with 16 lanes and two passes in an iteration has three iterations, for 96
// elements, and one masked pass for 4 elements.
//
// An iteration has passesPerIteration passes, and bodyCode has interleavedPasses of them. There are accSets sets of
// accumulator registers, which successive passes use in rotation. The last argument of writeInsts is the number of a
// pass in the iteration, or of a set. Pointer k is in a register (registerIndexOf) or in the spill area of jit.Args.
//
// A masked pass loads and stores only the remaining elements. AVX2 has no masked loads for elements of 1 or 2 bytes and
// for complex elements. Such elements are copied, before the pass, to a vector of the spill area (the bounce buffer of
// the operand), or from there to the output after the pass.
//
// g.work bounds the number of executed instructions: for a row outside the loops over elements (Row), for an iteration
// of the main loop, and for a masked pass. emit finally adds all written instructions to Row, so the writers of the
// loops subtract the instructions of their loops.
func (g *generator) emit() error {
	if err := g.layOutFrame(); err != nil {
		return err
	}
	emit, assembler := g.asm.Emit, g.asm
	done, rowStart := assembler.NewLabel(), assembler.NewLabel()
	g.startCall()
	assembler.Bind(rowStart)
	g.startRow()
	g.writeFullPasses()
	g.writeTailLoop()
	g.countRow(done)
	g.advanceRow()
	emit("JMP", rowStart)
	assembler.Bind(done)
	if g.hasNonTemporalStores() && !g.options.Unfenced {
		emit("SFENCE")
	}
	emit("VZEROUPPER")
	emit("RET")
	g.work.Row += g.executedCount()
	return g.err
}

// startCall writes the code that runs once per call: it computes the start of the spill area, and loads the pointers,
// the number of rows, and the constants in permanent registers.
func (g *generator) startCall() {
	emit := g.asm.Emit
	// The spill area starts at the next multiple of 64.
	emit("LEAQ", asm.Mem{Base: regArgs, Disp: jit.OffsetSpill + 63}, regSpill)
	emit("ANDQ", asm.Imm(-64), regSpill)
	for pointer := range g.registerIndexOf[:g.rowCounter] {
		emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetPtr + int32(8*pointer)}, g.pointerRegister(pointer, regTemp))
		g.savePointer(pointer, regTemp)
	}
	emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRows}, g.pointerRegister(g.rowCounter, regTemp))
	g.savePointer(g.rowCounter, regTemp)
	for virt := range g.Values {
		if value := &g.Values[virt]; value.Reload != nil && value.Constant && g.bodyRegisters.Permanent[virt] >= 0 {
			emit(value.Reload.Name, g.asm.Constant([]byte(value.Reload.Mem.Data)),
				vectorRegister(int(g.bodyRegisters.Permanent[virt]), value.Bytes))
		}
	}
}

// startRow writes the code that runs once per row, before the passes: it computes the row constants, sets the index of
// the element to 0, and initializes the accumulators of totals.
func (g *generator) startRow() {
	g.writeInsts(g.rowCode.Insts, 0)
	g.asm.Emit("XORL", regIndex, regIndex)
	if g.hasWideElements {
		g.asm.Emit("XORL", regDoubleIndex, regDoubleIndex)
	}
	if g.loop.CombinesLanes {
		for set := range g.accSets {
			g.writeInsts(g.accLoads.Insts, set)
		}
	}
}

// countRow writes the code after the passes of a row: it stores the totals, and jumps to done after the last row.
func (g *generator) countRow(done asm.Label) {
	if g.loop.CombinesLanes {
		g.writeInsts(g.accStores.Insts, 0)
	}
	if g.registerIndexOf[g.rowCounter] >= 0 {
		g.asm.Emit("DECQ", g.pointerRegister(g.rowCounter, 0))
	} else {
		g.asm.Emit("DECQ", g.pointerWord(g.rowCounter))
	}
	g.asm.Emit("JEQ", done)
}

// advanceRow writes the code that advances all pointers to the next row, by the distances in jit.Args.Row.
func (g *generator) advanceRow() {
	for pointer := range g.registerIndexOf[:g.rowCounter] {
		register := g.loadPointer(pointer)
		g.asm.Emit("ADDQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRow + int32(8*pointer)}, register)
		g.savePointer(pointer, register)
	}
}

// executedCount returns a bound on the number of instructions that the code so far executes if each loop over elements
// has one iteration. Loops inside an iteration, such as copyTail's, count with all their iterations.
func (g *generator) executedCount() int { return g.asm.Instructions() + g.extraExecuted }

// pointerRegister returns the register of pointer k, or the register `fallback` if the pointer is in the spill area.
func (g *generator) pointerRegister(k int, fallback asm.Reg) asm.Reg {
	if index := g.registerIndexOf[k]; index >= 0 {
		return pointerRegisters[index]
	}
	return fallback
}

// pointerWord returns the word of the spill area that holds pointer k.
func (g *generator) pointerWord(k int) asm.Mem { return asm.Mem{Base: regSpill, Disp: int32(8 * k)} }

// loadPointer returns a register with pointer k. If the pointer is in the spill area, loadPointer loads it to regTemp.
func (g *generator) loadPointer(k int) asm.Reg {
	reg := g.pointerRegister(k, regTemp)
	if g.registerIndexOf[k] < 0 {
		g.asm.Emit("MOVQ", g.pointerWord(k), reg)
	}
	return reg
}

// savePointer stores pointer k from a register, if the pointer is in the spill area.
func (g *generator) savePointer(k int, register asm.Reg) {
	if g.registerIndexOf[k] < 0 {
		g.asm.Emit("MOVQ", register, g.pointerWord(k))
	}
}

// hasNonTemporalStores reports whether the body has non-temporal stores.
func (g *generator) hasNonTemporalStores() bool {
	return slices.ContainsFunc(g.bodyCode.Insts, func(inst alloc.Allocated) bool { return inst.NonTemporal != "" })
}

// writeFullPasses writes the main loop, which runs the full passes of a row.
func (g *generator) writeFullPasses() {
	emit, assembler := g.asm.Emit, g.asm
	step := g.lanes * g.passesPerIteration
	end := assembler.NewLabel()
	emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetInnerCount}, regLimit)
	emit("SUBQ", asm.Imm(step), regLimit)
	emit("JLT", end)
	keepsAccs := g.accsInRegisters && !g.loop.CombinesLanes // startRow and countRow write this code for totals
	if keepsAccs {
		for set := range g.accSets {
			g.writeInsts(g.accLoads.Insts, set)
		}
	}
	if g.hasNonTemporalStores() {
		g.writeNonTemporalLoop(step)
	} else {
		g.writeMainLoop(step)
	}
	if keepsAccs {
		for set := range g.accSets {
			g.writeInsts(g.accStores.Insts, set)
		}
	}
	assembler.Bind(end)
}

// writeNonTemporalLoop writes the main loop with non-temporal stores and, for rows that are not aligned, the main loop
// with ordinary stores.
func (g *generator) writeNonTemporalLoop(step int) {
	ordinary, end := g.asm.NewLabel(), g.asm.NewLabel()
	g.checkAlignment(ordinary)
	g.writesNonTemporal = true
	g.writeMainLoop(step)
	g.writesNonTemporal = false
	g.asm.Emit("JMP", end)
	g.asm.Bind(ordinary)
	g.writeMainLoop(step)
	g.asm.Bind(end)
}

// checkAlignment writes a check that jumps to the label `otherwise` unless the addresses of all outputs with
// non-temporal stores are multiples of 64: the low bits of all addresses, combined by OR, must be 0.
func (g *generator) checkAlignment(otherwise asm.Label) {
	combine := "MOVQ" // the first address is copied to regTemp, and further ones are combined with it
	for k := range g.outputCount {
		isStoredNonTemporal := slices.ContainsFunc(g.bodyCode.Insts, func(inst alloc.Allocated) bool {
			return inst.NonTemporal != "" && inst.Args[len(inst.Args)-1].Mem.Index == k // the last is the destination
		})
		if !isStoredNonTemporal {
			continue
		}
		reg := g.pointerRegister(k, regIndex) // regIndex is 0 here, so it is free, and is set to 0 again below
		if g.registerIndexOf[k] < 0 {
			g.asm.Emit("MOVQ", g.pointerWord(k), reg)
		}
		g.asm.Emit(combine, reg, regTemp)
		combine = "ORQ"
	}
	g.asm.Emit("XORL", regIndex, regIndex)
	g.asm.Emit("TESTL", asm.Imm(63), regTemp)
	g.asm.Emit("JNE", otherwise)
}

// writeMainLoop writes the main loop. Each iteration has g.passesPerIteration passes, which together compute
// step elements.
func (g *generator) writeMainLoop(step int) {
	loop, executedBefore := g.asm.NewLabel(), g.executedCount()
	g.asm.Align(32)
	g.asm.Bind(loop)
	for pass := 0; pass < g.passesPerIteration; pass += g.interleavedPasses {
		g.writeInsts(g.bodyCode.Insts, pass)
	}
	g.writePrefetches()
	g.advance(step)
	g.asm.Emit("CMPQ", regIndex, regLimit)
	g.asm.Emit("JLE", loop)
	executed := g.executedCount() - executedBefore
	g.work.Iteration = max(g.work.Iteration, executed) // the main loop may exist in two versions
	g.work.IterationElements = step
	g.work.Row -= executed
}

// writePrefetches writes the prefetches of an iteration of the main loop. They fetch the cache lines at the requested
// distance from its operands.
func (g *generator) writePrefetches() {
	bytes, name := g.options.Prefetch.Bytes, "PREFETCHT1"
	if g.options.Prefetch.IntoL1 {
		name = "PREFETCHT0"
	}
	for k, ptr := range g.loop.Ptrs[g.outputCount:] {
		size := ptr.DType.Size()
		isRequested := bytes != 0 && g.options.Prefetch.Operands>>k&1 == 1
		if !isRequested || !g.advances[g.outputCount+k] || size > 8 {
			continue
		}
		base := g.loadPointer(g.outputCount + k)
		for offset := 0; offset < g.lanes*g.passesPerIteration*size; offset += 64 {
			g.asm.Emit(name, asm.Mem{Base: base, Index: regIndex, Scale: uint8(size), Disp: bytes + int32(offset)})
		}
	}
}

// advance writes the increment of the element index by a number of elements.
func (g *generator) advance(elements int) {
	g.asm.Emit("ADDQ", asm.Imm(elements), regIndex)
	if g.hasWideElements {
		g.asm.Emit("ADDQ", asm.Imm(2*elements), regDoubleIndex)
	}
}

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
		mask32 = vectorRegister(narrowTailMask, g.width(4))
	}
	var laneNumbers []byte
	for k := range max(g.lanes, 4) {
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
	// regTemp is n for piece n-1: its address is the start plus (n-1) pieces.
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
