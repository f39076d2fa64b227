package arm64

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Compile compiles a loop. registers is the number of vector registers that may be used, or 0 for all. The error wraps
// ErrUnsupported of package target if the loop needs more registers or memory than there are.
//
// A pass is the code that computes a fixed number of adjacent elements of a row. The code of a row has three parts:
//   - The main loop. The number of elements of its passes is chosen for speed.
//   - The tail loop. In its passes, the widest value fills one register.
//   - The partial passes. They are passes of the tail loop with narrower loads and stores, for half as many elements, a
//     quarter, and so on down to one element. They need no masks, and access nothing beyond an operand.
//
// An iteration of the main loop is one pass, unless the loop has folds (reductions of rows). A fold has lane.FoldLanes
// accumulators, and an iteration has several passes, which together fold one element into each accumulator. If the loop
// has totals (CombinesLanes), the code of a row ends with the combination of the accumulators to one number.
//
// For example, a row of 23 float32 elements may take one pass of 16 elements in the main loop, one pass of 4 elements
// in the tail loop, and partial passes of 2 elements and of 1 element.
func Compile(loop *lane.Loop, registers int, withListing bool) (jit.Code, error) {
	if registers == 0 {
		registers = 32
	}
	assembler := &asm.Assembler{WithListing: withListing}
	gen := &generator{selector: newSelector(loop), registers: registers, out: writer{asm: assembler}}
	if err := gen.layOutFrame(); err != nil {
		return jit.Code{}, err
	}
	gen.emit()
	code, err := jit.Finish(gen.out.asm)
	code.Work = gen.work
	return code, err
}

// emit writes the loop over rows.
func (g *generator) emit() {
	emit, assembler := g.out.asm.Emit, g.out.asm
	rowStart, done := assembler.NewLabel(), assembler.NewLabel()
	g.writePrologue()

	assembler.Bind(rowStart)
	g.out.write(g.rowCode.Insts, g.mainPass.lanes) // computes the values that are constant along the row
	mainElements := g.writeMainLoop()
	g.writeTailLoop(mainElements)
	g.rewindAccPointers()
	if g.loop.CombinesLanes {
		g.out.write(g.accFinishCode.Insts, lane.FoldLanes)
	}

	counter := g.out.pointer(g.rowCounter())
	emit("subs", counter, counter, asm.Imm(1))
	emit("b.eq", done)
	g.out.savePointer(g.rowCounter())
	g.advanceRow()
	emit("b", rowStart)
	assembler.Bind(done)
	emit("ret")
	g.work.Row += g.out.executedCount() // the loops over elements have subtracted their instructions
}

// writePrologue writes the loads of pointers and of permanent constants. A pointer that has no register is in the spill
// area: the method pointer loads it to a register, and savePointer stores it.
func (g *generator) writePrologue() {
	emit := g.out.asm.Emit
	// The spill area starts at the next multiple of 64.
	emit("add", regSpill, regArgs, asm.Imm(jit.OffsetSpill+63))
	emit("and", regSpill, regSpill, asm.Imm(-64))
	for k, reg := range g.out.pointerRegisters {
		switch {
		case k == g.rowCounter():
			emit("ldr", reg, asm.Mem{Base: regArgs, Offset: int(jit.OffsetRows)})
		case k >= len(g.loop.Ptrs): // a pointer to the accumulators of a total, in the spill area
			emit("add", reg, regSpill, asm.Imm(g.pointers[k].accOffset))
		case g.loop.Ptrs[k].DType == tensor.Invalid: // an unused output
			continue
		default:
			emit("ldr", reg, asm.Mem{Base: regArgs, Offset: int(jit.OffsetPtr) + 8*k})
		}
		g.out.savePointer(k)
	}
	// permanent has, for each value, the register that it keeps during all rows, or -1. Reload is the load instruction
	// of a value, and Reload.Name its mnemonic.
	for v, reg := range g.permanent {
		if value := &g.Values[v]; reg >= 0 && value.Reload != nil && value.Constant {
			g.out.load(value.Reload.Name, &value.Reload.Mem, int(reg))
		}
	}
}

// writeMainLoop writes the main loop, and returns the number of elements of an iteration. After the loop, regRemaining
// is the number of remaining elements minus this number.
func (g *generator) writeMainLoop() (elementsPerIteration int) {
	emit, assembler := g.out.asm.Emit, g.out.asm
	g.out.firstAccRegister, g.out.passCount = g.firstAccRegister, g.passCountOf(g.mainPass)
	elementsPerIteration = g.mainPass.lanes * g.out.passCount
	tail := assembler.NewLabel()
	// writeForAllPasses writes a list for each pass of an iteration. Each pass has its own set of accumulators.
	writeForAllPasses := func(list []alloc.Allocated) {
		for g.out.passIndex = range g.out.passCount {
			g.out.write(list, g.mainPass.lanes)
		}
		g.out.passIndex = 0
	}
	// With totals, a fold gives one number for each row. Its accumulators are then initialized for every row, even for
	// one without iterations, in registers (accLoadCode) or in memory (accInitCode). Otherwise they are kept in memory
	// across rows, and a row without iterations does not load them into registers.
	hasTotals := g.loop.CombinesLanes
	loadsForEveryRow, loadsForIterations := g.accsInRegisters && hasTotals, g.accsInRegisters && !hasTotals
	if loadsForEveryRow {
		writeForAllPasses(g.accLoadCode.Insts)
	} else if hasTotals {
		g.out.write(g.accInitCode.Insts, lane.FoldLanes)
	}

	emit("ldr", regRemaining, asm.Mem{Base: regArgs, Offset: int(jit.OffsetInnerCount)})
	emit("subs", regRemaining, regRemaining, asm.Imm(elementsPerIteration))
	emit("b.lt", tail)
	if loadsForIterations {
		writeForAllPasses(g.accLoadCode.Insts)
	}
	top := assembler.NewLabel()
	assembler.Align(16)
	assembler.Bind(top)
	executedBefore := g.out.executedCount()
	writeForAllPasses(g.mainCode.Insts)
	g.advance(elementsPerIteration, withoutAccs)
	emit("subs", regRemaining, regRemaining, asm.Imm(elementsPerIteration))
	emit("b.ge", top)
	g.work.Iteration, g.work.IterationElements = g.out.executedCount()-executedBefore, elementsPerIteration
	g.work.Row -= g.work.Iteration // emit adds all instructions to g.work.Row

	if loadsForIterations {
		writeForAllPasses(g.accStoreCode.Insts)
	}
	assembler.Bind(tail)
	if loadsForEveryRow {
		writeForAllPasses(g.accStoreCode.Insts)
	}
	return elementsPerIteration
}

