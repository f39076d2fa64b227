package lower

import (
	"math"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file adds operations on floats that some devices lack or round differently. It uses operations that all devices
// have. For example, a float32 FMA becomes a product and a sum of float64 (fma), and fmod becomes a loop of integer
// divisions (mod).

// correctlyRounded adds Div, Sqrt or FMA of floats, correctly rounded. If the device rounds the operation correctly
// only in float64, operations on float32 are computed in float64.
func (s *scalarBuilder) correctlyRounded(op lane.Op, dtype tensor.DType, operands []ir.Value) ir.Value {
	isExact32, isExact64 := s.target.Div32, s.target.Div64 // for lane.Div
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
	if dtype == tensor.Float64 || !isExact64 { // there is no wider dtype that rounds correctly
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

// round adds Floor, Ceil, Trunc or Rint of a float. If the device does not round float64 exactly, adding 2^52 rounds
// the magnitude to an integer, because the unit in the last place of 2^52 is 1. The result is then corrected by 1 if
// necessary.
func (s *scalarBuilder) round(op lane.Op, dtype tensor.DType, x ir.Value) ir.Value {
	if dtype != tensor.Float64 || s.target.Round64 {
		return s.op(op, dtype, x)
	}
	const f64 = tensor.Float64
	double := s.in(f64)
	magnitude, one, limit := s.sign(lane.Abs, f64, x), s.float(f64, 1), s.float(f64, 1<<52)
	nearest := double.sub(double.add(magnitude, limit), limit)
	rounded := s.withSign(f64, nearest, x) // the result of Rint
	switch op {
	case lane.Trunc: // truncates the magnitude; the sign is set below
		rounded = double.choose(s.less(magnitude, nearest), double.sub(nearest, one), nearest)
	case lane.Floor:
		rounded = double.choose(s.less(x, rounded), double.sub(rounded, one), rounded)
	case lane.Ceil:
		rounded = double.choose(s.less(rounded, x), double.add(rounded, one), rounded)
	}
	rounded = s.withSign(f64, s.sign(lane.Abs, f64, rounded), x) // 0 has the sign of x
	return double.choose(s.less(magnitude, limit), rounded, x)   // larger numbers are integers
}

// fma computes an FMA of float32 in float64. The product is exact. The sum is rounded to odd: if it is not exact, its
// last bit is 1. The conversion to float32 then rounds as if the sum were exact.
func (s *scalarBuilder) fma(a, b, c ir.Value) ir.Value {
	const f64, u64 = tensor.Float64, tensor.Uint64
	double, word := s.in(f64), s.in(u64)
	widened := func(v ir.Value) ir.Value { return s.op(lane.Convert, f64, v) }
	product, addend := double.mul(widened(a), widened(b)), widened(c)
	sum := double.add(product, addend)
	// Knuth's TwoSum computes the rounding error of the sum: exact sum - sum.
	virtualAddend := double.sub(sum, product)
	roundingError := double.add(double.sub(product, double.sub(sum, virtualAddend)), double.sub(addend, virtualAddend))
	bits, zero, one := s.bits(u64, sum), s.float(f64, 0), word.number(1)
	isOdd := s.differ(word.and(bits, one), word.number(0))
	// If the error and the sum have the same sign, the magnitude of the sum was rounded down. If the sum is even and not
	// exact, it is replaced by its neighbour on the side of the exact sum: 1 is added to or subtracted from its bits.
	direction := double.mul(roundingError, sum)
	incrementUp := word.choose(s.less(zero, direction), one, word.number(0))
	increment := word.choose(s.less(direction, zero), word.number(-1), incrementUp)
	roundedToOdd := word.choose(isOdd, bits, word.add(bits, increment))
	return s.op(lane.Convert, tensor.Float32, s.bits(f64, roundedToOdd))
}

// scale computes value*2^floor(power) by at most five products. For a large power, up to two products by 2^bias precede
// the last product. For a small power, up to two products by 2^-step precede it. Only the last product rounds: if the
// result is subnormal, the earlier products are normal numbers. For example, 2^300 for float32 becomes 2^127 * 2^127 *
// 2^46. If the power is NaN, the result is NaN.
func (s *scalarBuilder) scale(dtype tensor.DType, value, power ir.Value) ir.Value {
	float, integer := s.in(dtype), s.in(tensor.Int32)
	bias, mantissaBits := 127, 23
	if dtype == tensor.Float64 {
		bias, mantissaBits = 1023, 52
	}
	minExponent := 1 - bias         // the exponent of the least normal number
	step := bias - 2 - mantissaBits // small enough that the earlier products of a subnormal result are normal numbers
	limit := float64(4 * bias)      // beyond the limit, every result is 0 or infinite
	clamped := s.clampMagnitude(dtype, s.round(lane.Floor, dtype, power), limit)
	isNaN := s.differ(power, power)
	remaining := s.op(lane.Convert, tensor.Int32, clamped)
	for range 2 {
		isLarge := s.less(integer.number(bias), remaining)
		value = float.choose(isLarge, float.mul(value, s.float(dtype, math.Ldexp(1, bias))), value)
		remaining = integer.choose(isLarge, integer.sub(remaining, integer.number(bias)), remaining)
	}
	for range 2 {
		isSmall := s.less(remaining, integer.number(minExponent))
		value = float.choose(isSmall, float.mul(value, s.float(dtype, math.Ldexp(1, -step))), value)
		remaining = integer.choose(isSmall, integer.add(remaining, integer.number(step)), remaining)
	}
	// The factor has the exponent field remaining + bias. It must be a normal number.
	remaining = integer.max(integer.min(remaining, integer.number(bias)), integer.number(minExponent))
	bitType := unsigned(dtype)
	exponent := s.convertInteger(bitType, s.bits(tensor.Uint32, integer.add(remaining, integer.number(bias))))
	factor := s.bits(dtype, s.op(lane.Shl, bitType, exponent, s.Const(bitType, uint64(mantissaBits))))
	return float.choose(isNaN, power, float.mul(value, factor))
}

// clampMagnitude limits x to the range from -limit to limit.
func (s *scalarBuilder) clampMagnitude(dtype tensor.DType, x ir.Value, limit float64) ir.Value {
	float := s.in(dtype)
	upper := s.float(dtype, limit)
	x = float.choose(s.less(x, upper), x, upper)
	lower := s.float(dtype, -limit)
	return float.choose(s.less(lower, x), x, lower)
}

// mod computes the C function fmod(a, b). With a = mantissaA*2^exponentA and b = mantissaB*2^exponentB (up to a common
// factor), the magnitude of the result is (mantissaA << (exponentA-exponentB)) mod mantissaB, times 2^exponentB. Each
// iteration of the loop shifts by the maximum number of bits that fits into 64 bits, and reduces the result modulo
// mantissaB. For example, 40 = 5*2^3 and 3 = 3*2^0 give (5<<3) mod 3 = 1.
func (s *scalarBuilder) mod(dtype tensor.DType, a, b ir.Value) ir.Value {
	const u64 = tensor.Uint64
	float, word := s.in(dtype), s.in(u64)
	format := floatFormat{scalarBuilder: s, dtype: dtype, mantissaBits: 23, maxExponent: 255}
	if dtype == tensor.Float64 {
		format.mantissaBits, format.maxExponent = 52, 2047
	}
	absA, absB := s.sign(lane.Abs, dtype, a), s.sign(lane.Abs, dtype, b)
	infinity := s.float(dtype, math.Inf(1))
	isValid := s.and(s.less(absA, infinity), s.less(s.float(dtype, 0), absB))
	needsReduction := s.and(isValid, s.op(lane.Le, tensor.Bool, absB, absA))
	mantissaA, exponentA := format.mantissaAndExponent(absA)
	mantissaB, exponentB := format.mantissaAndExponent(absB)
	zero := word.number(0)
	divisor := word.choose(needsReduction, mantissaB, word.number(1)) // never 0
	remainderVar := s.Emit(ir.Var, u64, s.remainder(mantissaA, divisor))
	bitsVar := s.Emit(ir.Var, u64, word.choose(needsReduction, word.sub(exponentA, exponentB), zero))
	// The variable remainderVar has mantissaBits+1 bits, so a shift by at most maxShift fits into 64 bits. bitsVar is the
	// number of bits by which the remainder must still be shifted.
	maxShift := word.number(63 - format.mantissaBits)
	s.While(func() ir.Value {
		remainingBits := s.Emit(ir.ReadVar, u64, bitsVar)
		shift := word.min(remainingBits, maxShift)
		shifted := word.shl(s.Emit(ir.ReadVar, u64, remainderVar), shift)
		s.Emit(ir.WriteVar, tensor.Invalid, remainderVar, s.remainder(shifted, divisor))
		remainingBits = word.sub(remainingBits, shift)
		s.Emit(ir.WriteVar, tensor.Invalid, bitsVar, remainingBits)
		return s.equal(remainingBits, zero)
	})
	result := s.withSign(dtype, format.join(s.Emit(ir.ReadVar, u64, remainderVar), exponentB), a)
	result = float.choose(needsReduction, result, a)
	isDefined := s.and(isValid, s.equal(b, b)) // b equals itself unless it is NaN
	return float.choose(isDefined, result, s.float(dtype, math.NaN()))
}

// remainder returns a modulo b for uint64 values. b is not 0.
func (s *scalarBuilder) remainder(a, b ir.Value) ir.Value {
	word := s.in(tensor.Uint64)
	return word.sub(a, word.mul(word.div(a, b), b))
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
	word := m.in(u64)
	bits := m.convertInteger(u64, m.bits(unsigned(m.dtype), x))
	field := word.shr(bits, word.number(m.mantissaBits))
	isNormal := m.differ(field, word.number(0))
	fraction := word.and(bits, m.Const(u64, 1<<m.mantissaBits-1))
	leading := word.or(fraction, m.Const(u64, 1<<m.mantissaBits))
	return word.choose(isNormal, leading, fraction), word.choose(isNormal, field, word.number(1))
}

// join is the inverse of mantissaAndExponent. The mantissa is less than 2^(m.mantissaBits+1). It need not have a
// leading 1.
func (m *floatFormat) join(mantissa, exponent ir.Value) ir.Value {
	const u64 = tensor.Uint64
	word := m.in(u64)
	bitType := unsigned(m.dtype)
	// The conversion is exact. If the mantissa has its leading 1, the exponent field is m.mantissaBits + bias.
	converted := m.convertInteger(u64, m.bits(bitType, m.op(lane.Convert, m.dtype, mantissa)))
	offset := word.number(m.maxExponent/2 + m.mantissaBits)
	field := word.add(word.shr(converted, word.number(m.mantissaBits)), exponent)
	isNormal := m.less(offset, field)
	// The bits of a subnormal result are the mantissa, shifted to exponent 1. The bits of a normal result are the bits
	// of converted, with the exponent changed by delta.
	shift := word.sub(exponent, word.number(1))
	subnormal := word.shl(mantissa, word.min(shift, word.number(63)))
	delta := word.shl(word.sub(exponent, offset), word.number(m.mantissaBits))
	bits := word.choose(isNormal, word.add(converted, delta), subnormal)
	bits = word.choose(m.equal(mantissa, word.number(0)), word.number(0), bits)
	return m.bits(m.dtype, m.convertInteger(bitType, bits))
}

// typedBuilder adds operations on values of one dtype. It makes the code above read like arithmetic: double.add(a, b)
// is the float64 a + b.
type typedBuilder struct {
	s     *scalarBuilder
	dtype tensor.DType // a dtype of 32 or 64 bits
}

// in returns the builder of operations on values of a dtype.
func (s *scalarBuilder) in(dtype tensor.DType) typedBuilder { return typedBuilder{s: s, dtype: dtype} }

func (b typedBuilder) add(x, y ir.Value) ir.Value { return b.s.op(lane.Add, b.dtype, x, y) }
func (b typedBuilder) sub(x, y ir.Value) ir.Value { return b.s.op(lane.Sub, b.dtype, x, y) }
func (b typedBuilder) mul(x, y ir.Value) ir.Value { return b.s.op(lane.Mul, b.dtype, x, y) }
func (b typedBuilder) div(x, y ir.Value) ir.Value { return b.s.op(lane.Div, b.dtype, x, y) }
func (b typedBuilder) and(x, y ir.Value) ir.Value { return b.s.op(lane.And, b.dtype, x, y) }
func (b typedBuilder) or(x, y ir.Value) ir.Value  { return b.s.op(lane.Or, b.dtype, x, y) }

func (b typedBuilder) shl(x, count ir.Value) ir.Value { return b.s.op(lane.Shl, b.dtype, x, count) }
func (b typedBuilder) shr(x, count ir.Value) ir.Value { return b.s.op(lane.Shr, b.dtype, x, count) }

func (b typedBuilder) min(x, y ir.Value) ir.Value {
	return b.s.extreme(lane.Min, b.dtype, []ir.Value{x, y})
}

func (b typedBuilder) max(x, y ir.Value) ir.Value {
	return b.s.extreme(lane.Max, b.dtype, []ir.Value{x, y})
}

// choose returns yes where condition is true, else no.
func (b typedBuilder) choose(condition, yes, no ir.Value) ir.Value {
	return b.s.selectValue(b.dtype, condition, yes, no)
}

// number returns the integer constant x of 32 or 64 bits.
func (b typedBuilder) number(x int) ir.Value {
	if b.dtype.Size() == 4 {
		return b.s.Const(b.dtype, uint64(uint32(x)))
	}
	return b.s.Const(b.dtype, uint64(x))
}

// less, equal and differ compare two values of the same dtype: a < b, a == b and a != b.
func (s *scalarBuilder) less(a, b ir.Value) ir.Value   { return s.op(lane.Lt, tensor.Bool, a, b) }
func (s *scalarBuilder) equal(a, b ir.Value) ir.Value  { return s.op(lane.Eq, tensor.Bool, a, b) }
func (s *scalarBuilder) differ(a, b ir.Value) ir.Value { return s.op(lane.Ne, tensor.Bool, a, b) }
