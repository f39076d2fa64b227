package expr

import (
	"math"
	"math/bits"

	"github.com/graphrun/graphrun/tensor"
)

// builtin is an operator or a function that Go code expands into instructions. Functions that can be written in the
// language itself are in library.go.
type builtin struct {
	minOperands, maxOperands int
	// apply adds the instructions for the operands x to the builder t.b, and returns the result. The typer t converts
	// the operands to their common dtype (promote). A value has a dtype, and an instruction for each part: re and im.
	apply func(t *typer, x []value) value
	// resultHasDType means that the result has a dtype even if all operands are plain numbers. A plain number, like a
	// number of Python, has no dtype.
	resultHasDType bool
}

// builtins maps signs of operators and names of functions to their implementations. The keys of unary operators have
// the prefix "unary ".
var builtins map[string]builtin

func init() {
	const sameOrder, swapOperands = false, true // compare(Lt, swapOperands): a > b is b < a
	// The fields of a builtin are minOperands, maxOperands, apply and resultHasDType.
	builtins = map[string]builtin{
		"+": {2, 2, add, false}, "-": {2, 2, sub, false}, "*": {2, 2, mul, false}, "/": {2, 2, div, false},
		"**": {2, 2, pow, false}, "pow": {2, 2, pow, false},
		"//": {2, 2, libraryFunction("floor_divide"), false}, "%": {2, 2, libraryFunction("remainder"), false},
		"unary -": {1, 1, neg, false}, "neg": {1, 1, neg, false}, "unary +": {1, 1, positive, false},
		"unary ~": {1, 1, invert, false}, "bitwise_not": {1, 1, invert, false}, "unary not": {1, 1, not, false},
		"&": {2, 2, bitwise(And), false}, "|": {2, 2, bitwise(Or), false}, "^": {2, 2, bitwise(Xor), false},
		"<<": {2, 2, shift(Shl), false}, ">>": {2, 2, shift(Shr), false},
		"and": {2, 2, logical(And), false}, "or": {2, 2, logical(Or), false},
		"==": {2, 2, compare(Eq, sameOrder), false}, "!=": {2, 2, compare(Ne, sameOrder), false},
		"<": {2, 2, compare(Lt, sameOrder), false}, "<=": {2, 2, compare(Le, sameOrder), false},
		">": {2, 2, compare(Lt, swapOperands), false}, ">=": {2, 2, compare(Le, swapOperands), false},
		"where": {3, 3, where, false}, "abs": {1, 1, abs, false}, "fma": {3, 3, fma, false},
		"min": {2, 2, extremum(Min, And), false}, "minimum": {2, 2, extremum(Min, And), false},
		"max": {2, 2, extremum(Max, Or), false}, "maximum": {2, 2, extremum(Max, Or), false},
		"floor": {1, 1, rounding(Floor), false}, "ceil": {1, 1, rounding(Ceil), false},
		"trunc": {1, 1, rounding(Trunc), false}, "rint": {1, 1, rounding(Rint), false},
		"fmod": {2, 2, fmod, false}, "trunc_divide": {2, 2, truncDivide, false},
		"copysign": {2, 2, copysign, false}, "signbit": {1, 1, signbit, false}, "nextafter": {2, 2, nextafter, false},
		"real": {1, 1, realPart, false}, "imag": {1, 1, imagPart, false}, "conj": {1, 1, conj, false},
		"complex": {2, 2, makeComplex, false}, "type_as": {2, 2, typeAs, true}, "as_computed": {2, 2, asComputed, true},
		"finfo_max": {1, 1, finiteLimit(true), false}, "finfo_min": {1, 1, finiteLimit(false), false},
	}
	for op := Sqrt; op < Call; op++ {
		if op == Sqrt || op >= Exp && op != Pow { // pow has an entry above
			builtins[op.String()] = builtin{op.ArgCount(), op.ArgCount(), elementaryFunction(op), false}
		}
	}
	for name, f := range calls {
		builtins[name] = builtin{f.ArgCount, f.ArgCount, callFunc(f), false}
	}
	for dtype := tensor.Bool; dtype.Valid(); dtype++ {
		builtins[dtype.String()] = builtin{1, 1, func(t *typer, x []value) value { return t.cast(x[0], dtype) }, true}
	}
}

// arity returns the least and the greatest number of operands of a function. ok is false for an unknown name.
func arity(name string) (minOperands, maxOperands int, ok bool) {
	if function, ok := builtins[name]; ok && isName(name) && !keywords[name] {
		return function.minOperands, function.maxOperands, true
	}
	for _, definition := range library[name] {
		count := len(definition.operandNames())
		if !ok {
			minOperands, maxOperands, ok = count, count, true
		}
		minOperands, maxOperands = min(minOperands, count), max(maxOperands, count)
	}
	return minOperands, maxOperands, ok && isName(name)
}

