package expr

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// builtin is an operator or a function that Go code expands into instructions. For example, the expression a + b of
// float32 operands calls apply of "+", which is add, and adds the instruction Add. Functions that can be written in the
// language itself are in library.go.
type builtin struct {
	argCount int // number of operands
	apply    applyFunc
	// resultHasDType means that the result has a dtype even if all operands are plain numbers. A plain number, like a
	// number of Python, has no dtype.
	resultHasDType bool
}

// applyFunc adds the instructions of an operation on the operands x to the builder t.b, and returns the result. The
// typer t converts the operands to their common dtype (promote). A formulaValue has a dtype, and an instruction for
// each part: re and im.
type applyFunc func(t *typer, x []formulaValue) formulaValue

// builtins maps signs of operators and names of functions to their implementations. The keys of unary operators have
// the prefix "unary ".
var builtins map[string]builtin

func init() {
	const sameOrder, swapOperands = false, true // compare(Lt, swapOperands): a > b is b < a
	const least, greatest = false, true
	builtins = map[string]builtin{
		"+": binaryOp(add), "-": binaryOp(sub), "*": binaryOp(mul), "/": binaryOp(div),
		"**": binaryOp(pow), "pow": binaryOp(pow),
		"//": binaryOp(libraryFunction("floor_divide")), "%": binaryOp(libraryFunction("remainder")),
		"unary -": unaryOp(neg), "neg": unaryOp(neg), "unary +": unaryOp(positive),
		"unary ~": unaryOp(invert), "bitwise_not": unaryOp(invert), "unary not": unaryOp(not),
		"&": binaryOp(bitwise(And)), "|": binaryOp(bitwise(Or)), "^": binaryOp(bitwise(Xor)),
		"<<": binaryOp(shift(Shl)), ">>": binaryOp(shift(Shr)),
		"and": binaryOp(logical(And)), "or": binaryOp(logical(Or)),
		"==": binaryOp(compare(Eq, sameOrder)), "!=": binaryOp(compare(Ne, sameOrder)),
		"<": binaryOp(compare(Lt, sameOrder)), "<=": binaryOp(compare(Le, sameOrder)),
		">": binaryOp(compare(Lt, swapOperands)), ">=": binaryOp(compare(Le, swapOperands)),
		"where": ternaryOp(where), "abs": unaryOp(abs), "fma": ternaryOp(fma),
		"min": binaryOp(extremum(Min, And)), "minimum": binaryOp(extremum(Min, And)),
		"max": binaryOp(extremum(Max, Or)), "maximum": binaryOp(extremum(Max, Or)),
		"floor": unaryOp(rounding(Floor)), "ceil": unaryOp(rounding(Ceil)),
		"trunc": unaryOp(rounding(Trunc)), "rint": unaryOp(rounding(Rint)),
		"fmod": binaryOp(fmod), "trunc_divide": binaryOp(truncDivide),
		"copysign": binaryOp(copysign), "signbit": unaryOp(signbit), "nextafter": binaryOp(nextafter),
		"real": unaryOp(realPart), "imag": unaryOp(imagPart), "conj": unaryOp(conj),
		"complex": binaryOp(makeComplex),
		"type_as": withDType(binaryOp(typeAs)), "as_computed": withDType(binaryOp(asComputed)),
		"finfo_max": unaryOp(finiteLimit(greatest)), "finfo_min": unaryOp(finiteLimit(least)),
	}
	// Sqrt and the elementary functions, which are the ops from Exp up to Call, have functions of their names.
	for op := Sqrt; op < Call; op++ {
		isElementary := op >= Exp && op != Pow // pow has an entry above
		if op == Sqrt || isElementary {
			builtins[op.String()] = builtin{argCount: op.ArgCount(), apply: elementaryFunction(op)}
		}
	}
	for name, f := range calls {
		builtins[name] = builtin{argCount: f.ArgCount, apply: callFunc(f)}
	}
	for dtype := tensor.Bool; dtype.Valid(); dtype++ {
		builtins[dtype.String()] = withDType(unaryOp(castTo(dtype)))
	}
}

