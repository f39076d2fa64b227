package lower

import (
	"math"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds the conversions between dtypes to a kernel. A value has a register dtype: a number of 8 or 16 bits is
// in an int32 or uint32. s.Const adds a constant of a register dtype, and s.constant adds a constant of any dtype. Both
// take the bits of the constant. s.float adds a constant that is given as a number.

// convert adds a conversion with the rules of tensor.Converter.
func (s *scalarBuilder) convert(to, from tensor.DType, value ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	switch {
	case to == from:
		return value
	case from == tensor.Bool: // selects the bits of 1 or 0
		one, isFloat := map[tensor.DType]uint64{tensor.Float16: 0x3c00, tensor.BFloat16: 0x3f80, f32: 0x3f800000,
			tensor.Float64: math.Float64bits(1)}[to]
		if !isFloat {
			one = 1
		}
		return s.selectValue(to, value, s.constant(to, one), s.constant(to, 0))
	case to == tensor.Bool && from.IsReducedFloat(): // compares the bits without the sign
		return s.op(lane.Ne, to, s.op(lane.And, u32, value, s.Const(u32, 0x7fff)), s.Const(u32, 0))
	case to == tensor.Bool:
		return s.op(lane.Ne, to, value, s.constant(from, 0))
	case from == tensor.BFloat16:
		return s.convert(to, f32, s.bits(f32, s.op(lane.Shl, u32, value, s.Const(u32, 16))))
	case from == tensor.Float16:
		return s.convert(to, f32, s.fromHalf(value))
	case to == tensor.BFloat16:
		return s.toBFloat16(s.convert(f32, from, value))
	case to == tensor.Float16:
		return s.toHalf(s.convert(f32, from, value))
	case to.IsFloat():
		return s.op(lane.Convert, to, value)
	case from.IsFloat():
		return s.truncate(to, from, value)
	}
	return s.convertInteger(to, value)
}

// convertInteger converts an integer modulo 2^bits, where bits is the number of bits of the result.
func (s *scalarBuilder) convertInteger(to tensor.DType, value ir.Value) ir.Value {
	target, from := registerDType(to), s.Type(value)
	if target.Size() != from.Size() { // kernels cannot change both the size and the signedness in one conversion
		// middle has the size of the target and the signedness of from.
		middle := map[bool]tensor.DType{true: tensor.Int32, false: tensor.Uint32}[from.IsSigned()]
		if target.Size() == 8 {
			middle = map[bool]tensor.DType{true: tensor.Int64, false: tensor.Uint64}[from.IsSigned()]
		}
		value = s.op(lane.Convert, middle, value)
	}
	return s.wrapInteger(to, s.bits(target, value))
}

// truncate converts a float32 or float64 to an integer of any size. It converts to int32 or int64 by toInt, and then to
// the integer.
func (s *scalarBuilder) truncate(to, from tensor.DType, value ir.Value) ir.Value {
	switch to {
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Uint16:
		return s.convertInteger(to, s.toInt(tensor.Int32, from, value))
	case tensor.Uint64:
		const u64, limit = tensor.Uint64, 1 << 63
		// A value from 2^63 to 2^64 does not fit int64. Convert value - 2^63, and set bit 63 of the result.
		low := s.float(from, limit)
		isHigh := s.op(lane.And, tensor.Bool, s.op(lane.Le, tensor.Bool, low, value),
			s.op(lane.Lt, tensor.Bool, value, s.float(from, 2*limit)))
		reduced := s.selectValue(from, isHigh, s.op(lane.Sub, from, value, low), value)
		converted := s.bits(u64, s.toInt(tensor.Int64, from, reduced))
		return s.selectValue(u64, isHigh, s.op(lane.Or, u64, converted, s.Const(u64, limit)), converted)
	}
	return s.convertInteger(to, s.toInt(tensor.Int64, from, value)) // uint8, uint32 and int64
}

// toInt converts a float to int32 or int64. NaN and numbers out of range give the least integer, because devices have
// different results for them.
func (s *scalarBuilder) toInt(to, from tensor.DType, value ir.Value) ir.Value {
	limit := math.Ldexp(1, 8*to.Size()-1)
	inRange := s.op(lane.And, tensor.Bool, s.op(lane.Lt, tensor.Bool, s.float(from, -limit), value),
		s.op(lane.Lt, tensor.Bool, value, s.float(from, limit)))
	converted := s.op(lane.Convert, to, s.selectValue(from, inRange, value, s.float(from, 0)))
	return s.selectValue(to, inRange, converted, s.Const(to, 1<<(8*to.Size()-1)))
}

// fromHalf converts the bits of a float16 to a float32. It computes one result for normal numbers, one for infinities
// and NaN, and one for subnormal numbers (multiples of 2^-24). Then it selects the right result.
func (s *scalarBuilder) fromHalf(half ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	magnitude := s.op(lane.And, u32, half, word(0x7fff))
	shifted := s.op(lane.Shl, u32, magnitude, word(23-10))     // the mantissas have 23 and 10 bits
	normal := s.op(lane.Add, u32, shifted, word((127-15)<<23)) // the bias of the exponent changes from 15 to 127
	special := s.op(lane.Or, u32, shifted, word(0x7f800000))   // infinity or NaN
	subnormal := s.bits(u32, s.op(lane.Mul, f32, s.op(lane.Convert, f32, magnitude), s.float(f32, 0x1p-24)))
	const infinity, leastNormal = 0x7c00, 0x400 // of float16
	result := s.selectValue(u32, s.op(lane.Lt, tensor.Bool, magnitude, word(infinity)), normal, special)
	result = s.selectValue(u32, s.op(lane.Lt, tensor.Bool, magnitude, word(leastNormal)), subnormal, result)
	sign := s.op(lane.Shl, u32, s.op(lane.And, u32, half, word(0x8000)), word(16))
	return s.bits(f32, s.op(lane.Or, u32, result, sign))
}

// toHalf rounds a float32 to the bits of a float16. It computes a result for each range of x, and selects one. If x is
// less than 2^-14, the result is subnormal. In this case, adding 0.5 rounds x to a multiple of 2^-24, the least
// subnormal number of float16.
func (s *scalarBuilder) toHalf(x ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	// Adding 0xfff and oddBit, and then dropping 13 bits, rounds half to even. The subtraction changes the bias of the
	// exponent from 127 to 15, modulo 2^32.
	const rebias = 0xfff - (127-15)<<23 + 1<<32
	bits := s.bits(u32, x)
	magnitude := s.op(lane.And, u32, bits, word(0x7fffffff))
	oddBit := s.op(lane.And, u32, s.op(lane.Shr, u32, magnitude, word(13)), word(1))
	rounded := s.op(lane.Add, u32, s.op(lane.Add, u32, magnitude, oddBit), word(rebias))
	normal := s.op(lane.Shr, u32, rounded, word(13))
	half := s.float(f32, 0.5)
	sum := s.bits(u32, s.op(lane.Add, f32, s.bits(f32, magnitude), half))
	subnormal := s.op(lane.Sub, u32, sum, s.bits(u32, half))
	isNaN := s.op(lane.Lt, tensor.Bool, word(0x7f800000), magnitude)
	const halfNaN, halfInfinity = 0x7e00, 0x7c00
	large := s.selectValue(u32, isNaN, word(halfNaN), word(halfInfinity))
	const tooLarge, leastNormal = 0x47800000, 0x38800000 // the float32 numbers 2^16 and 2^-14
	result := s.selectValue(u32, s.op(lane.Lt, tensor.Bool, magnitude, word(tooLarge)), normal, large)
	result = s.selectValue(u32, s.op(lane.Lt, tensor.Bool, magnitude, word(leastNormal)), subnormal, result)
	sign := s.op(lane.And, u32, s.op(lane.Shr, u32, bits, word(16)), word(0x8000))
	return s.op(lane.Or, u32, result, sign)
}

// toBFloat16 rounds a float32 to the bits of a bfloat16, half to even: (x + 0x7fff + bit 16 of x) >> 16. NaN gives
// 0x7fc0.
func (s *scalarBuilder) toBFloat16(x ir.Value) ir.Value {
	const u32 = tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	bits := s.bits(u32, x)
	oddBit := s.op(lane.And, u32, s.op(lane.Shr, u32, bits, word(16)), word(1))
	rounded := s.op(lane.Add, u32, s.op(lane.Add, u32, bits, word(0x7fff)), oddBit)
	isNaN := s.op(lane.Ne, tensor.Bool, x, x)
	return s.selectValue(u32, isNaN, word(0x7fc0), s.op(lane.Shr, u32, rounded, word(16)))
}
