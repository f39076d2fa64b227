package expr

import "github.com/graphrun/graphrun/tensor"

// This file has the builtin ** (pow).

// pow uses cheaper operations for the plain exponents 2, 3, -1 and 0.5, as pow_tensor_scalar_optimized_kernel of
// PyTorch does. For integers it uses repeated squaring.
func pow(t *typer, x []formulaValue) formulaValue {
	exponent := x[1]
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a power")
	if dtype.IsIntegral(false) {
		if exponent.isPlainNumber() {
			if exponent.number.Int() < 0 {
				t.fail("an integer cannot be raised to a negative integer power")
			}
			return formulaValue{dtype: dtype, re: t.powConst(x[0].re, exponent.number.Int()), im: None}
		}
		return formulaValue{dtype: dtype, re: t.powInt(x[0].re, x[1].re), im: None}
	}
	if exponent.isPlainNumber() {
		square := func() formulaValue { return mul(t, []formulaValue{x[0], x[0]}) }
		switch {
		case exponent.number.Complex() == 2:
			return square()
		case exponent.number.Complex() == 3:
			return mul(t, []formulaValue{square(), x[0]})
		case exponent.number.Complex() == -1:
			return div(t, []formulaValue{{number: tensor.IntScalar(1)}, x[0]})
		case exponent.number.Complex() == 0.5:
			return elementaryFunction(Sqrt)(t, x[:1])
		}
	}
	if dtype.IsComplex() {
		return t.call("complex **", x)
	}
	return t.eachPart(Pow, dtype, x...)
}

// powConst returns base to the power of exponent >= 0. Overflow wraps.
func (t *typer) powConst(base Value, exponent int64) Value {
	result := None
	for ; exponent > 0; exponent >>= 1 {
		if exponent&1 != 0 {
			if result == None {
				result = base
			} else {
				result = t.b.Emit(Mul, result, base)
			}
		}
		if exponent > 1 {
			base = t.b.Emit(Mul, base, base)
		}
	}
	if result == None {
		return t.b.Int(t.b.DType(base), 1)
	}
	return result
}

// powInt returns base to the power of exponent, as native::powi of PyTorch does. A negative exponent gives 0 if the
// base is neither 1 nor -1. The instructions process all bits of the exponent one after another, because an expression
// has no loops.
func (t *typer) powInt(base, exponent Value) Value {
	dtype := t.b.DType(base)
	zero, one := t.b.Int(dtype, 0), t.b.Int(dtype, 1)
	exponentBits := 8 * dtype.Size()
	if dtype.IsSigned() {
		exponentBits-- // a negative exponent is handled below
	}
	isOdd := t.b.Emit(Ne, t.b.Emit(And, exponent, one), zero)
	// Before iteration k, result is base^(exponent mod 2^k), and power is base^(2^(k-1)).
	result, power := t.b.Emit(Select, isOdd, base, one), base
	for k := 1; k < exponentBits; k++ {
		power = t.b.Emit(Mul, power, power)
		isBitSet := t.b.Emit(Ne, t.b.Emit(And, exponent, t.b.Int(dtype, 1<<k)), zero)
		result = t.b.Emit(Select, isBitSet, t.b.Emit(Mul, result, power), result)
	}
	if !dtype.IsSigned() {
		return result
	}
	minusOne := t.b.Int(dtype, -1)
	powerOfMinusOne := t.b.Emit(Select, t.b.Emit(Eq, base, minusOne), t.b.Emit(Select, isOdd, minusOne, one), zero)
	negativePower := t.b.Emit(Select, t.b.Emit(Eq, base, one), one, powerOfMinusOne)
	return t.b.Emit(Select, t.b.Emit(Lt, exponent, zero), negativePower, result)
}
