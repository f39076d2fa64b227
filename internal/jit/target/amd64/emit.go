package amd64

import (
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// emit writes the code. For each row, the code computes row constants, runs the full iterations, and then computes the
// tail.
func (g *gen) emit() error {
	if err := g.layOutFrame(); err != nil {
		return err
	}
	e, a := g.asm.Emit, g.asm
	done, rowStart := a.NewLabel(), a.NewLabel()
	e("LEAQ", asm.Mem{Base: regArgs, Disp: jit.OffsetSpill + 63}, regSpill)
	e("ANDQ", asm.Imm(-64), regSpill)
	for k := range g.baseOf[:g.rowCounter] {
		e("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetPtr + int32(8*k)}, g.pointerRegister(k, regTemp))
		g.savePointer(k, regTemp)
	}
	e("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRows}, g.pointerRegister(g.rowCounter, regTemp))
	g.savePointer(g.rowCounter, regTemp)
	for v := range g.Values {
		if x := &g.Values[v]; x.Reload != nil && x.Constant && g.bodyRegisters.Permanent[v] >= 0 {
			e(x.Reload.Name, g.asm.Constant([]byte(x.Reload.Mem.Data)), vectorRegister(int(g.bodyRegisters.Permanent[v]),
				x.Bytes))
		}
	}
	a.Bind(rowStart)
	g.writeInsts(g.rowCode.Out, 0)
	e("XORL", regIndex, regIndex)
	if g.hasWideElements {
		e("XORL", regDoubleIndex, regDoubleIndex)
	}
	if g.loop.Totals {
		for u := range g.accSets {
			g.writeInsts(g.accLoads.Out, u)
		}
	}
	g.fullIterations()
	g.tailLoop()
	if g.loop.Totals {
		g.writeInsts(g.accStores.Out, 0)
	}
	if g.baseOf[g.rowCounter] >= 0 {
		e("DECQ", g.pointerRegister(g.rowCounter, 0))
	} else {
		e("DECQ", g.pointerSlot(g.rowCounter))
	}
	e("JEQ", done)
	for k := range g.baseOf[:g.rowCounter] {
		r := g.loadPointer(k)
		e("ADDQ", asm.Mem{Base: regArgs, Disp: jit.OffsetRow + int32(8*k)}, r)
		g.savePointer(k, r)
	}
	e("JMP", rowStart)
	a.Bind(done)
	if g.hasNonTemporalStores() && !g.opts.Unfenced {
		e("SFENCE")
	}
	e("VZEROUPPER")
	e("RET")
	g.work.Row += g.executedCount()
	return g.err
}

// executedCount returns the number of instructions that the code written so far executes if the main loop makes one
// pass.
func (g *gen) executedCount() int { return g.asm.Instructions() + g.extraExecuted }

// pointerRegister returns the register of pointer k, or the register `fallback` if the pointer is in the spill area.
func (g *gen) pointerRegister(k int, fallback asm.Reg) asm.Reg {
	if b := g.baseOf[k]; b >= 0 {
		return bases[b]
	}
	return fallback
}

func (g *gen) pointerSlot(k int) asm.Mem { return asm.Mem{Base: regSpill, Disp: int32(8 * k)} }

// loadPointer returns a register with pointer k. If the pointer is in the spill area, loadPointer loads it to regTemp.
func (g *gen) loadPointer(k int) asm.Reg {
	r := g.pointerRegister(k, regTemp)
	if g.baseOf[k] < 0 {
		g.asm.Emit("MOVQ", g.pointerSlot(k), r)
	}
	return r
}

func (g *gen) savePointer(k int, r asm.Reg) {
	if g.baseOf[k] < 0 {
		g.asm.Emit("MOVQ", r, g.pointerSlot(k))
	}
}

// hasNonTemporalStores reports whether the body has non-temporal stores.
func (g *gen) hasNonTemporalStores() bool {
	return slices.ContainsFunc(g.bodyCode.Out, func(p alloc.Out) bool { return p.NonTemporal != "" })
}

// fullIterations writes the loop over full iterations of a row.
func (g *gen) fullIterations() {
	e, a := g.asm.Emit, g.asm
	step := g.lanes * g.unroll
	end := a.NewLabel()
	e("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetN}, regLimit)
	e("SUBQ", asm.Imm(step), regLimit)
	e("JLT", end)
	if g.accsInRegisters && !g.loop.Totals {
		for u := range g.accSets {
			g.writeInsts(g.accLoads.Out, u)
		}
	}
	if g.hasNonTemporalStores() {
		plain, after := a.NewLabel(), a.NewLabel()
		g.checkAlignment(plain)
		g.writesNonTemporal = true
		g.iterationLoop(step)
		g.writesNonTemporal = false
		e("JMP", after)
		a.Bind(plain)
		g.iterationLoop(step)
		a.Bind(after)
	} else {
		g.iterationLoop(step)
	}
	if g.accsInRegisters && !g.loop.Totals {
		for u := range g.accSets {
			g.writeInsts(g.accStores.Out, u)
		}
	}
	a.Bind(end)
}

// checkAlignment writes a check that jumps to the label `otherwise` unless all non-temporal stores are aligned to
// vectors.
func (g *gen) checkAlignment(otherwise asm.Label) {
	first := true
	for k := range g.outputs {
		if !slices.ContainsFunc(g.bodyCode.Out, func(p alloc.Out) bool {
			return p.NonTemporal != "" && p.Args[len(p.Args)-1].Mem.Index == k
		}) {
			continue
		}
		r := g.pointerRegister(k, regIndex) // regIndex is 0, and is cleared again below
		if g.baseOf[k] < 0 {
			g.asm.Emit("MOVQ", g.pointerSlot(k), r)
		}
		if first {
			g.asm.Emit("MOVQ", r, regTemp)
		} else {
			g.asm.Emit("ORQ", r, regTemp)
		}
		first = false
	}
	g.asm.Emit("XORL", regIndex, regIndex)
	g.asm.Emit("TESTL", asm.Imm(63), regTemp)
	g.asm.Emit("JNE", otherwise)
}

// iterationLoop writes the main loop, which computes step elements in each pass.
func (g *gen) iterationLoop(step int) {
	loop, before := g.asm.NewLabel(), g.executedCount()
	g.asm.Align(32)
	g.asm.Bind(loop)
	for u := 0; u < g.unroll; u += g.interleaved {
		g.writeInsts(g.bodyCode.Out, u)
	}
	g.writePrefetches()
	g.advance(step)
	g.asm.Emit("CMPQ", regIndex, regLimit)
	g.asm.Emit("JLE", loop)
	executed := g.executedCount() - before
	g.work.Iteration, g.work.IterationElements = max(g.work.Iteration, executed), step
	g.work.Row -= executed
}

// writePrefetches writes prefetches of the cache lines at the requested distance from the operands of an iteration.
func (g *gen) writePrefetches() {
	bytes, name := g.opts.Prefetch.Bytes, "PREFETCHT1"
	if g.opts.Prefetch.IntoL1 {
		name = "PREFETCHT0"
	}
	for k, d := range g.code.In {
		if size := d.Size(); bytes != 0 && g.opts.Prefetch.Operands>>k&1 == 1 && !g.isInvariant(g.outputs+k) && size <= 8 {
			r := g.loadPointer(g.outputs + k)
			for at := 0; at < g.lanes*g.unroll*size; at += 64 {
				g.asm.Emit(name, asm.Mem{Base: r, Index: regIndex, Scale: uint8(size), Disp: bytes + int32(at)})
			}
		}
	}
}

// advance writes the increment of the element index by n.
func (g *gen) advance(n int) {
	g.asm.Emit("ADDQ", asm.Imm(n), regIndex)
	if g.hasWideElements {
		g.asm.Emit("ADDQ", asm.Imm(2*n), regDoubleIndex)
	}
}

// tailLoop writes the loop over the tail of a row, in masked iterations.
func (g *gen) tailLoop() {
	e, a := g.asm.Emit, g.asm
	loop, done, before := a.NewLabel(), a.NewLabel(), g.executedCount()
	a.Bind(loop)
	sets := 1
	if g.loop.Totals {
		sets = g.accSets // the number of full iterations is a multiple of accSets, so the tail starts with set 0
	}
	for g.firstAccSet = range sets {
		e("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetN}, regLimit)
		e("SUBQ", regIndex, regLimit)
		e("JLE", done)
		if g.avx512 {
			g.tailMasks()
		} else {
			g.tailVectors()
			g.copyTailIn()
		}
		g.inTail = true
		g.writeInsts(g.tailCode.Out, 0)
		g.inTail = false
		if !g.avx512 {
			g.copyTailOut()
		}
		g.advance(g.lanes)
	}
	g.firstAccSet = 0
	e("JMP", loop)
	a.Bind(done)
	executed := g.executedCount() - before
	g.work.TailIteration, g.work.TailElements = (executed+sets-1)/sets, g.lanes
	g.work.Row += 3 - executed // three instructions detect an empty tail
}

// tailMasks sets the tail masks for min(regLimit, g.lanes) elements, with AVX-512.
func (g *gen) tailMasks() {
	e := g.asm.Emit
	e("MOVQ", asm.Imm(-1), regTemp)
	e("BZHIQ", regLimit, regTemp, regTemp)
	mov := "KMOVW"
	if g.lanes == 8 {
		mov = "KMOVB"
	}
	e(mov, regTemp, tailMask)
	if !g.hasComplex() {
		return
	}
	e("MOVQ", asm.Imm(-1), regTemp)
	e("ADDQ", regLimit, regLimit)
	e("BZHIQ", regLimit, regTemp, regTemp)
	e(mov, regTemp, tailMask+1)
	e("SHRQ", asm.Imm(g.lanes), regTemp)
	e(mov, regTemp, tailMask+2)
}

// tailVectors sets the tail masks without AVX-512, in vector registers.
func (g *gen) tailVectors() {
	e := g.asm.Emit
	mask4 := vectorRegister(wideTailMask, g.width(4))
	if g.has64Bits {
		mask4 = vectorRegister(narrowTailMask, g.width(4))
	}
	var count []byte
	for k := range max(g.lanes, 4) {
		count = append(count, byte(k), 0, 0, 0)
	}
	e("VMOVD", regLimit, mask4.X())
	e("VPBROADCASTD", mask4.X(), mask4)
	e("VPCMPGTD", g.asm.Constant(count), mask4, mask4)
	if g.has64Bits {
		e("VPMOVSXDQ", mask4, vectorRegister(wideTailMask, g.width(8)))
	}
}

// copyTailIn copies the elements of a tail to bounce buffers in the spill area, for operands that AVX2 cannot load with
// a mask.
func (g *gen) copyTailIn() {
	for k := g.outputs; k < g.outputs+len(g.code.In); k++ {
		if _, ok := g.bounceVectors[k]; ok {
			g.copyTail(k, g.code.In[k-g.outputs].Size(), true)
		}
	}
	g.restoreDoubleIndex()
}

// copyTailOut copies the results of a tail from bounce buffers to outputs.
func (g *gen) copyTailOut() {
	hasBounced := false
	for k := range g.outputs {
		if _, ok := g.bounceVectors[k]; ok {
			hasBounced = true
		}
	}
	if !hasBounced {
		return
	}
	g.asm.Emit("MOVQ", asm.Mem{Base: regArgs, Disp: jit.OffsetN}, regLimit)
	g.asm.Emit("SUBQ", regIndex, regLimit)
	for k := range g.outputs {
		if _, ok := g.bounceVectors[k]; ok {
			g.copyTail(k, g.code.Out[k].DType.Size(), false)
		}
	}
	g.restoreDoubleIndex()
}

func (g *gen) restoreDoubleIndex() {
	if g.hasWideElements {
		g.asm.Emit("LEAQ", asm.Mem{Base: regIndex, Index: regIndex, Scale: 1}, regDoubleIndex)
	}
}

// copyTail writes a loop that copies min(regLimit, g.lanes) elements between pointer k and its bounce buffer, one
// element at a time. If `in` is set, the loop copies into the buffer, else out of the buffer. size is the size of an
// element in bytes. The loop changes regDoubleIndex and regTemp.
func (g *gen) copyTail(k, size int, in bool) {
	e, a := g.asm.Emit, g.asm
	r := g.loadPointer(k)
	scale := min(size, 8)
	e("LEAQ", asm.Mem{Base: r, Index: regIndex, Scale: uint8(scale)}, regDoubleIndex)
	if size == 16 {
		e("LEAQ", asm.Mem{Base: regDoubleIndex, Index: regIndex, Scale: 8}, regDoubleIndex)
	}
	// The element index in regTemp counts down from min(regLimit, g.lanes).
	e("MOVL", asm.Imm(g.lanes), regTemp)
	e("CMPQ", regLimit, regTemp)
	e("CMOVQLT", regLimit, regTemp)
	slot := int32(64 * g.bounceVectors[k])
	loop := a.NewLabel()
	if size == 16 {
		e("ADDQ", regTemp, regTemp)
	}
	a.Bind(loop)
	before := g.executedCount()
	from := asm.Mem{Base: regDoubleIndex, Index: regTemp, Scale: uint8(scale), Disp: int32(-scale)}
	to := asm.Mem{Base: regSpill, Index: regTemp, Scale: uint8(scale), Disp: slot - int32(scale)}
	if !in {
		from, to = to, from
	}
	g.moveElement(from, to, scale)
	e("DECL", regTemp)
	e("JNE", loop)
	g.extraExecuted += (g.executedCount() - before) * (g.lanes*size/scale - 1)
}

// moveElement copies 1, 2 or 8 bytes through a free vector register. size is the number of bytes.
func (g *gen) moveElement(from, to asm.Mem, size int) {
	e := g.asm.Emit
	x := asm.X(g.scratchVector())
	switch size {
	case 1:
		e("VPINSRB", asm.Imm(0), from, x, x)
		e("VPEXTRB", asm.Imm(0), x, to)
	case 2:
		e("VPINSRW", asm.Imm(0), from, x, x)
		e("VPEXTRW", asm.Imm(0), x, to)
	default:
		e("VMOVQ", from, x)
		e("VMOVQ", x, to)
	}
}

// scratchVector returns a vector register that is free in tails.
func (g *gen) scratchVector() int {
	n := 31
	for g.tailRegisters.Pool[alloc.Vectors]>>n&1 == 0 {
		n--
	}
	return n
}
