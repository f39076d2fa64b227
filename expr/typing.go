package expr

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// This file derives the typed instructions of a formula from its syntax tree.

// maxInsts bounds the number of instructions of a formula.
const maxInsts = 1 << 15

// Typing holds the options of [Formula.Code].
type Typing struct {
	// Attrs gives each name in [Formula.Attrs] a number. These numbers are promoted as Python numbers are in PyTorch. A
	// number with the name of an operand replaces the operand, which is then not loaded.
	Attrs map[string]tensor.Scalar
	// ZeroDim marks operands without dimensions, which do not promote operands with dimensions. It is nil if all operands
	// have dimensions.
	ZeroDim []bool
	// Common is a dtype to which all operands are converted first, as TensorIterator does. If Common is Invalid, operands
	// keep their dtypes, and each operation promotes its operands.
	Common tensor.DType
	// Out has the dtypes of the results in memory. If Out is nil, the dtypes follow from the operands.
	Out []tensor.DType
}

// Code derives the instructions of the formula for operands of the given dtypes in memory, by the promotion rules of
// PyTorch. Plain numbers promote by category only. Quotients and elementary functions of integers are float32.
// Comparisons are bool. float16 and bfloat16 are computed in float32. A float32 is rounded to 16 bits only where it is
// a result of the formula, or at a cast (float16(x), type_as(v, x)). Complex numbers are pairs of values. For example,
// the formula x * 2 + y, with a bfloat16 x and a float32 y, becomes
//
//	v0 = load x0 (bfloat16)    v1 = convert v0 to float32    v2 = load x1
//	v3 = const 2               v4 = v1 * v3                  y0 = v4 + v2 (float32)
//
// Errors of the formula are of type [*Error].
func (f *Formula) Code(in []tensor.DType, typing Typing) (code *Code, err error) {
	defer recoverError(&err)
	t := &typer{text: f.text, b: NewBuilder(in...), floatDType: tensor.Float32}
	// Mistakes of the caller are reported at position 1 of the text.
	t.require(1, len(in) == len(f.params), "%d dtypes were given for %d operands", len(in), len(f.params))
	t.require(1, typing.ZeroDim == nil || len(typing.ZeroDim) == len(in), "ZeroDim has %d entries for %d operands",
		len(typing.ZeroDim), len(in))
	t.require(1, typing.Out == nil || len(typing.Out) == len(f.results), "Out has %d dtypes for %d results",
		len(typing.Out), len(f.results))
	env := t.bindNames(f.params, in, typing)
	out := make([]Output, 0, len(f.results))
	for index, typed := range t.evalFormula(f, env) {
		dtype := t.dtype(typed)
		if typing.Out != nil {
			dtype = typing.Out[index]
		}
		t.require(f.results[index].pos, dtype.Valid(), "result %d has no dtype", index)
		out = append(out, t.output(typed, dtype))
	}
	if code, err = t.b.Build(out...); err == nil {
		code.formula = f
	}
	return code, err
}

// bindNames returns the scope of a formula: the given numbers and the operands. It loads the operands.
func (t *typer) bindNames(params []string, in []tensor.DType, typing Typing) scope {
	env := scope{}
	for name, number := range typing.Attrs {
		if number.IsSet() {
			env[name] = formulaValue{number: number}
		}
	}
	for index, dtype := range in {
		t.require(1, dtype.Valid(), "operand %s has no dtype", params[index])
		if env[params[index]].isPlainNumber() {
			continue
		}
		typed := t.operand(index, dtype)
		if typing.Common.Valid() && typing.Common != dtype {
			typed = t.cast(typed, typing.Common)
		}
		typed.isZeroDim = typing.ZeroDim != nil && typing.ZeroDim[index]
		env[params[index]] = typed
	}
	return env
}

// formulaValue is the value of an expression in a formula: a typed value or a plain number. A plain number becomes an
// instruction when its dtype is known. (A [Value], in contrast, is the result of one instruction.)
type formulaValue struct {
	dtype     tensor.DType
	re        Value         // the value or its real part; a float32 if dtype is a 16-bit float
	im        Value         // the imaginary part of a complex value, else None
	number    tensor.Scalar // the plain number; unset for a typed value
	isZeroDim bool          // the operands on which the value depends have no dimensions
}

