package arm64

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/tensor"
)

// Compile compiles a loop. registers is the number of vector registers that may be used, or 0 for all. The error wraps
// ErrUnsupported of package target if the loop needs more registers or memory than there are.
//
// The code of a row has three parts. The main loop has passes of n elements. The rest loop has passes of fewer
// elements, whose widest value fills one register. The partial passes have half as many elements, a quarter, and so on
// down to one, and the same instructions with narrower loads and stores. Nothing beyond an operand is read or written,
// and no masks are needed. An iteration of the main loop is one pass. If there are folds, it consists of as many passes
// as fold an element into each accumulator.
func Compile(l *lane.Loop, registers int, withListing bool) (jit.Code, error) {
	if registers == 0 {
		registers = 32
	}
	assembler := &asm.Assembler{WithListing: withListing}
	g := &generator{selector: newSelector(l), registers: registers, out: writer{asm: assembler}}
	if err := g.layOutFrame(); err != nil {
		return jit.Code{}, err
	}
	g.emit()
	code, err := jit.Finish(g.out.asm)
	code.Work = g.work
	return code, err
}

// emit writes the code.
func (g *generator) emit() {
	e, a := g.out.asm.Emit, g.out.asm
	rowStart, done := a.NewLabel(), a.NewLabel()
	g.prologue()
	a.Bind(rowStart)
	g.out.write(g.rowCode.Out, g.mainPass.lanes)
	g.mainLoop()
	g.restLoop()
	g.rewindAccPointers()
	if g.loop.Totals {
		g.out.write(g.accTotals.Out, lane.FoldLanes)
	}
	counter := g.out.pointer(g.rowCounter())
	e("subs", counter, counter, asm.Imm(1))
	e("b.eq", done)
	g.out.savePointer(g.rowCounter())
	g.nextRow()
	e("b", rowStart)
	a.Bind(done)
	e("ret")
	g.work.Row += g.out.executedCount()
}

// prologue writes the loads of pointers and of permanent constants.
func (g *generator) prologue() {
	e := g.out.asm.Emit
	e("add", regSpill, regArgs, asm.Imm(jit.OffsetSpill+63))
	e("and", regSpill, regSpill, asm.Imm(-64))
	for k := range g.out.baseOf {
		r, from := regPointer, jit.OffsetPtr+int32(8*k)
		if b := g.out.baseOf[k]; b >= 0 {
			r = bases[b]
		}
		switch {
		case k == g.rowCounter():
			from = jit.OffsetRows
		case k >= len(g.loop.Ptrs):
			e("add", r, regSpill, asm.Imm(g.accOffset[k-len(g.loop.Ptrs)]))
			g.out.savePointer(k)
			continue
		case g.loop.Ptrs[k].D == tensor.Invalid:
			continue
		}
		e("ldr", r, asm.Mem{Base: regArgs, Offset: int(from)})
		g.out.savePointer(k)
	}
	for v, r := range g.permanent {
		if x := &g.Values[v]; r >= 0 && x.Reload != nil && x.Constant {
			g.out.load(x.Reload.Name, &x.Reload.Mem, int(r))
		}
	}
}

// mainLoop writes the main loop. Afterwards, regLeft is the number of elements that are left minus the elements of an
// iteration.
func (g *generator) mainLoop() {
	e, a := g.out.asm.Emit, g.out.asm
	g.out.firstAccRegister, g.out.accSets = g.firstAccRegister, g.accSetsOf(g.mainPass)
	perIteration := g.mainPass.lanes * g.out.accSets
	rest := a.NewLabel()
	moveAccs := func(list []alloc.Out) {
		for g.out.iteration = range g.out.accSets {
			g.out.write(list, g.mainPass.lanes)
		}
		g.out.iteration = 0
	}
	totals := g.loop.Totals
	if totals && g.accsInRegisters {
		moveAccs(g.accLoads.Out)
	} else if totals {
		g.out.write(g.accInits.Out, lane.FoldLanes)
	}
	e("ldr", regLeft, asm.Mem{Base: regArgs, Offset: int(jit.OffsetN)})
	e("subs", regLeft, regLeft, asm.Imm(perIteration))
	e("b.lt", rest)
	if g.accsInRegisters && !totals {
		moveAccs(g.accLoads.Out)
	}
	top := a.NewLabel()
	a.Align(16)
	a.Bind(top)
	before := g.out.executedCount()
	for g.out.iteration = range g.out.accSets {
		g.out.write(g.mainCode.Out, g.mainPass.lanes)
	}
	g.out.iteration = 0
	g.advance(perIteration, false)
	e("subs", regLeft, regLeft, asm.Imm(perIteration))
	e("b.ge", top)
	g.work.Iteration, g.work.IterationElements = g.out.executedCount()-before, perIteration
	g.work.Row -= g.work.Iteration
	if g.accsInRegisters && !totals {
		moveAccs(g.accStores.Out)
	}
	a.Bind(rest)
	if g.accsInRegisters && totals {
		moveAccs(g.accStores.Out)
	}
}

