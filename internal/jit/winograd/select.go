package winograd

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
)

// pairwise has the instructions of operations on two values. If a source is NaN, VMAXPS and VMINPS return the source
// that comes first in Go's assembler: the value. The other source is a constant.
var pairwise = map[opcode]string{opAdd: "VADDPS", opSub: "VSUBPS", opTimes: "VMULPS", opMul: "VMULPS", opMax: "VMAXPS",
	opMin: "VMINPS"}

// fusedForms returns the forms of a multiply-add of the sources k, x and y.
func fusedForms(name string) []alloc.Form {
	return []alloc.Form{{Name: name + "231PS", Tied: 2, Order: [2]int8{0, 1}},
		{Name: name + "231PS", Tied: 2, Order: [2]int8{1, 0}}, {Name: name + "213PS", Tied: 1, Order: [2]int8{2, 0}},
		{Name: name + "132PS", Tied: 1, Order: [2]int8{0, 2}}}
}

var multiplyAdd, multiplySub = fusedForms("VFMADD"), fusedForms("VFNMADD")

// lower selects the instructions of a block.
func (c *code) lower(b *block) *alloc.Builder {
	l := &alloc.Builder{Values: make([]alloc.Value, 1, len(b.list)+1), Body: make([]alloc.Inst, 0, len(b.list))}
	at := make([]alloc.Virt, len(b.list))
	sources := func(vs ...value) []alloc.Arg {
		src := make([]alloc.Arg, len(vs))
		for k, v := range vs {
			src[k].Virt = at[v]
		}
		return src
	}
	for i := range b.list {
		o := &b.list[i]
		in := alloc.Inst{Name: pairwise[o.op], Lane: 4}
		switch o.op {
		case opConst, opLoad, opBias, opTile, opLanes:
			at[i] = l.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu)), Reload: c.reload(o)})
			continue
		case opStore:
			in.Name, in.Src, in.Fold = "VMOVUPS", sources(o.x), -1
			in.Store = &alloc.Mem{Space: alloc.Along, Index: target, Row: int8(o.row), Col: int8(o.col)}
			l.Body = append(l.Body, in)
			continue
		case opAdd, opSub, opTimes:
			in.Src, in.Comm = sources(o.y, o.x), o.op == opAdd
		case opMul:
			in.Src = sources(o.k, o.x)
		case opMax, opMin:
			in.Src = sources(o.x, o.k)
		case opFMA:
			in.Src, in.Forms = sources(o.k, o.x, o.y), multiplyAdd
		case opFNMA:
			in.Src, in.Forms = sources(o.k, o.x, o.y), multiplySub
		}
		at[i] = l.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu))})
		in.Dst = at[i]
		l.Body = append(l.Body, in)
	}
	l.Prune()
	return l
}

// reload returns the load of a constant or an operand.
func (c *code) reload(o *operation) *alloc.Reload {
	r := &alloc.Reload{Name: "VMOVUPS", Foldable: true}
	r.Mem = alloc.Mem{Space: alloc.ReadOnly, Row: int8(o.row), Col: int8(o.col)}
	switch o.op {
	case opConst:
		one := string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(o.number)))
		r.Mem = alloc.Mem{Space: alloc.Constant, Data: strings.Repeat(one, Lanes(c.cpu))}
		if c.cpu.Has(machine.Vector512) {
			r.Name, r.Lane, r.Mem.Data = "VBROADCASTSS", 4, one
		}
	case opLoad:
		r.Mem.Index = source
	case opBias:
		r.Mem.Index = biasIndex
	case opTile:
		r.Mem.Space, r.Mem.Index = alloc.Along, EpilogueOperands+o.operand
	case opLanes:
		r.Mem.Index = EpilogueOperands + o.operand
	}
	return r
}

// write emits a block, for whole vectors or, if tail is true, for the last, partial vector. It returns the number of
// slots for spilled values.
func (c *code) write(b *block, tail bool) (slots int, err error) {
	l := c.lower(b)
	n := len(l.Values)
	f := alloc.File{Pool: [2]uint32{alloc.Vectors: 1<<c.registers - 1}, Permanent: slices.Repeat([]int8{-1}, n),
		PermanentSlot: slices.Repeat([]int16{-1}, n), FoldLoads: true}
	r := alloc.Run(l.Values, &f, l.Body, alloc.Policy{Masked: tail, KeepComputed: true})
	if r.Err != nil {
		return 0, r.Err
	}
	c.source.current, c.target.current = -1, -1
	for k := range r.Out {
		c.writeInst(&r.Out[k], tail)
	}
	slots = r.Slots
	r.Free()
	return slots, nil
}

// writeInst emits an allocated instruction.
func (c *code) writeInst(o *alloc.Out, tail bool) {
	var few [3]asm.Arg
	args := few[:0]
	for k := range o.Args {
		args = append(args, c.arg(&o.Args[k]))
	}
	from, to := &o.Args[0], &o.Args[len(o.Args)-1]
	switch {
	case to.Kind == alloc.Memory && to.Mem.Space == alloc.Along:
		c.store(args[0].(asm.Vec), args[1].(asm.Mem), tail)
	case o.Kind == alloc.Load && tail && (from.Mem.Space == alloc.Along || from.Mem.Space == alloc.ReadOnly):
		c.loadPart(args[0].(asm.Mem), args[1].(asm.Vec))
	case o.Name == "":
		c.Emit("VMOVUPS", args...)
	default:
		c.Emit(o.Name, args...)
	}
}

// arg returns an operand of an instruction. It may emit code that computes an address.
func (c *code) arg(o *alloc.Operand) asm.Arg {
	if o.Kind == alloc.Register {
		return c.vec(int(o.Reg))
	}
	m := o.Mem
	switch {
	case m.Space == alloc.Slot:
		return c.spilled(m.Index)
	case m.Space == alloc.Constant:
		data := c.Constant([]byte(m.Data))
		data.Broadcast = o.Kind == alloc.Element
		return data
	case m.Space == alloc.Along && m.Index == target:
		return c.target.mem(c, int(m.Row), int(m.Col))
	case m.Space == alloc.Along:
		return c.tileOperand(m.Index-EpilogueOperands, int(m.Row), int(m.Col))
	case m.Index == biasIndex:
		return asm.Mem{Base: regBias, Index: regChannel, Scale: 1}
	case m.Index == source:
		return c.source.mem(c, int(m.Row), int(m.Col))
	}
	return c.lanesOperand(m.Index - EpilogueOperands)
}
