package expr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// Builder makes a [Code], instruction by instruction. Equal instructions are added once and share a [Value].
// [Builder.Build] returns the first error. After an error, methods return [None]. For example, max(x, 0) of float32 is
//
//	b := NewBuilder(tensor.Float32)
//	zero := b.Const(tensor.Float32, 0)
//	code, err := b.Build(b.Real(b.Emit(Max, b.Load(0), zero)))
type Builder struct {
	code    Code
	valueOf map[Inst]Value // the value of each instruction of code
	err     error
}

// NewBuilder returns a builder of a code. in lists the dtypes of the code's operands in memory.
func NewBuilder(in ...tensor.DType) *Builder {
	b := &Builder{code: Code{In: append([]tensor.DType(nil), in...)}, valueOf: map[Inst]Value{}}
	for k, dtype := range in {
		if !dtype.Valid() {
			b.Fail(fmt.Errorf("expr: operand %d has the invalid dtype %v", k, dtype))
		}
	}
	return b
}

// DType returns the dtype of a value, or Invalid for None.
func (b *Builder) DType(v Value) tensor.DType {
	if v < 0 || int(v) >= len(b.code.Insts) {
		return tensor.Invalid
	}
	return b.code.Insts[v].DType
}

// Operand returns the dtype of operand i in memory, or Invalid if there is no such operand.
func (b *Builder) Operand(i int) tensor.DType {
	if i < 0 || i >= len(b.code.In) {
		return tensor.Invalid
	}
	return b.code.In[i]
}

// Inst returns the instruction that computes a value, or an instruction with Op Invalid for None.
func (b *Builder) Inst(v Value) Inst {
	if v < 0 || int(v) >= len(b.code.Insts) {
		return Inst{A: None, B: None, C: None}
	}
	return b.code.Insts[v]
}

// Fail records err if no error was recorded before. It returns None.
func (b *Builder) Fail(err error) Value {
	if b.err == nil {
		b.err = err
	}
	return None
}

// AddInst adds an instruction and returns its value. If the code has an equal instruction, AddInst adds nothing
// and returns the value of that instruction.
func (b *Builder) AddInst(inst Inst) Value {
	// Unused operands are None, so that equal instructions are equal structs. A Load has its operand's number in A.
	for k, v := range []*Value{&inst.A, &inst.B, &inst.C} {
		if inst.Op != Load && k >= inst.Op.ArgCount() {
			*v = None
		}
	}
	if v, ok := b.valueOf[inst]; ok {
		return v
	}
	value := Value(len(b.code.Insts))
	if b.err != nil {
		return None
	}
	if err := b.code.checkInst(value, inst); err != nil {
		return b.Fail(fmt.Errorf("expr: %v: %w", inst.Op, err))
	}
	b.code.Insts = append(b.code.Insts, inst)
	b.valueOf[inst] = value
	return value
}

// Load returns the element of an operand, or its real part if the operand is complex.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (b *Builder) Load(operand int) Value { return b.load(operand, 0) }

// LoadImag returns the imaginary part of the element of a complex operand.
func (b *Builder) LoadImag(operand int) Value { return b.load(operand, 1) }

// load returns the real part (part 0) or the imaginary part (part 1) of the element of an operand.
func (b *Builder) load(operand int, part uint64) Value {
	if operand < 0 || operand >= len(b.code.In) {
		return b.Fail(fmt.Errorf("expr: operand %d does not exist: the code has %d operands", operand, len(b.code.In)))
	}
	dtype := b.code.In[operand]
	if dtype.IsComplex() {
		dtype = dtype.ToReal()
	}
	return b.AddInst(Inst{Op: Load, DType: dtype, A: Value(operand), B: None, C: None, Imm: part})
}

// Const returns a constant of a dtype. x is rounded to a float dtype, or wrapped to an integer dtype.
func (b *Builder) Const(dtype tensor.DType, x float64) Value {
	switch dtype {
	case tensor.Float32:
		return b.AddInst(Inst{Op: Const, DType: dtype, Imm: uint64(math.Float32bits(float32(x)))})
	case tensor.Float64:
		return b.AddInst(Inst{Op: Const, DType: dtype, Imm: math.Float64bits(x)})
	case tensor.Bool:
		if x != 0 {
			return b.Int(dtype, 1)
		}
		return b.Int(dtype, 0)
	case tensor.Float16, tensor.BFloat16:
		var imm uint64
		tensor.Converter(dtype, tensor.Float64)(unsafe.Pointer(&imm), unsafe.Pointer(&x), 0, 0, 1)
		return b.AddInst(Inst{Op: Const, DType: dtype, Imm: imm})
	}
	return b.Int(dtype, int64(x))
}

