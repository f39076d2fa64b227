package ir

import (
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Builder builds a kernel. It eliminates common subexpressions: if a pure instruction equals an earlier instruction of
// the same block or of an enclosing block, the Builder returns the value of the earlier instruction.
type Builder struct {
	Kernel
	scopes []map[Inst]Value // pure instructions and their values, for each open block; the outermost block first
}

// NewBuilder returns a builder of a kernel. params is the number of parameters (addresses), and groupSize is the number
// of threads in a group.
func NewBuilder(params, groupSize int) *Builder {
	return &Builder{Kernel{Params: params, GroupSize: groupSize}, []map[Inst]Value{{}}}
}

// Emit adds an operation whose result has the given dtype, and returns its result. An operation without a result has
// the dtype tensor.Invalid, except for a Store: see [Inst].
func (b *Builder) Emit(op Op, dtype tensor.DType, args ...Value) Value {
	return b.EmitImm(op, dtype, 0, args...)
}

// EmitImm adds an operation as [Builder.Emit] does, with an immediate number (Inst.Imm).
func (b *Builder) EmitImm(op Op, dtype tensor.DType, imm uint64, args ...Value) Value {
	return b.add(Inst{Op: op, DType: dtype, Imm: imm}, args)
}

// Const adds a constant with the given bits.
func (b *Builder) Const(dtype tensor.DType, bits uint64) Value {
	return b.EmitImm(Op(lane.Const), dtype, bits)
}

// Lookup adds a lookup in a table. The low 5 bits of v are the index. Two lookups are equal instructions only if their
// tables have the same address.
func (b *Builder) Lookup(table *[32]float32, v Value) Value {
	return b.add(Inst{Op: Op(lane.Lookup), DType: tensor.Float32, Table: table}, []Value{v})
}

// Load adds a load of count consecutive words, and returns the words. The value of the load is the first word. An
// Extract of this value is one of the other words. dtype is the dtype in memory, and Register(dtype) is the dtype of
// the words.
func (b *Builder) Load(dtype tensor.DType, count int, address Value) []Value {
	words := []Value{b.EmitImm(Load, dtype, uint64(count), address)}
	for index := 1; index < count; index++ {
		words = append(words, b.EmitImm(Extract, Register(dtype), uint64(index), words[0]))
	}
	return words
}

// Array adds an array to the memory of the group, and returns its index.
func (b *Builder) Array(dtype tensor.DType, length int) uint64 {
	b.Shared = append(b.Shared, Array{DType: dtype, Length: length})
	return uint64(len(b.Shared) - 1)
}

// While adds a loop. body adds the instructions of an iteration, and returns the condition that ends the loop. The
// condition is tested at the end of each iteration. Variables (Var, ReadVar, WriteVar) carry values from one iteration
// to the next.
func (b *Builder) While(body func() (done Value)) {
	b.Emit(Loop, tensor.Invalid)
	b.openBlock()
	b.Emit(Break, tensor.Invalid, body())
	b.closeBlock()
}

// If adds a block that runs if the condition is true. body adds its instructions.
func (b *Builder) If(condition Value, body func()) {
	b.Emit(If, tensor.Invalid, condition)
	b.openBlock()
	body()
	b.closeBlock()
}

// openBlock begins a block. Its values are not visible after the block.
func (b *Builder) openBlock() { b.scopes = append(b.scopes, map[Inst]Value{}) }

// closeBlock ends the innermost block and adds its End.
func (b *Builder) closeBlock() {
	b.scopes = b.scopes[:len(b.scopes)-1]
	b.Emit(End, tensor.Invalid)
}

// isPure reports whether instructions with this operation and equal operands have equal results.
func (o Op) isPure() bool {
	return o.IsLaneOp() || o == Param || o == Thread || o == Group || o == MulHigh || o == Extract
}

// add appends an instruction with the operands args, and returns its value. If the instruction is pure and an open
// block has an equal instruction, add appends nothing and returns the value of the equal instruction.
func (b *Builder) add(inst Inst, args []Value) Value {
	for position := range inst.Args {
		inst.Args[position] = None
		if position < len(args) {
			inst.Args[position] = args[position]
		}
	}
	added := Value(len(b.Insts))
	if inst.Op.isPure() {
		for _, scope := range b.scopes {
			if earlier, ok := scope[inst]; ok {
				return earlier
			}
		}
		b.scopes[len(b.scopes)-1][inst] = added
	}
	b.Insts = append(b.Insts, inst)
	return added
}
