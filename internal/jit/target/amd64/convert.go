package amd64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for conversions between dtypes. AVX2 has no instructions that convert 64-bit
// integers to or from floats; without AVX-512, these conversions are composed of several instructions.
//
// Operands of binaryOp are in the order of Go's assembler: binaryOp("VSUBPD", 8, b, a) computes a - b.

// convert selects instructions for a conversion to a dtype. Each result equals the result of tensor.Converter on amd64.
func (g *generator) convert(dtype tensor.DType, x *laneValue) *laneValue {
	from := x.dtype
	switch {
	case from == dtype:
		return x
	case dtype == tensor.Bool:
		return &laneValue{reg: g.notZero(x), dtype: dtype}
	case from == tensor.Bool:
		return g.boolToNumber(dtype, x.reg)
	case from.IsReducedFloat():
		return g.convert(dtype, &laneValue{reg: g.widenToFloat32(x), dtype: tensor.Float32})
	case dtype == tensor.Float16:
		return &laneValue{packed: g.roundToFloat16(g.convert(tensor.Float32, x).reg), dtype: dtype}
	case dtype == tensor.BFloat16:
		return &laneValue{reg: g.roundToBFloat16(g.convert(tensor.Float32, x).reg), dtype: dtype}
	case dtype.IsFloat() && from.IsFloat():
		return &laneValue{reg: g.floatToFloat(dtype, x.reg), dtype: dtype}
	case dtype.IsFloat():
		return &laneValue{reg: g.intToFloat(dtype, x), dtype: dtype}
	case from.IsFloat():
		return g.floatToInt(dtype, x)
	}
	return g.intToInt(dtype, x)
}

// notZero returns the bools x != 0, which are true for NaN.
func (g *generator) notZero(x *laneValue) alloc.Virt {
	zero := &laneValue{reg: g.constLanes(laneSize(x.dtype), 0), dtype: x.dtype}
	if x.dtype.IsReducedFloat() { // 0 and -0 differ only in the sign bit
		x = &laneValue{reg: g.and(4, g.unpackedReg(x), g.constLanes(4, 0x7fff)), dtype: tensor.Int32}
		zero.dtype = tensor.Int32
	}
	return g.compare(lane.Ne, x, zero)
}

// boolToNumber converts a bool to 1 or 0 in a dtype.
func (g *generator) boolToNumber(dtype tensor.DType, mask alloc.Virt) *laneValue {
	laneBytes := laneSize(dtype)
	v := g.constLanes(laneBytes, lane.Eval(lane.Convert, dtype, tensor.Bool, [3]uint64{1}))
	if g.avx512 {
		v = g.Add(alloc.Inst{Name: "VMOVU" + floatSuffix(laneBytes), Src: alloc.Sources(v), Mask: mask, ZeroMasking: true,
			Dst: g.newVectorLike(v), FoldableSource: 0})
	} else {
		v = g.and(laneBytes, g.laneMask(mask, laneBytes), v)
	}
	return &laneValue{reg: v, dtype: dtype}
}

// widenToFloat32 widens a 16-bit float.
func (g *generator) widenToFloat32(x *laneValue) alloc.Virt {
	width := g.width(4)
	if x.dtype == tensor.BFloat16 {
		return g.immediateOp("VPSLLD", 16, x.reg)
	}
	if x.packed == 0 {
		x.packed = g.pack16(g.extendedReg(x))
	}
	if reload := g.Values[x.packed].Reload; reload != nil && reload.Mem.Space == alloc.AlongRow {
		return g.loadFrom(width, "VCVTPH2PS", notFoldable, reload.Mem)
	}
	return g.convertOp("VCVTPH2PS", width, noBroadcast, x.packed)
}

// pack16 packs 32-bit lanes into 16-bit elements.
func (g *generator) pack16(x alloc.Virt) alloc.Virt {
	width := g.Values[x].Bytes
	if g.avx512 {
		return g.Add(alloc.Inst{Name: "VPMOVDW", Src: alloc.Sources(x), Dst: g.newVector(max(width/2, 16)),
			FoldableSource: noFoldableSource})
	}
	packed := g.commutativeOp("VPACKUSDW", noBroadcast, x, x)
	if width == 32 { // each 128-bit half was packed separately
		packed = g.immediateOp("VPERMQ", 0x08, packed) // 64-bit quarters 0 and 2 become the first half
		packed = g.Add(alloc.Inst{Name: "VMOVDQA", Src: []alloc.Arg{{Virt: packed, Bytes: 16}}, Dst: g.newVector(16),
			FoldableSource: noFoldableSource})
	}
	return packed
}

// roundToFloat16 rounds float32 lanes to float16 elements, packed.
func (g *generator) roundToFloat16(x alloc.Virt) alloc.Virt {
	packedBytes := max(g.width(4)/2, 16)
	const toNearest = 0
	return g.Add(alloc.Inst{Name: "VCVTPS2PH", Src: withImmediate(toNearest, x), Dst: g.newVector(packedBytes),
		FoldableSource: noFoldableSource})
}