// Int returns a constant of a dtype: x wrapped for integers, the nearest number for floats, x != 0 for bool.
func (b *Builder) Int(dtype tensor.DType, x int64) Value {
	if dtype.IsFloat() {
		return b.Const(dtype, float64(x))
	}
	imm := uint64(x)
	if dtype == tensor.Bool && x != 0 {
		imm = 1
	}
	if bits := 8 * dtype.Size(); bits < 64 {
		imm &= 1<<bits - 1
	}
	return b.AddInst(Inst{Op: Const, DType: dtype, Imm: imm})
}

// Element returns a constant given by the bytes of one element of the dtype.
func (b *Builder) Element(dtype tensor.DType, bytes []byte) Value {
	var imm [8]byte
	if !dtype.Valid() || dtype.IsComplex() || len(bytes) != dtype.Size() {
		return b.Fail(fmt.Errorf("expr: %d bytes were given for an element of %v", len(bytes), dtype))
	}
	copy(imm[:], bytes)
	return b.AddInst(Inst{Op: Const, DType: dtype, Imm: binary.LittleEndian.Uint64(imm[:])})
}

// Number returns a plain number, that is, a number without a dtype, as a constant of a dtype. part is 1 for the
// imaginary part of a complex number, else 0.
func (b *Builder) Number(dtype tensor.DType, number tensor.Scalar, part int) Value {
	hasPart := part == 0 || part == 1 && dtype.IsComplex()
	if !dtype.Valid() || !number.IsSet() || !hasPart {
		return b.Fail(fmt.Errorf("expr: a constant of %v has no part %d", dtype, part))
	}
	bytes := number.Tensor(dtype).Storage().Bytes()
	if dtype.IsComplex() {
		dtype = dtype.ToReal()
	}
	return b.Element(dtype, bytes[part*dtype.Size():][:dtype.Size()])
}

// Emit applies a primitive operation or an elementary function. The result has the dtype of the last operand, or bool
// for comparisons.
func (b *Builder) Emit(op Op, args ...Value) Value {
	if len(args) != op.ArgCount() || len(args) == 0 {
		return b.Fail(fmt.Errorf("expr: %v takes %d operands, not %d", op, op.ArgCount(), len(args)))
	}
	inst := Inst{Op: op, DType: b.DType(args[len(args)-1]), A: args[0], B: None, C: None}
	if op == Eq || op == Ne || op == Lt || op == Le {
		inst.DType = tensor.Bool
	}
	if len(args) > 1 {
		inst.B = args[1]
	}
	if len(args) > 2 {
		inst.C = args[2]
	}
	return b.AddInst(inst)
}

// Convert returns a value in another dtype, by the rules of c10::convert.
func (b *Builder) Convert(dtype tensor.DType, v Value) Value {
	if b.DType(v) == dtype {
		return v
	}
	return b.AddInst(Inst{Op: Convert, DType: dtype, A: v})
}

// Bits reinterprets the bits of a value as another dtype of the same size.
func (b *Builder) Bits(dtype tensor.DType, v Value) Value {
	if b.DType(v) == dtype {
		return v
	}
	return b.AddInst(Inst{Op: Bits, DType: dtype, A: v})
}

// Reduce adds the operation [Reduce], which folds a value over all elements of a row by operation op.
func (b *Builder) Reduce(op Op, v Value) Value {
	return b.AddInst(Inst{Op: Reduce, DType: b.DType(v), A: v, Imm: uint64(op)})
}

// Scan adds the operation [Scan], which folds a value by operation op over the elements of a row up to the current
// element.
func (b *Builder) Scan(op Op, v Value) Value {
	return b.AddInst(Inst{Op: Scan, DType: b.DType(v), A: v, Imm: uint64(op)})
}

// Position adds the operation [Position], which is the index of the element in its row.
func (b *Builder) Position() Value { return b.AddInst(Inst{Op: Position, DType: tensor.Int32}) }

// Call applies a Go function, in float32 or float64.
func (b *Builder) Call(f *Func, dtype tensor.DType, args ...Value) Value {
	if f == nil {
		return b.Fail(errors.New("expr: Call needs a function"))
	}
	if len(args) != f.ArgCount || f.ArgCount < 1 || f.ArgCount > 3 {
		return b.Fail(fmt.Errorf("expr: %s takes %d operands, not %d", f.Name, f.ArgCount, len(args)))
	}
	index := slices.Index(b.code.Funcs, f)
	if index < 0 {
		index = len(b.code.Funcs)
		b.code.Funcs = append(b.code.Funcs, f)
	}
	// A Call always has three operands. The first operand replaces missing operands.
	inst := Inst{Op: Call, DType: dtype, A: args[0], B: args[0], C: args[0], Imm: uint64(index)}
	if len(args) > 1 {
		inst.B = args[1]
	}
	if len(args) > 2 {
		inst.C = args[2]
	}
	return b.AddInst(inst)
}

