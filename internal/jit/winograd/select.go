package winograd

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// binaryNames maps the operations with two sources to names of instructions, and operations maps these names to the
// operations of package target. Max and Min have the value as the first source, so that they keep a NaN.
var (
	binaryNames = map[opcode]string{opAdd: "add", opSub: "sub", opTimes: "mul", opMul: "mul", opMax: "max",
		opMin: "min"}
	operations = map[string]target.Op{"add": target.Add, "sub": target.Sub, "mul": target.Mul, "max": target.Max,
		"min": target.Min}
)

// lower selects the instructions of a block.
func (c *code) lower(b *block) *alloc.Builder {
	builder := &alloc.Builder{Values: make([]alloc.Value, 1, len(b.list)+1), Body: make([]alloc.Inst, 0, len(b.list))}
	virtOf := make([]alloc.Virt, len(b.list))
	sources := func(vs ...value) []alloc.Arg {
		src := make([]alloc.Arg, len(vs))
		for k, v := range vs {
			src[k].Virt = virtOf[v]
		}
		return src
	}
	for i := range b.list {
		o := &b.list[i]
		in := alloc.Inst{Name: binaryNames[o.op], BroadcastBytes: 4}
		switch o.op {
		case opConst, opLoad, opBias, opTile, opLanes:
			virtOf[i] = builder.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu)), Reload: c.reload(o)})
			continue
		case opStore:
			in.Src, in.Fold = sources(o.x), -1
			in.Store = &alloc.Mem{Space: alloc.Advancing, Index: outputIndex, Row: int8(o.row), Col: int8(o.col)}
			builder.Body = append(builder.Body, in)
			continue
		case opAdd, opSub, opTimes:
			in.Src, in.Commutative = sources(o.y, o.x), o.op == opAdd
		case opMul:
			in.Src = sources(o.k, o.x)
		case opMax, opMin:
			in.Src = sources(o.x, o.k)
		case opFMA, opFNMA:
			in.Src, in.Forms = sources(o.k, o.x, o.y), c.fmaForms(o.op == opFNMA)
		}
		virtOf[i] = builder.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu))})
		in.Dst = virtOf[i]
		builder.Body = append(builder.Body, in)
	}
	builder.Prune()
	return builder
}

// reload returns the load of a constant or an operand.
func (c *code) reload(o *operation) *alloc.Reload {
	r := &alloc.Reload{Name: "load", Foldable: true}
	r.Mem = alloc.Mem{Space: alloc.ReadOnly, Row: int8(o.row), Col: int8(o.col)}
	switch o.op {
	case opConst:
		element := string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(o.number)))
		r.BroadcastBytes, r.Mem = 4, alloc.Mem{Space: alloc.Constant, Data: element}
		if target.MasksInVectors(c.cpu) { // AVX2 cannot broadcast an operand
			r.BroadcastBytes, r.Mem.Data = 0, strings.Repeat(element, Lanes(c.cpu))
		}
	case opLoad:
		r.Mem.Index = inputIndex
	case opBias:
		r.Mem.Index = biasIndex
	case opTile:
		r.Mem.Space, r.Mem.Index = alloc.Advancing, EpilogueOperands+o.operand
	case opLanes:
		r.Mem.Index = EpilogueOperands + o.operand
	}
	return r
}

// write emits a block, for whole vectors or, if tail is true, for the last, partial vector. It returns the number of
// slots for spilled values.
func (c *code) write(b *block, tail bool) (slots int, err error) {
	builder := c.lower(b)
	n := len(builder.Values)
	registerFile := alloc.File{Pool: [2]uint32{alloc.Vectors: 1<<c.registers - 1},
		Permanent:     slices.Repeat([]int8{-1}, n),
		PermanentSlot: slices.Repeat([]int16{-1}, n), FoldLoads: !c.cpu.Has(machine.NEON)}
	r := alloc.Run(builder.Values, &registerFile, builder.Body, alloc.Policy{Masked: tail, PreferComputed: true})
	if r.Err != nil {
		return 0, r.Err
	}
	c.input.current, c.output.current = -1, -1
	for k := range r.Out {
		c.writeInst(&r.Out[k], tail)
	}
	slots = r.Slots
	r.Free()
	return slots, nil
}

// writeInst emits an allocated instruction.
func (c *code) writeInst(o *alloc.Out, tail bool) {
	var buf [3]target.Source
	args := buf[:0]
	for k := range o.Args {
		args = append(args, c.arg(&o.Args[k]))
	}
	from, to := &o.Args[0], &o.Args[len(o.Args)-1]
	operation, isOperation := operations[o.Name]
	switch {
	case to.Kind == alloc.Memory && to.Mem.Space == alloc.Advancing:
		c.Store(args[0].(target.VReg), args[1].(target.Addr), tail && c.toPixels)
	case o.Kind == alloc.Load && (from.Mem.Space == alloc.Advancing || from.Mem.Space == alloc.ReadOnly):
		c.Load(args[0].(target.Addr), args[1].(target.VReg), tail)
	case o.Kind != alloc.Plain:
		c.Copy(args[0], args[1])
	case isOperation:
		c.Op(operation, args[0], args[1].(target.VReg), args[2].(target.VReg))
	default:
		c.Inst(o.Name, args...)
	}
}

// arg returns an operand of an instruction. It may emit code that computes an address.
func (c *code) arg(o *alloc.Operand) target.Source {
	if o.Kind == alloc.Register {
		return target.VReg(o.Reg)
	}
	m := o.Mem
	switch {
	case m.Space == alloc.Slot:
		return c.spilled(m.Index)
	case m.Space == alloc.Constant:
		return target.Constant(m.Data)
	case m.Space == alloc.Advancing && m.Index == outputIndex:
		return c.output.addr(c, int(m.Row), int(m.Col))
	case m.Space == alloc.Advancing:
		return c.tileOperand(m.Index-EpilogueOperands, int(m.Row), int(m.Col))
	case m.Index == biasIndex:
		return target.Addr{Base: regBias, Index: regChannel, Scale: 1}
	case m.Index == inputIndex:
		return c.input.addr(c, int(m.Row), int(m.Col))
	}
	return c.lanesOperand(m.Index - EpilogueOperands)
}