// roundToBFloat16 rounds to nearest, ties to even: (x + 0x7fff + bit 16 of x) >> 16, or the quiet NaN 0x7fc0 for a NaN.
// The instruction VCVTNEPS2BF16 is not used, because it flushes subnormal numbers to 0.
func (g *generator) roundToBFloat16(x alloc.Virt) alloc.Virt {
	odd := g.and(4, g.immediateOp("VPSRLD", 16, x), g.constLanes(4, 1))
	sum := g.commutativeOp("VPADDD", 4, g.commutativeOp("VPADDD", 4, x, g.constLanes(4, 0x7fff)), odd)
	return g.blend(4, g.compareFloats(4, cmpUnordered, x, x), g.constLanes(4, 0x7fc0), g.immediateOp("VPSRLD", 16, sum))
}

// convertWidth selects a conversion to a vector of another width. In the syntax of Go's assembler, the names of
// conversions from 256 to 128 bits end in Y.
func (g *generator) convertWidth(name string, laneBytes int, width uint8, x alloc.Virt) alloc.Virt {
	if g.Values[x].Bytes == 32 && width == 16 {
		name += "Y"
	}
	return g.convertOp(name, width, laneBytes, x)
}

// floatToFloat converts between float32 and float64.
func (g *generator) floatToFloat(dtype tensor.DType, x alloc.Virt) alloc.Virt {
	if dtype == tensor.Float64 {
		return g.convertWidth("VCVTPS2PD", 4, g.width(8), x)
	}
	return g.convertWidth("VCVTPD2PS", 8, g.width(4), x)
}

// intToFloat converts integers to float32 or float64, with one rounding.
func (g *generator) intToFloat(dtype tensor.DType, x *laneValue) alloc.Virt {
	source := x.dtype
	extended := g.extendedReg(x)
	width := g.width(laneSize(dtype))
	isUnsigned := source == tensor.Uint32 || source == tensor.Uint64
	name, suffix := "VCVT", floatSuffix(laneSize(dtype))
	if isUnsigned {
		name = "VCVTU"
	}
	switch {
	case source.Size() < 8 && (!isUnsigned || g.avx512):
		return g.convertWidth(name+"DQ2"+suffix, 4, width, extended)
	case source.Size() == 8 && g.avx512:
		return g.convertWidth(name+"QQ2"+suffix, 8, width, extended)
	case source == tensor.Uint32:
		return g.uint32ToFloat(dtype, extended)
	case dtype == tensor.Float32: // the conversion to float64 must not round
		return g.convertWidth("VCVTPD2PS", 8, width, g.int64ToFloat64(g.roundToOdd(extended, isUnsigned), isUnsigned))
	}
	return g.int64ToFloat64(extended, isUnsigned)
}

// uint32ToFloat converts uint32 to float32 or float64, without AVX-512.
func (g *generator) uint32ToFloat(dtype tensor.DType, v alloc.Virt) alloc.Virt {
	if dtype == tensor.Float64 {
		return g.smallIntToFloat64(g.convertOp("VPMOVZXDQ", g.width(8), noBroadcast, v))
	}
	// float32 represents both 16-bit halves and the product exactly, so only the addition rounds.
	upper := g.unaryOp("VCVTDQ2PS", 4, g.immediateOp("VPSRLD", 16, v))
	lower := g.unaryOp("VCVTDQ2PS", 4, g.and(4, v, g.constLanes(4, 0xffff)))
	return g.multiplyAdd("VFMADD", 4, upper, g.constLanes(4, uint64(math.Float32bits(1<<16))), lower)
}

// twoTo52Bits is the bit pattern of 2^52. The significand of 2^52 + n, for an integer n below 2^52, is n.
const twoTo52Bits = 0x4330000000000000

// smallIntToFloat64 converts integers from 0 to 2^52-1 in 64-bit lanes to float64.
func (g *generator) smallIntToFloat64(v alloc.Virt) alloc.Virt {
	exponent := g.constLanes(8, twoTo52Bits)
	return g.binaryOp("VSUBPD", 8, exponent, g.or(8, v, exponent))
}

// int64ToFloat64 converts 64-bit integers to float64, without AVX-512. Each half of an integer becomes the low bits of
// the significand of a float with a large exponent. The powers of 2 that these exponents add are subtracted again. Only
// the last addition rounds.
func (g *generator) int64ToFloat64(v alloc.Virt, isUnsigned bool) alloc.Virt {
	// The upper half n of an unsigned integer becomes 2^84 + n*2^32. The upper half n of a signed integer becomes 2^84
	// + 2^63 + n*2^32, which also represents a negative n.
	bias, biasSum := uint64(0x4530000080000000), 0x1p84+0x1p63+0x1p52
	if isUnsigned {
		bias, biasSum = 0x4530000000000000, 0x1p84+0x1p52
	}
	hi := g.xor(8, g.immediateOp("VPSRLQ", 32, v), g.constLanes(8, bias))
	lo := g.or(8, g.and(8, v, g.constLanes(8, math.MaxUint32)), g.constLanes(8, twoTo52Bits))
	return g.commutativeOp("VADDPD", 8, g.binaryOp("VSUBPD", 8, g.constLanes(8, math.Float64bits(biasSum)), hi), lo)
}