// Real returns a real output. v is its value, and the output has the dtype of v.
func (b *Builder) Real(v Value) Output { return Output{DType: b.DType(v), Re: v, Im: None} }

// Build returns the code without dead instructions, or the first error. The builder must not be used afterwards.
func (b *Builder) Build(out ...Output) (*Code, error) {
	if b.err != nil {
		return nil, b.err
	}
	code := &b.code
	code.Out = out
	for n, output := range out {
		if err := code.checkOut(output); err != nil {
			return nil, fmt.Errorf("expr: y%d: %w", n, err)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("expr: the code has no outputs")
	}
	return code.prune(), nil
}

// prune removes dead instructions and renumbers values. Operands keep their numbers.
func (c *Code) prune() *Code {
	live := c.liveValues()
	pruned := &Code{In: c.In, Funcs: c.Funcs}
	newValue := make(valueMap, len(c.Insts))
	for v, inst := range c.Insts {
		if !live[v] {
			continue
		}
		if inst.Op != Load {
			inst.A, inst.B, inst.C = newValue.of(inst.A), newValue.of(inst.B), newValue.of(inst.C)
		}
		newValue[v] = Value(len(pruned.Insts))
		pruned.Insts = append(pruned.Insts, inst)
	}
	pruned.Out = newValue.outputs(c.Out)
	return pruned
}

// liveValues returns, for each value, whether an output depends on it.
func (c *Code) liveValues() []bool {
	live := make([]bool, len(c.Insts))
	mark := func(v Value) {
		if v != None {
			live[v] = true
		}
	}
	for _, output := range c.Out {
		mark(output.Re)
		mark(output.Im)
	}
	for v := len(c.Insts) - 1; v >= 0; v-- {
		if live[v] {
			for _, operand := range c.Insts[v].Operands() {
				mark(operand)
			}
		}
	}
	return live
}

// Inline adds the instructions of code c and returns its outputs. load(operand, part) returns the value that replaces
// an operand of c: its real part for part 0, its imaginary part for part 1.
func (b *Builder) Inline(c *Code, load func(operand, part int) Value) []Output {
	return b.inline(c, load, func(_ Value, inst Inst) Value { return b.AddInst(inst) })
}

// inline is [Builder.Inline], but calls the function add instead of [Builder.AddInst] for each instruction other than
// [Load] and [Call]. The first argument of add is the instruction's value in the inlined code. The second argument is
// the instruction with values of the builder as operands.
func (b *Builder) inline(code *Code, load func(operand, part int) Value, add func(Value, Inst) Value) []Output {
	newValue := make(valueMap, len(code.Insts))
	for k, inst := range code.Insts {
		switch inst.Op {
		case Load:
			newValue[k] = load(int(inst.A), int(inst.Imm))
			continue
		case Call:
			function := code.Funcs[inst.Imm]
			args := []Value{newValue.of(inst.A), newValue.of(inst.B), newValue.of(inst.C)}
			newValue[k] = b.Call(function, inst.DType, args[:function.ArgCount]...)
			continue
		}
		if inst.Op.ArgCount() > 0 {
			inst.A = newValue.of(inst.A)
		}
		if inst.Op.ArgCount() > 1 {
			inst.B = newValue.of(inst.B)
		}
		if inst.Op.ArgCount() > 2 {
			inst.C = newValue.of(inst.C)
		}
		newValue[k] = add(Value(k), inst)
	}
	return newValue.outputs(code.Out)
}

// Rewrite returns a copy of the code with instructions replaced. replace(b, inst) returns the value that replaces
// instruction inst. The operands of inst are already values of the new code, which b builds.
func (c *Code) Rewrite(replace func(b *Builder, inst Inst) Value) (*Code, error) {
	if replace == nil {
		return nil, errors.New("expr: Rewrite needs a function")
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	b := NewBuilder(c.In...)
	b.code.Funcs = c.Funcs
	newValue := make(valueMap, len(c.Insts))
	for k, inst := range c.Insts {
		if inst.Op != Load {
			inst.A, inst.B, inst.C = newValue.of(inst.A), newValue.of(inst.B), newValue.of(inst.C)
		}
		newValue[k] = replace(b, inst)
	}
	return b.Build(newValue.outputs(c.Out)...)
}

// valueMap maps the values of a code to values of another code.
type valueMap []Value

// of returns the mapped value of v. None is mapped to None.
func (mapping valueMap) of(v Value) Value {
	if v == None {
		return None
	}
	return mapping[v]
}

// outputs returns the outputs with their values mapped.
func (mapping valueMap) outputs(outs []Output) []Output {
	mapped := make([]Output, len(outs))
	for k, output := range outs {
		mapped[k] = Output{output.DType, mapping.of(output.Re), mapping.of(output.Im)}
	}
	return mapped
}
