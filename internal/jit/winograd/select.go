package winograd

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file converts a block, a straight-line sequence of vector operations, to machine code: it selects instructions
// on virtual registers (lower), allocates registers (package alloc), and writes the instructions (emitInst). A block
// transforms pixels of a tile or weights of a window to points, or points to pixels (see the package comment).
//
// For example, the operations "a = load element (2, 0)", "b = load element (0, 0)", "c = a - b" become one instruction
// "sub" with the sources b, a and the result c. The values a and b have a Reload: the allocator inserts their loads, or
// makes b a memory operand of the instruction.

// Instructions for operations with two sources.
var (
	nameOfOpcode = map[opcode]string{opAdd: "add", opSub: "sub", opMul: "mul", opMulConst: "mul", opMax: "max",
		opMin: "min"}
	targetOps = map[string]target.Op{"add": target.Add, "sub": target.Sub, "mul": target.Mul, "max": target.Max,
		"min": target.Min} // by name
)

// alloc.Inst.FoldableSource is the index of the source that may be a memory operand. noFoldableSource means that no
// source may be one.
const noFoldableSource = -1

// lower selects the instructions of a block, on virtual registers. Loads and constants become virtual registers with a
// Reload, and need no instruction. Source 0 of the other instructions, except stores, may be a memory operand:
// FoldableSource keeps its zero value.
//
// An instruction computes "source 1 OP source 0" (see target.Op), so that x - y has the sources y, x. A multiply-add
// computes source 2 + source 0 * source 1.
func (c *codeGen) lower(b *block) *alloc.Builder {
	const firstVirt = 1 // entry 0 of Values is unused: register 0 means none
	builder := &alloc.Builder{Values: make([]alloc.Value, firstVirt, firstVirt+len(b.operations)),
		Body: make([]alloc.Inst, 0, len(b.operations))}
	virtOf := make([]alloc.Virt, len(b.operations))
	sources := func(values ...valueID) []alloc.Arg {
		src := make([]alloc.Arg, len(values))
		for k, value := range values {
			src[k].Virt = virtOf[value]
		}
		return src
	}
	for i := range b.operations {
		operation := &b.operations[i]
		inst := alloc.Inst{Name: nameOfOpcode[operation.opcode], BroadcastBytes: 4}
		switch operation.opcode {
		case opConst, opLoad, opBias, opTileOperand, opChannelOperand: // a Reload instead of an instruction
			virtOf[i] = builder.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu)), Reload: c.reload(operation)})
			continue
		case opStore:
			inst.Src, inst.FoldableSource = sources(operation.x), noFoldableSource
			inst.Store = &alloc.Mem{Space: alloc.AlongRow, Index: outputIndex, Row: int8(operation.row),
				Col: int8(operation.col)}
			builder.Body = append(builder.Body, inst)
			continue
		case opAdd, opSub, opMul:
			inst.Src, inst.Commutative = sources(operation.y, operation.x), operation.opcode == opAdd
		case opMulConst:
			inst.Src = sources(operation.k, operation.x)
		case opMax, opMin: // the result is source 0 if a source is a NaN: source 0 is x, so that NaNs in x are kept
			inst.Src = sources(operation.x, operation.k)
		case opFMA, opFNMA:
			negate := operation.opcode == opFNMA // y - k*x
			inst.Src, inst.Forms = sources(operation.k, operation.x, operation.y), c.fmaForms(negate)
		}
		virtOf[i] = builder.New(alloc.Value{Bytes: uint8(4 * Lanes(c.cpu))})
		inst.Dst = virtOf[i]
		builder.Body = append(builder.Body, inst)
	}
	builder.Prune()
	return builder
}