func (v formulaValue) isPlainNumber() bool { return v.number.IsSet() }

// scope maps names to values.
type scope map[string]formulaValue

// typer translates a formula into instructions.
type typer struct {
	text       string // the text of the formula, for errors
	b          *Builder
	floatDType tensor.DType // the dtype of quotients and functions of integers
	errorNode  *node        // the node at which errors are reported
	// libraryDepth is the number of library functions (library.go) that are being expanded. Errors within them are
	// reported at the call in the formula, so errorNode changes only at depth 0.
	libraryDepth int
}

// fail ends the translation with an error at errorNode; [Formula.Code] returns the error.
func (t *typer) fail(format string, args ...any) {
	pos := 1
	if t.errorNode != nil {
		pos = t.errorNode.pos
	}
	panic(errorAt(t.text, pos, fmt.Sprintf(format, args...)))
}

// require fails at a position of the text if ok is false.
func (t *typer) require(pos int, ok bool, format string, args ...any) {
	if !ok {
		panic(errorAt(t.text, pos, fmt.Sprintf(format, args...)))
	}
}

// evalFormula evaluates the definitions and the results of a formula.
func (t *typer) evalFormula(f *Formula, env scope) []formulaValue {
	for _, definition := range f.lets {
		env[definition.name] = t.eval(definition.value, env)
	}
	results := make([]formulaValue, len(f.results))
	for index, result := range f.results {
		results[index] = t.eval(result, env)
	}
	return results
}

// eval evaluates a node of the syntax tree.
func (t *typer) eval(n *node, env scope) formulaValue {
	switch n.kind {
	case numberNode:
		return formulaValue{number: n.num}
	case nameNode:
		if v, ok := env[n.text]; ok {
			return v
		}
		if constant, ok := constants[n.text]; ok {
			return formulaValue{number: constant}
		}
		t.require(n.pos, false, "unknown name %q: it is neither an operand nor a given number%s", n.text,
			suggest.DidYouMean(suggest.Nearest(n.text, slices.Values(sorted.Keys(env)))))
	}
	args := make([]formulaValue, len(n.args))
	for index, arg := range n.args {
		args[index] = t.eval(arg, env)
	}
	name := n.text
	if n.kind == unaryNode {
		name = "unary " + name
	}
	if t.libraryDepth == 0 {
		t.errorNode = n
	}
	result := t.apply(name, args)
	if t.libraryDepth == 0 && !result.isPlainNumber() {
		result.isZeroDim = allZeroDim(args)
	}
	t.require(t.errorNode.pos, len(t.b.code.Insts) <= maxInsts, "the formula has more than %d instructions", maxInsts)
	return result
}

// allZeroDim reports whether the typed values have no dimensions. It returns false if all values are plain numbers.
func allZeroDim(args []formulaValue) bool {
	hasTyped := false
	for _, v := range args {
		isTyped := !v.isPlainNumber()
		if isTyped && !v.isZeroDim {
			return false
		}
		hasTyped = hasTyped || isTyped
	}
	return hasTyped
}

// apply evaluates an operator or a function. If all operands are plain numbers, the result is a plain number, too.
// Functions such as casts are an exception: their result always has a dtype.
func (t *typer) apply(name string, args []formulaValue) formulaValue {
	function := builtins[name]
	switch {
	case !function.resultHasDType && !slices.ContainsFunc(args, func(v formulaValue) bool { return !v.isPlainNumber() }):
		return t.evalNumbers(name, args)
	case function.apply != nil:
		return function.apply(t, args)
	}
	return t.call(name, args)
}

