package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for comparisons, selections and operations on bools. A bool is a mask: a mask register
// with AVX-512, otherwise a vector register whose lanes are all ones or zero.
//
// A laneValue is a value of the loop with its register. An integer of 8 or 16 bits is in a lane of 32 bits, whose high
// bits may be undefined (hasUndefinedHighBits) until extendedReg sets them. Sources are in the order of Go's assembler:
// an immediate, then b, then a. The source with index FoldableSource may be a memory operand.

// Predicates of VPCMPD, with Intel's numbers.
const (
	intEqual     = 0
	intLess      = 1
	intLessEqual = 2
	intNotEqual  = 4
)

// Predicates of VCMPPS, with Intel's numbers. If an operand is NaN, only cmpUnordered, cmpNotEqual and cmpNotLess
// hold.
const (
	cmpEqual        = 0
	cmpUnordered    = 3 // an operand is NaN
	cmpNotEqual     = 4
	cmpOrdered      = 7 // no operand is NaN
	cmpLess         = 17
	cmpLessEqual    = 18
	cmpNotLess      = 21
	cmpGreaterEqual = 29
)

// compareFloats compares float a with float b by a predicate.
func (g *generator) compareFloats(laneBytes int, predicate int64, a, b alloc.Virt) alloc.Virt {
	dst := g.boolRegister()
	if !g.avx512 {
		dst = alloc.Value{Bytes: g.Values[a].Bytes}
	}
	return g.Add(alloc.Inst{Name: "VCMP" + floatSuffix(laneBytes), Src: withImmediate(predicate, b, a), Dst: g.New(dst),
		FoldableSource: 1, BroadcastBytes: uint8(laneBytes)})
}

// blend returns ifSet in lanes whose mask is set, and ifClear in other lanes. Without AVX-512, the lanes of the mask
// must be as wide as the lanes of the values.
func (g *generator) blend(laneBytes int, mask, ifSet, ifClear alloc.Virt) alloc.Virt {
	dst := g.newVectorLike(ifSet)
	if g.avx512 {
		if masked, ok := g.maskableArithmetic(ifSet, laneBytes); ok {
			masked.Dst, masked.Tied, masked.Mask = dst, ifClear, mask
			return g.Add(masked)
		}
		return g.Add(alloc.Inst{Name: "VBLENDM" + floatSuffix(laneBytes), Src: alloc.Sources(ifSet, ifClear), Mask: mask,
			Dst: dst, BroadcastBytes: uint8(laneBytes)})
	}
	return g.Add(alloc.Inst{Name: "VBLENDV" + floatSuffix(laneBytes), Src: alloc.Sources(mask, ifSet, ifClear), Dst: dst,
		FoldableSource: 1})
}

// recentInsts is the number of selected instructions that are searched for one that can be combined with the next.
const recentInsts = 8

// maskableArithmetic returns the instruction that computes v, and reports whether a masked copy of this instruction can
// replace a blend. The copy saves the blend; if v has no other use, it also saves the original instruction. Only
// recently selected instructions are searched.
func (g *generator) maskableArithmetic(v alloc.Virt, laneBytes int) (alloc.Inst, bool) {
	for k := len(g.Body) - 1; k >= max(0, len(g.Body)-recentInsts); k-- {
		if inst := g.Body[k]; inst.Dst == v {
			suffix := floatSuffix(laneBytes)
			isArithmetic := inst.Name == "VADD"+suffix || inst.Name == "VSUB"+suffix || inst.Name == "VMUL"+suffix
			return inst, isArithmetic && inst.Mask == 0
		}
	}
	return alloc.Inst{}, false
}

// boolNames has the names of operations on bools for maskOp.
var boolNames = map[lane.Op]string{lane.And: "AND", lane.Or: "OR", lane.Xor: "XOR", lane.Ne: "XOR"}

// boolOp selects instructions for an operation on bools. b is nil for Not.
func (g *generator) boolOp(op lane.Op, a alloc.Virt, b *laneValue) alloc.Virt {
	if op == lane.Not {
		if g.avx512 {
			return g.Add(alloc.Inst{Name: "KNOTW", Src: alloc.Sources(a), Dst: g.New(alloc.Value{Class: alloc.Masks}),
				FoldableSource: noFoldableSource})
		}
		return g.xor(4, a, g.constLanes(g.widestLaneBytes(), math.MaxUint64))
	}
	name, ok := boolNames[op]
	if !ok {
		g.fail("there is no instruction for %v of bools", op)
	}
	return g.maskOp(name, a, b.reg)
}

// maskOp selects an operation on masks: AND, OR, XOR, or ANDN, which computes ^a & b.
func (g *generator) maskOp(name string, a, b alloc.Virt) alloc.Virt {
	if g.avx512 {
		return g.Add(alloc.Inst{Name: "K" + name + "W", Src: alloc.Sources(b, a), Dst: g.New(g.boolRegister()),
			FoldableSource: noFoldableSource})
	}
	return g.Add(alloc.Inst{Name: "VP" + name, Src: alloc.Sources(b, a), Dst: g.New(g.boolRegister()),
		FoldableSource: 0})
}

// The predicates of comparisons.
var (
	floatPredicates = map[lane.Op]int64{lane.Eq: cmpEqual, lane.Ne: cmpNotEqual, lane.Lt: cmpLess, lane.Le: cmpLessEqual}
	intPredicates   = map[lane.Op]int64{lane.Eq: intEqual, lane.Ne: intNotEqual, lane.Lt: intLess, lane.Le: intLessEqual}
)