// unaryOp returns a builtin with one operand.
func unaryOp(apply applyFunc) builtin {
	return builtin{argCount: 1, apply: apply}
}

// binaryOp returns a builtin with two operands.
func binaryOp(apply applyFunc) builtin {
	return builtin{argCount: 2, apply: apply}
}

// ternaryOp returns a builtin with three operands.
func ternaryOp(apply applyFunc) builtin {
	return builtin{argCount: 3, apply: apply}
}

// withDType returns a builtin whose result has a dtype even if all operands are plain numbers.
func withDType(b builtin) builtin {
	b.resultHasDType = true
	return b
}

// arity returns the least and the greatest number of operands of a function. A function of the library may have several
// definitions. ok is false for an unknown name, and for an operator.
func arity(name string) (minOperands, maxOperands int, ok bool) {
	if function, ok := builtins[name]; ok && isName(name) && !keywords[name] {
		return function.argCount, function.argCount, true
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

// castTo returns a function that casts to a dtype.
func castTo(dtype tensor.DType) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue { return t.cast(x[0], dtype) }
}

// libraryFunction returns the implementation of an operator that calls a function of the library.
func libraryFunction(name string) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue { return t.call(name, x) }
}

// eachPart applies an operation to real numbers, or separately to the real and the imaginary parts of complex numbers.
func (t *typer) eachPart(op Op, dtype tensor.DType, x ...formulaValue) formulaValue {
	re, im := make([]Value, len(x)), make([]Value, len(x))
	for i, operand := range x {
		re[i], im[i] = operand.re, operand.im
	}
	result := formulaValue{dtype: dtype, re: t.b.Emit(op, re...), im: None}
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

func add(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	if dtype == tensor.Bool {
		return t.eachPart(Or, dtype, x...)
	}
	return t.eachPart(Add, dtype, x...)
}

func sub(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "subtraction (use ^)")
	return t.eachPart(Sub, dtype, x...)
}

// mul computes complex products in float64, as Go does for complex64. In float32, cancellation would lose more
// accuracy.
func mul(t *typer, x []formulaValue) formulaValue {
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
	return formulaValue{dtype: dtype,
		re: t.b.Convert(dtype.ToReal(), t.b.Emit(Sub, product(a, c), product(b, e))),
		im: t.b.Convert(dtype.ToReal(), t.b.Emit(Add, product(a, e), product(b, c)))}
}

func div(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promoteFloat(x...)
	if dtype.IsComplex() {
		return t.call("complex /", x)
	}
	return t.eachPart(Div, dtype, x...)
}

func neg(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a sign (use ~ or not)")
	return t.eachPart(Neg, dtype, x...)
}

func positive(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool, "a sign")
	return x[0]
}

func invert(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, !dtype.IsIntegral(true), "~") // true: bools count as integers
	return t.eachPart(Not, dtype, x...)
}

// toBool converts to bool. Every value except 0 is true, NaN included.
func (t *typer) toBool(v formulaValue) formulaValue { return t.convert(v, tensor.Bool) }

func not(t *typer, x []formulaValue) formulaValue {
	return t.eachPart(Not, tensor.Bool, t.toBool(x[0]))
}

func logical(op Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		return t.eachPart(op, tensor.Bool, t.toBool(x[0]), t.toBool(x[1]))
	}
}

func bitwise(op Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promote(x...)
		t.reject(dtype, !dtype.IsIntegral(true), "an operation on bits")
		return t.eachPart(op, dtype, x...)
	}
}

