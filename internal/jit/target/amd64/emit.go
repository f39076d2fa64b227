package amd64

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
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
// A pass computes g.lanes elements, one for each lane. An iteration of the main loop has passesPerIteration passes. For
// example, a row of 100 elements with 16 lanes and two passes in an iteration has three iterations, for 96 elements,
// and one masked pass for 4 elements.
//
// bodyCode is the code of interleavedPasses passes. If an iteration has more passes, it contains this code several
// times. A fold (reduction of a row) has accSets sets of accumulator registers, which successive passes use in
// rotation. The last argument of writeInsts is the number of the first pass in the iteration, or of a set of
// accumulators.
//
// Pointer k is in the register pointerRegisters[k]. If this is regTemp, the pointer is in the spill area of jit.Args,
// and regTemp holds it only between loadPointer and savePointer (pointers.go). The counter of rows is stored in the
// same way as a pointer. Elements of 16 bytes are addressed by regDoubleIndex, twice the index, because a scale is at
// most 8.
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
	for pointer, register := range g.pointerRegisters {
		offset := jit.OffsetPtr + int32(8*pointer)
		if pointer == g.rowCounter() {
			offset = jit.OffsetRows
		}
		emit("MOVQ", asm.Mem{Base: regArgs, Disp: offset}, register)
		g.savePointer(pointer)
	}
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
	if counter := g.pointerRegisters[g.rowCounter()]; counter != regTemp {
		g.asm.Emit("DECQ", counter)
	} else { // in the spill area
		g.asm.Emit("DECQ", g.pointerWord(g.rowCounter()))
	}
	g.asm.Emit("JEQ", done)
}

// advanceRow writes the code that advances all pointers to the next row, by the distances in jit.Args.Row.
func (g *generator) advanceRow() {
	for pointer := range g.loop.Ptrs {
		register := g.loadPointer(pointer)
		g.asm.Emit("ADDQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRow + int32(8*pointer)}, register)
		g.savePointer(pointer)
	}
}

// executedCount returns a bound on the number of instructions that the code so far executes if each loop over elements
// has one iteration. Loops inside an iteration, such as copyTail's, count with all their iterations.
func (g *generator) executedCount() int { return g.asm.Instructions() + g.extraExecuted }

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
	emit("SUBQ", asm.Imm(step), regLimit) // regLimit: the last index at which an iteration of step elements fits
	emit("JLT", end)
	// Accumulators in registers are loaded before the main loop and stored after it. With CombinesLanes, which combines
	// the lanes of an accumulator into one total, startRow and countRow load and store them.
	keepsAccs := g.accsInRegisters && !g.loop.CombinesLanes
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
	g.writesNonTemporal = true // read by writeInsts
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
		reg := g.pointerRegisters[k]
		if reg == regTemp { // in the spill area
			reg = regIndex // it is 0 here, so it is free, and is set to 0 again below
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
	g.work.Row -= executed // emit adds all instructions
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
		advancesAlongRow := g.advances[g.outputCount+k]
		if !isRequested || !advancesAlongRow || size > 8 { // a scale is at most 8
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
