package tile

import (
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// beginMask loads the mask of the last vector into K1, or into its vector register if the k-loop needs it.
func (g *gen) beginMask() {
	if !g.s.mayBePartial(g.cpu) {
		return
	}
	if !g.cpu.Has(machine.Vector512) {
		if g.s.masksTerms(g.cpu) {
			g.loadMask(g.mask)
		}
		return
	}
	if g.s.Lanes == Dynamic {
		g.Emit("MOVL", asm.Imm(-1), in)
		g.Emit("MOVQ", stepOf(LastLanes), count)
		g.Emit("BZHIL", count, in, in)
	} else {
		g.Emit("MOVL", asm.Imm(1<<g.s.Lanes-1), in)
	}
	g.Emit("KMOVW", in, asm.K1)
}

// loadMask loads the mask of the last vector, for AVX2. The mask is a part of a constant of ones followed by zeros; the
// number of lanes determines the offset of the part.
func (g *gen) loadMask(to asm.Vec) {
	ones := make([]byte, 2*g.bytes)
	for i := range g.bytes {
		ones[i] = 0xFF
	}
	if g.s.Lanes != Dynamic {
		g.Emit("VMOVUPS", g.Constant(ones[g.bytes-g.s.Lanes*g.s.Size:][:g.bytes]), to)
		return
	}
	g.Emit("LEAQ", g.Constant(ones), in)
	g.Emit("MOVQ", stepOf(LastLanes), count)
	g.Emit("NEGQ", count)
	g.Emit("VMOVUPS", asm.Mem{Base: in, Index: count, Scale: uint8(g.s.Size), Disp: int32(g.bytes)}, to)
}

// loadEpilogueMask loads AVX2's mask for the code outside the k-loop, if its register does not hold it already. It
// returns a free register.
func (g *gen) loadEpilogueMask() (scratch asm.Vec) {
	if !g.cpu.Has(machine.Vector512) && g.s.mayBePartial(g.cpu) && !g.s.masksTerms(g.cpu) {
		g.mask = g.free(1)
		g.loadMask(g.mask)
	}
	return g.free(0)
}

// load loads a vector. If masked is true, it loads only the existing lanes of the last vector.
func (g *gen) load(at asm.Mem, to asm.Vec, masked bool) {
	switch {
	case !masked || !g.s.mayBePartial(g.cpu):
		g.Emit(g.op("VMOVUP"), at, to)
	case g.cpu.Has(machine.Vector512):
		g.Emit(g.op("VMOVUP"), at, asm.K1.Zero(), to)
	default:
		g.Emit(g.op("VMASKMOVP"), at, g.mask, to)
	}
}

func (g *gen) store(from asm.Vec, at asm.Mem, masked bool) {
	switch {
	case !masked || !g.s.mayBePartial(g.cpu):
		g.Emit(g.op("VMOVUP"), from, at)
	case g.cpu.Has(machine.Vector512):
		g.Emit(g.op("VMOVUP"), from, asm.K1, at)
	default:
		g.Emit(g.op("VMASKMOVP"), from, g.mask, at)
	}
}

// eachResult visits the vectors of an operand with the offsets of the result.
func (g *gen) eachResult(base asm.Reg, visit func(row, v int, at asm.Mem, masked bool)) {
	if g.s.Out == nil {
		g.Emit("MOVQ", base, inRow5)
		g.Emit("MOVQ", stepOf(OutRow), inRow10)
		base = inRow5
	}
	for i := range g.s.Rows {
		at := asm.Mem{Base: base}
		if g.s.Out != nil {
			at.Disp = int32(g.s.Out[i])
		}
		for v := range g.s.Vectors {
			visit(i, v, at, v == g.s.Vectors-1)
			at.Disp += int32(g.bytes)
		}
		if g.s.Out == nil && i < g.s.Rows-1 {
			g.Emit("ADDQ", inRow10, inRow5)
		}
	}
}

// eachLanes loads each vector of an operand by lanes into x, and then visits the sums of this vector.
func (g *gen) eachLanes(operand Slot, x asm.Vec, visit func(row, v int)) {
	g.operand(operand, in)
	for v := range g.s.Vectors {
		g.load(asm.Mem{Base: in, Disp: int32(v * g.bytes)}, x, v == g.s.Vectors-1)
		for i := range g.s.Rows {
			visit(i, v)
		}
	}
}

// start emits the initialization of the accumulators.
func (g *gen) start() {
	x := g.loadEpilogueMask()
	if g.s.PrefetchResult {
		g.eachResult(outTile, func(_, v int, at asm.Mem, _ bool) {
			if v*g.bytes%lineBytes == 0 {
				g.Emit("PREFETCHT0", at)
			}
		})
	}
	switch g.s.Start {
	case Zero:
		for i := range g.sumCount {
			g.clear(g.register(i))
		}
	case FromLanes:
		g.eachLanes(Bias, x, func(i, v int) { g.Emit("VMOVAPS", x, g.sum(i, v)) })
	case FromRows:
		g.operand(Bias, in)
		for i := range g.s.Rows {
			g.Emit(g.op("VBROADCASTS"), asm.Mem{Base: in, Disp: int32(i * g.s.Size)}, g.sum(i, 0))
			for v := 1; v < g.s.Vectors; v++ {
				g.Emit("VMOVAPS", g.sum(i, 0), g.sum(i, v))
			}
		}
	case FromResult:
		g.eachResult(outTile, func(i, v int, at asm.Mem, masked bool) { g.load(at, g.sum(i, v), masked) })
	}
	g.startBlocks()
}

func (g *gen) clear(r asm.Vec) {
	if g.cpu.Has(machine.Vector512) {
		g.Emit("VPXORD", r, r, r)
	} else {
		g.Emit("VXORPS", r, r, r)
	}
}

// finish applies the epilogue and stores the result.
func (g *gen) finish() {
	if g.s.Quantized != Sums {
		g.storeQuantized()
		return
	}
	x := g.loadEpilogueMask()
	if g.s.hasIntSums() && len(g.s.Epilogue) > 0 {
		for i := range g.sumCount {
			g.Emit("VCVTDQ2PS", g.register(i), g.register(i))
		}
	}
	for _, t := range g.s.Epilogue {
		g.epilogueStep(t, x)
	}
	g.eachResult(outTile, func(i, v int, at asm.Mem, masked bool) { g.store(g.sum(i, v), at, masked) })
}

// Instruction returns the instruction of an operation, without the letter for the size of elements.
func (o EpilogueOp) Instruction() string {
	switch o {
	case MulTile, MulLanes, MulRows, Scale:
		return "VMULP"
	case AtLeast:
		return "VMAXP"
	case AtMost:
		return "VMINP"
	}
	return "VADDP"
}

// Number returns the bound or the factor of an operation that has a number.
func (t EpilogueStep) Number() float64 {
	if t.Op == AtMost {
		return t.Hi
	}
	return t.Lo
}

// epilogueStep applies an operation to all sums; x is a free register.
func (g *gen) epilogueStep(t EpilogueStep, x asm.Vec) {
	name := g.op(t.Op.Instruction())
	switch t.Op {
	case AddResult:
		g.tileStep(name, outTile, x)
	case AddTile, MulTile:
		g.Emit("MOVQ", spillWord(epilogueWords+t.Operand), in)
		g.tileStep(name, in, x)
	case AddLanes, MulLanes:
		g.eachLanes(EpilogueOperands+t.Operand, x, func(i, v int) { g.Emit(name, x, g.sum(i, v), g.sum(i, v)) })
	case AddRows, MulRows:
		g.operand(EpilogueOperands+t.Operand, in)
		for i := range g.s.Rows {
			g.Emit(g.op("VBROADCASTS"), asm.Mem{Base: in, Disp: int32(i * g.s.Size)}, x)
			for v := range g.s.Vectors {
				g.Emit(name, x, g.sum(i, v), g.sum(i, v))
			}
		}
	default:
		g.Emit(g.op("VBROADCASTS"), g.number(t.Number()), x)
		for i := range g.sumCount { // if an operand is NaN, VMAXPS and VMINPS return the first operand
			g.Emit(name, g.register(i), x, g.register(i))
		}
	}
}

// tileStep applies an operation with an operand that has the offsets of the result.
func (g *gen) tileStep(name string, base asm.Reg, x asm.Vec) {
	g.eachResult(base, func(i, v int, at asm.Mem, masked bool) {
		if !masked || !g.s.mayBePartial(g.cpu) {
			g.Emit(name, at, g.sum(i, v), g.sum(i, v))
			return
		}
		g.load(at, x, true)
		g.Emit(name, x, g.sum(i, v), g.sum(i, v))
	})
}

// number returns a constant with the size of elements.
func (g *gen) number(x float64) asm.Mem {
	if g.s.Size == 8 {
		return g.Constant(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	return g.Constant(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
}
