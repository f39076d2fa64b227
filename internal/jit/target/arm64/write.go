package arm64

import (
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
)

// General registers. The registers `bases` have pointers. Pointers without a register are in the spill area, which is
// memory of the caller. Expansions may change regPointer, regCount and regStride.
const (
	regArgs    asm.Reg = 0  // address of the arguments
	regPointer asm.Reg = 16 // a pointer from the spill area
	regCount   asm.Reg = 17
	regLeft    asm.Reg = 25 // number of elements of the row that are left, minus the elements of a pass
	regSpill   asm.Reg = 26 // address of the spill area
	regStride  asm.Reg = 27
)

// bases are the registers for pointers. The operating system has number 18, and Go has 28 and 29.
var bases = []asm.Reg{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24}

// writer writes allocated instructions.
type writer struct {
	asm              *asm.Assembler
	repeatedInsts    int    // number of instructions that loops of expansions execute after their first iteration
	baseOf           []int8 // by pointer: its index in bases, or -1 if it is in the spill area
	accSets          int    // number of registers of an accumulator
	firstAccRegister int    // the first register of accumulators

	lanes     int // number of elements of the pass that is written
	iteration int // index of the pass within an iteration of the main loop
}

// executedCount returns the number of instructions that the code so far executes if each loop has one iteration.
func (w *writer) executedCount() int { return w.asm.Instructions() + w.repeatedInsts }

// countRepeats records that the instructions after the first `since` instructions are executed up to n times.
func (w *writer) countRepeats(since, n int) {
	w.repeatedInsts += (w.asm.Instructions() - since) * (n - 1)
}

// write writes a list for a number of elements.
func (w *writer) write(list []alloc.Out, lanes int) {
	w.lanes = lanes
	for k := range list {
		w.writeInst(&list[k])
	}
}

func (w *writer) writeInst(o *alloc.Out) {
	switch o.Kind {
	case alloc.Load:
		w.load(o.Name, o.Args[0].Mem, w.register(o.Args[1]))
		return
	case alloc.Save:
		w.store("str q", o.Args[1].Mem, w.register(o.Args[0]))
		return
	case alloc.Copy:
		from, to := w.vector(o.Args[0], asm.B), w.vector(o.Args[1], asm.B)
		w.asm.Emit("orr", to, from, from)
		return
	}
	last := len(o.Args) - 1
	if o.Args[last].Kind == alloc.Memory {
		w.store(o.Name, o.Args[last].Mem, w.register(o.Args[0]))
		return
	}
	if expand := expansion(o.Name); expand != nil {
		expand(w, o.Args)
		return
	}
	name, kinds, _ := strings.Cut(o.Name, " ")
	kind, kinds, _ := strings.Cut(kinds, " ")
	var buf [4]asm.Arg
	args := append(buf[:0], w.operand(kind, o.Args[last]))
	for sources := o.Args[:last]; kinds != "" || len(sources) > 0; {
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

// operand returns an operand of the given kind (see [Lists]).
func (w *writer) operand(kind string, o alloc.Operand) asm.Arg {
	if v, ok := arrangements[kind]; ok {
		v.Num = w.register(o)
		return v
	}
	switch {
	case kind == "#":
		return asm.Imm(o.Imm)
	case kind == "#lsl":
		return asm.Shift(o.Imm)
	case kind == "{16b}":
		return asm.Regs(w.vector(o, asm.B), 1)
	}
	e := asm.Elem(strings.IndexByte("bhsdq", kind[0]))
	if len(kind) == 1 {
		return asm.Scalar{Num: w.register(o), Elem: e}
	}
	return w.vector(o, e).Lane(int(kind[2] - '0'))
}

// register returns the number of the register of an operand.
func (w *writer) register(o alloc.Operand) int {
	if o.Kind == alloc.Accumulator {
		return w.firstAccRegister + o.Acc.Index*w.accSets + w.iteration
	}
	return int(o.Reg)
}

// load writes the load of register v. The name has the size of the load, or is empty for a slot.
func (w *writer) load(name string, m *alloc.Mem, v int) {
	switch {
	case m.Space == alloc.Constant && strings.Trim(m.Data, "\x00") == "":
		w.asm.Emit("movi", asm.V(v, asm.D), asm.Imm(0))
		return
	case m.Space == alloc.Constant:
		w.asm.Emit("ldr", asm.Scalar{Num: v, Elem: asm.Q}, w.asm.Constant([]byte(m.Data)))
		return
	case m.Space == alloc.Slot:
		w.asm.Emit("ldr", asm.Scalar{Num: v, Elem: asm.Q}, w.address(m))
		return
	}
	name, kind, _ := strings.Cut(name, " ")
	if a, ok := arrangements[kind]; ok { // ld1r has no offset
		address := w.address(m)
		if address.Offset != 0 {
			w.asm.Emit("add", regPointer, address.Base, asm.Imm(address.Offset))
			address = asm.Mem{Base: regPointer}
		}
		a.Num = v
		w.asm.Emit(name, asm.Regs(a, 1), address)
		return
	}
	if e, ok := w.accessSize(m, kind); ok {
		w.asm.Emit(name, asm.Scalar{Num: v, Elem: e}, w.address(m))
		return
	}
	w.asm.Emit("movi", asm.V(v, asm.D), asm.Imm(0))
}

// store writes the store of register v. The name has the size of the store.
func (w *writer) store(name string, m *alloc.Mem, v int) {
	name, kind, _ := strings.Cut(name, " ")
	if e, ok := w.accessSize(m, kind); ok {
		w.asm.Emit(name, asm.Scalar{Num: v, Elem: e}, w.address(m))
	}
}

// accessSize returns the size of an access: the size that the instruction has, or the bytes of the elements of the
// pass if they are fewer. ok is false if the access is beyond the elements of the pass.
func (w *writer) accessSize(m *alloc.Mem, kind string) (e asm.Elem, ok bool) {
	e = asm.Elem(strings.IndexByte("bhsdq", kind[0]))
	if m.Space == alloc.PerRow || m.Space == alloc.Slot {
		return e, true
	}
	bytesLeft := w.lanes*int(m.ElementBytes) - int(m.Offset)
	for e > asm.B && e.Bytes() > bytesLeft {
		e--
	}
	return e, bytesLeft > 0
}

// address returns an address. It may write code that changes regPointer.
func (w *writer) address(m *alloc.Mem) asm.Mem {
	offset := int(m.Offset) + w.iteration*int(m.Step)
	switch m.Space {
	case alloc.Slot:
		return asm.Mem{Base: regSpill, Offset: vectorBytes * m.Index}
	case alloc.AccumulatorMemory:
		offset %= lane.FoldLanes * int(m.ElementBytes)
	}
	return asm.Mem{Base: w.pointer(m.Index), Offset: offset}
}

// pointer returns a register with pointer k. If the pointer is in the spill area, pointer loads it to regPointer.
func (w *writer) pointer(k int) asm.Reg {
	if b := w.baseOf[k]; b >= 0 {
		return bases[b]
	}
	w.asm.Emit("ldr", regPointer, w.pointerSlot(k))
	return regPointer
}

// savePointer stores pointer k from the register that pointer returned, if the pointer is in the spill area.
func (w *writer) savePointer(k int) {
	if w.baseOf[k] < 0 {
		w.asm.Emit("str", regPointer, w.pointerSlot(k))
	}
}

func (w *writer) pointerSlot(k int) asm.Mem { return asm.Mem{Base: regSpill, Offset: 8 * k} }
