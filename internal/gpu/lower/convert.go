package lower

import (
	"math"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// convert adds a conversion by the rules of tensor.Converter.
func (s *scalars) convert(to, from tensor.DType, v ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	switch {
	case to == from:
		return v
	case from == tensor.Bool:
		one := map[tensor.DType]uint64{tensor.Float16: 0x3c00, tensor.BFloat16: 0x3f80, f32: 0x3f800000,
			tensor.Float64: math.Float64bits(1)}[to]
		return s.choose(to, v, s.constant(to, max(one, 1)), s.constant(to, 0))
	case to == tensor.Bool && from.IsReducedFloat():
		return s.do(lane.Ne, to, s.do(lane.And, u32, v, s.Const(u32, 0x7fff)), s.Const(u32, 0))
	case to == tensor.Bool:
		return s.do(lane.Ne, to, v, s.constant(from, 0))
	case from == tensor.BFloat16:
		return s.convert(to, f32, s.bits(f32, s.do(lane.Shl, u32, v, s.Const(u32, 16))))
	case from == tensor.Float16:
		return s.convert(to, f32, s.fromHalf(v))
	case to == tensor.BFloat16:
		return s.toBFloat16(s.convert(f32, from, v))
	case to == tensor.Float16:
		return s.toHalf(s.convert(f32, from, v))
	case to.IsFloat():
		return s.do(lane.Convert, to, v)
	case from.IsFloat():
		return s.truncate(to, from, v)
	}
	return s.resize(to, v)
}

// resize converts an integer.
func (s *scalars) resize(to tensor.DType, v ir.Value) ir.Value {
	target, from := register(to), s.Type(v)
	if target.Size() != from.Size() {
		middle := map[bool]tensor.DType{true: tensor.Int32, false: tensor.Uint32}[from.IsSigned()]
		if target.Size() == 8 {
			middle = map[bool]tensor.DType{true: tensor.Int64, false: tensor.Uint64}[from.IsSigned()]
		}
		v = s.do(lane.Convert, middle, v)
	}
	return s.wrap(to, s.bits(target, v))
}

// truncate converts a float to an integer: through int32 or int64, where numbers out of range are the least integer.
func (s *scalars) truncate(to, from tensor.DType, v ir.Value) ir.Value {
	switch to {
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Uint16:
		return s.resize(to, s.toInt(tensor.Int32, from, v))
	case tensor.Uint64:
		const u64, limit = tensor.Uint64, 1 << 63
		// From 2^63 to 2^64, 2^63 is subtracted before the conversion, and the highest bit is set afterwards.
		low := s.float(from, limit)
		isHigh := s.do(lane.And, tensor.Bool, s.do(lane.Le, tensor.Bool, low, v),
			s.do(lane.Lt, tensor.Bool, v, s.float(from, 2*limit)))
		reduced := s.choose(from, isHigh, s.do(lane.Sub, from, v, low), v)
		converted := s.bits(u64, s.toInt(tensor.Int64, from, reduced))
		return s.choose(u64, isHigh, s.do(lane.Or, u64, converted, s.Const(u64, limit)), converted)
	}
	return s.resize(to, s.toInt(tensor.Int64, from, v))
}

// toInt converts a float to int32 or int64. Devices differ for numbers out of range, so 0 is converted in their place,
// and the result is the least integer.
func (s *scalars) toInt(to, from tensor.DType, v ir.Value) ir.Value {
	limit := math.Ldexp(1, 8*to.Size()-1)
	inRange := s.do(lane.And, tensor.Bool, s.do(lane.Lt, tensor.Bool, s.float(from, -limit), v),
		s.do(lane.Lt, tensor.Bool, v, s.float(from, limit)))
	converted := s.do(lane.Convert, to, s.choose(from, inRange, v, s.float(from, 0)))
	return s.choose(to, inRange, converted, s.Const(to, 1<<(8*to.Size()-1)))
}

// fromHalf converts the bits of a float16 to a float32. A subnormal number is a multiple of 2^-24.
func (s *scalars) fromHalf(half ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	magnitude := s.do(lane.And, u32, half, word(0x7fff))
	shifted := s.do(lane.Shl, u32, magnitude, word(13))
	normal := s.do(lane.Add, u32, shifted, word((127-15)<<23)) // the bias of the exponent changes from 15 to 127
	special := s.do(lane.Or, u32, shifted, word(0x7f800000))   // infinity or NaN
	small := s.bits(u32, s.do(lane.Mul, f32, s.do(lane.Convert, f32, magnitude), s.float(f32, 0x1p-24)))
	result := s.choose(u32, s.do(lane.Lt, tensor.Bool, magnitude, word(0x7c00)), normal, special)
	result = s.choose(u32, s.do(lane.Lt, tensor.Bool, magnitude, word(0x400)), small, result)
	sign := s.do(lane.Shl, u32, s.do(lane.And, u32, half, word(0x8000)), word(16))
	return s.bits(f32, s.do(lane.Or, u32, result, sign))
}

// toHalf rounds a float32 to the bits of a float16. The sum of a small number and 0.5 is rounded to a multiple of
// 2^-24, which is the unit of subnormal numbers of float16.
func (s *scalars) toHalf(x ir.Value) ir.Value {
	const f32, u32 = tensor.Float32, tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	// The sum of rebias and the bit odd rounds 13 bits away, half to even, and changes the bias of the exponent.
	const rebias = 0xfff - (127-15)<<23 + 1<<32 // modulo 2^32
	bits := s.bits(u32, x)
	magnitude := s.do(lane.And, u32, bits, word(0x7fffffff))
	odd := s.do(lane.And, u32, s.do(lane.Shr, u32, magnitude, word(13)), word(1))
	rounded := s.do(lane.Add, u32, s.do(lane.Add, u32, magnitude, odd), word(rebias))
	normal := s.do(lane.Shr, u32, rounded, word(13))
	half := s.float(f32, 0.5)
	sum := s.bits(u32, s.do(lane.Add, f32, s.bits(f32, magnitude), half))
	small := s.do(lane.Sub, u32, sum, s.bits(u32, half))
	isNaN := s.do(lane.Lt, tensor.Bool, word(0x7f800000), magnitude)
	large := s.choose(u32, isNaN, word(0x7e00), word(0x7c00))
	result := s.choose(u32, s.do(lane.Lt, tensor.Bool, magnitude, word(0x47800000)), normal, large) // 2^16
	result = s.choose(u32, s.do(lane.Lt, tensor.Bool, magnitude, word(0x38800000)), small, result)  // 2^-14
	sign := s.do(lane.And, u32, s.do(lane.Shr, u32, bits, word(16)), word(0x8000))
	return s.do(lane.Or, u32, result, sign)
}

// toBFloat16 rounds a float32 to the bits of a bfloat16, half to even: (x + 0x7fff + bit 16 of x) >> 16. NaN gives
// 0x7fc0.
func (s *scalars) toBFloat16(x ir.Value) ir.Value {
	const u32 = tensor.Uint32
	word := func(x uint64) ir.Value { return s.Const(u32, x) }
	bits := s.bits(u32, x)
	odd := s.do(lane.And, u32, s.do(lane.Shr, u32, bits, word(16)), word(1))
	rounded := s.do(lane.Add, u32, s.do(lane.Add, u32, bits, word(0x7fff)), odd)
	isNaN := s.do(lane.Ne, tensor.Bool, x, x)
	return s.choose(u32, isNaN, word(0x7fc0), s.do(lane.Shr, u32, rounded, word(16)))
}