// evalNumbers evaluates a function of plain numbers as Python does: in int64, float64 and complex128.
func (t *typer) evalNumbers(name string, args []formulaValue) formulaValue {
	numberTyper := &typer{text: t.text, b: NewBuilder(), floatDType: tensor.Float64, errorNode: t.errorNode,
		libraryDepth: t.libraryDepth}
	typed := make([]formulaValue, len(args))
	for index, arg := range args {
		typed[index] = numberTyper.convert(arg, arg.number.DType())
	}
	var result formulaValue
	if function := builtins[name]; function.apply != nil {
		result = function.apply(numberTyper, typed)
	} else {
		result = numberTyper.call(name, typed)
	}
	if result.isPlainNumber() {
		return result
	}
	return formulaValue{number: numberTyper.constantNumber(result)}
}

// constantNumber returns the number of a value that depends on constants only.
func (t *typer) constantNumber(result formulaValue) tensor.Scalar {
	dtype := tensor.Int64
	switch {
	case result.dtype == tensor.Bool:
		dtype = result.dtype
	case result.dtype.IsFloat():
		dtype = tensor.Float64
	case result.dtype.IsComplex():
		dtype = tensor.Complex128
	}
	code, err := t.b.Build(t.output(result, dtype))
	if err != nil {
		t.fail("%v", err)
	}
	bits := code.Eval()[0]
	switch dtype {
	case tensor.Bool:
		return tensor.BoolScalar(bits.Re != 0)
	case tensor.Int64:
		return tensor.IntScalar(int64(bits.Re))
	case tensor.Float64:
		return tensor.FloatScalar(math.Float64frombits(bits.Re))
	}
	return tensor.ComplexScalar(complex(math.Float64frombits(bits.Re), math.Float64frombits(bits.Im)))
}

// operand loads an operand.
func (t *typer) operand(index int, dtype tensor.DType) formulaValue {
	loaded := formulaValue{dtype: dtype, re: t.b.Load(index), im: None}
	if dtype.IsComplex() {
		loaded.im = t.b.LoadImag(index)
	}
	loaded.re = t.b.Convert(t.b.DType(loaded.re).OpMath(), loaded.re) // widens a 16-bit float to float32
	return loaded
}

// output converts a value to its dtype in memory.
func (t *typer) output(v formulaValue, dtype tensor.DType) Output {
	if !dtype.IsReducedFloat() {
		v = t.convert(v, dtype)
		return Output{DType: dtype, Re: v.re, Im: v.im}
	}
	if v.isPlainNumber() {
		v = t.convert(v, tensor.Float64)
	}
	return Output{DType: dtype, Re: t.narrow(v.re, dtype), Im: None}
}

// dtype returns the dtype of a value, or the default dtype of a plain number.
func (t *typer) dtype(v formulaValue) tensor.DType {
	if !v.isPlainNumber() {
		return v.dtype
	}
	dtype, _ := t.promotedDType(v)
	return dtype
}

// promotedDType returns the dtype of an operation on the values, by the promotion rules of PyTorch.
func (t *typer) promotedDType(args ...formulaValue) (tensor.DType, error) {
	var promotion tensor.Promotion
	for _, v := range args {
		switch {
		case v.isPlainNumber():
			promotion.AddNumber(v.number)
		case v.isZeroDim:
			promotion.Add(v.dtype, 0) // the rank
		default:
			promotion.Add(v.dtype, 1) // all ranks above 0 have the same effect
		}
	}
	return promotion.Result()
}

// commonDType returns the result of promotedDType. It fails if the values have no common dtype.
func (t *typer) commonDType(args ...formulaValue) tensor.DType {
	dtype, err := t.promotedDType(args...)
	if err != nil {
		t.fail("%v", err)
	}
	return dtype
}

// promote converts values to their common dtype.
func (t *typer) promote(args ...formulaValue) (tensor.DType, []formulaValue) {
	dtype := t.commonDType(args...)
	return dtype, t.convertAll(dtype, args)
}

// promoteFloat converts values to their common dtype, as promote does. It replaces an integer common dtype by a float.
func (t *typer) promoteFloat(args ...formulaValue) (tensor.DType, []formulaValue) {
	dtype := t.commonDType(args...)
	if dtype.IsIntegral(true) { // true: also bool
		dtype = t.floatDType
	}
	return dtype, t.convertAll(dtype, args)
}

func (t *typer) convertAll(dtype tensor.DType, args []formulaValue) []formulaValue {
	out := make([]formulaValue, len(args))
	for index, v := range args {
		out[index] = t.convert(v, dtype)
	}
	return out
}