// reload returns the load of a constant or an operand. A space is a kind of memory: AlongRow is the output and operands
// that may overlap the output, AlongRowReadOnly is other operands. An epilogue operand with the layout of the result
// may be the result itself, so it is in the space AlongRow. In this space, alloc.Check rejects a load of an element
// that the block has stored before.
func (c *codeGen) reload(operation *operation) *alloc.Reload {
	reload := &alloc.Reload{Name: "load", Foldable: true}
	reload.Mem = alloc.Mem{Space: alloc.AlongRowReadOnly, Row: int8(operation.row), Col: int8(operation.col)}
	switch operation.opcode {
	case opConst:
		element := string(binary.LittleEndian.AppendUint32(nil, operation.constBits))
		reload.BroadcastBytes, reload.Mem = 4, alloc.Mem{Space: alloc.Constant, Data: element}
		hasOnlyAVX2 := target.UsesVectorMasks(c.cpu)
		if hasOnlyAVX2 { // its memory operands cannot be broadcast: the constant has all lanes
			reload.BroadcastBytes, reload.Mem.Data = 0, strings.Repeat(element, Lanes(c.cpu))
		}
	case opLoad:
		reload.Mem.Index = inputIndex
	case opBias:
		reload.Mem.Index = biasIndex
	case opTileOperand:
		reload.Mem.Space, reload.Mem.Index = alloc.AlongRow, FirstEpilogueOperand+operation.operand
	case opChannelOperand:
		reload.Mem.Index = FirstEpilogueOperand + operation.operand
	}
	return reload
}

// emitBlock allocates registers for a block and emits its instructions. isTail is true for the last, partial vector of
// channels. emitBlock returns the number of slots for spilled values.
func (c *codeGen) emitBlock(b *block, isTail bool) (slots int, err error) {
	builder := c.lower(b)
	valueCount := len(builder.Values)
	registerFile := alloc.RegisterFile{Pool: [2]uint32{alloc.Vectors: 1<<c.registerCount - 1},
		Permanent:     slices.Repeat([]int8{-1}, valueCount), // no value has a permanent register or slot
		PermanentSlot: slices.Repeat([]int16{-1}, valueCount), FoldLoads: !c.cpu.Has(machine.NEON)}
	// EvictReloadableFirst: a register holds a computed value rather than one that a load can restore.
	result := alloc.Run(builder.Values, &registerFile, builder.Body,
		alloc.Policy{Masked: isTail, EvictReloadableFirst: true})
	if result.Err != nil {
		return 0, result.Err
	}
	c.input.reset() // no register has an address of the input or output yet
	c.output.reset()
	for k := range result.Insts {
		c.emitInst(&result.Insts[k], isTail)
	}
	slots = result.Slots
	result.Free()
	return slots, nil
}

// emitInst emits an allocated instruction.
func (c *codeGen) emitInst(inst *alloc.Allocated, isTail bool) {
	var buf [3]target.Source
	args := buf[:0]
	for k := range inst.Args {
		args = append(args, c.arg(&inst.Args[k]))
	}
	from, to := &inst.Args[0], &inst.Args[len(inst.Args)-1]
	op, hasOp := targetOps[inst.Name]
	switch {
	case to.Kind == alloc.Memory && to.Mem.Space == alloc.AlongRow:
		// A store. In memory, the channels of points are padded to whole vectors, the channels of pixels are not.
		isPartial := isTail && c.writesPixels
		c.Store(args[0].(target.VReg), args[1].(target.Addr), isPartial)
	case inst.Kind == alloc.Load && (from.Mem.Space == alloc.AlongRow || from.Mem.Space == alloc.AlongRowReadOnly):
		c.Load(args[0].(target.Addr), args[1].(target.VReg), isTail)
	case inst.Kind != alloc.Plain: // a constant or a slot, which has all lanes, or a copy between registers
		c.Copy(args[0], args[1])
	case hasOp:
		c.Op(op, args[0], args[1].(target.VReg), args[2].(target.VReg))
	default: // a multiply-add: the allocator chose one of the forms (encodings) c.fmaForms, and its name
		c.Inst(inst.Name, args...)
	}
}

// arg returns an operand of an instruction. It may emit code that computes an address.
func (c *codeGen) arg(operand *alloc.Operand) target.Source {
	if operand.Kind == alloc.Register {
		return target.VReg(operand.Reg)
	}
	mem := operand.Mem
	switch {
	case mem.Space == alloc.Slot:
		return c.spilled(mem.Index)
	case mem.Space == alloc.Constant:
		return target.Constant(mem.Data)
	case mem.Space == alloc.AlongRow && mem.Index == outputIndex:
		return c.output.addr(c, int(mem.Row), int(mem.Col))
	case mem.Space == alloc.AlongRow:
		return c.tileOperand(mem.Index-FirstEpilogueOperand, int(mem.Row), int(mem.Col))
	case mem.Index == biasIndex:
		return target.Addr{Base: biasReg, Index: channelReg, Scale: 1}
	case mem.Index == inputIndex:
		return c.input.addr(c, int(mem.Row), int(mem.Col))
	}
	return c.channelOperand(mem.Index - FirstEpilogueOperand)
}
