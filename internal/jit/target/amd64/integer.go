package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for arithmetic on integers. Integers of fewer than 32 bits are in lanes of 32 bits,
// whose higher bits may be undefined (laneValue.hasUndefinedHighBits). For example, the sum of the int8 numbers 100 and
// 100 is 200 in its lane. The low 8 bits are right (-56), so a store needs no more instructions, but a comparison first
// extends the sign (extendedReg).

// integerOp selects instructions for an operation on integers. Integers of fewer than 32 bits are extended only if the
// higher bits of their lanes would affect the result. The operands of binaryOp are in the order of Go's assembler:
// binaryOp("VPSUBD", 4, b, a) is a - b.
func (g *generator) integerOp(op lane.Op, dtype tensor.DType, a, b *laneValue) *laneValue {
	laneBytes := laneSize(dtype)
	suffix := intSuffix(laneBytes)
	const highDefined, highUndefined = false, true // values of the argument undefinedHighBits of result
	result := func(v alloc.Virt, undefinedHighBits bool) *laneValue {
		return &laneValue{reg: v, dtype: dtype, hasUndefinedHighBits: undefinedHighBits && dtype.Size() < 4}
	}
	switch op {
	case lane.Add:
		return result(g.commutativeOp("VPADD"+suffix, laneBytes, a.reg, b.reg), highUndefined)
	case lane.Sub:
		return result(g.binaryOp("VPSUB"+suffix, laneBytes, b.reg, a.reg), highUndefined)
	case lane.Mul:
		return result(g.multiply(laneBytes, a.reg, b.reg), highUndefined)
	case lane.Neg:
		return result(g.binaryOp("VPSUB"+suffix, laneBytes, a.reg, g.constLanes(laneBytes, 0)), highUndefined)
	case lane.And:
		return result(g.and(laneBytes, a.reg, b.reg), a.hasUndefinedHighBits || b.hasUndefinedHighBits)
	case lane.Or:
		return result(g.orConjunction(laneBytes, a.reg, b.reg), a.hasUndefinedHighBits || b.hasUndefinedHighBits)
	case lane.Xor:
		return result(g.xor(laneBytes, a.reg, b.reg), a.hasUndefinedHighBits || b.hasUndefinedHighBits)
	case lane.Not:
		return result(g.xor(laneBytes, a.reg, g.constLanes(laneBytes, math.MaxUint64)), highUndefined)
	case lane.Shl:
		return result(g.shift("VPSLL", dtype, a.reg, b), highUndefined)
	case lane.Shr:
		if dtype.IsSigned() {
			return result(g.shiftSigned(dtype, g.extendedReg(a), b), highDefined)
		}
		return result(g.shift("VPSRL", dtype, g.extendedReg(a), b), highDefined)
	case lane.Abs:
		if !dtype.IsSigned() {
			return a
		}
		return result(g.abs(laneBytes, g.extendedReg(a)), highUndefined)
	case lane.Min, lane.Max:
		return result(g.intExtremum(op, dtype, g.extendedReg(a), g.extendedReg(b)), highDefined)
	case lane.Div:
		return g.divide(dtype, a, b)
	}
	g.fail("there is no instruction for %v of %v", op, dtype)
	return a
}

// orConjunction returns a | b. If one of the last recentInsts instructions computed b as x & y (as in copysign), a | x
// & y takes one AVX-512 instruction.
func (g *generator) orConjunction(laneBytes int, a, b alloc.Virt) alloc.Virt {
	name := "VPAND" + intSuffix(laneBytes)
	for k := len(g.Body) - 1; g.avx512 && k >= max(0, len(g.Body)-recentInsts); k-- {
		if inst := g.Body[k]; inst.Dst == b && inst.Name == name {
			const orAnd = 0xF8 // the truth table of a | b0 & b1
			// The result overwrites a (Tied). One source of the conjunction may be in memory (FoldableSource).
			src := []alloc.Arg{{Imm: orAnd}, inst.Src[0], inst.Src[1]}
			return g.Add(alloc.Inst{Name: "VPTERNLOG" + intSuffix(laneBytes), Src: src, Tied: a, Dst: g.newVectorLike(a),
				FoldableSource: 1, Commutative: true, BroadcastBytes: uint8(laneBytes)})
		}
	}
	return g.or(laneBytes, a, b)
}