// compare selects a comparison, whose result is a bool.
func (g *generator) compare(op lane.Op, x, y *laneValue) alloc.Virt {
	dtype := x.dtype
	switch {
	case dtype == tensor.Bool:
		return g.compareBools(op, x.reg, y.reg)
	case dtype.IsFloat():
		mask := g.compareFloats(laneSize(dtype), floatPredicates[op], x.reg, y.reg)
		return g.widenMask(mask, laneSize(dtype))
	}
	isUnsigned := !dtype.IsSigned() && dtype.Size() >= 4
	return g.compareIntegers(op, laneSize(dtype), isUnsigned, g.extendedReg(x), g.extendedReg(y))
}

// compareIntegers selects a comparison of integers, whose result is a bool.
func (g *generator) compareIntegers(op lane.Op, laneBytes int, isUnsigned bool, a, b alloc.Virt) alloc.Virt {
	if g.avx512 {
		name := "VPCMP"
		if isUnsigned {
			name += "U"
		}
		return g.Add(alloc.Inst{Name: name + intSuffix(laneBytes), Src: withImmediate(intPredicates[op], b, a),
			Dst: g.New(g.boolRegister()), FoldableSource: 1, BroadcastBytes: uint8(laneBytes)})
	}
	var mask alloc.Virt
	switch op {
	case lane.Eq, lane.Ne:
		mask = g.commutativeOp("VPCMPEQ"+intSuffix(laneBytes), laneBytes, a, b)
	case lane.Lt:
		mask = g.less(laneBytes, isUnsigned, a, b)
	default:
		mask = g.less(laneBytes, isUnsigned, b, a)
	}
	mask = g.widenMask(mask, laneBytes)
	if op == lane.Ne || op == lane.Le { // mask is the opposite: a == b or b < a
		mask = g.xor(4, mask, g.constLanes(g.widestLaneBytes(), math.MaxUint64))
	}
	return mask
}

// less compares integers without AVX-512. Lanes with a < b are all ones, and other lanes are zero.
func (g *generator) less(laneBytes int, isUnsigned bool, a, b alloc.Virt) alloc.Virt {
	if isUnsigned { // with inverted sign bits, a signed comparison gives the result of the unsigned one
		sign := g.constLanes(laneBytes, signBit(laneBytes))
		a, b = g.xor(laneBytes, a, sign), g.xor(laneBytes, b, sign)
	}
	return g.binaryOp("VPCMPGT"+intSuffix(laneBytes), laneBytes, a, b) // b > a
}

// compareBools selects a comparison of bools, where false is less than true.
func (g *generator) compareBools(op lane.Op, a, b alloc.Virt) alloc.Virt {
	switch op {
	case lane.Ne:
		return g.maskOp("XOR", a, b)
	case lane.Eq:
		return g.boolOp(lane.Not, g.maskOp("XOR", a, b), nil)
	case lane.Lt:
		return g.maskOp("ANDN", a, b)
	}
	return g.boolOp(lane.Not, g.maskOp("ANDN", b, a), nil) // Le is the opposite of b < a
}

// widenMask extends, without AVX-512, a mask from lanes of the given size to the lanes of bools, which are as wide as
// the widest value of the loop.
func (g *generator) widenMask(mask alloc.Virt, laneBytes int) alloc.Virt {
	if g.avx512 || laneBytes == g.widestLaneBytes() {
		return mask
	}
	return g.convertOp("VPMOVSXDQ", g.width(8), noBroadcast, mask)
}

// narrowMask reduces, without AVX-512, a bool to 32-bit lanes.
func (g *generator) narrowMask(mask alloc.Virt) alloc.Virt {
	if g.widestLaneBytes() == 4 {
		return mask
	}
	return g.lowHalves(mask)
}

// lowHalves returns, without AVX-512, the low halves of 64-bit lanes.
func (g *generator) lowHalves(x alloc.Virt) alloc.Virt {
	const evenElements = 0x88 // 32-bit elements 0 and 2 of x's lower half and of its upper half
	src := []alloc.Arg{{Imm: evenElements}, {Virt: g.upperHalf(x)}, {Virt: x, Bytes: 16}}
	return g.Add(alloc.Inst{Name: "VSHUFPS", Src: src, Dst: g.newVector(16), FoldableSource: noFoldableSource})
}

// laneMask returns a bool as a mask for lanes of the given size in bytes.
func (g *generator) laneMask(mask alloc.Virt, laneBytes int) alloc.Virt {
	if g.avx512 || laneBytes == g.widestLaneBytes() {
		return mask
	}
	return g.narrowMask(mask)
}

// selectLanes returns ifTrue in lanes where condition is true, and ifFalse in other lanes.
func (g *generator) selectLanes(condition, ifTrue, ifFalse *laneValue) *laneValue {
	dtype := ifTrue.dtype
	if dtype == tensor.Bool {
		if !g.avx512 {
			return &laneValue{reg: g.blend(g.widestLaneBytes(), condition.reg, ifTrue.reg, ifFalse.reg), dtype: dtype}
		}
		a, b := g.maskOp("AND", condition.reg, ifTrue.reg), g.maskOp("ANDN", condition.reg, ifFalse.reg)
		return &laneValue{reg: g.maskOp("OR", a, b), dtype: dtype}
	}
	laneBytes := laneSize(dtype)
	result := g.blend(laneBytes, g.laneMask(condition.reg, laneBytes), g.unpackedReg(ifTrue), g.unpackedReg(ifFalse))
	return &laneValue{reg: result, dtype: dtype,
		hasUndefinedHighBits: ifTrue.hasUndefinedHighBits || ifFalse.hasUndefinedHighBits}
}
