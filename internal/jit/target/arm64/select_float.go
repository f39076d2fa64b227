package arm64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for floats: arithmetic, comparisons and masks. Operands and results are virtual
// registers of 16 bytes, the parts of a value. Most operations are one instruction (floatNames). A mask has all bits of
// a lane set for true: for example, "fcmgt 4s" gives four lanes of 32 bits.

// floatNames are the mnemonics of operations on floats that are one instruction.
var floatNames = map[lane.Op]string{lane.Add: "fadd", lane.Sub: "fsub", lane.Mul: "fmul", lane.Div: "fdiv",
	lane.Neg: "fneg", lane.Abs: "fabs", lane.Sqrt: "fsqrt", lane.Floor: "frintm", lane.Ceil: "frintp",
	lane.Trunc: "frintz", lane.Rint: "frintn"}

// floatOp selects instructions for an operation on floats of the given size. b is 0 if the operation has one operand.
func (s *selector) floatOp(op lane.Op, size int, a, b alloc.Virt) alloc.Virt {
	name := floatNames[op]
	switch {
	case op == lane.Min || op == lane.Max:
		return s.extremum(op, size, a, b)
	case op == lane.Mod:
		return s.fmod(size, a, b)
	case name == "":
		s.fail("there is no instruction for %v of floats", op)
	case b == 0:
		return s.op(name, arrangement(size), a)
	}
	return s.op(name, arrangement(size), a, b)
}

// extremum selects instructions for Min or Max. If both operands are zeros, the result must be b, but the machine
// instruction chooses by the signs. A selection by equality therefore replaces its result by b, unless
// isExtremumExact. If a is an accumulator, the machine instruction and the selection both overwrite a.
func (s *selector) extremum(op lane.Op, size int, a, b alloc.Virt) alloc.Virt {
	if s.isExtremumExact(op, size, a, b) {
		return s.op(extremumNames[op], arrangement(size), a, b)
	}
	equal := s.op("fcmeq", arrangement(size), a, b)
	if s.Values[a].Acc != nil {
		s.Add(alloc.Inst{Name: extremumNames[op] + " " + arrangement(size), Src: alloc.Sources(a, b), Dst: a,
			FoldableSource: noFoldableSource})
		return s.tiedOp("bit", "16b", a, b, equal)
	}
	return s.selectBits(equal, b, s.op(extremumNames[op], arrangement(size), a, b))
}

// extremumNames are the mnemonics of Min and Max.
var extremumNames = map[lane.Op]string{lane.Min: "fmin", lane.Max: "fmax"}

// isExtremumExact reports whether the machine instruction alone computes Min or Max of a and b. It does if a or b is a
// constant other than zero. It also does if one constant is a zero whose sign makes the instruction return b when both
// are zeros: b = +0 or a = -0 for Max, and b = -0 or a = +0 for Min.
func (s *selector) isExtremumExact(op lane.Op, size int, a, b alloc.Virt) bool {
	if number, ok := s.constantFloat(a, size); ok && (number != 0 || math.Signbit(number) == (op == lane.Max)) {
		return true
	}
	number, ok := s.constantFloat(b, size)
	return ok && (number != 0 || math.Signbit(number) == (op == lane.Min))
}

// constantFloat returns the number in the lanes of v, if v is a constant with equal lanes.
func (s *selector) constantFloat(v alloc.Virt, size int) (float64, bool) {
	bits, ok := s.constantBits(v, size)
	if size == 8 {
		return math.Float64frombits(bits), ok
	}
	return float64(math.Float32frombits(uint32(bits))), ok
}

// fma selects a fused multiply-add. Negated factors need no instruction: fmls subtracts the product.
func (s *selector) fma(inst *lane.Inst, i int) alloc.Virt {
	negative := false
	factor := func(v lane.Value) alloc.Virt {
		if operand := &s.loop.Insts[v]; operand.Op == lane.Neg {
			negative = !negative
			return s.part(operand.A, i)
		}
		return s.part(v, i)
	}
	a, b := factor(inst.A), factor(inst.B)
	name := "fmla"
	if negative { // one of the two factors is negated
		name = "fmls"
	}
	return s.tiedOp(name, arrangement(inst.Type.Size()), s.part(inst.C, i), a, b)
}

