package lane

import (
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Operands returns the values that are operands of an instruction.
func (i *Inst) Operands() []Value {
	count := Ops[i.Op].Args
	if i.Op == Store && i.B != None { // the imaginary part
		count = 2
	}
	return []Value{i.A, i.B, i.C}[:count] // the slice needs no allocation where Operands is inlined
}

// Type returns the type of a value.
func (b *Block) Type(value Value) Type { return b.Insts[value].Type }

// Uniform reports whether a value is the same in all lanes of all iterations of a row.
func (b *Block) Uniform(value Value) bool { return b.uniform[value] }

// Grow reserves memory for a number of instructions.
func (b *Block) Grow(count int) {
	b.Insts, b.uniform = slices.Grow(b.Insts, count), slices.Grow(b.uniform, count)
	if b.values == nil {
		b.values = make(map[Inst]Value, count)
	}
}

// Emit adds an operation on values whose result has the given dtype. If the block has an equal instruction, Emit
// returns its value.
//
// A mask has one truth value in each lane; its width is the number of bytes of a lane. Emit first converts operands
// that are masks to the width of the result (Remask). This width is the size of dtype or, for bool, the width of the
// narrowest operand. For example, a comparison of float64 gives a mask with lanes of 8 bytes. For a Select between
// float32 values by this mask, Emit first adds a Remask to 4 bytes.
func (b *Block) Emit(op Op, dtype tensor.DType, args ...Value) Value {
	resultType := Type{DType: dtype}
	width := uint8(dtype.Size())
	if dtype == tensor.Bool { // a comparison or a logical operation
		width = b.minWidth(args)
		resultType.Mask = width
	}
	inst := Inst{Op: op, Type: resultType, A: None, B: None, C: None}
	for k, operand := range []*Value{&inst.A, &inst.B, &inst.C}[:len(args)] {
		*operand = b.Remask(args[k], width)
	}
	return b.add(inst)
}

// minWidth returns the size in bytes of a lane of the narrowest value. It ignores constants unless all values are
// constants, because a constant mask can have any width.
func (b *Block) minWidth(args []Value) uint8 {
	minimum := 0
	for _, value := range args {
		if valueType := b.Type(value); b.Insts[value].Op != Const && (minimum == 0 || valueType.Size() < minimum) {
			minimum = valueType.Size()
		}
	}
	if minimum == 0 {
		minimum = b.Type(args[0]).Size()
	}
	return uint8(minimum)
}

// Remask returns a mask with lanes of the given number of bytes. It returns a number unchanged.
func (b *Block) Remask(value Value, width uint8) Value {
	if t := b.Type(value); t.DType != tensor.Bool || t.Mask == width {
		return value
	}
	inst := b.Insts[value]
	maskType := Type{DType: tensor.Bool, Mask: width}
	switch inst.Op {
	case Const:
		inst.Type = maskType
		return b.add(inst)
	case Remask:
		return b.Remask(inst.A, width)
	}
	return b.add(Inst{Op: Remask, Type: maskType, A: value, B: None, C: None})
}

// Const adds a constant. A Bool becomes a mask with lanes of 1 byte.
func (b *Block) Const(dtype tensor.DType, bits uint64) Value {
	return b.add(Inst{Op: Const, Type: memoryType(dtype), A: None, B: None, C: None, Imm: bits})
}

// Load adds a load of the elements at a pointer. If the elements are complex, it loads their real parts (part 0) or
// their imaginary parts (part 1). Bools become a mask with lanes of 1 byte.
func (b *Block) Load(ptr, part int) Value {
	return b.add(Inst{Op: Load, Type: memoryType(b.Ptrs[ptr].DType.ToReal()), Ptr: int16(ptr), A: None, B: None, C: None,
		Imm: uint64(part)})
}

// Lookup adds a lookup in a table: see the operation [Lookup]. Equal tables should have the same address, because add
// compares addresses to find equal instructions.
func (b *Block) Lookup(table *[32]float32, value Value) Value {
	return b.add(Inst{Op: Lookup, Type: Type{DType: tensor.Float32}, A: value, B: None, C: None, Table: table})
}

// Tables returns the group of tables that machine code looks up together for a Lookup. The group contains the table of
// the Lookup. The Lookups of a group have the same indices (operand A), and canCombine holds for their tables. All such
// tables of the block are divided in order into groups of n; the last group may be smaller. The result is nil if
// canCombine does not hold for the table of the Lookup.
func (b *Block) Tables(lookup *Inst, n int, canCombine func(*[32]float32) bool) []*[32]float32 {
	var group []*[32]float32
	for k := range b.Insts {
		other := &b.Insts[k]
		if other.Op != Lookup || other.A != lookup.A || !canCombine(other.Table) {
			continue
		}
		if len(group) == n {
			if slices.Contains(group, lookup.Table) {
				break
			}
			group = nil
		}
		group = append(group, other.Table)
	}
	if !slices.Contains(group, lookup.Table) {
		return nil
	}
	return group
}

// Store adds a store of re. If the elements are complex, re and im are their parts; otherwise im is None. A mask must
// have lanes of 1 byte.
func (b *Block) Store(ptr int, re, im Value) {
	b.add(Inst{Op: Store, Type: memoryType(b.Ptrs[ptr].DType), Ptr: int16(ptr), A: re, B: im, C: None})
}

// memoryType returns the type of elements that are loaded or stored.
func memoryType(dtype tensor.DType) Type {
	t := Type{DType: dtype}
	if dtype == tensor.Bool {
		t.Mask = 1
	}
	return t
}

// add appends an instruction and returns its value. If the block has an equal instruction, add returns the value of
// that instruction. Equal loads give equal elements, because stores are last.
func (b *Block) add(inst Inst) Value {
	if value, ok := b.values[inst]; ok {
		return value
	}
	value := Value(len(b.Insts))
	isUniform := inst.Op != Store && (inst.Op != Load || b.Ptrs[inst.Ptr].Kind == RowOperand)
	for _, operand := range inst.Operands() {
		isUniform = isUniform && b.uniform[operand]
	}
	if b.values == nil {
		b.Grow(1)
	}
	b.values[inst] = value
	b.Insts, b.uniform = append(b.Insts, inst), append(b.uniform, isUniform)
	return value
}
