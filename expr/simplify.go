package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Simplify returns an equivalent code with fewer instructions. Results have the same bits, except that a NaN may have
// other bits. Simplify folds constants, removes operations that do not change their operand, and removes pairs of
// conversions that cancel. Values are renumbered. Outputs keep their positions.
func (c *Code) Simplify() (*Code, error) {
	return c.Rewrite(func(b *Builder, i Inst) Value {
		if v := b.foldConstant(i); v != None {
			return v
		}
		if v := b.equalOperand(i); v != None {
			return v
		}
		return b.Make(b.canonical(i))
	})
}

// constantBits returns the bits of a value if it is a constant.
func (b *Builder) constantBits(v Value) (uint64, bool) {
	if v < 0 || int(v) >= len(b.code.Insts) || b.code.Insts[v].Op != Const {
		return 0, false
	}
	return b.code.Insts[v].Imm, true
}

// isConst reports whether a value is a constant with the bits of x.
func (b *Builder) isConst(v Value, x float64) bool {
	imm, ok := b.constantBits(v)
	if !ok {
		return false
	}
	switch d := b.DType(v); {
	case d == tensor.Float32:
		return uint32(imm) == math.Float32bits(float32(x))
	case d == tensor.Float64:
		return imm == math.Float64bits(x)
	case d.IsReducedFloat():
		return false
	}
	return float64(imm) == x && !math.Signbit(x)
}

// foldConstant returns the constant that a primitive operation of constants, or a comparison with a known result,
// computes. It returns None for other instructions, and for integer divisions, because division by 0 is unspecified.
func (b *Builder) foldConstant(i Inst) Value {
	uses := i.Uses()
	if truth, known := b.foldComparison(i); known {
		result := Inst{Op: Const, DType: tensor.Bool, A: None, B: None, C: None}
		if truth {
			result.Imm = 1
		}
		return b.Make(result)
	}
	if !i.Op.Primitive() || len(uses) == 0 || i.Op == Div && !i.DType.IsFloat() {
		return None
	}
	operation := NewBuilder()
	var args [3]Value
	for k, u := range uses {
		imm, ok := b.constantBits(u)
		if !ok {
			return None
		}
		args[k] = operation.Make(Inst{Op: Const, DType: b.DType(u), A: None, B: None, C: None, Imm: imm})
	}
	c, err := operation.Build(operation.Real(operation.Make(Inst{Op: i.Op, DType: i.DType, A: args[0], B: args[1],
		C: args[2], Imm: i.Imm})))
	if err != nil {
		return None
	}
	return b.Make(Inst{Op: Const, DType: i.DType, A: None, B: None, C: None, Imm: c.Eval()[0].Re})
}

// foldComparison evaluates comparisons of integers whose result does not depend on the operands: a comparison of a
// value with itself, or of an unsigned integer with 0. known is false for other instructions.
func (b *Builder) foldComparison(i Inst) (result, known bool) {
	if i.Op != Eq && i.Op != Ne && i.Op != Lt && i.Op != Le {
		return false, false
	}
	d := b.DType(i.A)
	switch {
	case d.IsFloat(): // x == x depends on whether x is NaN
	case i.A == i.B:
		return i.Op == Eq || i.Op == Le, true
	case i.Op == Lt && !d.IsSigned() && b.isConst(i.B, 0):
		return false, true
	}
	return false, false
}

// equalOperand returns the value that the result of an instruction equals, or None. For floats, x + -0 is x, but x + 0
// is not x if x is -0.
func (b *Builder) equalOperand(i Inst) Value {
	float := i.DType.IsFloat()
	switch i.Op {
	case Add:
		for _, p := range [][2]Value{{i.A, i.B}, {i.B, i.A}} {
			if b.isConst(p[1], neutralOfSum(float)) {
				return p[0]
			}
		}
	case Mul:
		for _, p := range [][2]Value{{i.A, i.B}, {i.B, i.A}} {
			if b.isConst(p[1], 1) {
				return p[0]
			}
		}
	case Div:
		if b.isConst(i.B, 1) {
			return i.A
		}
	case Sub, Or, Xor, Shl, Shr:
		if b.isConst(i.B, 0) {
			return i.A
		}
	case And, Min, Max:
		if i.A == i.B || i.Op == Max && !float && !i.DType.IsSigned() && b.isConst(i.B, 0) {
			return i.A
		}
	case Select:
		if imm, ok := b.constantBits(i.A); ok {
			return []Value{i.C, i.B}[min(imm, 1)]
		}
		if i.B == i.C {
			return i.B
		}
	case Neg, Not:
		if a := b.Inst(i.A); a.Op == i.Op {
			return a.A
		}
	case Abs:
		if b.Inst(i.A).Op == Abs || !i.DType.IsSigned() {
			return i.A
		}
	case Convert:
		if b.DType(i.A) == i.DType {
			return i.A
		}
		if a := b.Inst(i.A); a.Op == Convert && b.DType(a.A) == i.DType && representsAll(a.DType, i.DType) {
			return a.A
		}
	case Bits:
		if b.DType(i.A) == i.DType {
			return i.A
		}
		if a := b.Inst(i.A); a.Op == Bits && b.DType(a.A) == i.DType {
			return a.A
		}
	}
	return None
}

func neutralOfSum(float bool) float64 {
	if float {
		return math.Copysign(0, -1)
	}
	return 0
}

// canonical returns an equivalent instruction that is cheaper or has a canonical form. Canonical forms of equal
// computations are equal instructions, which [Builder.Make] adds only once.
func (b *Builder) canonical(i Inst) Inst {
	switch i.Op {
	case FMA:
		switch {
		case b.isConst(i.C, math.Copysign(0, -1)):
			i.Op, i.C = Mul, None
		case b.isConst(i.A, 1):
			i.Op, i.A, i.B, i.C = Add, i.B, i.C, None
		case b.isConst(i.B, 1):
			i.Op, i.B, i.C = Add, i.C, None
		}
	case Abs:
		if a := b.Inst(i.A); a.Op == Neg && i.DType.IsFloat() {
			i.A = a.A
		}
	case Bits:
		if a := b.Inst(i.A); a.Op == Bits {
			i.A = a.A
		}
	case Select:
		if a := b.Inst(i.A); a.Op == Not {
			i.A, i.B, i.C = a.A, i.C, i.B
		}
	case Convert:
		if a := b.Inst(i.A); a.Op == Convert && i.DType.IsFloat() && representsAll(a.DType, b.DType(a.A)) {
			i.A = a.A
		}
	}
	switch i.Op {
	case Add, Mul, And, Or, Xor, Eq, Ne:
		if i.B < i.A {
			i.A, i.B = i.B, i.A
		}
	}
	return i
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
	case large.IsFloat():
		return bits(small) <= map[tensor.DType]int{tensor.Float32: 16, tensor.Float64: 32}[large]
	case small.IsSigned():
		return large.IsSigned() && bits(large) > bits(small)
	}
	return bits(large) > bits(small)
}
