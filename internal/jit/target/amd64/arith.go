package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects the instructions of each operation of a loop, and of arithmetic on floats. The methods add
// instructions on virtual registers and return the result. A laneValue is a value of the loop with its register. For
// example, for a - b of float32, floatOp adds VSUBPS b, a, result: operands have the order of Go's assembler.
//
// binaryOp and commutativeOp add an operation on two vectors, unaryOp on one, immediateOp on an immediate and a vector.
// constLanes returns a constant in all lanes. laneBytes is the size of a lane: 4 or 8.
//
// In an alloc.Inst, source FoldableSource may be a memory operand, which may broadcast an element of BroadcastBytes
// bytes. The result overwrites the register of Tied. Mask selects the lanes that are written.

// selectInst selects machine instructions for one instruction of the loop, whose operands are already selected.
func (g *generator) selectInst(inst *lane.Inst) *laneValue {
	dtype := inst.Type.DType
	switch inst.Op {
	case lane.Const:
		return g.selectConst(inst)
	case lane.Load:
		return g.load(int(inst.Ptr), int(inst.Imm))
	case lane.Convert:
		return g.selectConvert(inst)
	case lane.Bits: // the same bits as a value of another dtype
		return &laneValue{reg: g.unpackedReg(g.selectedValue(inst.A)), dtype: dtype, hasUndefinedHighBits: dtype.Size() < 4}
	case lane.Remask: // all masks of a loop have the same form
		return g.selectedValue(inst.A)
	case lane.Select:
		return g.selectLanes(g.selectedValue(inst.A), g.selectedValue(inst.B), g.selectedValue(inst.C))
	case lane.Eq, lane.Ne, lane.Lt, lane.Le:
		return &laneValue{reg: g.compare(inst.Op, g.selectedValue(inst.A), g.selectedValue(inst.B)), dtype: tensor.Bool}
	case lane.FMA:
		return &laneValue{reg: g.fma(inst), dtype: dtype}
	case lane.Lookup:
		return &laneValue{reg: g.selectLookup(inst), dtype: dtype}
	}
	var args [3]*laneValue
	for k, operand := range inst.Operands() {
		args[k] = g.selectedValue(operand)
	}
	return g.apply(inst.Op, dtype, args[0], args[1])
}

// selectConst returns a constant. The loop may have a bool constant in several widths, which share one laneValue.
func (g *generator) selectConst(inst *lane.Inst) *laneValue {
	if inst.Type.DType != tensor.Bool {
		return g.constOf(inst.Type.DType, inst.Imm)
	}
	if g.bools[inst.Imm] == nil {
		g.bools[inst.Imm] = g.constOf(inst.Type.DType, inst.Imm)
	}
	return g.bools[inst.Imm]
}

// selectConvert selects instructions for a conversion. Rint of float32 and a conversion through int32 become one
// instruction: a value out of range converts to the same integer whether or not it is rounded first.
func (g *generator) selectConvert(inst *lane.Inst) *laneValue {
	dtype, source := inst.Type.DType, &g.loop.Insts[inst.A]
	isRounded := source.Op == lane.Rint && source.Type.DType == tensor.Float32
	if isRounded && convertsThroughInt32(dtype) {
		return &laneValue{reg: g.unaryOp("VCVTPS2DQ", 4, g.selectedValue(source.A).reg), dtype: dtype,
			hasUndefinedHighBits: dtype.Size() < 4}
	}
	return g.convert(dtype, g.selectedValue(inst.A))
}

// convertsThroughInt32 reports whether a float is converted to a dtype in two steps, through int32.
func convertsThroughInt32(dtype tensor.DType) bool {
	const withBool = false
	return dtype.IsIntegral(withBool) && dtype.Size() <= 4 && dtype != tensor.Uint32
}

// constOf returns a constant of any dtype.
func (g *generator) constOf(dtype tensor.DType, imm uint64) *laneValue {
	value := &laneValue{dtype: dtype}
	switch {
	case dtype == tensor.Bool && g.avx512:
		// A mask constant is the comparison 0 != imm of two constants, which is executed once per row.
		a, b := g.constLanes(4, 0), g.constLanes(4, imm)
		value.reg = g.Add(alloc.Inst{Name: "VPCMPD", Src: withImmediate(intNotEqual, a, b), Dst: g.New(g.boolRegister()),
			FoldableSource: noFoldableSource})
	case dtype == tensor.Bool:
		value.reg = g.constLanes(g.widestLaneBytes(), -imm) // all bits are 1 for true
	case dtype.IsSigned() && !dtype.IsFloat() && dtype.Size() < 4: // sign-extended to 32 bits
		shift := 64 - 8*dtype.Size()
		value.reg = g.constLanes(4, uint64(int64(imm<<shift)>>shift))
	default:
		value.reg = g.constLanes(laneSize(dtype), imm)
	}
	return value
}

