package lower

import (
	"math"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// correctlyRounded adds Div, Sqrt or FMA of floats, correctly rounded. If the device rounds the operation correctly in
// float64 only, float32 is computed in float64.
func (s *scalarBuilder) correctlyRounded(op lane.Op, dtype tensor.DType, operands []ir.Value) ir.Value {
	isExact32, isExact64 := s.target.Div32, s.target.Div64
	switch op {
	case lane.Sqrt:
		isExact32, isExact64 = s.target.Sqrt32, s.target.Sqrt64
	case lane.FMA:
		isExact32, isExact64 = s.target.FMA32, s.target.FMA64
	}
	if dtype == tensor.Float32 && isExact32 || dtype == tensor.Float64 && isExact64 {
		return s.op(op, dtype, operands...)
	}
	if dtype == tensor.Float32 && op == lane.FMA {
		return s.fma(operands[0], operands[1], operands[2])
	}
	if dtype == tensor.Float64 || !isExact64 {
		s.unsupported("%v of %v that rounds once", op, dtype)
	}
	// A quotient or root may be rounded to float64 and then to float32. The result is the same as with a single rounding,
	// because the mantissa of float64 has more than twice as many bits.
	var wide []ir.Value
	for _, operand := range operands {
		wide = append(wide, s.op(lane.Convert, tensor.Float64, operand))
	}
	return s.op(lane.Convert, dtype, s.op(op, tensor.Float64, wide...))
}

// round adds Floor, Ceil, Trunc or Rint of a float. If the device does not round float64 exactly, the magnitude is
// rounded by adding 2^52, whose unit in the last place is 1. The result is then corrected by 1.
func (s *scalarBuilder) round(op lane.Op, dtype tensor.DType, x ir.Value) ir.Value {
	if dtype != tensor.Float64 || s.target.Round64 {
		return s.op(op, dtype, x)
	}
	const f64 = tensor.Float64
	isLess := func(a, b ir.Value) ir.Value { return s.op(lane.Lt, tensor.Bool, a, b) }
	magnitude, one, limit := s.sign(lane.Abs, f64, x), s.float(f64, 1), s.float(f64, 1<<52)
	nearest := s.op(lane.Sub, f64, s.op(lane.Add, f64, magnitude, limit), limit)
	rounded := s.withSign(f64, nearest, x)
	switch op {
	case lane.Trunc:
		rounded = s.selectValue(f64, isLess(magnitude, nearest), s.op(lane.Sub, f64, nearest, one), nearest)
	case lane.Floor:
		rounded = s.selectValue(f64, isLess(x, rounded), s.op(lane.Sub, f64, rounded, one), rounded)
	case lane.Ceil:
		rounded = s.selectValue(f64, isLess(rounded, x), s.op(lane.Add, f64, rounded, one), rounded)
	}
	rounded = s.withSign(f64, s.sign(lane.Abs, f64, rounded), x)    // 0 has the sign of x
	return s.selectValue(f64, isLess(magnitude, limit), rounded, x) // larger numbers are integers
}

// fma computes an FMA of float32 in float64. The product is exact. The sum is rounded to odd: if it is not exact, its
// last bit is 1. The conversion to float32 then rounds as if the sum were exact.
func (s *scalarBuilder) fma(a, b, c ir.Value) ir.Value {
	const f64, u64 = tensor.Float64, tensor.Uint64
	widened := func(v ir.Value) ir.Value { return s.op(lane.Convert, f64, v) }
	product, addend := s.op(lane.Mul, f64, widened(a), widened(b)), widened(c)
	sum := s.op(lane.Add, f64, product, addend)
	// The rounding error of the sum (exact sum - sum), by Knuth's TwoSum.
	virtualAddend := s.op(lane.Sub, f64, sum, product)
	roundingError := s.op(lane.Add, f64, s.op(lane.Sub, f64, product, s.op(lane.Sub, f64, sum, virtualAddend)),
		s.op(lane.Sub, f64, addend, virtualAddend))
	bits, zero, one := s.bits(u64, sum), s.float(f64, 0), s.Const(u64, 1)
	isOdd := s.op(lane.Ne, tensor.Bool, s.op(lane.And, u64, bits, one), s.Const(u64, 0))
	// If the error and the sum have the same sign, the magnitude of the sum was rounded down. An even sum that is not
	// exact moves to the neighbour on the side of the exact sum: 1 is added to or subtracted from its bits.
	direction := s.op(lane.Mul, f64, roundingError, sum)
	incrementUp := s.selectValue(u64, s.op(lane.Lt, tensor.Bool, zero, direction), one, s.Const(u64, 0))
	increment := s.selectValue(u64, s.op(lane.Lt, tensor.Bool, direction, zero), s.Const(u64, math.MaxUint64), incrementUp)
	roundedToOdd := s.selectValue(u64, isOdd, bits, s.op(lane.Add, u64, bits, increment))
	return s.op(lane.Convert, tensor.Float32, s.bits(f64, roundedToOdd))
}

// scale computes value*2^floor(power) by up to five products. If the power is large, up to two products by 2^bias
// reduce it. If the power is small, up to two products by 2^-down increase it. The last product is by the remaining
// power. Only the last product rounds: if the result is subnormal, the earlier products are normal numbers. If the
// power is NaN, the result is NaN.
func (s *scalarBuilder) scale(dtype tensor.DType, value, power ir.Value) ir.Value {
	const i32 = tensor.Int32
	bias, mantissaBits := 127, 23
	if dtype == tensor.Float64 {
		bias, mantissaBits = 1023, 52
	}
	limit := float64(4 * bias) // beyond it every result is 0 or infinite
	clamped := s.round(lane.Floor, dtype, power)
	upper := s.float(dtype, limit)
	clamped = s.selectValue(dtype, s.op(lane.Lt, tensor.Bool, clamped, upper), clamped, upper)
	lower := s.float(dtype, -limit)
	clamped = s.selectValue(dtype, s.op(lane.Lt, tensor.Bool, lower, clamped), clamped, lower)
	isNaN := s.op(lane.Ne, tensor.Bool, power, power)
	remaining := s.op(lane.Convert, i32, clamped)
	constant := func(x int) ir.Value { return s.Const(i32, uint64(uint32(x))) }
	minExponent, down := 1-bias, bias-2-mantissaBits // minExponent is the exponent of the least normal number
	for range 2 {
		isLarge := s.op(lane.Lt, tensor.Bool, constant(bias), remaining)
		value = s.selectValue(dtype, isLarge, s.op(lane.Mul, dtype, value, s.float(dtype, math.Ldexp(1, bias))), value)
		remaining = s.selectValue(i32, isLarge, s.op(lane.Sub, i32, remaining, constant(bias)), remaining)
	}
	for range 2 {
		isSmall := s.op(lane.Lt, tensor.Bool, remaining, constant(minExponent))
		value = s.selectValue(dtype, isSmall, s.op(lane.Mul, dtype, value, s.float(dtype, math.Ldexp(1, -down))), value)
		remaining = s.selectValue(i32, isSmall, s.op(lane.Add, i32, remaining, constant(down)), remaining)
	}
	// The factor has the exponent field remaining + bias. It must be a normal number.
	remaining = s.extreme(lane.Max, i32, []ir.Value{s.extreme(lane.Min, i32, []ir.Value{remaining, constant(bias)}),
		constant(minExponent)})
	bitType := unsigned(dtype)
	exponent := s.convertInteger(bitType, s.bits(tensor.Uint32, s.op(lane.Add, i32, remaining, constant(bias))))
	factor := s.bits(dtype, s.op(lane.Shl, bitType, exponent, s.Const(bitType, uint64(mantissaBits))))
	return s.selectValue(dtype, isNaN, power, s.op(lane.Mul, dtype, value, factor))
}

// mod computes the C function fmod(a, b). With a = mantissaA*2^exponentA and b = mantissaB*2^exponentB (up to a common
// factor), the magnitude of the result is (mantissaA << (exponentA-exponentB)) mod mantissaB, times 2^exponentB. The
// loop shifts by as many bits at a time as fit into 64 bits, and reduces.
func (s *scalarBuilder) mod(dtype tensor.DType, a, b ir.Value) ir.Value {
	const u64 = tensor.Uint64
	format := floatFormat{scalarBuilder: s, dtype: dtype, mantissaBits: 23, maxExponent: 255}
	if dtype == tensor.Float64 {
		format.mantissaBits, format.maxExponent = 52, 2047
	}
	absA, absB := s.sign(lane.Abs, dtype, a), s.sign(lane.Abs, dtype, b)
	infinity := s.float(dtype, math.Inf(1))
	isValid := s.op(lane.And, tensor.Bool, s.op(lane.Lt, tensor.Bool, absA, infinity),
		s.op(lane.Lt, tensor.Bool, s.float(dtype, 0), absB))
	needsReduction := s.op(lane.And, tensor.Bool, isValid, s.op(lane.Le, tensor.Bool, absB, absA))
	mantissaA, exponentA := format.mantissaAndExponent(absA)
	mantissaB, exponentB := format.mantissaAndExponent(absB)
	zero := s.Const(u64, 0)
	divisor := s.selectValue(u64, needsReduction, mantissaB, s.Const(u64, 1)) // not 0
	remainderVar := s.Emit(ir.Var, u64, s.remainder(mantissaA, divisor))
	bitsVar := s.Emit(ir.Var, u64, s.selectValue(u64, needsReduction, s.op(lane.Sub, u64, exponentA, exponentB), zero))
	// The variable remainderVar has mantissaBits+1 bits, so a shift by at most maxShift fits into 64 bits. bitsVar is the
	// number of bits by which it must still be shifted.
	maxShift := s.Const(u64, uint64(63-format.mantissaBits))
	s.While(func() ir.Value {
		remainingBits := s.Emit(ir.ReadVar, u64, bitsVar)
		shift := s.extreme(lane.Min, u64, []ir.Value{remainingBits, maxShift})
		shifted := s.op(lane.Shl, u64, s.Emit(ir.ReadVar, u64, remainderVar), shift)
		s.Emit(ir.WriteVar, tensor.Invalid, remainderVar, s.remainder(shifted, divisor))
		remainingBits = s.op(lane.Sub, u64, remainingBits, shift)
		s.Emit(ir.WriteVar, tensor.Invalid, bitsVar, remainingBits)
		return s.op(lane.Eq, tensor.Bool, remainingBits, zero)
	})
	result := s.withSign(dtype, format.join(s.Emit(ir.ReadVar, u64, remainderVar), exponentB), a)
	result = s.selectValue(dtype, needsReduction, result, a)
	isDefined := s.op(lane.And, tensor.Bool, isValid, s.op(lane.Eq, tensor.Bool, b, b))
	return s.selectValue(dtype, isDefined, result, s.float(dtype, math.NaN()))
}

// remainder returns a modulo b for uint64 values. b is not 0.
func (s *scalarBuilder) remainder(a, b ir.Value) ir.Value {
	const u64 = tensor.Uint64
	return s.op(lane.Sub, u64, a, s.op(lane.Mul, u64, s.op(lane.Div, u64, a, b), b))
}

// floatFormat is the format of the operands of mod.
type floatFormat struct {
	*scalarBuilder
	dtype        tensor.DType
	mantissaBits int // number of explicit bits of a mantissa
	maxExponent  int // the exponent field of infinity
}

// mantissaAndExponent returns the mantissa and the exponent field of a float that is not negative. The mantissa
// includes the leading 1 of a normal number. The exponent of a subnormal number is 1, not 0.
func (m *floatFormat) mantissaAndExponent(x ir.Value) (mantissa, exponent ir.Value) {
	const u64 = tensor.Uint64
	bits := m.convertInteger(u64, m.bits(unsigned(m.dtype), x))
	field := m.op(lane.Shr, u64, bits, m.Const(u64, uint64(m.mantissaBits)))
	isNormal := m.op(lane.Ne, tensor.Bool, field, m.Const(u64, 0))
	fraction := m.op(lane.And, u64, bits, m.Const(u64, 1<<m.mantissaBits-1))
	leading := m.op(lane.Or, u64, fraction, m.Const(u64, 1<<m.mantissaBits))
	return m.selectValue(u64, isNormal, leading, fraction), m.selectValue(u64, isNormal, field, m.Const(u64, 1))
}

// join is the inverse of mantissaAndExponent. The mantissa is below 2^(m.mantissaBits+1), and need not have a leading
// 1.
func (m *floatFormat) join(mantissa, exponent ir.Value) ir.Value {
	const u64 = tensor.Uint64
	constant := func(x int) ir.Value { return m.Const(u64, uint64(x)) }
	bitType := unsigned(m.dtype)
	// The conversion is exact. Its exponent field has m.mantissaBits + bias for a mantissa with its leading 1.
	converted := m.convertInteger(u64, m.bits(bitType, m.op(lane.Convert, m.dtype, mantissa)))
	offset := constant(m.maxExponent/2 + m.mantissaBits)
	field := m.op(lane.Add, u64, m.op(lane.Shr, u64, converted, constant(m.mantissaBits)), exponent)
	isNormal := m.op(lane.Lt, tensor.Bool, offset, field)
	// The bits of a subnormal result are the mantissa, shifted to exponent 1. The bits of a normal result are the bits
	// of converted, with the exponent changed by delta.
	shift := m.op(lane.Sub, u64, exponent, constant(1))
	subnormal := m.op(lane.Shl, u64, mantissa, m.extreme(lane.Min, u64, []ir.Value{shift, constant(63)}))
	delta := m.op(lane.Shl, u64, m.op(lane.Sub, u64, exponent, offset), constant(m.mantissaBits))
	bits := m.selectValue(u64, isNormal, m.op(lane.Add, u64, converted, delta), subnormal)
	bits = m.selectValue(u64, m.op(lane.Eq, tensor.Bool, mantissa, constant(0)), constant(0), bits)
	return m.bits(m.dtype, m.convertInteger(bitType, bits))
}
