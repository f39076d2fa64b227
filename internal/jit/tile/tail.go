package tile

import (
	"encoding/binary"
	"math"

	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// beginMask prepares the mask of the last vector: K1, or a register that is kept.
func (g *gen) beginMask() {
	if !g.s.partial(g.isa) {
		return
	}
	if g.isa != machine.AVX512 {
		if g.s.masksTerms(g.isa) {
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

// loadMask loads AVX2's mask of the last vector: a part of ones that zeros follow.
func (g *gen) loadMask(to asm.Vec) {
	pool := make([]byte, 2*g.bytes)
	for i := range g.bytes {
		pool[i] = 0xFF
	}
	if g.s.Lanes != Dynamic {
		g.Emit("VMOVUPS", g.Constant(pool[g.bytes-g.s.Lanes*g.s.Size:][:g.bytes]), to)
		return
	}
	g.Emit("LEAQ", g.Constant(pool), in)
	g.Emit("MOVQ", stepOf(LastLanes), count)
	g.Emit("NEGQ", count)
	g.Emit("VMOVUPS", asm.Mem{Base: in, Index: count, Scale: uint8(g.s.Size), Disp: int32(g.bytes)}, to)
}

// outside brings AVX2's mask to where it is used outside of terms; the registers that are free begin behind it.
func (g *gen) outside() (scratch asm.Vec) {
	if g.isa != machine.AVX512 && g.s.partial(g.isa) && !g.s.masksTerms(g.isa) {
		g.mask = g.free(1)
		g.loadMask(g.mask)
	}
	return g.free(0)
}

// load reads a vector, without what is behind its lanes if it is masked.
func (g *gen) load(at asm.Mem, to asm.Vec, masked bool) {
	switch {
	case !masked || !g.s.partial(g.isa):
		g.Emit(g.op("VMOVUP"), at, to)
	case g.isa == machine.AVX512:
		g.Emit(g.op("VMOVUP"), at, asm.K1.Zero(), to)
	default:
		g.Emit(g.op("VMASKMOVP"), at, g.mask, to)
	}
}

func (g *gen) store(from asm.Vec, at asm.Mem, masked bool) {
	switch {
	case !masked || !g.s.partial(g.isa):
		g.Emit(g.op("VMOVUP"), from, at)
	case g.isa == machine.AVX512:
		g.Emit(g.op("VMOVUP"), from, asm.K1, at)
	default:
		g.Emit(g.op("VMASKMOVP"), from, g.mask, at)
	}
}

// eachResult visits the vectors of something that lies as the result does.
func (g *gen) eachResult(base asm.Reg, visit func(row, v int, at asm.Mem, masked bool)) {
	if g.s.Out == nil {
		g.Emit("MOVQ", base, in5)
		g.Emit("MOVQ", stepOf(OutRow), in10)
		base = in5
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
			g.Emit("ADDQ", in10, in5)
		}
	}
}

// eachLanes visits sums by vectors, with a vector of an operand that has one element for each lane.
func (g *gen) eachLanes(operand Slot, x asm.Vec, visit func(row, v int)) {
	g.operand(operand, in)
	for v := range g.s.Vectors {
		g.load(asm.Mem{Base: in, Disp: int32(v * g.bytes)}, x, v == g.s.Vectors-1)
		for i := range g.s.Rows {
			visit(i, v)
		}
	}
}

// start gives the sums their first values.
func (g *gen) start() {
	x := g.outside()
	if g.s.Touch {
		g.eachResult(outTile, func(_, v int, at asm.Mem, _ bool) {
			if v*g.bytes%lineBytes == 0 {
				g.Emit("PREFETCHT0", at)
			}
		})
	}
	switch g.s.Start {
	case Zero:
		for i := range g.sums {
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
	g.startApart()
}

func (g *gen) clear(r asm.Vec) {
	if g.isa == machine.AVX512 {
		g.Emit("VPXORD", r, r, r)
	} else {
		g.Emit("VXORPS", r, r, r)
	}
}

// finish applies the tail and writes the result.
func (g *gen) finish() {
	if g.s.Levels != Sums {
		g.levels()
		return
	}
	x := g.outside()
	if g.s.integers() && len(g.s.Tail) > 0 {
		for i := range g.sums {
			g.Emit("VCVTDQ2PS", g.register(i), g.register(i))
		}
	}
	for _, t := range g.s.Tail {
		g.tail(t, x)
	}
	g.eachResult(outTile, func(i, v int, at asm.Mem, masked bool) { g.store(g.sum(i, v), at, masked) })
}

// Instruction names what applies an operation, without the letter for the size of elements.
func (o TailOp) Instruction() string {
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

// Number returns the bound, or the factor, of operations that have one.
func (t Tail) Number() float64 {
	if t.Op == AtMost {
		return t.Hi
	}
	return t.Lo
}

// tail applies an operation to all sums.
func (g *gen) tail(t Tail, x asm.Vec) {
	name := g.op(t.Op.Instruction())
	switch t.Op {
	case AddResult:
		g.tailTile(name, outTile, x)
	case AddTile, MulTile:
		g.Emit("MOVQ", word(tailWords+t.Operand), in)
		g.tailTile(name, in, x)
	case AddLanes, MulLanes:
		g.eachLanes(Tails+t.Operand, x, func(i, v int) { g.Emit(name, x, g.sum(i, v), g.sum(i, v)) })
	case AddRows, MulRows:
		g.operand(Tails+t.Operand, in)
		for i := range g.s.Rows {
			g.Emit(g.op("VBROADCASTS"), asm.Mem{Base: in, Disp: int32(i * g.s.Size)}, x)
			for v := range g.s.Vectors {
				g.Emit(name, x, g.sum(i, v), g.sum(i, v))
			}
		}
	default:
		g.Emit(g.op("VBROADCASTS"), g.number(t.Number()), x)
		for i := range g.sums { // of two numbers of which one is a NaN, the first operand is taken
			g.Emit(name, g.register(i), x, g.register(i))
		}
	}
}

// tailTile applies an operation with an operand that lies as the result does.
func (g *gen) tailTile(name string, base asm.Reg, x asm.Vec) {
	g.eachResult(base, func(i, v int, at asm.Mem, masked bool) {
		if !masked || !g.s.partial(g.isa) {
			g.Emit(name, at, g.sum(i, v), g.sum(i, v))
			return
		}
		g.load(at, x, true)
		g.Emit(name, x, g.sum(i, v), g.sum(i, v))
	})
}

// number is a constant of the elements' size.
func (g *gen) number(x float64) asm.Mem {
	if g.s.Size == 8 {
		return g.Constant(binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	return g.Constant(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
}