// roundToOdd replaces each 64-bit integer that may be inexact in float64 by an odd multiple of 2^11, without AVX-512.
// The replacement is exact in float64 and rounds to the same float32 as the integer.
func (g *generator) roundToOdd(v alloc.Virt, isUnsigned bool) alloc.Virt {
	lowBits, zero := g.constLanes(8, 1<<11-1), g.constLanes(8, 0)
	hasNoLowBits := g.commutativeOp("VPCMPEQQ", 8, g.and(8, v, lowBits), zero)
	odd := g.or(8, g.and(8, v, g.constLanes(8, ^uint64(1<<11-1))), g.constLanes(8, 1<<11))
	magnitude := v
	if !isUnsigned {
		magnitude = g.abs(8, v)
	}
	isBelow2To53 := g.commutativeOp("VPCMPEQQ", 8, g.immediateOp("VPSRLQ", 53, magnitude), zero)
	return g.blend(8, g.or(8, hasNoLowBits, isBelow2To53), v, odd)
}

// floatToInt rounds toward zero. For values out of range, it returns the lower bits of the processor's conversion to 64
// bits (for uint8, uint32 and 64-bit integers) or to 32 bits (for other dtypes), as Go does.
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
		return result(g.convertWidth("VCVTTPD2DQ", 8, g.width(4), g.multiplyAdd("VFNMADD", 8, quotient, g.float64Const(256),
			truncated)))
	case from == tensor.Float64:
		return result(g.convertWidth("VCVTTPD2DQ", 8, g.width(4), x.reg))
	}
	// uint8 needs no conversion through 64 bits, because the lower 8 bits of float32 values beyond 32 bits are 0.
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
	lower := g.multiplyAdd("VFNMADD", 8, upper, g.float64Const(1<<32), truncated) // 0 to 2^32
	exponent := g.constLanes(8, twoTo52Bits)
	lowerInt := g.xor(8, g.commutativeOp("VADDPD", 8, lower, exponent), exponent) // the significand of 2^52 + lower
	upperInt := g.convertOp("VPMOVSXDQ", g.width(8), noBroadcast, g.convertWidth("VCVTTPD2DQ", 8, g.width(4), upper))
	result := g.or(8, g.immediateOp("VPSLLQ", 32, upperInt), lowerInt)
	return g.blend(8, g.inInt64Range(x, 8), result, g.constLanes(8, signBit(8)))
}

// floatToUint64 converts to uint64 as Go does. If a number is at least 2^63 or NaN, 2^63 is subtracted before the
// conversion to int64, and the highest bit is set afterwards.
func (g *generator) floatToUint64(x alloc.Virt, laneBytes int) alloc.Virt {
	if !g.avx512 && laneBytes == 4 {
		x, laneBytes = g.convertWidth("VCVTPS2PD", 4, g.width(8), x), 8
	}
	limit := g.floatConst(laneBytes, 1<<63)
	isSmall := g.compareFloats(laneBytes, cmpLess, x, limit)
	reduced := g.blend(laneBytes, isSmall, x, g.binaryOp("VSUB"+floatSuffix(laneBytes), laneBytes, limit, x))
	converted := g.floatToInt64(reduced, laneBytes)
	return g.or(8, converted, g.blend(8, isSmall, g.constLanes(8, 0), g.constLanes(8, signBit(8))))
}

// floatToUint32 returns the lower 32 bits of the conversion to 64 bits, which are 0 for values out of range. The code
// computes the remainder modulo 2^32 that is nearest to 0, which is exact, and converts the remainder to int32. A
// remainder of 2^31 becomes -2^31, which has the same bits.
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

// intToInt converts integers to another integer dtype. A narrower dtype keeps the lower bits. For a wider dtype, the
// new bits are copies of the sign bit if the source dtype is signed, else zeros.
func (g *generator) intToInt(dtype tensor.DType, x *laneValue) *laneValue {
	from := x.dtype
	result := &laneValue{dtype: dtype}
	switch {
	case from.Size() == 8 && dtype.Size() == 8:
		result.reg = x.reg
	case dtype.Size() == 8:
		name := "VPMOVZXDQ"
		if from.IsSigned() {
			name = "VPMOVSXDQ"
		}
		result.reg = g.convertOp(name, g.width(8), noBroadcast, g.extendedReg(x))
	case from.Size() == 8 && g.avx512:
		result.reg = g.Add(alloc.Inst{Name: "VPMOVQD", Src: alloc.Sources(x.reg), Dst: g.newVector(g.width(4)),
			FoldableSource: noFoldableSource})
		result.hasUndefinedHighBits = dtype.Size() < 4
	case from.Size() == 8:
		result.reg, result.hasUndefinedHighBits = g.lowHalves(x.reg), dtype.Size() < 4
	case dtype.Size() > from.Size():
		result.reg = g.extendedReg(x)
		result.hasUndefinedHighBits = from.IsSigned() && !dtype.IsSigned() && dtype.Size() < 4
	default:
		result.reg, result.hasUndefinedHighBits = x.reg, dtype.Size() < 4
	}
	return result
}
