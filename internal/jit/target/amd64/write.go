package amd64

import (
	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
)

// Registers of tail masks. With AVX-512, tailMask is the mask of elements. The next two registers are the masks of
// the first and the second half of complex elements. Without AVX-512, the masks are vectors. The lanes of
// wideTailMask are as wide as the widest value of the loop. If these lanes have 64 bits, narrowTailMask has the same
// mask in lanes of 32 bits.
const (
	tailMask       = asm.K1
	wideTailMask   = 15
	narrowTailMask = 14
)

// writeInsts writes a list of instructions for iteration u of a pass of the main loop.
func (g *gen) writeInsts(list []alloc.Out, u int) {
	for k := range list {
		p := &list[k]
		args := make([]asm.Arg, len(p.Args))
		for k := range p.Args {
			args[k] = g.arg(&p.Args[k], u)
		}
		last := &p.Args[len(p.Args)-1]
		switch {
		case p.Kind == alloc.Load:
			g.writeLoad(p.Name, p.Args[0].Mem, args)
		case p.Kind == alloc.Save:
			g.asm.Emit(moveName(p.Args[0].Class), args...)
		case p.Kind == alloc.Copy && last.Class == alloc.Masks:
			g.asm.Emit("KORW", args[0], args[0], args[1])
		case p.Kind == alloc.Copy:
			g.asm.Emit("VMOVAPS", args...)
		case p.Name == completeRemainder:
			g.writeRemainderLoop(args)
		case p.Name == tableRows:
			g.writeTableRows(args)
		case last.Kind == alloc.Memory && g.inTail:
			g.writeTailStore(p.Name, last.Mem, args)
		case g.writesNonTemporal && p.NonTemporal != "":
			g.asm.Emit(p.NonTemporal, args...)
		default:
			g.asm.Emit(p.Name, args...)
		}
	}
}

// moveName returns the instruction that loads or stores a register of a class.
func moveName(c alloc.Class) string {
	if c == alloc.Masks {
		return "KMOVW"
	}
	return "VMOVUPS"
}

// writeLoad writes a load from mem. In a tail, the load of an operand is masked.
func (g *gen) writeLoad(name string, mem *alloc.Mem, args []asm.Arg) {
	switch {
	case mem.Space == alloc.Slot:
		class := alloc.Vectors
		if _, ok := args[1].(asm.Mask); ok {
			class = alloc.Masks
		}
		g.asm.Emit(moveName(class), args...)
	case !g.inTail || mem.Space != alloc.Advancing || !g.avx512 && g.usesBounceBuffer(mem):
		g.asm.Emit(name, args...)
	case g.avx512:
		g.asm.Emit(maskedName(name, mem), args[0], (tailMask + asm.Mask(mem.Part)).Zero(), args[1])
	default:
		g.asm.Emit("VMASKMOV"+floatSuffix(int(mem.ElementBytes)), args[0], g.tailVector(int(mem.ElementBytes)),
			args[1])
	}
}

// writeTailStore writes the store of an instruction in a tail, which is masked.
func (g *gen) writeTailStore(name string, mem *alloc.Mem, args []asm.Arg) {
	last := len(args) - 1
	switch {
	case g.avx512:
		g.asm.Emit(maskedName(name, mem), append(args[:last:last], tailMask+asm.Mask(mem.Part), args[last])...)
	case g.usesBounceBuffer(mem): // or accumulators: foldInMemory selects the old values for missing elements
		g.asm.Emit(name, args...)
	default:
		g.asm.Emit("VMASKMOV"+floatSuffix(int(mem.ElementBytes)), args[0], g.tailVector(int(mem.ElementBytes)),
			args[last])
	}
}

// maskedName returns the masked form of a load or store.
func maskedName(name string, mem *alloc.Mem) string {
	switch {
	case name != "VMOVQ":
		return name
	case mem.ElementBytes == 1:
		return "VMOVDQU8"
	}
	return "VMOVDQU16"
}

// tailVector returns, without AVX-512, the register with the tail mask for elements of the given size in bytes.
func (g *gen) tailVector(lane int) asm.Vec {
	if lane == g.maskLane() {
		return vectorRegister(wideTailMask, g.width(lane))
	}
	return vectorRegister(narrowTailMask, g.width(lane))
}

// usesBounceBuffer reports whether tail elements are copied through the spill area, because AVX2 has masked loads and
// stores only for elements of 4 and 8 bytes.
func (g *gen) usesBounceBuffer(mem *alloc.Mem) bool { return mem.ElementBytes < 4 || mem.Part != 0 }

// arg returns an operand of an instruction in iteration u of a pass of the main loop.
func (g *gen) arg(o *alloc.Operand, u int) asm.Arg {
	n := int(o.Reg)
	switch o.Kind {
	case alloc.Immediate:
		return asm.Imm(o.Imm)
	case alloc.Memory:
		return g.address(o.Mem, u)
	case alloc.Element:
		m := g.address(o.Mem, u)
		m.Broadcast = true
		return m
	case alloc.Accumulator:
		n = g.accRegisters[o.Acc.Index] + (g.firstAccSet+u+o.Acc.Iteration)%g.accSets
	}
	switch {
	case o.Class == alloc.Vectors:
		return vectorRegister(n, o.Bytes)
	case o.Zero:
		return asm.Mask(n).Zero()
	}
	return asm.Mask(n)
}

func vectorRegister(n int, w uint8) asm.Vec {
	switch w {
	case 64:
		return asm.Z(n)
	case 32:
		return asm.Y(n)
	}
	return asm.X(n)
}

// address returns the address of memory m in iteration u of a pass of the main loop. It may write code that changes
// regTemp.
func (g *gen) address(m *alloc.Mem, u int) asm.Mem {
	disp := m.Offset + int32(u)*m.Step
	switch m.Space {
	case alloc.Constant:
		return g.asm.Constant([]byte(m.Data))
	case alloc.Slot:
		return asm.Mem{Base: regSpill, Disp: int32(64 * m.Index)}
	case alloc.PerRow:
		return asm.Mem{Base: g.loadPointer(m.Index), Disp: m.Offset}
	case alloc.AccumulatorMemory:
		return g.accAddress(m, u)
	}
	if s, ok := g.bounceVectors[m.Index]; ok && g.inTail {
		return asm.Mem{Base: regSpill, Disp: int32(64*s) + m.Offset}
	}
	size := int(m.ElementBytes)
	if m.Part != 0 {
		size *= 2
	}
	r := g.loadPointer(m.Index)
	if size == 16 {
		return asm.Mem{Base: r, Index: regDoubleIndex, Scale: 8, Disp: disp}
	}
	return asm.Mem{Base: r, Index: regIndex, Scale: uint8(size), Disp: disp}
}

// accAddress returns the address of accumulators. In a tail, the address depends on regIndex, and accAddress writes
// code that changes regLimit.
func (g *gen) accAddress(m *alloc.Mem, u int) asm.Mem {
	r := g.loadPointer(m.Index)
	if !g.inTail {
		return asm.Mem{Base: r, Disp: (m.Offset + int32(u)*m.Step) % int32(expr.Lanes*int(m.ElementBytes))}
	}
	e := g.asm.Emit
	e("MOVL", regIndex, regLimit)
	e("ANDL", asm.Imm(expr.Lanes-1), regLimit)
	return asm.Mem{Base: r, Index: regLimit, Scale: m.ElementBytes, Disp: m.Offset}
}