// libraryFunction returns the implementation of an operator that calls a function of the library.
func libraryFunction(name string) func(t *typer, x []value) value {
	return func(t *typer, x []value) value { return t.call(name, x) }
}

// eachPart applies an operation to real numbers, or separately to the real and the imaginary parts of complex numbers.
func (t *typer) eachPart(op Op, dtype tensor.DType, x ...value) value {
	re, im := make([]Value, len(x)), make([]Value, len(x))
	for i, operand := range x {
		re[i], im[i] = operand.re, operand.im
	}
	result := value{dtype: dtype, re: t.b.Emit(op, re...), im: None}
	if dtype.IsComplex() {
		result.im = t.b.Emit(op, im...)
	}
	return result
}

// reject fails if isRejected is true. The message says that the described operation is undefined for dtype.
//
//go:noinline // saves compile time: it has many callers, none of them hot
func (t *typer) reject(dtype tensor.DType, isRejected bool, operation string) {
	if isRejected {
		t.fail("%s of %v is undefined", operation, dtype)
	}
}

func add(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	if dtype == tensor.Bool {
		return t.eachPart(Or, dtype, x...)
	}
	return t.eachPart(Add, dtype, x...)
}

func sub(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "subtraction (use ^)")
	return t.eachPart(Sub, dtype, x...)
}

// mul computes complex products in float64, as Go does for complex64. In float32, cancellation would lose more
// accuracy.
func mul(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	switch {
	case dtype == tensor.Bool:
		return t.eachPart(And, dtype, x...)
	case !dtype.IsComplex():
		return t.eachPart(Mul, dtype, x...)
	}
	toFloat64 := func(v Value) Value { return t.b.Convert(tensor.Float64, v) }
	// (a + i*b) * (c + i*e)
	a, b, c, e := toFloat64(x[0].re), toFloat64(x[0].im), toFloat64(x[1].re), toFloat64(x[1].im)
	product := func(u, v Value) Value { return t.b.Emit(Mul, u, v) }
	return value{dtype: dtype,
		re: t.b.Convert(dtype.ToReal(), t.b.Emit(Sub, product(a, c), product(b, e))),
		im: t.b.Convert(dtype.ToReal(), t.b.Emit(Add, product(a, e), product(b, c)))}
}

func div(t *typer, x []value) value {
	dtype, x := t.promoteFloat(x...)
	if dtype.IsComplex() {
		return t.call("complex /", x)
	}
	return t.eachPart(Div, dtype, x...)
}

func neg(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a sign (use ~ or not)")
	return t.eachPart(Neg, dtype, x...)
}

func positive(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a sign")
	return x[0]
}

func invert(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, !dtype.IsIntegral(true), "~")
	return t.eachPart(Not, dtype, x...)
}

// toBool converts to bool. Every value except 0 is true, NaN included.
func (t *typer) toBool(v value) value { return t.convert(v, tensor.Bool) }

func not(t *typer, x []value) value { return t.eachPart(Not, tensor.Bool, t.toBool(x[0])) }

func logical(op Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value { return t.eachPart(op, tensor.Bool, t.toBool(x[0]), t.toBool(x[1])) }
}

func bitwise(op Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promote(x...)
		t.reject(dtype, !dtype.IsIntegral(true), "an operation on bits")
		return t.eachPart(op, dtype, x...)
	}
}

// shift returns a function that shifts integers. It uses the lowest 5 bits of the count, or the lowest 6 bits for
// 64-bit integers, as PyTorch on x86 does. Integers of less than 32 bits are shifted as 32-bit integers and
// truncated.
func shift(op Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promote(x...)
		t.reject(dtype, !dtype.IsIntegral(false), "a shift")
		wideDType := dtype
		if dtype.Size() < 4 {
			if wideDType = tensor.Uint32; dtype.IsSigned() {
				wideDType = tensor.Int32
			}
		}
		shifted := t.b.Emit(op, t.b.Convert(wideDType, x[0].re), t.b.Convert(wideDType, x[1].re))
		return value{dtype: dtype, re: t.b.Convert(dtype, shifted), im: None}
	}
}

// compare returns a comparison by operation op. x > y is y < x: swapOperands exchanges the operands.
func compare(op Op, swapOperands bool) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promote(x...)
		if swapOperands {
			x[0], x[1] = x[1], x[0]
		}
		result := value{dtype: tensor.Bool, re: t.b.Emit(op, x[0].re, x[1].re), im: None}
		if dtype.IsComplex() {
			t.reject(dtype, op != Eq && op != Ne, "an order")
			combine := And // complex numbers are equal if both parts are
			if op == Ne {
				combine = Or
			}
			result.re = t.b.Emit(combine, result.re, t.b.Emit(op, x[0].im, x[1].im))
		}
		return result
	}
}