// multiply returns the low bits of products.
func (g *generator) multiply(laneBytes int, a, b alloc.Virt) alloc.Virt {
	switch {
	case laneBytes == 4:
		return g.commutativeOp("VPMULLD", 4, a, b)
	case g.avx512:
		return g.commutativeOp("VPMULLQ", 8, a, b)
	}
	// VPMULUDQ multiplies the low halves of 64-bit lanes. Modulo 2^64, a*b is (aHigh*bLow + bHigh*aLow)<<32 +
	// aLow*bLow.
	cross := g.commutativeOp("VPADDQ", 8, g.commutativeOp("VPMULUDQ", 8, g.immediateOp("VPSRLQ", 32, a), b),
		g.commutativeOp("VPMULUDQ", 8, g.immediateOp("VPSRLQ", 32, b), a))
	return g.commutativeOp("VPADDQ", 8, g.immediateOp("VPSLLQ", 32, cross), g.commutativeOp("VPMULUDQ", 8, a, b))
}

// abs returns absolute values of signed integers.
func (g *generator) abs(laneBytes int, a alloc.Virt) alloc.Virt {
	if g.avx512 || laneBytes == 4 {
		return g.unaryOp("VPABS"+intSuffix(laneBytes), laneBytes, a)
	}
	sign := g.binaryOp("VPCMPGTQ", 8, a, g.constLanes(8, 0)) // -1 if a is negative, else 0: |a| is (a^sign) - sign
	return g.binaryOp("VPSUBQ", 8, sign, g.xor(8, a, sign))
}

// intExtremum selects Min or Max of integers.
func (g *generator) intExtremum(op lane.Op, dtype tensor.DType, a, b alloc.Virt) alloc.Virt {
	laneBytes := laneSize(dtype)
	// In lanes of 32 bits, narrower unsigned integers are not negative, so that signed comparisons are correct.
	needsUnsignedCompare := !dtype.IsSigned() && dtype.Size() >= 4
	if !g.avx512 && laneBytes == 8 {
		if op == lane.Max {
			return g.blend(8, g.less(8, needsUnsignedCompare, b, a), a, b)
		}
		return g.blend(8, g.less(8, needsUnsignedCompare, a, b), a, b)
	}
	name := "VPMIN"
	if op == lane.Max {
		name = "VPMAX"
	}
	if needsUnsignedCompare {
		return g.commutativeOp(name+"U"+intSuffix(laneBytes), laneBytes, a, b)
	}
	return g.commutativeOp(name+"S"+intSuffix(laneBytes), laneBytes, a, b)
}

// shiftDistance returns a shift distance, modulo the number of bits of dtype. A constant distance has no register:
// distances is 0. Otherwise constant is 0, and the register distances has the distance of each lane.
func (g *generator) shiftDistance(dtype tensor.DType, b *laneValue) (constant int64, distances alloc.Virt) {
	bits := uint64(8 * dtype.Size())
	if reload := g.Values[b.reg].Reload; reload != nil && reload.Mem.Space == alloc.Constant {
		return int64(uint64(reload.Mem.Data[0]) & (bits - 1)), 0
	}
	return 0, g.and(laneSize(dtype), b.reg, g.constLanes(laneSize(dtype), bits-1))
}

// shift selects instructions for a shift. name is the instruction without its suffix.
func (g *generator) shift(name string, dtype tensor.DType, a alloc.Virt, b *laneValue) alloc.Virt {
	laneBytes := laneSize(dtype)
	constant, distances := g.shiftDistance(dtype, b)
	if distances == 0 {
		return g.immediateOp(name+intSuffix(laneBytes), constant, a)
	}
	return g.binaryOp(name+"V"+intSuffix(laneBytes), laneBytes, distances, a)
}

// shiftSigned selects an arithmetic shift to the right.
func (g *generator) shiftSigned(dtype tensor.DType, a alloc.Virt, b *laneValue) alloc.Virt {
	if laneBytes := laneSize(dtype); g.avx512 || laneBytes == 4 {
		return g.shift("VPSRA", dtype, a, b)
	}
	// With sign = 1<<63 >> n and logical shifts, (a>>n ^ sign) - sign copies the sign bit, now at bit 63-n, to all
	// higher bits.
	sign := g.shift("VPSRL", dtype, g.constLanes(8, signBit(8)), b)
	return g.binaryOp("VPSUBQ", 8, sign, g.xor(8, g.shift("VPSRL", dtype, a, b), sign))
}