// writeTailLoop writes the tail loop and the partial passes. mainElements is the number of elements of an iteration of
// the main loop.
func (g *generator) writeTailLoop(mainElements int) {
	emit, assembler := g.out.asm.Emit, g.out.asm
	lanes := g.tailPass.lanes
	g.work.TailElements = lanes
	hasTailLoop := mainElements > lanes // otherwise fewer than `lanes` elements remain
	if hasTailLoop {
		top, partial := assembler.NewLabel(), assembler.NewLabel()
		// For n remaining elements, regRemaining is n - mainElements. It becomes n - lanes.
		emit("adds", regRemaining, regRemaining, asm.Imm(mainElements-lanes))
		emit("b.lt", partial)
		assembler.Bind(top)
		executedBefore := g.out.executedCount()
		g.out.write(g.tailCode.Insts, lanes)
		g.advance(lanes, withAccs)
		emit("subs", regRemaining, regRemaining, asm.Imm(lanes))
		emit("b.ge", top)
		g.work.TailIteration = g.out.executedCount() - executedBefore
		g.work.Row -= g.work.TailIteration
		assembler.Bind(partial)
	}
	partialWork := 0 // number of instructions of the partial passes
	// regRemaining is the number of remaining elements minus lanes. Its low bits select the partial passes. The
	// subtraction of lanes, a power of two, did not change these bits.
	for elements := lanes / 2; elements > 0; elements /= 2 {
		skip := assembler.NewLabel()
		emit("tbz", regRemaining, asm.Imm(bits.TrailingZeros(uint(elements))), skip)
		executedBefore := g.out.executedCount()
		g.out.write(g.tailCode.Insts, elements)
		g.advance(elements, withAccs)
		partialWork += g.out.executedCount() - executedBefore
		assembler.Bind(skip)
	}
	// g.work, the bound on executed instructions, counts all partial passes as one iteration of the tail loop. If they
	// have more instructions than an iteration, Row keeps the difference.
	if !hasTailLoop {
		g.work.TailIteration = partialWork
	}
	g.work.Row -= min(partialWork, g.work.TailIteration)
}

// Values of the argument includesAccs of advance. The pointers to accumulators do not advance in the main loop: each
// iteration accesses all accumulators and starts at the first one.
const (
	withoutAccs = false
	withAccs    = true
)

// advance writes the increments of pointers by a number of elements. If includesAccs is set, it also increments the
// pointers to accumulators.
func (g *generator) advance(elements int, includesAccs bool) {
	for k, ptr := range g.pointers {
		if ptr.step == 0 || ptr.isAcc && !includesAccs {
			continue
		}
		reg := g.out.pointer(k)
		g.out.asm.Emit("add", reg, reg, asm.Imm(elements*ptr.step))
		g.out.savePointer(k)
	}
}

// rewindAccPointers writes instructions that set the pointers to accumulators back to the first accumulator. The tail
// of a row of n elements has moved them by n modulo FoldLanes elements, because an iteration of the main loop has
// FoldLanes elements.
func (g *generator) rewindAccPointers() {
	if len(g.loop.Folds) == 0 {
		return
	}
	emit := g.out.asm.Emit
	emit("ldr", regCount, asm.Mem{Base: regArgs, Offset: int(jit.OffsetInnerCount)})
	emit("and", regCount, regCount, asm.Imm(lane.FoldLanes-1))
	for k, ptr := range g.pointers {
		if ptr.isAcc {
			g.subtractElements(g.out.pointer(k), ptr.step)
			g.out.savePointer(k)
		}
	}
}

// subtractElements writes the subtraction of regCount elements from a pointer.
func (g *generator) subtractElements(reg asm.Reg, size int) {
	g.out.asm.Emit("sub", reg, reg, regCount, asm.Shift(bits.TrailingZeros(uint(size))))
}

// advanceRow writes the increments of pointers from the end of a row to the next row.
func (g *generator) advanceRow() {
	emit := g.out.asm.Emit
	emit("ldr", regCount, asm.Mem{Base: regArgs, Offset: int(jit.OffsetInnerCount)})
	for k, ptr := range g.loop.Ptrs {
		if ptr.DType == tensor.Invalid {
			continue
		}
		reg := g.out.pointer(k)
		emit("ldr", regStride, asm.Mem{Base: regArgs, Offset: int(jit.OffsetRow) + 8*k})
		emit("add", reg, reg, regStride)
		if step := g.pointers[k].step; step > 0 && !g.pointers[k].isAcc {
			g.subtractElements(reg, step)
		}
		g.out.savePointer(k)
	}
}
