package amd64

import (
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// This file writes allocated instructions ([alloc.Allocated]) with the assembler. A pass computes g.lanes elements of a
// row. The tail has the elements after the last iteration of the main loop; in its last pass, some lanes may have no
// element. A load or store along the row must not access memory beyond the row. There are three cases:
//   - The instruction is masked.
//   - AVX2 has no such masked instruction (see canMask). The memory is then a bounce buffer, a vector of the spill
//     area. Other code copies elements from the operand to this buffer, or from the buffer to the output (tail.go).
//   - The memory has accumulators, one for each lane. A load of them all needs no mask. A store must not change the
//     accumulators of lanes without elements (writeTailStore).

// Registers of tail masks. A tail mask selects the lanes that have elements in the current pass of a tail. With
// AVX-512, the mask is in the mask register tailMask. Complex elements fill two vectors, whose masks are in the next
// two registers. Without AVX-512, the masks are vectors, in the registers with the numbers wideTailMask and
// narrowTailMask. The lanes of wideTailMask are as wide as the widest value of the loop. If these lanes have 64 bits,
// narrowTailMask has the same mask in lanes of 32 bits.
const (
	tailMask       = asm.K1
	wideTailMask   = 15
	narrowTailMask = 14
)

// writeInsts writes a list of allocated instructions. The accumulators of a fold are in g.accSets sets: pass n of an
// iteration of the main loop uses set n modulo g.accSets. In the main loop, firstPass is the index of the list's first
// pass within an iteration. For lists that load or store one set of accumulators, firstPass is the index of the set.
// Otherwise it is 0.
func (g *generator) writeInsts(list []alloc.Allocated, firstPass int) {
	var argBuffer [8]asm.Arg // enough for most instructions
	for k := range list {
		inst := &list[k]
		args := argBuffer[:0]
		for i := range inst.Args {
			args = append(args, g.arg(&inst.Args[i], firstPass))
		}
		g.writeInst(inst, args)
	}
}

// arg returns an operand of an instruction. firstPass is as in writeInsts.
func (g *generator) arg(operand *alloc.Operand, firstPass int) asm.Arg {
	number := int(operand.Reg)
	switch operand.Kind {
	case alloc.Immediate:
		return asm.Imm(operand.Imm)
	case alloc.Memory:
		return g.address(operand.Mem, firstPass)
	case alloc.Element:
		memory := g.address(operand.Mem, firstPass)
		memory.Broadcast = true
		return memory
	case alloc.Accumulator: // Acc.Iteration is the index of a pass within the list; firstAccSet is 0 outside tails
		set := (g.firstAccSet + firstPass + operand.Acc.Iteration) % g.accSets
		number = g.accRegisters[operand.Acc.Index] + set
	}
	switch { // the operand is a register
	case operand.Class == alloc.Vectors:
		return vectorRegister(number, operand.Bytes)
	case operand.ZeroMasking:
		return asm.Mask(number).Zero()
	}
	return asm.Mask(number)
}

// vectorRegister returns the vector register with a number and a width in bytes.
func vectorRegister(number int, bytes uint8) asm.Vec {
	switch bytes {
	case 64:
		return asm.Z(number)
	case 32:
		return asm.Y(number)
	}
	return asm.X(number)
}

// address returns the address of a memory operand. firstPass is as in writeInsts. address may write code that changes
// regTemp and, in a tail, regLimit.
func (g *generator) address(mem *alloc.Mem, firstPass int) asm.Mem {
	disp := mem.Offset + int32(firstPass)*mem.Step // for operands and outputs
	switch mem.Space {
	case alloc.Constant:
		return g.asm.Constant([]byte(mem.Data))
	case alloc.Slot:
		return asm.Mem{Base: regSpill, Disp: int32(64 * mem.Index)}
	case alloc.PerRow:
		return asm.Mem{Base: g.loadPointer(mem.Index), Disp: mem.Offset}
	case alloc.AccumulatorMemory:
		return g.accAddress(mem, firstPass)
	}
	// The space is AlongRow: elements of an operand or output that differ along the row.
	if vector, ok := g.bounceVectors[mem.Index]; ok && g.inTail {
		return asm.Mem{Base: regSpill, Disp: int32(64*vector) + mem.Offset}
	}
	size := int(mem.ElementBytes)
	if mem.Part != 0 { // half of the complex elements, which have twice the size
		size *= 2
	}
	base := g.loadPointer(mem.Index)
	if size == 16 { // a scale is at most 8, so regDoubleIndex has twice the index of the element (regIndex)
		return asm.Mem{Base: base, Index: regDoubleIndex, Scale: 8, Disp: disp}
	}
	return asm.Mem{Base: base, Index: regIndex, Scale: uint8(size), Disp: disp}
}

// accAddress returns the address of accumulators in memory. A fold has lane.FoldLanes accumulators, and element k of a
// row uses accumulator k modulo lane.FoldLanes. In a tail, the address depends on regIndex, and accAddress writes code
// that changes regLimit.
func (g *generator) accAddress(mem *alloc.Mem, firstPass int) asm.Mem {
	base := g.loadPointer(mem.Index)
	if !g.inTail {
		period := int32(lane.FoldLanes * int(mem.ElementBytes))
		return asm.Mem{Base: base, Disp: (mem.Offset + int32(firstPass)*mem.Step) % period}
	}
	emit := g.asm.Emit
	emit("MOVL", regIndex, regLimit)
	emit("ANDL", asm.Imm(lane.FoldLanes-1), regLimit)
	return asm.Mem{Base: base, Index: regLimit, Scale: mem.ElementBytes, Disp: mem.Offset}
}

// writeInst writes an instruction with operands args, which stand for inst.Args.
func (g *generator) writeInst(inst *alloc.Allocated, args []asm.Arg) {
	destination := &inst.Args[len(inst.Args)-1]
	switch {
	case inst.Kind == alloc.Load:
		g.writeLoad(inst.Name, inst.Args[0].Mem, args)
	case inst.Kind == alloc.Save:
		g.asm.Emit(moveName(inst.Args[0].Class), args...)
	case inst.Kind == alloc.Copy && destination.Class == alloc.Masks: // x | x
		g.asm.Emit("KORW", args[0], args[0], args[1])
	case inst.Kind == alloc.Copy:
		g.asm.Emit("VMOVAPS", args...)
	case inst.Name == completeRemainder: // a pseudo-instruction of fmod (remainder.go)
		g.writeRemainderLoop(args)
	case inst.Name == loadTableRow: // a pseudo-instruction of lookups (lookup.go)
		g.writeTableRow(args)
	case destination.Kind == alloc.Memory && g.inTail:
		g.writeTailStore(inst.Name, destination.Mem, args)
	case g.writesNonTemporal && inst.NonTemporal != "":
		g.asm.Emit(inst.NonTemporal, args...)
	default:
		g.asm.Emit(inst.Name, args...)
	}
}

// writeLoad writes a load from mem. In a tail, the load of an operand is masked.
func (g *generator) writeLoad(name string, mem *alloc.Mem, args []asm.Arg) {
	switch {
	case mem.Space == alloc.Slot:
		class := alloc.Vectors
		if _, ok := args[1].(asm.Mask); ok {
			class = alloc.Masks
		}
		g.asm.Emit(moveName(class), args...)
	case !g.inTail || mem.Space != alloc.AlongRow || !g.canMask(mem):
		g.asm.Emit(name, args...)
	case g.avx512: // Part is 0 or, for the halves of complex elements, 1 or 2
		g.asm.Emit(maskedName(name, mem), args[0], (tailMask + asm.Mask(mem.Part)).Zero(), args[1])
	default:
		g.asm.Emit("VMASKMOV"+floatSuffix(int(mem.ElementBytes)), args[0], g.tailVector(int(mem.ElementBytes)),
			args[1])
	}
}

// writeTailStore writes a store in a tail. A store without a mask writes all lanes, to a bounce buffer or to
// accumulators in memory. For accumulators, lanes without elements have the old values (foldInMemory).
func (g *generator) writeTailStore(name string, mem *alloc.Mem, args []asm.Arg) {
	last := len(args) - 1
	switch {
	case g.avx512:
		g.asm.Emit(maskedName(name, mem), append(args[:last:last], tailMask+asm.Mask(mem.Part), args[last])...)
	case g.canMask(mem):
		g.asm.Emit("VMASKMOV"+floatSuffix(int(mem.ElementBytes)), args[0], g.tailVector(int(mem.ElementBytes)),
			args[last])
	default:
		g.asm.Emit(name, args...)
	}
}

// canMask reports whether loads and stores of mem can be masked. AVX2 has masked loads and stores only for elements of
// 4 and 8 bytes, and there are no mask vectors for the two halves of complex elements (Part).
func (g *generator) canMask(mem *alloc.Mem) bool {
	return g.avx512 || mem.ElementBytes >= 4 && mem.Part == 0
}

// maskedName returns the name of the masked form of a load or store. VMOVQ has none: VMOVDQU8 and VMOVDQU16, the moves
// of elements of 1 and 2 bytes, replace it.
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
func (g *generator) tailVector(laneBytes int) asm.Vec {
	if laneBytes == g.widestLaneBytes() {
		return vectorRegister(wideTailMask, g.width(laneBytes))
	}
	return vectorRegister(narrowTailMask, g.width(laneBytes))
}

// moveName returns the instruction that loads or stores a register of a class.
func moveName(class alloc.Class) string {
	if class == alloc.Masks {
		return "KMOVW"
	}
	return "VMOVUPS"
}
