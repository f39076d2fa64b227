package expand

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// Target lists optional instructions of a processor. Without such an instruction, an expansion needs more operations
// but gives the same bits.
type Target struct {
	HasScale bool // instructions for expr.Scale and expr.Limit
}

// Functions returns the code with every elementary function replaced by primitive operations. The expression 1 +
// erf(factor*x) of float32, with a constant factor, is replaced as a whole. Values are renumbered. Outputs keep their
// positions.
func Functions(code *expr.Code, target Target) (*expr.Code, error) {
	if err := code.Check(); err != nil {
		return nil, err
	}
	absorbsOne := erfsPlusOne(code)
	index := -1 // the index in code of the current instruction
	return code.Rewrite(func(builder *expr.Builder, inst expr.Inst) expr.Value {
		index++ // code.Insts[index] refers to values of code, and inst to values of the result
		if sum := code.Insts[index]; sum.Op == expr.Add && absorbsOne[sum.A] {
			return inst.A // the expansion of the erf includes the sum
		} else if sum.Op == expr.Add && absorbsOne[sum.B] {
			return inst.B
		}
		if !inst.Op.Elementary() {
			return builder.AddInst(inst)
		}
		expansion := expansions[inst.Op]
		if expansion == nil || inst.DType != tensor.Float32 && inst.DType != tensor.Float64 {
			return builder.Fail(fmt.Errorf("expr: %v of %v has no expansion", inst.Op, inst.DType))
		}
		e := &expander{Builder: builder, target: target, dtype: inst.DType}
		if absorbsOne[index] {
			return e.onePlusErf(e.splitFactor(inst.A))
		}
		return expansion(e, inst.A, inst.B)
	})
}

// expansions maps each elementary function f to the Go function that emits the instructions of f(x) or f(x, y).
var expansions = map[expr.Op]func(e *expander, x, y expr.Value) expr.Value{
	expr.Exp:   func(e *expander, x, _ expr.Value) expr.Value { return e.exp(x) },
	expr.Exp2:  func(e *expander, x, _ expr.Value) expr.Value { return e.exp2(x) },
	expr.Expm1: func(e *expander, x, _ expr.Value) expr.Value { return e.expm1(x) },
	expr.Log:   func(e *expander, x, _ expr.Value) expr.Value { return e.log(x) },
	expr.Log2:  func(e *expander, x, _ expr.Value) expr.Value { return e.log2(x) },
	expr.Log10: func(e *expander, x, _ expr.Value) expr.Value { return e.log10(x) },
	expr.Log1p: func(e *expander, x, _ expr.Value) expr.Value { return e.log1p(x) },
	expr.Sin:   func(e *expander, x, _ expr.Value) expr.Value { return e.sin(x) },
	expr.Cos:   func(e *expander, x, _ expr.Value) expr.Value { return e.cos(x) },
	expr.Tan:   func(e *expander, x, _ expr.Value) expr.Value { return e.tan(x) },
	expr.Asin:  func(e *expander, x, _ expr.Value) expr.Value { return e.asin(x) },
	expr.Acos:  func(e *expander, x, _ expr.Value) expr.Value { return e.acos(x) },
	expr.Atan:  func(e *expander, x, _ expr.Value) expr.Value { return e.atan(x) },
	expr.Tanh:  func(e *expander, x, _ expr.Value) expr.Value { return e.tanh(x) },
	expr.Sinh:  func(e *expander, x, _ expr.Value) expr.Value { return e.sinh(x) },
	expr.Cosh:  func(e *expander, x, _ expr.Value) expr.Value { return e.cosh(x) },
	expr.Asinh: func(e *expander, x, _ expr.Value) expr.Value { return e.asinh(x) },
	expr.Acosh: func(e *expander, x, _ expr.Value) expr.Value { return e.acosh(x) },
	expr.Atanh: func(e *expander, x, _ expr.Value) expr.Value { return e.atanh(x) },
	expr.Erf:   func(e *expander, x, _ expr.Value) expr.Value { return e.erf(x) },
	expr.Pow:   func(e *expander, x, y expr.Value) expr.Value { return e.pow(x, y) },
	expr.Erfc:  func(e *expander, x, _ expr.Value) expr.Value { return e.erfc(x) },
	expr.Atan2: func(e *expander, y, x expr.Value) expr.Value { return e.atan2(y, x) },
}

// expander adds instructions in one float dtype: float32 or float64. For float32 it uses signed 32-bit integers,
// because processors convert floats to and from these. For float64 it uses unsigned 64-bit integers, because AVX2 has
// no arithmetic shift of 64 bits.
type expander struct {
	*expr.Builder
	target       Target
	dtype        tensor.DType
	lowPrecision bool // a float64 function needs only the precision of float32
}