// shift returns a function that shifts integers. It uses the lowest 5 bits of the count, or the lowest 6 bits for
// 64-bit integers, as PyTorch on x86 does. Integers of less than 32 bits are shifted as 32-bit integers and
// truncated.
func shift(op Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promote(x...)
		t.reject(dtype, !dtype.IsIntegral(false), "a shift") // false: bools do not count as integers
		wideDType := dtype
		if dtype.Size() < 4 {
			wideDType = tensor.Uint32
			if dtype.IsSigned() {
				wideDType = tensor.Int32
			}
		}
		shifted := t.b.Emit(op, t.b.Convert(wideDType, x[0].re), t.b.Convert(wideDType, x[1].re))
		return formulaValue{dtype: dtype, re: t.b.Convert(dtype, shifted), im: None}
	}
}

// compare returns a comparison by operation op. x > y is y < x: swapOperands exchanges the operands.
func compare(op Op, swapOperands bool) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promote(x...)
		if swapOperands {
			x[0], x[1] = x[1], x[0]
		}
		result := formulaValue{dtype: tensor.Bool, re: t.b.Emit(op, x[0].re, x[1].re), im: None}
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

func where(t *typer, x []formulaValue) formulaValue {
	condition := t.toBool(x[0])
	dtype, x := t.promote(x[1:]...)
	// Two 16-bit floats are selected before they are converted to float32: this saves a conversion.
	ifTrue, ifFalse := t.unwidened(x[0].re, dtype), t.unwidened(x[1].re, dtype)
	if ifTrue != None && ifFalse != None {
		selected := t.b.Emit(Select, condition.re, ifTrue, ifFalse)
		return formulaValue{dtype: dtype, re: t.b.Convert(tensor.Float32, selected), im: None}
	}
	result := formulaValue{dtype: dtype, re: t.b.Emit(Select, condition.re, x[0].re, x[1].re), im: None}
	if dtype.IsComplex() {
		result.im = t.b.Emit(Select, condition.re, x[0].im, x[1].im)
	}
	return result
}

// extremum returns the minimum or maximum by operation op. For bools it uses operation boolOp.
func extremum(op, boolOp Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promote(x...)
		t.reject(dtype, dtype.IsComplex(), "an order")
		if dtype == tensor.Bool {
			return t.eachPart(boolOp, dtype, x...)
		}
		return t.eachPart(op, dtype, x...)
	}
}

func fma(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "fma")
	return t.eachPart(FMA, dtype, x...)
}

func abs(t *typer, x []formulaValue) formulaValue {
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
func rounding(op Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promote(x...)
		t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), op.String())
		if dtype.IsIntegral(false) {
			return x[0]
		}
		return t.eachPart(op, dtype, x...)
	}
}

// elementaryFunction returns a function that applies an elementary function or Sqrt. For complex numbers it uses a Go
// function or a definition of the library.
func elementaryFunction(op Op) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promoteFloat(x...)
		if !dtype.IsComplex() {
			return t.eachPart(op, dtype, x...)
		}
		if parts, ok := complexCalls[op.String()]; ok {
			return formulaValue{dtype: dtype, re: t.b.Call(parts[0], dtype.ToReal(), x[0].re, x[0].im),
				im: t.b.Call(parts[1], dtype.ToReal(), x[0].re, x[0].im)}
		}
		name := "complex " + op.String()
		t.reject(dtype, library[name] == nil, op.String())
		return t.call(name, x)
	}
}

// callFunc returns a function that calls a Go function.
func callFunc(f *Func) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype, x := t.promoteFloat(x...)
		t.reject(dtype, dtype.IsComplex(), f.Name)
		args := make([]Value, len(x))
		for i, operand := range x {
			args[i] = operand.re
		}
		return formulaValue{dtype: dtype, re: t.b.Call(f, dtype.OpMath(), args...), im: None}
	}
}

// fmod is the remainder with the sign of the first operand. For integers the remainder by 0 is unspecified.
func fmod(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), "a remainder")
	if dtype.IsFloat() {
		return t.eachPart(Mod, dtype, x...)
	}
	multiple := t.b.Emit(Mul, t.b.Emit(Div, x[0].re, x[1].re), x[1].re)
	return formulaValue{dtype: dtype, re: t.b.Emit(Sub, x[0].re, multiple), im: None}
}

