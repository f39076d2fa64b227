package amd64

import (
	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for conversions between dtypes; convert_intfloat.go has the conversions between
// integers and floats.
//
// A laneValue is a value of the loop in a register. Integers of fewer than 32 bits are in 32-bit lanes, and the bits
// above them may be undefined (hasUndefinedHighBits); extendedReg extends them by sign bits or zeros. 16-bit floats are
// in 32-bit lanes of the register reg, in adjacent 16-bit lanes of the register packed, or in both. Bools are masks:
// mask registers with AVX-512, otherwise lanes whose bits are all equal.
//
// The methods of the generator add instructions and return an alloc.Virt, a virtual register with the result. width(4)
// is the size in bytes of the register that holds the lanes of an iteration, for lanes of 4 bytes. The first argument
// of and, blend and compareFloats is the size of a lane in bytes: and(4, x, y) adds VPAND for lanes of 4 bytes.
//
// An instruction may have a memory operand in place of a register. The value of the operand is then folded: it is
// loaded by the instruction itself.
//   - The number before the sources of commutativeOp and convertOp is the size in bytes of an element that the memory
//     operand may broadcast to all lanes. noBroadcast: the memory operand is a whole vector.
//   - FoldableSource is the index of the source that may be folded; noFoldableSource: none.
//   - loadFrom adds a load. notFoldable: the load also converts, so another instruction cannot replace it.

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

// notZero returns the mask of x != 0, which is true for NaN.
func (g *generator) notZero(x *laneValue) alloc.Virt {
	zero := &laneValue{reg: g.constLanes(laneSize(x.dtype), 0), dtype: x.dtype}
	if x.dtype.IsReducedFloat() { // compare the bits without the sign, because -0 equals 0
		x = &laneValue{reg: g.and(4, g.unpackedReg(x), g.constLanes(4, 0x7fff)), dtype: tensor.Int32}
		zero.dtype = tensor.Int32
	}
	return g.compare(lane.Ne, x, zero)
}

// boolToNumber converts bools to the numbers 1 and 0 of a dtype.
func (g *generator) boolToNumber(dtype tensor.DType, mask alloc.Virt) *laneValue {
	laneBytes := laneSize(dtype)
	ones := g.constLanes(laneBytes, lane.Eval(lane.Convert, dtype, tensor.Bool, [3]uint64{1})) // the number 1
	if !g.avx512 {
		return &laneValue{reg: g.and(laneBytes, g.laneMask(mask, laneBytes), ones), dtype: dtype}
	}
	reg := g.Add(alloc.Inst{Name: "VMOVU" + floatSuffix(laneBytes), Src: alloc.Sources(ones), Mask: mask,
		ZeroMasking: true, Dst: g.newVectorLike(ones), FoldableSource: 0})
	return &laneValue{reg: reg, dtype: dtype}
}

// widenToFloat32 converts 16-bit floats to float32. A bfloat16 is the upper half of a float32. The instruction for
// float16, VCVTPH2PS, reads packed elements from a register or from memory.
func (g *generator) widenToFloat32(x *laneValue) alloc.Virt {
	width := g.width(4)
	if x.dtype == tensor.BFloat16 {
		return g.immediateOp("VPSLLD", 16, x.reg)
	}
	if x.packed == 0 {
		x.packed = g.pack16(g.extendedReg(x)) // kept for other readers of x
	}
	// Elements that are loaded along the row are loaded and converted by one instruction. Their space is AlongRow even if
	// they share no memory with an output.
	if reload := g.Values[x.packed].Reload; reload != nil && reload.Mem.Space == alloc.AlongRow {
		return g.loadFrom(width, "VCVTPH2PS", notFoldable, reload.Mem)
	}
	return g.convertOp("VCVTPH2PS", width, noBroadcast, x.packed)
}

// pack16 packs 32-bit lanes, whose upper halves are 0, into adjacent 16-bit elements.
func (g *generator) pack16(x alloc.Virt) alloc.Virt {
	width := g.Values[x].Bytes
	if g.avx512 {
		return g.Add(alloc.Inst{Name: "VPMOVDW", Src: alloc.Sources(x), Dst: g.newVector(max(width/2, 16)),
			FoldableSource: noFoldableSource})
	}
	packed := g.commutativeOp("VPACKUSDW", noBroadcast, x, x)
	if width == 32 { // each 128-bit half was packed separately
		packed = g.immediateOp("VPERMQ", 0x08, packed) // 64-bit quarters 0 and 2 become the first half
		// The result is the first half of the register.
		packed = g.Add(alloc.Inst{Name: "VMOVDQA", Src: []alloc.Arg{{Virt: packed, Bytes: 16}}, Dst: g.newVector(16),
			FoldableSource: noFoldableSource})
	}
	return packed
}

// roundToFloat16 rounds float32 lanes to packed float16 elements.
func (g *generator) roundToFloat16(x alloc.Virt) alloc.Virt {
	packedBytes := max(g.width(4)/2, 16)
	const toNearest = 0
	return g.Add(alloc.Inst{Name: "VCVTPS2PH", Src: withImmediate(toNearest, x), Dst: g.newVector(packedBytes),
		FoldableSource: noFoldableSource})
}

// roundToBFloat16 rounds float32 lanes to nearest, ties to even. The bits of the result are
// (x + 0x7fff + bit 16 of x) >> 16, or the quiet NaN 0x7fc0 for a NaN. The instruction VCVTNEPS2BF16 is not used,
// because it flushes subnormal numbers to 0.
func (g *generator) roundToBFloat16(x alloc.Virt) alloc.Virt {
	bit16 := g.and(4, g.immediateOp("VPSRLD", 16, x), g.constLanes(4, 1))
	sum := g.commutativeOp("VPADDD", 4, g.commutativeOp("VPADDD", 4, x, g.constLanes(4, 0x7fff)), bit16)
	return g.blend(4, g.compareFloats(4, cmpUnordered, x, x), g.constLanes(4, 0x7fc0), g.immediateOp("VPSRLD", 16, sum))
}

// convertWidth adds a conversion from lanes of laneBytes to a register of the given width in bytes. In the syntax of
// Go's assembler, the names of conversions from 256 to 128 bits end in Y.
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

// intToInt converts integers to another integer dtype. A narrower dtype keeps the lower bits. For a wider dtype, the
// new bits are copies of the sign bit if the source dtype is signed, else zeros.
func (g *generator) intToInt(dtype tensor.DType, x *laneValue) *laneValue {
	from := x.dtype
	result := &laneValue{dtype: dtype}
	switch {
	case from.Size() == 8 && dtype.Size() == 8: // the same bits
		result.reg = x.reg
	case dtype.Size() == 8: // from lanes of 32 bits to lanes of 64 bits
		name := "VPMOVZXDQ"
		if from.IsSigned() {
			name = "VPMOVSXDQ"
		}
		result.reg = g.convertOp(name, g.width(8), noBroadcast, g.extendedReg(x))
	case from.Size() == 8 && g.avx512: // the low halves of the lanes
		result.reg = g.Add(alloc.Inst{Name: "VPMOVQD", Src: alloc.Sources(x.reg), Dst: g.newVector(g.width(4)),
			FoldableSource: noFoldableSource})
		result.hasUndefinedHighBits = dtype.Size() < 4
	case from.Size() == 8: // the low halves of the lanes, without AVX-512
		result.reg, result.hasUndefinedHighBits = g.lowHalves(x.reg), dtype.Size() < 4
	case dtype.Size() > from.Size(): // in lanes of 32 bits
		result.reg = g.extendedReg(x)
		// From int8 to uint16, for example, the upper 16 bits of the lane are copies of the sign bit instead of zeros.
		result.hasUndefinedHighBits = from.IsSigned() && !dtype.IsSigned() && dtype.Size() < 4
	default: // the same bits, in lanes of 32 bits
		result.reg, result.hasUndefinedHighBits = x.reg, dtype.Size() < 4
	}
	return result
}