// inFloat64 computes a function of float32 in float64, but with the polynomials for float32. For some functions this
// needs fewer operations than compensating rounding errors in float32. The conversion to float32 handles overflow and
// subnormal results.
func (e *expander) inFloat64(f func(wide *expander, x expr.Value) expr.Value, x expr.Value) expr.Value {
	wide := e.wide()
	return e.Convert(e.dtype, f(wide, wide.Convert(wide.dtype, x)))
}

// wide returns an expander that computes in float64, with polynomials that have only the precision of float32.
func (e *expander) wide() *expander {
	return &expander{Builder: e.Builder, target: e.target, dtype: tensor.Float64, lowPrecision: true}
}

func (e *expander) isFloat64() bool { return e.dtype == tensor.Float64 }

// byDType returns f32 for float32, and f64 for float64.
func byDType[T any](e *expander, f32, f64 T) T {
	if e.isFloat64() {
		return f64
	}
	return f32
}

// intDType returns the dtype of integers of the same size as the floats, mantissa the number of mantissa bits, and bias
// the bias of the exponent.
func (e *expander) intDType() tensor.DType { return byDType(e, tensor.Int32, tensor.Uint64) }
func (e *expander) mantissa() int          { return byDType(e, 23, 52) }
func (e *expander) bias() int              { return byDType(e, 127, 1023) }

func (e *expander) constant(x float64) expr.Value     { return e.Const(e.dtype, x) }
func (e *expander) add(a, b expr.Value) expr.Value    { return e.Emit(expr.Add, a, b) }
func (e *expander) sub(a, b expr.Value) expr.Value    { return e.Emit(expr.Sub, a, b) }
func (e *expander) mul(a, b expr.Value) expr.Value    { return e.Emit(expr.Mul, a, b) }
func (e *expander) div(a, b expr.Value) expr.Value    { return e.Emit(expr.Div, a, b) }
func (e *expander) fma(a, b, c expr.Value) expr.Value { return e.Emit(expr.FMA, a, b, c) }
func (e *expander) less(a, b expr.Value) expr.Value   { return e.Emit(expr.Lt, a, b) }
func (e *expander) choose(condition, yes, no expr.Value) expr.Value {
	return e.Emit(expr.Select, condition, yes, no)
}

// clampMin returns max(x, bound), and clampMax returns min(x, bound). NaN is preserved.
func (e *expander) clampMin(x expr.Value, bound float64) expr.Value {
	return e.Emit(expr.Max, x, e.constant(bound))
}
func (e *expander) clampMax(x expr.Value, bound float64) expr.Value {
	return e.Emit(expr.Min, x, e.constant(bound))
}

// asInt and asFloat reinterpret bits. intConst returns an integer constant; for float32 it has the low 32 bits.
func (e *expander) asInt(x expr.Value) expr.Value   { return e.Bits(e.intDType(), x) }
func (e *expander) asFloat(i expr.Value) expr.Value { return e.Bits(e.dtype, i) }
func (e *expander) intConst(bits uint64) expr.Value {
	if !e.isFloat64() {
		bits &= math.MaxUint32
	}
	return e.AddInst(expr.Inst{Op: expr.Const, DType: e.intDType(), Imm: bits})
}

// bitsOf returns the bits of a float constant as an integer constant.
func (e *expander) bitsOf(x float64) expr.Value {
	if e.isFloat64() {
		return e.intConst(math.Float64bits(x))
	}
	return e.intConst(uint64(math.Float32bits(float32(x))))
}

// signBit returns the sign bit of x, and 0 in the other bits.
func (e *expander) signBit(x expr.Value) expr.Value {
	return e.Emit(expr.And, e.asInt(x), e.bitsOf(math.Copysign(0, -1)))
}

// withSign returns x, which must not be negative, with the given sign bit.
func (e *expander) withSign(x, sign expr.Value) expr.Value {
	return e.asFloat(e.Emit(expr.Or, e.asInt(x), sign))
}

// evalPoly evaluates a polynomial by Horner's rule. The latency of this rule does not matter, because the loop
// interleaves several vectors.
func (e *expander) evalPoly(p elementary.Poly, x expr.Value) expr.Value {
	if e.lowPrecision {
		return e.horner(p.F32, x)
	}
	return e.horner(byDType(e, p.F32, p.F64), x)
}

// horner evaluates the polynomial with the given coefficients, the constant one first.
func (e *expander) horner(coefficients []float64, x expr.Value) expr.Value {
	sum := e.constant(coefficients[len(coefficients)-1])
	for power := len(coefficients) - 2; power >= 0; power-- {
		sum = e.fma(sum, x, e.constant(coefficients[power]))
	}
	return sum
}
