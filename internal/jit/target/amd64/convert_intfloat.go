package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for conversions between integers and floats. AVX2 has no instructions that convert
// 64-bit integers to or from floats; without AVX-512, these conversions are composed of several instructions.
//
// The methods of the generator add instructions and return an alloc.Virt, a virtual vector register with the result.
// Their parameter laneBytes is the size of a lane: 4 or 8. width(4) is the size in bytes of a register for all lanes of
// 4 bytes. The operands of binaryOp are in the order of Go's assembler: binaryOp("VSUBPD", 8, b, a) computes a - b.
// multiplyAdd("VFMADD", 8, a, b, c) computes a*b + c, and VFNMADD c - a*b. blend(8, mask, x, y) is x in the lanes that
// mask sets, otherwise y. convertWidth(name, 4, width, x) converts the lanes of 4 bytes of x; width is the size of the
// resulting register.

// intToFloat converts integers to float32 or float64, with one rounding.
func (g *generator) intToFloat(dtype tensor.DType, x *laneValue) alloc.Virt {
	source := x.dtype
	extended := g.extendedReg(x)
	width := g.width(laneSize(dtype))
	isUnsigned := source == tensor.Uint32 || source == tensor.Uint64 // shorter integers are extended to int32
	// DQ stands for 32-bit integers and QQ for 64-bit integers, as in VCVTDQ2PS and VCVTUQQ2PD.
	name, suffix := "VCVT", floatSuffix(laneSize(dtype))
	if isUnsigned {
		name = "VCVTU"
	}
	switch {
	case source.Size() < 8 && (!isUnsigned || g.avx512): // one instruction
		return g.convertWidth(name+"DQ2"+suffix, 4, width, extended)
	case source.Size() == 8 && g.avx512: // one instruction
		return g.convertWidth(name+"QQ2"+suffix, 8, width, extended)
	case source == tensor.Uint32: // without AVX-512, as below
		return g.uint32ToFloat(dtype, extended)
	case dtype == tensor.Float32: // through float64; only the second conversion may round
		exact := g.int64ToFloat64(g.roundToOdd(extended, isUnsigned), isUnsigned)
		return g.convertWidth("VCVTPD2PS", 8, width, exact)
	}
	return g.int64ToFloat64(extended, isUnsigned)
}

// uint32ToFloat converts uint32 to float32 or float64, without AVX-512.
func (g *generator) uint32ToFloat(dtype tensor.DType, x alloc.Virt) alloc.Virt {
	if dtype == tensor.Float64 {
		return g.smallIntToFloat64(g.convertOp("VPMOVZXDQ", g.width(8), noBroadcast, x))
	}
	// upper*2^16 + lower: float32 represents both 16-bit halves and the product exactly, so only the addition rounds.
	upper := g.unaryOp("VCVTDQ2PS", 4, g.immediateOp("VPSRLD", 16, x))
	lower := g.unaryOp("VCVTDQ2PS", 4, g.and(4, x, g.constLanes(4, 0xffff)))
	return g.multiplyAdd("VFMADD", 4, upper, g.constLanes(4, uint64(math.Float32bits(1<<16))), lower)
}

// twoTo52Bits has the bits of the float64 2^52. The unit of its fraction, the low 52 bits, is 1: for an integer n
// below 2^52, the bits of the float64 2^52 + n are twoTo52Bits | n.
const twoTo52Bits = 0x4330000000000000

// smallIntToFloat64 converts integers n from 0 to 2^52-1 in 64-bit lanes to float64: (2^52 + n) - 2^52.
func (g *generator) smallIntToFloat64(n alloc.Virt) alloc.Virt {
	power := g.constLanes(8, twoTo52Bits)
	return g.binaryOp("VSUBPD", 8, power, g.or(8, n, power))
}

