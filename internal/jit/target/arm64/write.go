package arm64

import (
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/lane"
)

// General registers. The registers `bases` hold pointers; other pointers are in the spill area of jit.Args.
// Pseudo-instructions (see [Expansion]) may change regPointer, regCount and regStride.
const (
	regArgs      asm.Reg = 0  // address of the arguments
	regPointer   asm.Reg = 16 // a pointer from the spill area
	regCount     asm.Reg = 17 // scratch; at the end of a row, the number of elements by which pointers move back
	regRemaining asm.Reg = 25 // number of remaining elements of the row, minus the elements of one iteration of the loop
	regSpill     asm.Reg = 26 // address of the spill area
	regStride    asm.Reg = 27 // bytes between rows
)

// bases are the registers for pointers. Register 18 is reserved by operating systems, 28 and 29 by Go.
var bases = []asm.Reg{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24}

// writer writes allocated instructions (alloc.Allocated): instructions whose operands are registers, symbolic memory
// and immediates. For example, "fadd 4s" with the registers 1, 2 and 0 becomes fadd v0.4s, v1.4s, v2.4s.
//
// A pass is the code for a number of adjacent elements of a row. An iteration of the main loop may consist of several
// passes. An accumulator of a fold (a reduction of the row) then has one register for each pass: with two passes from
// register 2 on, accumulator 0 has V2 and V3, and accumulator 1 has V4 and V5.
type writer struct {
	asm              *asm.Assembler
	repeatedInsts    int       // added to the written instructions: see executedCount
	pointerRegisters []asm.Reg // by pointer: one of bases, or regPointer if the pointer is in the spill area
	firstAccRegister int       // the first register of accumulators
	passCount        int       // number of passes of an iteration of the main loop

	lanes     int // number of elements of the pass that is written, a power of two
	passIndex int // index of the pass within an iteration of the main loop; 0 elsewhere
}

// executedCount returns a bound on the number of instructions that the code so far executes for one iteration of the
// loops over rows and elements. The loops inside pseudo-instructions count with all their iterations: repeatedInsts has
// the instructions of their second and later iterations.
func (w *writer) executedCount() int { return w.asm.Instructions() + w.repeatedInsts }

// countRepeats records that the instructions from number `since` on, counted from 0, are executed up to n times.
func (w *writer) countRepeats(since, n int) {
	w.repeatedInsts += (w.asm.Instructions() - since) * (n - 1)
}

// write writes the instructions of a list for a pass of `lanes` elements. Package alloc explains the instructions and
// the spaces of their memory operands: AlongRow and AlongRowReadOnly (elements of the row), PerRow (one element for the
// whole row), Constant, Slot (a spilled vector) and AccumulatorMemory (accumulators of a fold).
func (w *writer) write(list []alloc.Allocated, lanes int) {
	w.lanes = lanes
	for k := range list {
		w.writeInst(&list[k])
	}
}

// writeInst writes an instruction. Its name is a mnemonic and the kinds of the operands, the destination first, as in
// "fadd 4s 4s 4s". The method operand lists the kinds. In inst.Args, the destination is the last operand.
func (w *writer) writeInst(inst *alloc.Allocated) {
	switch inst.Kind {
	case alloc.Load:
		w.load(inst.Name, inst.Args[0].Mem, w.register(inst.Args[1]))
		return
	case alloc.Save:
		w.store("str q", inst.Args[1].Mem, w.register(inst.Args[0]))
		return
	case alloc.Copy:
		from, to := w.vector(inst.Args[0], asm.B), w.vector(inst.Args[1], asm.B)
		w.asm.Emit("orr", to, from, from)
		return
	}
	last := len(inst.Args) - 1
	if inst.Args[last].Kind == alloc.Memory {
		w.store(inst.Name, inst.Args[last].Mem, w.register(inst.Args[0]))
		return
	}
	if expand := expansion(inst.Name); expand != nil {
		expand(w, inst.Args)
		return
	}
	w.writeMachineInst(inst.Name, inst.Args[:last], inst.Args[last])
}

// writeMachineInst writes an instruction that is neither a load, a store nor a pseudo-instruction. The last kind of the
// name holds for all further operands, so "fadd 4s" is short for "fadd 4s 4s 4s". The kinds #0 and #0.0 are zeros, for
// which there is no source: "fcmlt 4s 4s #0.0" has one source.
func (w *writer) writeMachineInst(nameAndKinds string, sources []alloc.Operand, dst alloc.Operand) {
	name, kinds, _ := strings.Cut(nameAndKinds, " ")
	kind, kinds, _ := strings.Cut(kinds, " ")
	var buf [4]asm.Arg
	args := append(buf[:0], w.operand(kind, dst))
	for kinds != "" || len(sources) > 0 {
		if kinds != "" {
			kind, kinds, _ = strings.Cut(kinds, " ")
		}
		switch kind {
		case "#0":
			args = append(args, asm.Imm(0))
		case "#0.0":
			args = append(args, asm.Float(0))
		default:
			args = append(args, w.operand(kind, sources[0]))
			sources = sources[1:]
		}
	}
	w.asm.Emit(name, args...)
}

// arrangements are the kinds of operands that are vectors.
var arrangements = map[string]asm.Vec{"16b": asm.V(0, asm.B), "8h": asm.V(0, asm.H), "4s": asm.V(0, asm.S),
	"2d": asm.V(0, asm.D), "8b": asm.V(0, asm.B).Low(), "4h": asm.V(0, asm.H).Low(), "2s": asm.V(0, asm.S).Low()}

