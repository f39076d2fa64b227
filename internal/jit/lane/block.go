package lane

import "github.com/graphrun/graphrun/tensor"

// Uses returns the values that are operands of an instruction.
func (i *Inst) Uses() []Value {
	n := Ops[i.Op].Args
	if i.Op == Store && i.B != None {
		n = 2
	}
	return []Value{i.A, i.B, i.C}[:n] // not allocated, because Uses is inlined
}

// Type returns the type of a value.
func (b *Block) Type(v Value) Type { return b.Insts[v].Type }

// Uniform reports whether a value is the same in all lanes of all iterations of a row.
func (b *Block) Uniform(v Value) bool { return b.uniform[v] }

// Do adds an operation on values whose result has dtype d. If the block has an equal instruction, Do returns its value.
// Do converts masks to the width that the operation requires. A mask that selects between values, or is converted to
// numbers, gets their width. The masks of a logical operation get the width of the narrowest of them.
func (b *Block) Do(op Op, d tensor.DType, args ...Value) Value {
	t := Type{D: d}
	width := uint8(d.Size())
	if d == tensor.Bool {
		width = b.minWidth(args)
		t.Mask = width
	}
	i := Inst{Op: op, Type: t, A: None, B: None, C: None}
	for k, to := range []*Value{&i.A, &i.B, &i.C}[:len(args)] {
		*to = b.Remask(args[k], width)
	}
	return b.add(i)
}

// minWidth returns the size in bytes of the narrowest value. Constants have any width.
func (b *Block) minWidth(args []Value) uint8 {
	minimum := 0
	for _, v := range args {
		if t := b.Type(v); b.Insts[v].Op != Const && (minimum == 0 || t.Size() < minimum) {
			minimum = t.Size()
		}
	}
	if minimum == 0 {
		minimum = b.Type(args[0]).Size()
	}
	return uint8(minimum)
}

// Remask returns a mask with lanes of the given number of bytes. It returns a value that is no mask unchanged.
func (b *Block) Remask(v Value, width uint8) Value {
	i := b.Insts[v]
	if i.Type.D != tensor.Bool || i.Type.Mask == width {
		return v
	}
	to := Type{D: tensor.Bool, Mask: width}
	switch i.Op {
	case Const:
		i.Type = to
		return b.add(i)
	case Remask:
		return b.Remask(i.A, width)
	}
	return b.add(Inst{Op: Remask, Type: to, A: v, B: None, C: None})
}

// Const adds a constant. A bool has a mask of 1 byte.
func (b *Block) Const(d tensor.DType, bits uint64) Value {
	return b.add(Inst{Op: Const, Type: memoryType(d), A: None, B: None, C: None, Imm: bits})
}

// Load adds a load of the elements at a pointer, or of their imaginary parts if part is 1. A bool has a mask of 1 byte.
func (b *Block) Load(ptr, part int) Value {
	return b.add(Inst{Op: Load, Type: memoryType(b.Ptrs[ptr].D.ToReal()), Ptr: int16(ptr), A: None, B: None, C: None,
		Imm: uint64(part)})
}

// Lookup adds a lookup in a table. Equal tables should have the same address.
func (b *Block) Lookup(table *[32]float32, v Value) Value {
	return b.add(Inst{Op: Lookup, Type: Type{D: tensor.Float32}, A: v, B: None, C: None, Table: table})
}

// Store adds a store of a value, or of complex numbers with the parts re and im. im is None for other numbers. A bool
// must have a mask of 1 byte.
func (b *Block) Store(ptr int, re, im Value) {
	b.add(Inst{Op: Store, Type: memoryType(b.Ptrs[ptr].D), Ptr: int16(ptr), A: re, B: im, C: None})
}

// memoryType returns the type of elements that are loaded or stored.
func memoryType(d tensor.DType) Type {
	t := Type{D: d}
	if d == tensor.Bool {
		t.Mask = 1
	}
	return t
}

// add appends an instruction, unless there is an equal one.
func (b *Block) add(i Inst) Value {
	if v, ok := b.values[i]; ok {
		return v
	}
	v := Value(len(b.Insts))
	uniform := i.Op != Store && (i.Op != Load || b.Ptrs[i.Ptr].Kind == RowOperand)
	for _, u := range i.Uses() {
		uniform = uniform && b.uniform[u]
	}
	if b.values == nil {
		b.values = map[Inst]Value{}
	}
	b.values[i] = v
	b.Insts, b.uniform = append(b.Insts, i), append(b.uniform, uniform)
	return v
}