// int64ToFloat64 converts 64-bit integers to float64, without AVX-512. An integer is upper*2^32 + lower, where lower is
// unsigned. As in [generator.smallIntToFloat64], each half is combined with the bits of a power of 2. The unit of the
// fraction of the float64 2^84 is 2^32:
//
//   - upperFloat is 2^84 + upper*2^32 for an unsigned integer. For a signed one it is 2^84 + 2^63 + upper*2^32: the
//     exclusive or with bit 31 adds 2^31 to upper, which may be negative.
//   - lowerFloat is 2^52 + lower.
//
// The result is (upperFloat - (the sum of the powers of 2)) + lowerFloat. Only the addition rounds.
func (g *generator) int64ToFloat64(x alloc.Virt, isUnsigned bool) alloc.Virt {
	upperBits, powers := uint64(0x4530000080000000), 0x1p84+0x1p63+0x1p52
	if isUnsigned {
		upperBits, powers = 0x4530000000000000, 0x1p84+0x1p52
	}
	upperFloat := g.xor(8, g.immediateOp("VPSRLQ", 32, x), g.constLanes(8, upperBits))
	lowerFloat := g.or(8, g.and(8, x, g.constLanes(8, math.MaxUint32)), g.constLanes(8, twoTo52Bits))
	difference := g.binaryOp("VSUBPD", 8, g.constLanes(8, math.Float64bits(powers)), upperFloat)
	return g.commutativeOp("VADDPD", 8, difference, lowerFloat)
}

// roundToOdd makes 64-bit integers exact in float64, without AVX-512. It returns integers that round to the same
// float32. An integer of more than 53 bits whose low 11 bits are not all 0 becomes an odd multiple of 2^11. It is then
// exact, and on the same side of each midpoint between two float32. Other integers do not change.
func (g *generator) roundToOdd(x alloc.Virt, isUnsigned bool) alloc.Virt {
	const lowBits = 1<<11 - 1
	lowMask, zero := g.constLanes(8, lowBits), g.constLanes(8, 0)
	hasNoLowBits := g.commutativeOp("VPCMPEQQ", 8, g.and(8, x, lowMask), zero)
	odd := g.or(8, g.and(8, x, g.constLanes(8, ^uint64(lowBits))), g.constLanes(8, 1<<11))
	magnitude := x
	if !isUnsigned {
		magnitude = g.abs(8, x)
	}
	isBelow2To53 := g.commutativeOp("VPCMPEQQ", 8, g.immediateOp("VPSRLQ", 53, magnitude), zero)
	return g.blend(8, g.or(8, hasNoLowBits, isBelow2To53), x, odd)
}

// floatToInt rounds toward zero. For numbers out of range, it returns the lower bits of the processor's conversion to
// 64 bits (for uint8, uint32 and 64-bit integers) or to 32 bits (for other dtypes), as Go does. The bits of a lane
// above a short integer are undefined.
func (g *generator) floatToInt(dtype tensor.DType, x *laneValue) *laneValue {
	from, laneBytes := x.dtype, laneSize(x.dtype)
	result := func(truncated alloc.Virt) *laneValue {
		return &laneValue{reg: truncated, dtype: dtype, hasUndefinedHighBits: dtype.Size() < 4}
	}
	switch {
	case dtype == tensor.Int64:
		return result(g.floatToInt64(x.reg, laneBytes))
	case dtype == tensor.Uint64:
		return result(g.floatToUint64(x.reg, laneBytes))
	case dtype == tensor.Uint32:
		return result(g.floatToUint32(x.reg, laneBytes))
	case dtype == tensor.Uint8 && from == tensor.Float64:
		// The remainder modulo 256 is exact, and has the same lower 8 bits as a conversion through 64 bits.
		truncated := g.round(lane.Trunc, 8, x.reg)
		quotient := g.round(lane.Floor, 8, g.commutativeOp("VMULPD", 8, truncated, g.float64Const(1./256)))
		remainder := g.multiplyAdd("VFNMADD", 8, quotient, g.float64Const(256), truncated)
		return result(g.convertWidth("VCVTTPD2DQ", 8, g.width(4), remainder))
	case from == tensor.Float64:
		return result(g.convertWidth("VCVTTPD2DQ", 8, g.width(4), x.reg))
	}
	// Float32 to uint8 needs no 64 bits: the lower 8 bits of a float32 beyond 32 bits are 0.
	return result(g.unaryOp("VCVTTPS2DQ", 4, x.reg))
}