// apply selects instructions for an operation on values of a dtype. b is nil if the operation has one operand.
func (g *generator) apply(op lane.Op, dtype tensor.DType, a, b *laneValue) *laneValue {
	switch {
	case dtype == tensor.Bool:
		return &laneValue{reg: g.boolOp(op, a.reg, b), dtype: dtype}
	case dtype.IsFloat():
		var y alloc.Virt
		if b != nil {
			y = b.reg
		}
		return &laneValue{reg: g.floatOp(op, laneSize(dtype), a.reg, y), dtype: dtype}
	}
	return g.integerOp(op, dtype, a, b)
}

// floatOp selects instructions for an operation on floats. b is 0 if the operation has one operand.
func (g *generator) floatOp(op lane.Op, laneBytes int, a, b alloc.Virt) alloc.Virt {
	suffix := floatSuffix(laneBytes)
	switch op {
	case lane.Add:
		return g.commutativeOp("VADD"+suffix, laneBytes, a, b)
	case lane.Sub:
		return g.binaryOp("VSUB"+suffix, laneBytes, b, a)
	case lane.Mul:
		return g.commutativeOp("VMUL"+suffix, laneBytes, a, b)
	case lane.Div:
		return g.binaryOp("VDIV"+suffix, laneBytes, b, a)
	case lane.Neg:
		return g.xor(laneBytes, a, g.constLanes(laneBytes, signBit(laneBytes)))
	case lane.Abs:
		return g.and(laneBytes, a, g.constLanes(laneBytes, signBit(laneBytes)-1))
	case lane.Sqrt:
		return g.unaryOp("VSQRT"+suffix, laneBytes, a)
	case lane.Scale: // a * 2^floor(b)
		if !g.avx512 {
			g.fail("%v requires AVX-512", op)
		}
		return g.binaryOp("VSCALEF"+suffix, laneBytes, b, a)
	case lane.Limit: // the smaller of |a| and |b|, with the sign of a
		if !g.avx512 {
			g.fail("%v requires AVX-512", op)
		}
		const minMagnitude = 2 // the immediate for the smaller magnitude with the sign of Intel's first operand
		return g.shuffle("VRANGE"+suffix, minMagnitude, b, a)
	case lane.Mod:
		return g.fmod(laneBytes, a, b)
	case lane.Min, lane.Max:
		return g.extremum(op, laneBytes, a, b)
	}
	return g.round(op, laneBytes, a)
}

// signBit returns the sign bit of a lane.
func signBit(laneBytes int) uint64 { return 1 << (8*laneBytes - 1) }

// truncate is the immediate of VROUNDPS that rounds toward zero without floating-point exceptions.
const truncate = 11

// roundingModes are the immediates of roundings to integers, without floating-point exceptions.
var roundingModes = map[lane.Op]int64{lane.Rint: 8, lane.Floor: 9, lane.Ceil: 10, lane.Trunc: truncate}

// round selects a rounding to an integer, without floating-point exceptions.
func (g *generator) round(op lane.Op, laneBytes int, a alloc.Virt) alloc.Virt {
	name := "VROUND"
	if g.avx512 {
		name = "VRNDSCALE"
	}
	immediate, ok := roundingModes[op]
	if !ok {
		g.fail("there is no instruction for %v of floats", op)
	}
	return g.immediateOp(name+floatSuffix(laneBytes), immediate, a)
}

// extremum selects instructions for Min or Max: a if a is NaN or less (greater) than b, else b. The machine instruction
// returns its second operand, in Intel's order, if an operand is NaN or if both operands are zeros:
//
//	operand order a, b    wrong only if a is NaN
//	operand order b, a    wrong only if b is NaN, or if both operands are zeros
//
// If a or b is a constant, one of these orders may always be right. Otherwise the order is a, b, and lanes in which a
// is NaN get a. The arguments of binaryOp are in the opposite order.
func (g *generator) extremum(op lane.Op, laneBytes int, a, b alloc.Virt) alloc.Virt {
	name := extremumName(op, laneBytes)
	if number, ok := g.constantFloat(a, laneBytes); ok && !math.IsNaN(number) { // order a, b
		return g.binaryOp(name, laneBytes, b, a)
	}
	if number, ok := g.constantFloat(b, laneBytes); ok && !math.IsNaN(number) { // order b, a
		switch {
		case number != 0:
			return g.binaryOp(name, laneBytes, a, b)
		case op == lane.Max && !math.Signbit(number):
			// If a is -0 and b is 0, the machine instruction returns -0, which the addition converts to 0.
			return g.commutativeOp("VADD"+floatSuffix(laneBytes), laneBytes, g.binaryOp(name, laneBytes, a, b), b)
		}
	}
	if !g.avx512 {
		isNaN := g.compareFloats(laneBytes, cmpUnordered, a, a)
		return g.blend(laneBytes, isNaN, a, g.binaryOp(name, laneBytes, b, a))
	}
	ordered := g.compareFloats(laneBytes, cmpOrdered, a, a) // other lanes keep a
	return g.Add(alloc.Inst{Name: name, Src: alloc.Sources(b, a), Tied: a, Mask: ordered, Dst: g.newVectorLike(a),
		FoldableSource: 0, BroadcastBytes: uint8(laneBytes)})
}

