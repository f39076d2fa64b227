package lower

import (
	"math"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// exact adds Div, Sqrt or FMA of floats. If the device does not round one of float32 correctly, it is computed in
// float64.
func (s *scalars) exact(op lane.Op, dtype tensor.DType, operands []ir.Value) ir.Value {
	single, double := s.target.Div32, s.target.Div64
	switch op {
	case lane.Sqrt:
		single, double = s.target.Sqrt32, s.target.Sqrt64
	case lane.FMA:
		single, double = s.target.FMA32, s.target.FMA64
	}
	if dtype == tensor.Float32 && single || dtype == tensor.Float64 && double {
		return s.do(op, dtype, operands...)
	}
	if dtype == tensor.Float32 && op == lane.FMA {
		return s.fma(operands[0], operands[1], operands[2])
	}
	if dtype == tensor.Float64 || !double {
		s.unsupported("%v of %v that rounds once", op, dtype)
	}
	// Two roundings of a quotient or a root give the result of one, because float64 has more than twice as many bits.
	var wide []ir.Value
	for _, operand := range operands {
		wide = append(wide, s.do(lane.Convert, tensor.Float64, operand))
	}
	return s.do(lane.Convert, dtype, s.do(op, tensor.Float64, wide...))
}

// fma computes an FMA of float32 in float64. The product is exact. The sum is rounded to odd: if it is not exact, its
// last bit is 1. The conversion to float32 then rounds as if the sum were exact.
func (s *scalars) fma(a, b, c ir.Value) ir.Value {
	const f64, u64 = tensor.Float64, tensor.Uint64
	wide := func(v ir.Value) ir.Value { return s.do(lane.Convert, f64, v) }
	product, addend := s.do(lane.Mul, f64, wide(a), wide(b)), wide(c)
	sum := s.do(lane.Add, f64, product, addend)
	// The rounding error of the sum, by Knuth's TwoSum.
	part := s.do(lane.Sub, f64, sum, product)
	lost := s.do(lane.Add, f64, s.do(lane.Sub, f64, product, s.do(lane.Sub, f64, sum, part)),
		s.do(lane.Sub, f64, addend, part))
	bits, zero, one := s.bits(u64, sum), s.float(f64, 0), s.Const(u64, 1)
	isOdd := s.do(lane.Ne, tensor.Bool, s.do(lane.And, u64, bits, one), s.Const(u64, 0))
	// If lost and sum have the same sign, the magnitude of the sum was rounded down. An even sum that is not exact
	// moves to the neighbour on the side of the exact sum: the bits of its magnitude plus or minus 1.
	direction := s.do(lane.Mul, f64, lost, sum)
	up := s.choose(u64, s.do(lane.Lt, tensor.Bool, zero, direction), one, s.Const(u64, 0))
	step := s.choose(u64, s.do(lane.Lt, tensor.Bool, direction, zero), s.Const(u64, math.MaxUint64), up)
	odd := s.choose(u64, isOdd, bits, s.do(lane.Add, u64, bits, step))
	return s.do(lane.Convert, tensor.Float32, s.bits(f64, odd))
}

// scale computes x*2^floor(power) by up to five products. Only the last product rounds: if the result is subnormal, the
// earlier products are normal numbers. Two products by 2^bias reduce a large power, two by 2^-up a small one, and the
// last factor is 2^remaining. A power that is NaN is the result.
func (s *scalars) scale(dtype tensor.DType, x, power ir.Value) ir.Value {
	const i32 = tensor.Int32
	bias, mantissa := 127, 23
	if dtype == tensor.Float64 {
		bias, mantissa = 1023, 52
	}
	limit := float64(4 * bias) // beyond it every result is 0 or infinite
	floor := s.do(lane.Floor, dtype, power)
	floor = s.choose(dtype, s.do(lane.Lt, tensor.Bool, floor, s.float(dtype, limit)), floor, s.float(dtype, limit))
	floor = s.choose(dtype, s.do(lane.Lt, tensor.Bool, s.float(dtype, -limit), floor), floor, s.float(dtype, -limit))
	isNaN := s.do(lane.Ne, tensor.Bool, power, power)
	remaining := s.do(lane.Convert, i32, floor)
	constant := func(x int) ir.Value { return s.Const(i32, uint64(uint32(x))) }
	least, up := 1-bias, bias-2-mantissa
	for range 2 {
		isLarge := s.do(lane.Lt, tensor.Bool, constant(bias), remaining)
		x = s.choose(dtype, isLarge, s.do(lane.Mul, dtype, x, s.float(dtype, math.Ldexp(1, bias))), x)
		remaining = s.choose(i32, isLarge, s.do(lane.Sub, i32, remaining, constant(bias)), remaining)
	}
	for range 2 {
		isSmall := s.do(lane.Lt, tensor.Bool, remaining, constant(least))
		x = s.choose(dtype, isSmall, s.do(lane.Mul, dtype, x, s.float(dtype, math.Ldexp(1, -up))), x)
		remaining = s.choose(i32, isSmall, s.do(lane.Add, i32, remaining, constant(up)), remaining)
	}
	// The factor has the exponent field remaining + bias, which must be that of a normal number.
	remaining = s.extreme(lane.Max, i32, []ir.Value{s.extreme(lane.Min, i32, []ir.Value{remaining, constant(bias)}),
		constant(least)})
	u := unsigned(dtype)
	exponent := s.resize(u, s.bits(tensor.Uint32, s.do(lane.Add, i32, remaining, constant(bias))))
	factor := s.bits(dtype, s.do(lane.Shl, u, exponent, s.Const(u, uint64(mantissa))))
	return s.choose(dtype, isNaN, power, s.do(lane.Mul, dtype, x, factor))
}

// mod computes the C function fmod. It reduces the mantissa of a by the mantissa of b, as many bits at a time as fit
// into 64 bits.
func (s *scalars) mod(dtype tensor.DType, a, b ir.Value) ir.Value {
	const u64 = tensor.Uint64
	format := modulus{scalars: s, dtype: dtype, mantissa: 23, maxExponent: 255}
	if dtype == tensor.Float64 {
		format.mantissa, format.maxExponent = 52, 2047
	}
	absA, absB := s.sign(lane.Abs, dtype, a), s.sign(lane.Abs, dtype, b)
	infinity := s.float(dtype, math.Inf(1))
	isValid := s.do(lane.And, tensor.Bool, s.do(lane.Lt, tensor.Bool, absA, infinity),
		s.do(lane.Lt, tensor.Bool, s.float(dtype, 0), absB))
	needsSteps := s.do(lane.And, tensor.Bool, isValid, s.do(lane.Le, tensor.Bool, absB, absA))
	mantissaA, exponentA := format.split(absA)
	mantissaB, exponentB := format.split(absB)
	zero := s.Const(u64, 0)
	divisor := s.choose(u64, needsSteps, mantissaB, s.Const(u64, 1))
	rest := s.Do(ir.Var, u64, s.remainder(mantissaA, divisor))
	steps := s.Do(ir.Var, u64, s.choose(u64, needsSteps, s.do(lane.Sub, u64, exponentA, exponentB), zero))
	// rest = mantissaA*2^(exponentA-exponentB) modulo mantissaB, at most `most` powers of 2 in an iteration: rest has
	// mantissa+1 bits, so the shifted number fits into 64.
	most := s.Const(u64, uint64(63-format.mantissa))
	s.While(func() ir.Value {
		left := s.Do(ir.Get, u64, steps)
		shift := s.extreme(lane.Min, u64, []ir.Value{left, most})
		shifted := s.do(lane.Shl, u64, s.Do(ir.Get, u64, rest), shift)
		s.Do(ir.Set, tensor.Invalid, rest, s.remainder(shifted, divisor))
		left = s.do(lane.Sub, u64, left, shift)
		s.Do(ir.Set, tensor.Invalid, steps, left)
		return s.do(lane.Eq, tensor.Bool, left, zero)
	})
	result := s.withSign(dtype, format.join(s.Do(ir.Get, u64, rest), exponentB), a)
	result = s.choose(dtype, needsSteps, result, a)
	isDefined := s.do(lane.And, tensor.Bool, isValid, s.do(lane.Eq, tensor.Bool, b, b))
	return s.choose(dtype, isDefined, result, s.float(dtype, math.NaN()))
}

// remainder returns a modulo b, of uint64.
func (s *scalars) remainder(a, b ir.Value) ir.Value {
	const u64 = tensor.Uint64
	return s.do(lane.Sub, u64, a, s.do(lane.Mul, u64, s.do(lane.Div, u64, a, b), b))
}

// modulus has the format of the floats of a mod.
type modulus struct {
	*scalars
	dtype       tensor.DType
	mantissa    int // number of explicit bits of a mantissa
	maxExponent int // the exponent field of infinity
}

// split returns the mantissa, with its leading 1, and the exponent field, at least 1, of a float that is not negative.
func (m *modulus) split(x ir.Value) (mantissa, exponent ir.Value) {
	const u64 = tensor.Uint64
	bits := m.resize(u64, m.bits(unsigned(m.dtype), x))
	field := m.do(lane.Shr, u64, bits, m.Const(u64, uint64(m.mantissa)))
	isNormal := m.do(lane.Ne, tensor.Bool, field, m.Const(u64, 0))
	fraction := m.do(lane.And, u64, bits, m.Const(u64, 1<<m.mantissa-1))
	leading := m.do(lane.Or, u64, fraction, m.Const(u64, 1<<m.mantissa))
	return m.choose(u64, isNormal, leading, fraction), m.choose(u64, isNormal, field, m.Const(u64, 1))
}

// join returns the float with a mantissa below 2^(m.mantissa+1) and an exponent as split returns them.
func (m *modulus) join(mantissa, exponent ir.Value) ir.Value {
	const u64 = tensor.Uint64
	constant := func(x int) ir.Value { return m.Const(u64, uint64(x)) }
	bitType := unsigned(m.dtype)
	// The conversion is exact. Its exponent field has m.mantissa + bias for a mantissa with its leading 1.
	converted := m.resize(u64, m.bits(bitType, m.do(lane.Convert, m.dtype, mantissa)))
	offset := constant(m.maxExponent/2 + m.mantissa)
	field := m.do(lane.Add, u64, m.do(lane.Shr, u64, converted, constant(m.mantissa)), exponent)
	isNormal := m.do(lane.Lt, tensor.Bool, offset, field)
	// A subnormal result has the mantissa at exponent 1; a normal one has the exponent of converted, moved by delta.
	shift := m.do(lane.Sub, u64, exponent, constant(1))
	small := m.do(lane.Shl, u64, mantissa, m.extreme(lane.Min, u64, []ir.Value{shift, constant(63)}))
	delta := m.do(lane.Shl, u64, m.do(lane.Sub, u64, exponent, offset), constant(m.mantissa))
	bits := m.choose(u64, isNormal, m.do(lane.Add, u64, converted, delta), small)
	bits = m.choose(u64, m.do(lane.Eq, tensor.Bool, mantissa, constant(0)), constant(0), bits)
	return m.bits(m.dtype, m.resize(bitType, bits))
}