// divide divides integers through floats, because amd64 has no vector division of integers. The significands of the
// floats have more bits than the integers. A quotient that is not an integer therefore differs from each integer by
// more than the rounding error, so truncation gives the right quotient.
func (g *generator) divide(dtype tensor.DType, a, b *laneValue) *laneValue {
	float := tensor.Float64
	switch dtype.Size() {
	case 1, 2: // float32 has 24 bits
		float = tensor.Float32
	case 8: // no float has enough bits
		return g.divideLong(dtype, a, b)
	}
	x, y := g.convert(float, a), g.convert(float, b)
	return g.convert(dtype, &laneValue{reg: g.floatOp(lane.Div, laneSize(float), x.reg, y.reg), dtype: float})
}

// divideLong divides 64-bit integers through float64, modulo 2^64:
//
//	firstQuotient = round(a/b)
//	remainder     = a - firstQuotient*b
//	correction    = round(remainder/b)
//	remainder    -= correction*b
//	quotient      = firstQuotient + correction   // nearest integer, where truncation is wanted
//	quotient is changed by 1 if the sign of remainder is wrong
//
// Four roundings give the first quotient a relative error of about 4*2^-53. Its absolute error is therefore about
// 2^64*2^-51/b = 2^13/b, and rounding it to an integer adds at most 1/2. The first remainder, b times this error, is at
// most about 2^13 + b/2. The error of the second quotient, correction, comes only from rounding to nearest.
func (g *generator) divideLong(dtype tensor.DType, a, b *laneValue) *laneValue {
	// The functions below add instructions and return their result.
	apply := func(op lane.Op, x, y *laneValue) *laneValue { return g.apply(op, x.dtype, x, y) }
	less := func(x, y *laneValue) *laneValue { return &laneValue{reg: g.compare(lane.Lt, x, y), dtype: tensor.Bool} }
	number := func(x uint64) *laneValue { return &laneValue{reg: g.constLanes(8, x), dtype: tensor.Int64} }
	// bitsAs returns the register of x as a value of another dtype.
	bitsAs := func(dtype tensor.DType, x *laneValue) *laneValue { return &laneValue{reg: x.reg, dtype: dtype} }
	reciprocal := &laneValue{reg: g.binaryOp("VDIVPD", 8, g.convert(tensor.Float64, b).reg, g.float64Const(1)),
		dtype: tensor.Float64}
	roundedQuotient := func(x *laneValue) *laneValue { // round(x/b)
		quotient := apply(lane.Mul, g.convert(tensor.Float64, x), reciprocal)
		if x.dtype == tensor.Uint64 { // the conversion cannot represent 2^64
			quotient.reg = g.extremum(lane.Min, 8, quotient.reg, g.float64Const(0x1.fffffffffffffp63))
		}
		return g.convert(x.dtype, &laneValue{reg: g.round(lane.Rint, 8, quotient.reg), dtype: quotient.dtype})
	}
	zero := number(0)
	dividend, divisor := bitsAs(tensor.Int64, a), bitsAs(tensor.Int64, b)
	firstQuotient := bitsAs(tensor.Int64, roundedQuotient(a))
	remainder := apply(lane.Sub, dividend, apply(lane.Mul, firstQuotient, divisor))
	correction := roundedQuotient(remainder)
	remainder = apply(lane.Sub, remainder, apply(lane.Mul, correction, divisor))
	quotient := apply(lane.Add, firstQuotient, correction)
	if dtype == tensor.Uint64 { // the remainder must not be negative
		quotient = g.selectLanes(less(remainder, zero), apply(lane.Sub, quotient, number(1)), quotient)
		// The remainder may not fit into a signed integer if the divisor is at least 2^63, which is negative as an
		// int64. The quotient is then 0 or 1.
		isLarge, zeroOrOne := less(divisor, zero), g.selectLanes(less(a, b), zero, number(1))
		return bitsAs(dtype, g.selectLanes(isLarge, zeroOrOne, bitsAs(dtype, quotient)))
	}
	// The remainder must have the sign of the dividend. Otherwise the magnitude of the quotient is too large by one.
	signsDiffer := apply(lane.And, less(apply(lane.Xor, remainder, dividend), zero),
		&laneValue{reg: g.compare(lane.Ne, remainder, zero), dtype: tensor.Bool})
	oppositeSigns := less(apply(lane.Xor, dividend, divisor), zero)
	closerToZero := g.selectLanes(oppositeSigns, apply(lane.Add, quotient, number(1)),
		apply(lane.Sub, quotient, number(1)))
	return g.selectLanes(signsDiffer, closerToZero, quotient)
}