// convert converts a value to a dtype to which it can be promoted. If the value is already rounded to a 16-bit float,
// it is not rounded again.
func (t *typer) convert(v formulaValue, dtype tensor.DType) formulaValue {
	switch {
	case v.isPlainNumber():
		return t.constant(v.number, dtype)
	case v.dtype == dtype:
		return v
	}
	partDType := computedDType(dtype)
	converted := formulaValue{dtype: dtype, re: v.re, im: None}
	switch {
	case dtype == tensor.Bool && v.dtype.IsComplex():
		converted.re = t.b.Emit(Or, t.b.Convert(dtype, v.re), t.b.Convert(dtype, v.im))
		return converted
	case dtype.IsReducedFloat():
		converted.re = t.narrow(v.re, dtype)
	case dtype.IsComplex() && v.dtype.IsComplex():
		converted.im = t.b.Convert(partDType, v.im)
	case dtype.IsComplex():
		converted.im = t.b.Const(partDType, 0)
	}
	converted.re = t.b.Convert(partDType, converted.re)
	return converted
}

// computedDType returns the dtype of computations on values of a dtype: float32 for 16-bit floats, and for a complex
// dtype the dtype of its parts.
func computedDType(dtype tensor.DType) tensor.DType { return dtype.ToReal().OpMath() }

// constant returns a plain number as a constant of a dtype. For a 16-bit float dtype, the constant is a float32 that is
// not rounded to 16 bits.
func (t *typer) constant(number tensor.Scalar, dtype tensor.DType) formulaValue {
	switch {
	case dtype == tensor.Bool:
		return formulaValue{dtype: dtype, re: t.b.Const(dtype, boolNumber(number.Complex() != 0)), im: None}
	case dtype.IsIntegral(false):
		return formulaValue{dtype: dtype, re: t.b.Int(dtype, number.Int()), im: None}
	}
	converted := formulaValue{dtype: dtype, re: t.floatConst(computedDType(dtype), number), im: None}
	if dtype.IsComplex() {
		converted.im = t.b.Const(computedDType(dtype), imag(number.Complex()))
	}
	return converted
}

// floatConst returns a constant of a float dtype. An integer is converted directly, so that it is rounded only once.
func (t *typer) floatConst(dtype tensor.DType, number tensor.Scalar) Value {
	if number.DType() == tensor.Int64 {
		integer, imm := number.Int(), uint64(0)
		const stride, count = 0, 1 // of the destination and the source
		tensor.Converter(dtype, tensor.Int64)(unsafe.Pointer(&imm), unsafe.Pointer(&integer), stride, stride, count)
		return t.b.AddInst(Inst{Op: Const, DType: dtype, A: None, B: None, C: None, Imm: imm})
	}
	return t.b.Const(dtype, number.Float())
}

// narrow rounds v to a 16-bit float. If v was widened from a 16-bit float of this dtype, narrow returns that float
// instead.
func (t *typer) narrow(v Value, dtype tensor.DType) Value {
	if original := t.unwidened(v, dtype); original != None {
		return original
	}
	return t.b.Convert(dtype, v)
}

// unwidened returns the 16-bit float of the given dtype from which a value was widened, or None.
func (t *typer) unwidened(v Value, dtype tensor.DType) Value {
	if v != None && dtype.IsReducedFloat() {
		if inst := t.b.Inst(v); inst.Op == Convert && t.b.DType(inst.A) == dtype {
			return inst.A
		}
	}
	return None
}

func boolNumber(isTrue bool) float64 {
	if isTrue {
		return 1
	}
	return 0
}

// cast converts a value to any dtype, as an explicit cast does. For a real dtype it takes the real part of a complex
// number. For a 16-bit float it rounds the value, which convert does not do for plain numbers.
func (t *typer) cast(v formulaValue, dtype tensor.DType) formulaValue {
	converted := t.convert(v, dtype)
	if dtype.IsReducedFloat() {
		converted.re = t.b.Convert(tensor.Float32, t.narrow(converted.re, dtype))
	}
	return converted
}
