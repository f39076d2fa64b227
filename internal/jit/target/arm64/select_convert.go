package arm64

import (
	"math"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file selects instructions for conversions between dtypes. A value is a list of parts: virtual registers of 16
// bytes. p is the index of a part of the result, and sizes are bytes of a lane. A conversion to longer elements gives
// more parts: for example, 8 lanes of int16 are one part, and after the conversion to float32 two parts.
// makeParts(size, f) calls f for each part of a result with lanes of this size. arrangement(4) is "4s", Arm's name for
// a register of four 32-bit lanes, and halfArrangement(4) is "2s", its low half. If the result is the same for all
// lanes (resultIsUniform), it is a single part, whose lanes are equal.

// convert selects instructions for a conversion. Each result equals the result of tensor.Converter.
func (s *selector) convert(inst *lane.Inst) []alloc.Virt {
	parts, from, to := s.Parts[inst.A], s.loop.Type(inst.A).DType, inst.Type.DType
	toInteger := to.IsIntegral(false)
	if operand := &s.loop.Insts[inst.A]; operand.Op == lane.Rint && toInteger && to != tensor.Uint64 {
		// A value out of range converts to the same integer whether or not it is rounded first, so Rint and the
		// conversion become one instruction.
		return s.floatToInteger(s.Parts[operand.A], from, to, "fcvtns")
	}
	// A bounded number fits into int32, and fcvtzs converts NaN to 0, so the result needs no mask of the range.
	isToShort := toInteger && to.Size() < 4
	if from == tensor.Float32 && isToShort && s.isBounded(inst.A) {
		return s.truncate(s.makeParts(4, func(p int) alloc.Virt { return s.op("fcvtzs", "4s", parts[p]) }), 4, to.Size())
	}
	return s.convertParts(parts, from, to)
}

// isBounded reports whether v, a float32, is the result of a Min and a Max with constants between -2^31 and 2^31. It
// may still be NaN.
func (s *selector) isBounded(v lane.Value) bool {
	bounds := map[lane.Op]bool{}
	inst := &s.loop.Insts[v]
	for (inst.Op == lane.Min || inst.Op == lane.Max) && len(bounds) < 2 {
		if bound, ok := s.constantFloat(s.Parts[inst.B][0], 4); !ok || math.Abs(bound) >= 1<<31 {
			return false
		}
		bounds[inst.Op] = true
		inst = &s.loop.Insts[inst.A]
	}
	return len(bounds) == 2
}

// convertParts converts lanes from one dtype to another. If one dtype is Bool, the lanes of the masks are as wide as
// the lanes of the other dtype.
func (s *selector) convertParts(parts []alloc.Virt, from, to tensor.DType) []alloc.Virt {
	const single = tensor.Float32
	switch {
	case from == to:
		return parts
	case to == tensor.Bool:
		return s.notZero(parts, from)
	case from == tensor.Bool:
		return s.maskToNumber(parts, to)
	case from.IsReducedFloat():
		return s.convertParts(s.widenReduced(parts, from), single, to)
	case to == tensor.Float16:
		return s.narrowFloats(s.convertParts(parts, from, single), 4)
	case to == tensor.BFloat16:
		return s.roundToBFloat16(s.convertParts(parts, from, single))
	case from.IsFloat() && to == tensor.Float64:
		return s.widenFloats(parts, 4)
	case from.IsFloat() && to.IsFloat():
		return s.narrowFloats(parts, 8)
	case to.IsFloat():
		return s.integerToFloat(parts, from, to)
	case from.IsFloat():
		return s.floatToInteger(parts, from, to, "fcvtzs")
	}
	return s.resize(parts, from, to.Size())
}

// notZero returns a mask of the lanes that are not 0. NaN is not 0.
func (s *selector) notZero(x []alloc.Virt, dtype tensor.DType) []alloc.Virt {
	shape := arrangement(dtype.Size())
	return s.makeParts(dtype.Size(), func(p int) alloc.Virt {
		switch {
		case dtype.IsReducedFloat(): // tests all bits but the sign, because -0 is 0
			return s.op("cmtst", shape, x[p], s.constant(2, 0x7fff))
		case dtype.IsFloat():
			return s.bitwise("not", s.add(alloc.Inst{Name: "fcmeq " + shape + " " + shape + " #0.0", Src: alloc.Sources(x[p])}))
		}
		return s.op("cmtst", shape, x[p], x[p])
	})
}

// maskToNumber converts a mask to 1 or 0 of the given dtype.
func (s *selector) maskToNumber(x []alloc.Virt, dtype tensor.DType) []alloc.Virt {
	return s.makeParts(dtype.Size(), func(p int) alloc.Virt {
		if dtype.IsFloat() {
			one := lane.Eval(lane.Convert, dtype, tensor.Bool, [3]uint64{1})
			return s.bitwise("and", x[p], s.constant(dtype.Size(), one))
		}
		// A true lane is all ones, -1.
		return s.op("neg", arrangement(dtype.Size()), x[p])
	})
}

// remask converts a mask with lanes of one size to lanes of another size.
func (s *selector) remask(x []alloc.Virt, from, to int) []alloc.Virt {
	if from < to {
		return s.extend("s", x, from, to)
	}
	return s.truncate(x, from, to)
}

// resize converts integers to a dtype of another size, or of the same size.
func (s *selector) resize(x []alloc.Virt, from tensor.DType, size int) []alloc.Virt {
	switch {
	case from.Size() >= size:
		return s.truncate(x, from.Size(), size)
	case from.IsSigned():
		return s.extend("s", x, from.Size(), size)
	}
	return s.extend("u", x, from.Size(), size)
}

// extend doubles the width of lanes until they have the size `to`. sign is "s" to repeat the sign bit, or "u" to add
// zeros.
func (s *selector) extend(sign string, x []alloc.Virt, from, to int) []alloc.Virt {
	const shift = 0 // sshll and ushll extend lanes, and then shift them
	for ; from < to; from *= 2 {
		x = s.fromHalves(x, from, func(part alloc.Virt, upper bool) alloc.Virt {
			if upper {
				return s.immediateOp(sign+"shll2", arrangement(2*from)+" "+arrangement(from), part, shift)
			}
			return s.immediateOp(sign+"shll", arrangement(2*from)+" "+halfArrangement(from), part, shift)
		})
	}
	return x
}

// fromHalves returns a value with lanes twice as wide as the lanes of x. size is the size of the lanes of x. widen
// computes a part of the result from the lower or the upper half of a part of x.
func (s *selector) fromHalves(x []alloc.Virt, size int,
	widen func(part alloc.Virt, upper bool) alloc.Virt) []alloc.Virt {
	return s.makeParts(2*size, func(p int) alloc.Virt { return widen(x[p/2], p%2 == 1) })
}

// truncate halves the width of lanes until they have the size `to`.
func (s *selector) truncate(x []alloc.Virt, from, to int) []alloc.Virt {
	for ; from > to; from /= 2 {
		wide := x
		x = s.makeParts(from/2, func(p int) alloc.Virt {
			low, high := s.widePair(wide, p)
			return s.op("uzp1", arrangement(from/2), low, high)
		})
	}
	return x
}

// widePair returns two adjacent parts of `wide`. Narrowed to half the width, their lanes form part p of the result. If
// `wide` has only one part, low and high are the same.
func (s *selector) widePair(wide []alloc.Virt, p int) (low, high alloc.Virt) {
	last := len(wide) - 1
	return wide[min(2*p, last)], wide[min(2*p+1, last)]
}

// widenFloats converts floats of the given size to the next size, exactly.
func (s *selector) widenFloats(x []alloc.Virt, size int) []alloc.Virt {
	return s.fromHalves(x, size, func(part alloc.Virt, upper bool) alloc.Virt {
		if upper {
			return s.op("fcvtl2", arrangement(2*size)+" "+arrangement(size), part)
		}
		return s.op("fcvtl", arrangement(2*size)+" "+halfArrangement(size), part)
	})
}

// narrowFloats rounds floats of the given size to half the size.
func (s *selector) narrowFloats(x []alloc.Virt, size int) []alloc.Virt {
	return s.makeParts(size/2, func(p int) alloc.Virt {
		low, high := s.widePair(x, p)
		narrowed := s.op("fcvtn", halfArrangement(size/2)+" "+arrangement(size), low)
		if len(x) == 1 && !s.resultIsUniform { // there are no elements for the upper half
			return narrowed
		}
		return s.tiedOp("fcvtn2", arrangement(size/2)+" "+arrangement(size), narrowed, high)
	})
}

// widenReduced converts 16-bit floats to float32.
func (s *selector) widenReduced(x []alloc.Virt, dtype tensor.DType) []alloc.Virt {
	if dtype == tensor.Float16 {
		return s.widenFloats(x, 2)
	}
	zero := s.constant(4, 0) // a bfloat16 is the upper half of a float32
	return s.fromHalves(x, 2, func(part alloc.Virt, upper bool) alloc.Virt {
		if upper {
			return s.op("zip2", "8h", zero, part)
		}
		return s.op("zip1", "8h", zero, part)
	})
}

// roundToBFloat16 rounds to nearest, ties to even: (x + 0x7fff + bit 16 of x) >> 16. The addition can overflow for a
// NaN, so all bits of the sum are set afterwards in the lanes of NaNs. This pattern is a NaN, too.
func (s *selector) roundToBFloat16(x []alloc.Virt) []alloc.Virt {
	rounded := s.makeParts(4, func(p int) alloc.Virt {
		odd := s.op("cmtst", "4s", x[p], s.constant(4, 1<<16)) // -1 if odd
		sum := s.op("sub", "4s", s.op("add", "4s", x[p], s.constant(4, 0x7fff)), odd)
		return s.bitwise("orn", sum, s.op("fcmeq", "4s", x[p], x[p]))
	})
	return s.makeParts(2, func(p int) alloc.Virt {
		low, high := s.widePair(rounded, p)
		return s.op("uzp2", "8h", low, high)
	})
}

// integerToFloat rounds integers to float32 or float64, once. NEON has no conversion from int64 to float32. The
// pseudo-instructions "scvtfLong" and "ucvtfLong" convert one or two parts lane by lane (expand.go).
func (s *selector) integerToFloat(x []alloc.Virt, from, to tensor.DType) []alloc.Virt {
	size := to.Size()
	name := "ucvtf"
	if from.IsSigned() {
		name = "scvtf"
	}
	if from.Size() > size {
		return s.makeParts(size, func(p int) alloc.Virt {
			low, high := s.widePair(x, p)
			src := alloc.Sources(low, high)
			if len(x) == 1 && !s.resultIsUniform { // there are no elements for the upper half
				src = src[:1]
			}
			const perVector = 6 // instructions for the two lanes of a part; see roundLong
			return s.add(alloc.Inst{Name: name + "Long", Src: src, EarlyClobber: true,
				InstructionCount: uint8(perVector * len(src)), TempCounts: [2]uint8{alloc.Vectors: 1}})
		})
	}
	x = s.resize(x, from, size)
	return s.makeParts(size, func(p int) alloc.Virt { return s.op(name, arrangement(size), x[p]) })
}

// floatToInteger rounds by the instruction with the given name. Conversions to uint8, uint32 and int64 have the range
// of int64, and conversions to other dtypes have the range of int32. NaN and values out of range become the minimum of
// int32 or int64 in conversions to these dtypes, and 0 in other conversions. For uint64, see floatToUint64.
func (s *selector) floatToInteger(x []alloc.Virt, from, to tensor.DType, name string) []alloc.Virt {
	wideSize, rangeSize := 4, 4 // bytes of a lane before truncation to `to`, and of the type that bounds the range
	switch to {
	case tensor.Uint64:
		return s.floatToUint64(s.convertParts(x, from, tensor.Float64))
	case tensor.Int64, tensor.Uint32:
		x, from, wideSize, rangeSize = s.convertParts(x, from, tensor.Float64), tensor.Float64, 8, 8
	case tensor.Uint8:
		// float32 needs no int64: beyond int32 its values are multiples of 256. Their lower 8 bits are 0, the
		// result for values out of range.
		if from == tensor.Float64 {
			rangeSize = 8
		}
	}
	if from == tensor.Float64 {
		wideSize = 8
	}
	shape := arrangement(wideSize)
	limit := s.floatConstant(wideSize, float64(signBit(rangeSize))) // 2^31 or 2^63
	integers := s.makeParts(wideSize, func(p int) alloc.Virt {
		converted, inRange := s.op(name, shape, x[p]), s.op("facgt", shape, limit, x[p]) // facgt: |limit| > |x|
		if to == tensor.Int32 || to == tensor.Int64 {
			return s.selectBits(inRange, converted, s.constant(wideSize, signBit(to.Size())))
		}
		return s.bitwise("and", converted, inRange)
	})
	return s.truncate(integers, wideSize, to.Size())
}

// floatToUint64 converts float64 to uint64 as Go does. A magnitude below 2^63 is converted to int64. For other numbers
// and NaN, the highest bit is set. The other bits come from a conversion to uint64; they are 0 for NaN and magnitudes
// from 2^64 on.
func (s *selector) floatToUint64(x []alloc.Virt) []alloc.Virt {
	return s.makeParts(8, func(p int) alloc.Virt {
		below := func(limit float64) alloc.Virt { return s.op("facgt", "2d", s.floatConstant(8, limit), x[p]) }
		large := s.bitwise("and", s.op("fcvtzu", "2d", x[p]), below(1<<64))
		large = s.bitwise("orr", large, s.constant(8, signBit(8)))
		return s.selectBits(below(1<<63), s.op("fcvtzs", "2d", x[p]), large)
	})
}

// floatConstant returns a vector with a number in all lanes.
func (s *selector) floatConstant(size int, x float64) alloc.Virt {
	if size == 8 {
		return s.constant(8, math.Float64bits(x))
	}
	return s.constant(4, uint64(math.Float32bits(float32(x))))
}