func where(t *typer, x []value) value {
	condition := t.toBool(x[0])
	dtype, x := t.promote(x[1:]...)
	// Two 16-bit floats are selected before they are converted to float32: this saves a conversion.
	yes, no := t.unwidened(x[0].re, dtype), t.unwidened(x[1].re, dtype)
	if yes != None && no != None {
		selected := t.b.Emit(Select, condition.re, yes, no)
		return value{dtype: dtype, re: t.b.Convert(tensor.Float32, selected), im: None}
	}
	result := value{dtype: dtype, re: t.b.Emit(Select, condition.re, x[0].re, x[1].re), im: None}
	if dtype.IsComplex() {
		result.im = t.b.Emit(Select, condition.re, x[0].im, x[1].im)
	}
	return result
}

// extremum returns the minimum or maximum by operation op. For bools it is the operation boolOp.
func extremum(op, boolOp Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promote(x...)
		t.reject(dtype, dtype.IsComplex(), "an order")
		if dtype == tensor.Bool {
			return t.eachPart(boolOp, dtype, x...)
		}
		return t.eachPart(op, dtype, x...)
	}
}

func fma(t *typer, x []value) value {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "fma")
	return t.eachPart(FMA, dtype, x...)
}

func abs(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "abs")
	switch dtype {
	case tensor.Complex64:
		return t.call("complex64 abs", x)
	case tensor.Complex128:
		return t.call("complex128 abs", x)
	}
	return t.eachPart(Abs, dtype, x...)
}

// rounding returns a function that rounds by operation op. The function returns integers unchanged.
func rounding(op Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promote(x...)
		t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), op.String())
		if dtype.IsIntegral(false) {
			return x[0]
		}
		return t.eachPart(op, dtype, x...)
	}
}

// elementaryFunction applies an elementary function of one operand. For complex numbers it uses a definition of the
// library or a Go function.
func elementaryFunction(op Op) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promoteFloat(x...)
		if !dtype.IsComplex() {
			return t.eachPart(op, dtype, x...)
		}
		if parts, ok := complexCalls[op.String()]; ok {
			return value{dtype: dtype, re: t.b.Call(parts[0], dtype.ToReal(), x[0].re, x[0].im),
				im: t.b.Call(parts[1], dtype.ToReal(), x[0].re, x[0].im)}
		}
		name := "complex " + op.String()
		t.reject(dtype, library[name] == nil, op.String())
		return t.call(name, x)
	}
}

// callFunc returns a function that calls a Go function.
func callFunc(f *Func) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype, x := t.promoteFloat(x...)
		t.reject(dtype, dtype.IsComplex(), f.Name)
		args := make([]Value, len(x))
		for i, operand := range x {
			args[i] = operand.re
		}
		return value{dtype: dtype, re: t.b.Call(f, dtype.OpMath(), args...), im: None}
	}
}

// fmod is the remainder with the sign of the first operand. For integers the remainder by 0 is unspecified.
func fmod(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), "a remainder")
	if dtype.IsFloat() {
		return t.eachPart(Mod, dtype, x...)
	}
	multiple := t.b.Emit(Mul, t.b.Emit(Div, x[0].re, x[1].re), x[1].re)
	return value{dtype: dtype, re: t.b.Emit(Sub, x[0].re, multiple), im: None}
}

// truncDivide rounds quotients toward 0. A quotient of 16-bit floats is rounded to its dtype first.
func truncDivide(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), "a rounded quotient")
	if dtype.IsFloat() {
		return t.eachPart(Trunc, dtype, t.cast(t.eachPart(Div, dtype, x...), dtype))
	}
	return t.eachPart(Div, dtype, x...)
}

func copysign(t *typer, x []value) value {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "a sign")
	bitDType, floatDType := tensor.Uint32, dtype.OpMath()
	sign := uint64(1) << 31
	if floatDType == tensor.Float64 {
		bitDType, sign = tensor.Uint64, 1<<63
	}
	magnitude := t.b.Bits(bitDType, t.b.Emit(Abs, x[0].re))
	signed := t.b.Emit(And, t.b.Bits(bitDType, x[1].re), t.b.Int(bitDType, int64(sign)))
	return value{dtype: dtype, re: t.b.Bits(floatDType, t.b.Emit(Or, magnitude, signed)), im: None}
}