// elemOfLetter returns the element size of a letter: b, h, s, d or q, as asm.B to asm.Q.
func elemOfLetter(letter byte) asm.Elem { return asm.Elem(strings.IndexByte("bhsdq", letter)) }

// operand returns an operand of the given kind:
//
//	4s, 8b, ...   a vector: four lanes of 32 bits, eight lanes of 8 bits
//	{16b}         a list of one vector
//	s, d, ...     the lowest lane of a vector register
//	s[1], ...     another lane
//	#, #lsl       an immediate, and a shift by an immediate
func (w *writer) operand(kind string, operand alloc.Operand) asm.Arg {
	if vec, ok := arrangements[kind]; ok {
		vec.Num = w.register(operand)
		return vec
	}
	switch {
	case kind == "#":
		return asm.Imm(operand.Imm)
	case kind == "#lsl":
		return asm.Shift(operand.Imm)
	case kind == "{16b}":
		return asm.Regs(w.vector(operand, asm.B), 1)
	}
	elem := elemOfLetter(kind[0])
	if len(kind) == 1 {
		return asm.Scalar{Num: w.register(operand), Elem: elem}
	}
	lane := int(kind[2] - '0') // the digit in a kind such as s[1]
	return w.vector(operand, elem).Lane(lane)
}

// register returns the number of the register of an operand.
func (w *writer) register(operand alloc.Operand) int {
	if operand.Kind == alloc.Accumulator {
		return w.firstAccRegister + operand.Acc.Index*w.passCount + w.passIndex
	}
	return int(operand.Reg)
}

// load writes a load to register reg. The name includes the size of the load, as in "ldr q"; it is empty for a slot.
func (w *writer) load(name string, mem *alloc.Mem, reg int) {
	switch {
	case mem.Space == alloc.Constant && strings.Trim(mem.Data, "\x00") == "": // only zeros
		w.asm.Emit("movi", asm.V(reg, asm.D), asm.Imm(0))
		return
	case mem.Space == alloc.Constant:
		w.asm.Emit("ldr", asm.Scalar{Num: reg, Elem: asm.Q}, w.asm.Constant([]byte(mem.Data)))
		return
	case mem.Space == alloc.Slot:
		w.asm.Emit("ldr", asm.Scalar{Num: reg, Elem: asm.Q}, w.address(mem))
		return
	}
	name, kind, _ := strings.Cut(name, " ")
	if arranged, ok := arrangements[kind]; ok { // ld1r has no offset
		address := w.address(mem)
		if address.Offset != 0 {
			w.asm.Emit("add", regPointer, address.Base, asm.Imm(address.Offset))
			address = asm.Mem{Base: regPointer}
		}
		arranged.Num = reg
		w.asm.Emit(name, asm.Regs(arranged, 1), address)
		return
	}
	if elem, ok := w.accessSize(mem, kind); ok {
		w.asm.Emit(name, asm.Scalar{Num: reg, Elem: elem}, w.address(mem))
		return
	}
	w.asm.Emit("movi", asm.V(reg, asm.D), asm.Imm(0)) // no element of the register is in this pass
}

// store writes a store of register reg. The name includes the size of the store, as in "str q".
func (w *writer) store(name string, mem *alloc.Mem, reg int) {
	name, kind, _ := strings.Cut(name, " ")
	if elem, ok := w.accessSize(mem, kind); ok {
		w.asm.Emit(name, asm.Scalar{Num: reg, Elem: elem}, w.address(mem))
	}
}

// accessSize returns the size of an access: the size that kind names, or less if the elements of the pass have fewer
// bytes. ok is false if the access is beyond the elements of the pass. For example, "ldr q" loads 8 bytes (D) in a pass
// of two float32. Accesses to spilled vectors (Slot) and to the element of a row (PerRow) have the same size in all
// passes.
func (w *writer) accessSize(mem *alloc.Mem, kind string) (elem asm.Elem, ok bool) {
	elem = elemOfLetter(kind[0])
	if mem.Space == alloc.PerRow || mem.Space == alloc.Slot {
		return elem, true
	}
	remainingBytes := w.lanes*int(mem.ElementBytes) - int(mem.Offset)
	for elem > asm.B && elem.Bytes() > remainingBytes {
		elem--
	}
	return elem, remainingBytes > 0
}

// address returns the address of a memory operand. It may write code that changes regPointer.
func (w *writer) address(mem *alloc.Mem) asm.Mem {
	offset := int(mem.Offset) + w.passIndex*int(mem.Step)
	switch mem.Space {
	case alloc.Slot:
		return asm.Mem{Base: regSpill, Offset: vectorBytes * mem.Index}
	case alloc.AccumulatorMemory: // element k of the row is combined with accumulator k modulo FoldLanes
		offset %= lane.FoldLanes * int(mem.ElementBytes)
	}
	return asm.Mem{Base: w.pointer(mem.Index), Offset: offset}
}

// pointer returns a register with pointer k. If the pointer is in the spill area, pointer loads it to regPointer.
func (w *writer) pointer(k int) asm.Reg {
	reg := w.pointerRegisters[k]
	if reg == regPointer {
		w.asm.Emit("ldr", reg, w.pointerWord(k))
	}
	return reg
}

// savePointer stores pointer k, if it is in the spill area, from the register that w.pointer(k) returned.
func (w *writer) savePointer(k int) {
	if w.pointerRegisters[k] == regPointer {
		w.asm.Emit("str", regPointer, w.pointerWord(k))
	}
}

// pointerWord returns the word of the spill area that holds pointer k.
func (w *writer) pointerWord(k int) asm.Mem { return asm.Mem{Base: regSpill, Offset: 8 * k} }