// truncDivide rounds quotients toward 0. A quotient of 16-bit floats, computed in float32, is first rounded to 16 bits.
func truncDivide(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype == tensor.Bool || dtype.IsComplex(), "a rounded quotient")
	if dtype.IsFloat() {
		return t.eachPart(Trunc, dtype, t.cast(t.eachPart(Div, dtype, x...), dtype))
	}
	return t.eachPart(Div, dtype, x...)
}

func copysign(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "a sign")
	bitDType, floatDType := tensor.Uint32, dtype.OpMath()
	sign := uint64(1) << 31
	if floatDType == tensor.Float64 {
		bitDType, sign = tensor.Uint64, 1<<63
	}
	magnitude := t.b.Bits(bitDType, t.b.Emit(Abs, x[0].re))
	signed := t.b.Emit(And, t.b.Bits(bitDType, x[1].re), t.b.Int(bitDType, int64(sign)))
	return formulaValue{dtype: dtype, re: t.b.Bits(floatDType, t.b.Emit(Or, magnitude, signed)), im: None}
}

func signbit(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, dtype.IsComplex(), "a sign")
	v := x[0].re
	switch dtype.OpMath() {
	case tensor.Float32:
		v = t.b.Bits(tensor.Int32, v)
	case tensor.Float64:
		v = t.b.Bits(tensor.Int64, v)
	}
	return formulaValue{dtype: tensor.Bool, re: t.b.Emit(Lt, v, t.b.Int(t.b.DType(v), 0)), im: None}
}

func realPart(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	return formulaValue{dtype: dtype.ToReal(), re: x[0].re, im: None}
}

func imagPart(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	t.reject(dtype, !dtype.IsComplex(), "an imaginary part")
	return formulaValue{dtype: dtype.ToReal(), re: x[0].im, im: None}
}

func conj(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promote(x...)
	if dtype.IsComplex() {
		return formulaValue{dtype: dtype, re: x[0].re, im: t.b.Emit(Neg, x[0].im)}
	}
	return x[0]
}

// makeComplex combines two real numbers into a complex number.
func makeComplex(t *typer, x []formulaValue) formulaValue {
	dtype, x := t.promoteFloat(x...)
	t.reject(dtype, dtype.IsComplex(), "a part")
	return formulaValue{dtype: dtype.ToComplex(), re: x[0].re, im: x[1].re}
}

// typeAs casts x[0] to the dtype of x[1].
func typeAs(t *typer, x []formulaValue) formulaValue { return t.cast(x[0], t.dtype(x[1])) }

// asComputed is typeAs without the rounding to 16-bit floats. If x[1] is a 16-bit float, the result is a float32, the
// dtype in which 16-bit floats are computed.
func asComputed(t *typer, x []formulaValue) formulaValue {
	dtype := t.dtype(x[1])
	if dtype.IsReducedFloat() {
		v := t.convert(x[0], tensor.Float32)
		v.dtype = dtype
		return v
	}
	return t.convert(x[0], dtype)
}

// finiteLimit returns a function for the greatest or the least finite number of a value's dtype.
func finiteLimit(isGreatest bool) applyFunc {
	return func(t *typer, x []formulaValue) formulaValue {
		dtype := t.dtype(x[0])
		t.reject(dtype, dtype.IsComplex() || dtype == tensor.Bool, "a limit")
		if dtype.IsIntegral(false) {
			op := Max // the least number is the neutral element of Max
			if isGreatest {
				op = Min
			}
			return formulaValue{dtype: dtype, re: t.b.Int(dtype, int64(Neutral(op, dtype))), im: None}
		}
		limit := map[tensor.DType]float64{tensor.Float16: 65504, tensor.BFloat16: 0x1.fep127,
			tensor.Float32: math.MaxFloat32, tensor.Float64: math.MaxFloat64}[dtype]
		if !isGreatest {
			limit = -limit
		}
		return formulaValue{dtype: dtype, re: t.b.Const(dtype.OpMath(), limit), im: None}
	}
}