// extremumName returns the instruction for Min or Max.
func extremumName(op lane.Op, laneBytes int) string {
	if op == lane.Max {
		return "VMAX" + floatSuffix(laneBytes)
	}
	return "VMIN" + floatSuffix(laneBytes)
}

// constantFloat returns the number in v if v is a constant float whose lanes have the given size in bytes.
func (g *generator) constantFloat(v alloc.Virt, laneBytes int) (float64, bool) {
	reload := g.Values[v].Reload
	if reload == nil || reload.Mem.Space != alloc.Constant {
		return 0, false
	}
	var bits uint64
	for k := range laneBytes {
		bits |= uint64(reload.Mem.Data[k]) << (8 * k)
	}
	if laneBytes == 8 {
		return math.Float64frombits(bits), true
	}
	return float64(math.Float32frombits(uint32(bits))), true
}

// fma selects a fused multiply-add. Negations of factors and addend become part of the instruction.
func (g *generator) fma(inst *lane.Inst) alloc.Virt {
	laneBytes := laneSize(inst.Type.DType)
	negateProduct, negateAddend := false, false
	// withoutNeg returns the register of v or, if v is a negation, of its operand; it then inverts *negated.
	withoutNeg := func(v lane.Value, negated *bool) alloc.Virt {
		if operand := &g.loop.Insts[v]; operand.Op == lane.Neg {
			*negated = !*negated
			return g.selectedValue(operand.A).reg
		}
		return g.selectedValue(v).reg
	}
	a, b, c := withoutNeg(inst.A, &negateProduct), withoutNeg(inst.B, &negateProduct), withoutNeg(inst.C, &negateAddend)
	name := "VFMADD"
	switch {
	case negateProduct && negateAddend:
		name = "VFNMSUB"
	case negateProduct:
		name = "VFNMADD"
	case negateAddend:
		name = "VFMSUB"
	}
	return g.multiplyAdd(name, laneBytes, a, b, c)
}

// multiplyAdd selects the multiply-add a*b + c, or one with other signs: -(a*b) + c for the name VFNMADD, a*b - c for
// VFMSUB, -(a*b) - c for VFNMSUB.
func (g *generator) multiplyAdd(name string, laneBytes int, a, b, c alloc.Virt) alloc.Virt {
	return g.Add(alloc.Inst{Forms: multiplyAddForms[name+floatSuffix(laneBytes)], Src: alloc.Sources(a, b, c),
		Dst: g.newVectorLike(a), BroadcastBytes: uint8(laneBytes)})
}

// multiplyAddForms has the forms of each multiply-add, by name. Sources 0 and 1 are the factors, and source 2 is the
// addend. A form with 231 overwrites the addend, and a form with 213 or 132 overwrites a factor. The first source in
// Order may be in memory.
var multiplyAddForms = func() map[string][]alloc.Form {
	all := map[string][]alloc.Form{}
	for _, name := range []string{"VFMADD", "VFMSUB", "VFNMADD", "VFNMSUB"} {
		for _, suffix := range []string{"PS", "PD"} {
			all[name+suffix] = []alloc.Form{{Name: name + "231" + suffix, Tied: 2, Order: [2]int8{0, 1}},
				{Name: name + "231" + suffix, Tied: 2, Order: [2]int8{1, 0}},
				{Name: name + "213" + suffix, Tied: 0, Order: [2]int8{2, 1}},
				{Name: name + "132" + suffix, Tied: 0, Order: [2]int8{1, 2}},
				{Name: name + "213" + suffix, Tied: 1, Order: [2]int8{2, 0}},
				{Name: name + "132" + suffix, Tied: 1, Order: [2]int8{0, 2}}}
		}
	}
	return all
}()
