package expr

import "github.com/graphrun/graphrun/tensor"

// nextafter is the next number of the operands' dtype after the first operand in the direction of the second. Without
// the sign bit, the bits of floats, read as integers, are in the order of the magnitudes. The next number therefore has
// bits that are greater or less by one step.
func nextafter(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex() || dtype == tensor.Float16, "a next number")
	bitDType, step := tensor.Int32, int64(1)
	switch dtype {
	case tensor.Float64:
		bitDType = tensor.Int64
	case tensor.BFloat16:
		step = 1 << 16 // the value is a float32
	}
	from, to, unit := x[0].re, x[1].re, t.b.Int(bitDType, step)
	bits, zero := t.b.Bits(bitDType, from), t.b.Const(dtype.OpMath(), 0)
	growsInMagnitude := t.b.Emit(Eq, t.b.Emit(Lt, from, to), t.b.Emit(Lt, zero, from))
	next := t.b.Emit(Select, growsInMagnitude, t.b.Emit(Add, bits, unit), t.b.Emit(Sub, bits, unit))
	// After 0 comes the number with the least magnitude.
	least := copysign(t, []formulaValue{{dtype: dtype, re: t.b.Bits(dtype.OpMath(), unit), im: None}, x[1]})
	result := t.b.Emit(Select, t.b.Emit(Eq, from, zero), least.re, t.b.Bits(dtype.OpMath(), next))
	// If neither from < to nor to < from, the numbers are equal or one is NaN: the result is to.
	result = t.b.Emit(Select, t.b.Emit(Lt, from, to), result, t.b.Emit(Select, t.b.Emit(Lt, to, from), result, to))
	result = t.b.Emit(Select, t.b.Emit(Eq, from, from), result, from) // the result is from if from is NaN
	return formulaValue{dtype: dtype, re: result, im: None}
}
