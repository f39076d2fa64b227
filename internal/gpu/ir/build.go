package ir

import (
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Builder adds instructions to a kernel. A pure instruction that is equal to an earlier one of the same block, or of a
// block around it, is not added again. The value of the earlier instruction is used.
type Builder struct {
	Kernel
	scopes []map[Inst]Value
}

// NewBuilder returns a builder of a kernel with a number of addresses and of threads of a group.
func NewBuilder(params, groupSize int) *Builder {
	return &Builder{Kernel{Params: params, GroupSize: groupSize}, []map[Inst]Value{{}}}
}

// Do adds an operation whose result has dtype d.
func (b *Builder) Do(op Op, d tensor.DType, args ...Value) Value { return b.DoImm(op, d, 0, args...) }

// DoImm is Do for an operation with a number.
func (b *Builder) DoImm(op Op, d tensor.DType, imm uint64, args ...Value) Value {
	return b.add(Inst{Op: op, D: d, Imm: imm}, args)
}

// Const adds a constant of the given bits.
func (b *Builder) Const(d tensor.DType, bits uint64) Value { return b.DoImm(Op(lane.Const), d, bits) }

// Lookup adds a lookup in a table. Equal tables should have the same address.
func (b *Builder) Lookup(table *[32]float32, v Value) Value {
	return b.add(Inst{Op: Op(lane.Lookup), D: tensor.Float32, Table: table}, []Value{v})
}

// Load adds a load of n words, and returns them.
func (b *Builder) Load(d tensor.DType, n int, address Value) []Value {
	words := []Value{b.DoImm(Load, d, uint64(n), address)}
	for k := 1; k < n; k++ {
		words = append(words, b.DoImm(Part, Register(d), uint64(k), words[0]))
	}
	return words
}

// Array adds an array to the memory of the group, and returns its index.
func (b *Builder) Array(d tensor.DType, n int) uint64 {
	b.Shared = append(b.Shared, Array{d, n})
	return uint64(len(b.Shared) - 1)
}

// While adds a loop that ends when the value that body returns is true. Code after the condition is not possible:
// variables carry the state.
func (b *Builder) While(body func() (done Value)) {
	b.Do(Loop, tensor.Invalid)
	b.push()
	b.Do(Break, tensor.Invalid, body())
	b.pop()
}

// If adds a conditional block.
func (b *Builder) If(condition Value, body func()) {
	b.Do(If, tensor.Invalid, condition)
	b.push()
	body()
	b.pop()
}

func (b *Builder) push() { b.scopes = append(b.scopes, map[Inst]Value{}) }

func (b *Builder) pop() {
	b.scopes = b.scopes[:len(b.scopes)-1]
	b.Do(End, tensor.Invalid)
}

// pure reports whether equal instructions have equal results.
func (o Op) pure() bool {
	return o.IsLaneOp() || o == Param || o == Thread || o == Group || o == MulHigh || o == Part
}

func (b *Builder) add(i Inst, args []Value) Value {
	for k := range i.Args {
		if i.Args[k] = None; k < len(args) {
			i.Args[k] = args[k]
		}
	}
	if i.Op.pure() {
		for _, scope := range b.scopes {
			if v, ok := scope[i]; ok {
				return v
			}
		}
	}
	v := Value(len(b.Insts))
	b.scopes[len(b.scopes)-1][i] = v
	b.Insts = append(b.Insts, i)
	return v
}
