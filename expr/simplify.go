package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Simplify returns an equivalent code with fewer instructions. Results have the same bits, except that a NaN may have
// other bits. Simplify folds constants, removes operations that do not change their operand, and removes pairs of
// conversions that cancel. Values are renumbered. Outputs keep their positions. Examples:
//
//	2 + 3                  becomes 5           (foldConstant)
//	x * 1, min(x, x)       become x            (equalOperand)
//	float32(float64(x))    becomes x           (equalOperand), for a float32 x
//	fma(x, y, -0.0)        becomes x * y       (canonical)
//	b + a                  becomes a + b       (canonical), if a is the earlier value
func (c *Code) Simplify() (*Code, error) {
	return c.Rewrite(func(b *Builder, inst Inst) Value {
		if v := b.foldConstant(inst); v != None {
			return v
		}
		if v := b.equalOperand(inst); v != None {
			return v
		}
		return b.AddInst(b.canonical(inst))
	})
}

// foldConstant returns the result of inst as a constant, if inst is a primitive operation on constants or a comparison
// with a known result. It returns None for other instructions, and for integer divisions, because division by 0 is
// unspecified.
func (b *Builder) foldConstant(inst Inst) Value {
	if truth, known := b.foldComparison(inst); known {
		result := Inst{Op: Const, DType: tensor.Bool, A: None, B: None, C: None}
		if truth {
			result.Imm = 1
		}
		return b.AddInst(result)
	}
	operands := inst.Operands()
	if !inst.Op.Primitive() || len(operands) == 0 || inst.Op == Div && !inst.DType.IsFloat() {
		return None
	}
	singleBuilder := NewBuilder() // a code with this operation alone
	var args [3]Value
	for k, operand := range operands {
		imm, ok := b.constantBits(operand)
		if !ok {
			return None
		}
		args[k] = singleBuilder.AddInst(Inst{Op: Const, DType: b.DType(operand), A: None, B: None, C: None, Imm: imm})
	}
	code, err := singleBuilder.Build(singleBuilder.Real(singleBuilder.AddInst(Inst{Op: inst.Op, DType: inst.DType,
		A: args[0], B: args[1], C: args[2], Imm: inst.Imm})))
	if err != nil {
		return None
	}
	return b.AddInst(Inst{Op: Const, DType: inst.DType, A: None, B: None, C: None, Imm: code.Eval()[0].Re})
}

// foldComparison evaluates comparisons of integers whose result does not depend on the operands: a comparison of a
// value with itself, or of an unsigned integer with 0. known is false for other instructions.
func (b *Builder) foldComparison(inst Inst) (result, known bool) {
	if inst.Op != Eq && inst.Op != Ne && inst.Op != Lt && inst.Op != Le {
		return false, false
	}
	dtype := b.DType(inst.A)
	switch {
	case dtype.IsFloat(): // x == x depends on whether x is NaN
	case inst.A == inst.B:
		return inst.Op == Eq || inst.Op == Le, true
	case inst.Op == Lt && !dtype.IsSigned() && b.isConst(inst.B, 0):
		return false, true
	}
	return false, false
}

// equalOperand returns an operand that equals the result of the instruction, or None. For floats, x + -0 is x, but x +
// 0 is not x if x is -0.
func (b *Builder) equalOperand(inst Inst) Value {
	isFloat := inst.DType.IsFloat()
	switch inst.Op {
	case Add:
		return b.operandIfOtherIs(inst, neutralOfSum(isFloat))
	case Mul:
		return b.operandIfOtherIs(inst, 1)
	case Div:
		if b.isConst(inst.B, 1) {
			return inst.A
		}
	case Or, Xor:
		return b.operandIfOtherIs(inst, 0)
	case Sub, Shl, Shr:
		if b.isConst(inst.B, 0) {
			return inst.A
		}
	case And, Min, Max:
		isUnsignedMax := inst.Op == Max && !isFloat && !inst.DType.IsSigned() // Max(x, 0) is then x
		if inst.A == inst.B || isUnsignedMax && b.isConst(inst.B, 0) {
			return inst.A
		}
	case Select:
		if imm, ok := b.constantBits(inst.A); ok {
			return []Value{inst.C, inst.B}[min(imm, 1)] // false selects C, true selects B
		}
		if inst.B == inst.C {
			return inst.B
		}
	case Neg, Not:
		if operand := b.Inst(inst.A); operand.Op == inst.Op {
			return operand.A
		}
	case Abs:
		if b.Inst(inst.A).Op == Abs || !inst.DType.IsSigned() {
			return inst.A
		}
	case Convert:
		if b.DType(inst.A) == inst.DType {
			return inst.A
		}
		if operand := b.Inst(inst.A); operand.Op == Convert && b.DType(operand.A) == inst.DType &&
			representsAll(operand.DType, inst.DType) { // back to the first dtype, after an exact conversion
			return operand.A
		}
	case Bits:
		if b.DType(inst.A) == inst.DType {
			return inst.A
		}
		if operand := b.Inst(inst.A); operand.Op == Bits && b.DType(operand.A) == inst.DType {
			return operand.A
		}
	}
	return None
}