func signbit(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype.IsComplex(), "a sign")
	v := x[0].re
	switch dtype.OpMath() {
	case tensor.Float32:
		v = t.b.Bits(tensor.Int32, v)
	case tensor.Float64:
		v = t.b.Bits(tensor.Int64, v)
	}
	return value{dtype: tensor.Bool, re: t.b.Emit(Lt, v, t.b.Int(t.b.DType(v), 0)), im: None}
}

func realPart(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	return value{dtype: dtype.ToReal(), re: x[0].re, im: None}
}

func imagPart(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	t.reject(dtype, !dtype.IsComplex(), "an imaginary part")
	return value{dtype: dtype.ToReal(), re: x[0].im, im: None}
}

func conj(t *typer, x []value) value {
	dtype, x := t.promote(x...)
	if dtype.IsComplex() {
		return value{dtype: dtype, re: x[0].re, im: t.b.Emit(Neg, x[0].im)}
	}
	return x[0]
}

// makeComplex combines two real numbers into a complex number.
func makeComplex(t *typer, x []value) value {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "a part")
	return value{dtype: dtype.ToComplex(), re: x[0].re, im: x[1].re}
}

// typeAs casts x[0] to the dtype of x[1].
func typeAs(t *typer, x []value) value { return t.cast(x[0], t.dtype(x[1])) }

// asComputed is typeAs without the rounding to 16-bit floats. If x[1] is a 16-bit float, the result is a float32, the
// dtype in which 16-bit floats are computed.
func asComputed(t *typer, x []value) value {
	dtype := t.dtype(x[1])
	if dtype.IsReducedFloat() {
		v := t.convert(x[0], tensor.Float32)
		v.dtype = dtype
		return v
	}
	return t.convert(x[0], dtype)
}

// finiteLimit returns a function for the greatest or the least finite number of a value's dtype.
func finiteLimit(isGreatest bool) func(t *typer, x []value) value {
	return func(t *typer, x []value) value {
		dtype := t.dtype(x[0])
		t.reject(dtype, dtype.IsComplex() || dtype == tensor.Bool, "a limit")
		if dtype.IsIntegral(false) {
			op := Max // the least number is the neutral element of Max
			if isGreatest {
				op = Min
			}
			return value{dtype: dtype, re: t.b.Int(dtype, int64(Neutral(op, dtype))), im: None}
		}
		limit := map[tensor.DType]float64{tensor.Float16: 65504, tensor.BFloat16: 0x1.fep127,
			tensor.Float32: math.MaxFloat32, tensor.Float64: math.MaxFloat64}[dtype]
		if !isGreatest {
			limit = -limit
		}
		return value{dtype: dtype, re: t.b.Const(dtype.OpMath(), limit), im: None}
	}
}

// pow uses cheaper operations for the plain exponents 2, 3, -1 and 0.5, as pow_tensor_scalar_optimized_kernel of
// PyTorch does, and repeated squaring for integers.
func pow(t *typer, x []value) value {
	exponent := x[1]
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a power")
	if dtype.IsIntegral(false) {
		if exponent.isPlainNumber() {
			if exponent.number.Int() < 0 {
				t.fail("an integer cannot be raised to a negative integer power")
			}
			return value{dtype: dtype, re: t.powConst(x[0].re, exponent.number.Int()), im: None}
		}
		return value{dtype: dtype, re: t.powInt(x[0].re, x[1].re), im: None}
	}
	if exponent.isPlainNumber() {
		square := func() value { return mul(t, []value{x[0], x[0]}) }
		switch {
		case exponent.number.Complex() == 2:
			return square()
		case exponent.number.Complex() == 3:
			return mul(t, []value{square(), x[0]})
		case exponent.number.Complex() == -1:
			return div(t, []value{{number: tensor.IntScalar(1)}, x[0]})
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

// powInt returns base to the power of exponent, as native::powi of PyTorch does. A negative exponent gives 0, except
// for bases 1 and -1. The instructions process all bits of the exponent one after another, because an expression has no
// loops.
func (t *typer) powInt(base, exponent Value) Value {
	dtype := t.b.DType(base)
	zero, one := t.b.Int(dtype, 0), t.b.Int(dtype, 1)
	exponentBits := bits.Len64(Neutral(Min, dtype)) // bits of the greatest exponent, which is the neutral element of Min
	isOdd := t.b.Emit(Ne, t.b.Emit(And, exponent, one), zero)
	result, power := t.b.Emit(Select, isOdd, base, one), base // the power for the bits below k, and base^(2^k)
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
	inverse := t.b.Emit(Select, t.b.Emit(Eq, base, one), one, powerOfMinusOne)
	return t.b.Emit(Select, t.b.Emit(Lt, exponent, zero), inverse, result)
}