// floatToInt64 converts floats in lanes of the given size in bytes to int64. Without AVX-512, it splits the truncated
// number into upper*2^32 + lower, converts both parts, and joins them. Numbers out of range, and NaN, give -2^63.
func (g *generator) floatToInt64(x alloc.Virt, laneBytes int) alloc.Virt {
	if g.avx512 {
		return g.convertOp("VCVTT"+floatSuffix(laneBytes)+"2QQ", g.width(8), laneBytes, x)
	}
	if laneBytes == 4 {
		x = g.convertWidth("VCVTPS2PD", 4, g.width(8), x)
	}
	truncated := g.round(lane.Trunc, 8, x)
	upper := g.round(lane.Floor, 8, g.commutativeOp("VMULPD", 8, truncated, g.float64Const(1./(1<<32))))
	lower := g.multiplyAdd("VFNMADD", 8, upper, g.float64Const(1<<32), truncated) // truncated - upper*2^32: 0 to 2^32
	power := g.constLanes(8, twoTo52Bits)
	lowerInt := g.xor(8, g.commutativeOp("VADDPD", 8, lower, power), power) // the low bits of the float64 2^52 + lower
	upperInt := g.convertOp("VPMOVSXDQ", g.width(8), noBroadcast, g.convertWidth("VCVTTPD2DQ", 8, g.width(4), upper))
	joined := g.or(8, g.immediateOp("VPSLLQ", 32, upperInt), lowerInt)
	return g.blend(8, g.inInt64Range(x, 8), joined, g.constLanes(8, signBit(8)))
}

// floatToUint64 converts to uint64 as Go does. If a number is at least 2^63 or NaN, 2^63 is subtracted before the
// conversion to int64, and the highest bit is set afterwards.
func (g *generator) floatToUint64(x alloc.Virt, laneBytes int) alloc.Virt {
	if !g.avx512 && laneBytes == 4 {
		x, laneBytes = g.convertWidth("VCVTPS2PD", 4, g.width(8), x), 8
	}
	limit := g.floatConst(laneBytes, 1<<63)
	isSmall := g.compareFloats(laneBytes, cmpLess, x, limit)
	difference := g.binaryOp("VSUB"+floatSuffix(laneBytes), laneBytes, limit, x) // x - limit
	reduced := g.blend(laneBytes, isSmall, x, difference)
	converted := g.floatToInt64(reduced, laneBytes)
	return g.or(8, converted, g.blend(8, isSmall, g.constLanes(8, 0), g.constLanes(8, signBit(8))))
}

// floatToUint32 returns the lower 32 bits of the conversion to int64, which are 0 for numbers out of the range of
// int64. It converts the remainder modulo 2^32, from -2^31 to 2^31, to int32. The remainder is exact. A remainder of
// 2^31 becomes -2^31, which has the same bits.
func (g *generator) floatToUint32(x alloc.Virt, laneBytes int) alloc.Virt {
	truncated := g.round(lane.Trunc, laneBytes, x)
	quotient := g.round(lane.Rint, laneBytes, g.commutativeOp("VMUL"+floatSuffix(laneBytes), laneBytes, truncated,
		g.floatConst(laneBytes, 1./(1<<32))))
	remainder := g.multiplyAdd("VFNMADD", laneBytes, quotient, g.floatConst(laneBytes, 1<<32), truncated)
	inRange := g.inInt64Range(x, laneBytes)
	if g.avx512 {
		remainder = g.blend(laneBytes, inRange, remainder, g.constLanes(laneBytes, 0))
	} else {
		remainder = g.and(laneBytes, inRange, remainder)
	}
	if laneBytes == 8 {
		return g.convertWidth("VCVTTPD2DQ", 8, g.width(4), remainder)
	}
	return g.unaryOp("VCVTTPS2DQ", 4, remainder)
}

// inInt64Range returns the mask of lanes with an absolute value below 2^63.
func (g *generator) inInt64Range(x alloc.Virt, laneBytes int) alloc.Virt {
	magnitude := g.and(laneBytes, x, g.constLanes(laneBytes, signBit(laneBytes)-1))
	return g.compareFloats(laneBytes, cmpLess, magnitude, g.floatConst(laneBytes, 1<<63))
}

// float64Const returns a float64 constant in all lanes.
func (g *generator) float64Const(x float64) alloc.Virt { return g.constLanes(8, math.Float64bits(x)) }

// floatConst returns a float constant in lanes of the given size in bytes.
func (g *generator) floatConst(laneBytes int, x float64) alloc.Virt {
	if laneBytes == 8 {
		return g.float64Const(x)
	}
	return g.constLanes(4, uint64(math.Float32bits(float32(x))))
}