// fmod computes C's fmod. Each step truncates the quotient to an integer, and a fused multiply-add computes the
// remainder for this quotient exactly. A step divides the magnitude of the remainder by about 2^23 (float32) or 2^52
// (float64), so one step is nearly always enough. The pseudo-instruction completeRemainder loops only if an element
// needs more steps.
func (s *selector) fmod(size int, x, y alloc.Virt) alloc.Virt {
	shape := arrangement(size)
	dividend, divisor := s.op("fabs", shape, x), s.op("fabs", shape, y)
	quotient := s.op("frintz", shape, s.op("fdiv", shape, dividend, divisor))
	first := s.tiedOp("fmls", shape, dividend, quotient, divisor) // dividend - quotient*divisor
	const instructions = 29                                       // of remainderLoop.write
	remainder := s.add(alloc.Inst{Name: completeRemainder + " " + shape, Src: alloc.Sources(dividend, divisor),
		Tied: first, TempCounts: [2]uint8{alloc.Vectors: 5}, InstructionCount: instructions})
	// If the quotient was rounded up, the remainder is negative.
	negative := s.add(alloc.Inst{Name: "fcmlt " + shape + " " + shape + " #0.0", Src: alloc.Sources(remainder)})
	remainder = s.op("fadd", shape, remainder, s.bitwise("and", negative, divisor))
	return s.selectBits(s.constant(size, signBit(size)), x, remainder) // with the sign of x
}

// signBit returns the sign bit of a lane.
func signBit(size int) uint64 { return 1 << (8*size - 1) }

// compare selects a comparison, whose result is a mask. For Ne, it records the mask of equality in s.equalities, so
// that a selection can use it instead of the negated mask.
func (s *selector) compare(v lane.Value, inst *lane.Inst) []alloc.Virt {
	laneType := s.loop.Type(inst.A)
	masks := s.makeParts(laneType.Size(), func(i int) alloc.Virt {
		return s.compareVectors(inst.Op, laneType, s.part(inst.A, i), s.part(inst.B, i))
	})
	if inst.Op != lane.Ne || laneType.DType == tensor.Bool {
		return masks
	}
	s.equalities[v] = masks
	return s.makeParts(laneType.Size(), func(i int) alloc.Virt { return s.bitwise("not", masks[i]) })
}

// compareVectors compares two vectors. For Ne, it returns the mask of equality, unless the vectors are masks.
func (s *selector) compareVectors(op lane.Op, laneType lane.Type, a, b alloc.Virt) alloc.Virt {
	if laneType.Mask != 0 {
		return s.maskOp(op, a, b)
	}
	if op == lane.Lt || op == lane.Le { // a < b is b > a
		a, b = b, a
	}
	names := signedComparisons
	switch {
	case laneType.DType.IsFloat():
		names = floatComparisons
	case !laneType.DType.IsSigned():
		names = unsignedComparisons
	}
	return s.op(names[op], arrangement(laneType.Size()), a, b)
}

// The mnemonics of comparisons, for exchanged operands in Lt and Le, and for the opposite mask in Ne.
var (
	floatComparisons    = map[lane.Op]string{lane.Eq: "fcmeq", lane.Ne: "fcmeq", lane.Lt: "fcmgt", lane.Le: "fcmge"}
	signedComparisons   = map[lane.Op]string{lane.Eq: "cmeq", lane.Ne: "cmeq", lane.Lt: "cmgt", lane.Le: "cmge"}
	unsignedComparisons = map[lane.Op]string{lane.Eq: "cmeq", lane.Ne: "cmeq", lane.Lt: "cmhi", lane.Le: "cmhs"}
)

// maskOp selects an operation on masks. b is 0 for Not.
func (s *selector) maskOp(op lane.Op, a, b alloc.Virt) alloc.Virt {
	switch op {
	case lane.Not:
		return s.bitwise("not", a)
	case lane.And:
		return s.bitwise("and", a, b)
	case lane.Or:
		return s.bitwise("orr", a, b)
	case lane.Xor, lane.Ne:
		return s.bitwise("eor", a, b)
	case lane.Eq:
		return s.bitwise("not", s.bitwise("eor", a, b))
	case lane.Lt: // a is false and b is true
		return s.bitwise("bic", b, a)
	case lane.Le:
		return s.bitwise("orn", b, a)
	}
	s.fail("there is no instruction for %v of masks", op)
	return a
}