// restLoop writes the rest loop and the partial passes.
func (g *generator) restLoop() {
	e, a := g.out.asm.Emit, g.out.asm
	lanes, perIteration := g.restPass.lanes, g.work.IterationElements
	g.work.TailElements = lanes
	if perIteration > lanes {
		top, partial := a.NewLabel(), a.NewLabel()
		e("adds", regLeft, regLeft, asm.Imm(perIteration-lanes))
		e("b.lt", partial)
		a.Bind(top)
		before := g.out.executedCount()
		g.out.write(g.restCode.Out, lanes)
		g.advance(lanes, true)
		e("subs", regLeft, regLeft, asm.Imm(lanes))
		e("b.ge", top)
		g.work.TailIteration = g.out.executedCount() - before
		g.work.Row -= g.work.TailIteration
		a.Bind(partial)
	}
	partialWork := 0 // number of instructions of the partial passes
	// The low bits of regLeft are those of the number of elements that are left, because lanes is a power of two.
	for m := lanes / 2; m > 0; m /= 2 {
		skip := a.NewLabel()
		e("tbz", regLeft, asm.Imm(bits.TrailingZeros(uint(m))), skip)
		before := g.out.executedCount()
		g.out.write(g.restCode.Out, m)
		g.advance(m, true)
		partialWork += g.out.executedCount() - before
		a.Bind(skip)
	}
	// The bound of the work counts the partial passes as one pass.
	if perIteration == lanes {
		g.work.TailIteration = partialWork
	}
	g.work.Row -= min(partialWork, g.work.TailIteration)
}

// advance writes the increments of pointers by n elements. The pointers to accumulators advance only in the rest loop,
// because an iteration of the main loop ends at the first accumulator.
func (g *generator) advance(n int, rest bool) {
	for k := range g.out.baseOf {
		size := g.elementBytes(k)
		if size == 0 || g.isAccPointer(k) && !rest {
			continue
		}
		r := g.out.pointer(k)
		g.out.asm.Emit("add", r, r, asm.Imm(n*size))
		g.out.savePointer(k)
	}
}

// rewindAccPointers writes the return of pointers to accumulators to the first accumulator.
func (g *generator) rewindAccPointers() {
	if len(g.loop.Folds) == 0 {
		return
	}
	e := g.out.asm.Emit
	e("ldr", regCount, asm.Mem{Base: regArgs, Offset: int(jit.OffsetN)})
	e("and", regCount, regCount, asm.Imm(lane.FoldLanes-1))
	for k := range g.out.baseOf {
		if size := g.elementBytes(k); size > 0 && g.isAccPointer(k) {
			g.subtractElements(g.out.pointer(k), size)
			g.out.savePointer(k)
		}
	}
}

// subtractElements writes the subtraction of regCount elements from a pointer.
func (g *generator) subtractElements(r asm.Reg, size int) {
	g.out.asm.Emit("sub", r, r, regCount, asm.Shift(bits.TrailingZeros(uint(size))))
}

// nextRow writes the increments of pointers from the end of a row to the next row.
func (g *generator) nextRow() {
	e := g.out.asm.Emit
	e("ldr", regCount, asm.Mem{Base: regArgs, Offset: int(jit.OffsetN)})
	for k, p := range g.loop.Ptrs {
		if p.D == tensor.Invalid {
			continue
		}
		r := g.out.pointer(k)
		e("ldr", regStride, asm.Mem{Base: regArgs, Offset: int(jit.OffsetRow) + 8*k})
		e("add", r, r, regStride)
		if size := g.elementBytes(k); size > 0 && !g.isAccPointer(k) {
			g.subtractElements(r, size)
		}
		g.out.savePointer(k)
	}
}