// operandIfOtherIs returns A if B is the constant x, B if A is the constant x, and None otherwise. x is the neutral
// element of a commutative operation.
func (b *Builder) operandIfOtherIs(inst Inst, x float64) Value {
	for _, pair := range [][2]Value{{inst.A, inst.B}, {inst.B, inst.A}} {
		if b.isConst(pair[1], x) {
			return pair[0]
		}
	}
	return None
}

// neutralOfSum returns the number x such that x + y = y for all y: -0 for floats, 0 for integers.
func neutralOfSum(isFloat bool) float64 {
	if isFloat {
		return math.Copysign(0, -1)
	}
	return 0
}

// canonical returns an equivalent instruction that is cheaper or has a canonical form. Canonical forms of equal
// computations are equal instructions, which [Builder.AddInst] adds only once.
func (b *Builder) canonical(inst Inst) Inst {
	switch inst.Op {
	case FMA:
		switch {
		case b.isConst(inst.C, math.Copysign(0, -1)):
			inst.Op, inst.C = Mul, None
		case b.isConst(inst.A, 1):
			inst.Op, inst.A, inst.B, inst.C = Add, inst.B, inst.C, None
		case b.isConst(inst.B, 1):
			inst.Op, inst.B, inst.C = Add, inst.C, None
		}
	case Abs:
		if operand := b.Inst(inst.A); operand.Op == Neg && inst.DType.IsFloat() { // abs(-x)
			inst.A = operand.A
		}
	case Bits:
		if operand := b.Inst(inst.A); operand.Op == Bits {
			inst.A = operand.A
		}
	case Select:
		if operand := b.Inst(inst.A); operand.Op == Not {
			inst.A, inst.B, inst.C = operand.A, inst.C, inst.B
		}
	case Convert:
		if operand := b.Inst(inst.A); operand.Op == Convert && inst.DType.IsFloat() &&
			representsAll(operand.DType, b.DType(operand.A)) { // the first conversion is exact
			inst.A = operand.A
		}
	}
	switch inst.Op { // the earlier value first
	case Add, Mul, And, Or, Xor, Eq, Ne:
		if inst.B < inst.A {
			inst.A, inst.B = inst.B, inst.A
		}
	}
	return inst
}

// representsAll reports whether dtype large represents every number of dtype small.
func representsAll(large, small tensor.DType) bool {
	bits := func(d tensor.DType) int { return 8 * d.Size() }
	switch {
	case large == small:
		return true
	case large == tensor.Bool || small.IsFloat() && !large.IsFloat():
		return false
	case small == tensor.Bool:
		return true
	case small.IsFloat():
		return large == tensor.Float64 || large == tensor.Float32 && small.IsReducedFloat()
	case large.IsFloat(): // float32 has 24 significant bits, float64 53
		return bits(small) <= map[tensor.DType]int{tensor.Float32: 16, tensor.Float64: 32}[large]
	case small.IsSigned():
		return large.IsSigned() && bits(large) > bits(small)
	}
	return bits(large) > bits(small)
}

// constantBits returns the bits of a value if it is a constant.
func (b *Builder) constantBits(v Value) (uint64, bool) {
	if v < 0 || int(v) >= len(b.code.Insts) || b.code.Insts[v].Op != Const {
		return 0, false
	}
	return b.code.Insts[v].Imm, true
}

// isConst reports whether a value is a constant equal to x, with the same sign of 0. It returns false for 16-bit floats
// and for negative integers.
func (b *Builder) isConst(v Value, x float64) bool {
	imm, ok := b.constantBits(v)
	if !ok {
		return false
	}
	switch dtype := b.DType(v); {
	case dtype == tensor.Float32:
		return uint32(imm) == math.Float32bits(float32(x))
	case dtype == tensor.Float64:
		return imm == math.Float64bits(x)
	case dtype.IsReducedFloat():
		return false
	}
	return float64(imm) == x && !math.Signbit(x)
}
