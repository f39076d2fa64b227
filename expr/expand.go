package expr

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Target says what processors have an instruction for, and expansions take a longer way without, to the same bits.
type Target struct {
	Scale bool // for Scale and Limit
}

// Expand returns the code with every elementary function replaced by primitive operations, which give the same bits
// on all processors of a target. They are within 2 units in the last place of the true value everywhere, subnormal
// operands and results included, with the special values of C99; the functions that make them say how. An erf of
// float32 that only 1 is added to is taken for a part of the sum, and so is a constant factor of its operand. Values
// are numbered anew, while outputs stay in their places.
func (c *Code) Expand(t Target) (*Code, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	near, k := c.nearOne(), -1
	return c.rebuild(func(b *Builder, i Inst) Value {
		k++
		if sum := c.Insts[k]; sum.Op == Add && near[sum.A] {
			return i.A
		} else if sum.Op == Add && near[sum.B] {
			return i.B
		}
		if !i.Op.Elementary() {
			return b.Make(i)
		}
		f := expansions[i.Op]
		if f == nil || i.DType != tensor.Float32 && i.DType != tensor.Float64 {
			return b.Fail(fmt.Errorf("expr: %v of %v has no expansion", i.Op, i.DType))
		}
		e := &expander{Builder: b, target: t, d: i.DType}
		if near[k] {
			return e.onePlusErf(e.factor(i.A))
		}
		return f(e, i.A, i.B)
	})
}

// rebuild makes the code anew: each makes what stands for an instruction, whose operands are values of the new code.
func (c *Code) rebuild(each func(b *Builder, i Inst) Value) (*Code, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	b := NewBuilder(c.In...)
	b.code.Funcs = c.Funcs
	at := make([]Value, len(c.Insts))
	move := func(v Value) Value {
		if v == None {
			return None
		}
		return at[v]
	}
	for k, i := range c.Insts {
		if i.Op != Load {
			i.A, i.B, i.C = move(i.A), move(i.B), move(i.C)
		}
		at[k] = each(b, i)
	}
	out := make([]Output, len(c.Out))
	for k, o := range c.Out {
		out[k] = Output{o.DType, move(o.Re), move(o.Im)}
	}
	return b.Build(out...)
}

// expansions has a function for each elementary one: it adds the instructions of f(x) or f(x, y).
var expansions = [numOps]func(e *expander, x, y Value) Value{
	Exp:   func(e *expander, x, _ Value) Value { return e.exp(x) },
	Exp2:  func(e *expander, x, _ Value) Value { return e.exp2(x) },
	Expm1: func(e *expander, x, _ Value) Value { return e.expm1(x) },
	Log:   func(e *expander, x, _ Value) Value { return e.log(x) },
	Log2:  func(e *expander, x, _ Value) Value { return e.log2(x) },
	Log10: func(e *expander, x, _ Value) Value { return e.log10(x) },
	Log1p: func(e *expander, x, _ Value) Value { return e.log1p(x) },
	Sin:   func(e *expander, x, _ Value) Value { return e.sin(x) },
	Cos:   func(e *expander, x, _ Value) Value { return e.cos(x) },
	Tan:   func(e *expander, x, _ Value) Value { return e.tan(x) },
	Asin:  func(e *expander, x, _ Value) Value { return e.asin(x) },
	Acos:  func(e *expander, x, _ Value) Value { return e.acos(x) },
	Atan:  func(e *expander, x, _ Value) Value { return e.atan(x) },
	Tanh:  func(e *expander, x, _ Value) Value { return e.tanh(x) },
	Sinh:  func(e *expander, x, _ Value) Value { return e.sinh(x) },
	Cosh:  func(e *expander, x, _ Value) Value { return e.cosh(x) },
	Asinh: func(e *expander, x, _ Value) Value { return e.asinh(x) },
	Acosh: func(e *expander, x, _ Value) Value { return e.acosh(x) },
	Atanh: func(e *expander, x, _ Value) Value { return e.atanh(x) },
	Erf:   func(e *expander, x, _ Value) Value { return e.erf(x) },
	Pow:   func(e *expander, x, y Value) Value { return e.pow(x, y) },
	Erfc:  func(e *expander, x, _ Value) Value { return e.erfc(x) },
	Atan2: func(e *expander, y, x Value) Value { return e.atan2(y, x) },
}

// expander adds instructions in one float dtype: float32 or float64. Float32's integers of its size are signed, for
// processors convert them; float64's are not, for AVX2 has no arithmetic shift of them.
type expander struct {
	*Builder
	target Target
	d      tensor.DType
	short  bool // in float64 a result of float32's precision is enough
}

// inFloat64 computes a float32 function in float64 with float32's polynomials: where that is simpler than to carry
// what float32 rounds away. Overflow and subnormal results are then the conversion's.
func (e *expander) inFloat64(f func(w *expander, x Value) Value, x Value) Value {
	w := &expander{e.Builder, e.target, tensor.Float64, true}
	return e.Convert(e.d, f(w, w.Convert(w.d, x)))
}

func (e *expander) wide() bool { return e.d == tensor.Float64 }

// pick returns what belongs to the dtype.
func pick[T any](e *expander, f32, f64 T) T {
	if e.wide() {
		return f64
	}
	return f32
}

// word is the dtype of the integers as large as the floats, mantissa the number of bits below the exponent, bias the
// exponent's.
func (e *expander) word() tensor.DType { return pick(e, tensor.Int32, tensor.Uint64) }
func (e *expander) mantissa() int      { return pick(e, 23, 52) }
func (e *expander) bias() int          { return pick(e, 127, 1023) }

func (e *expander) num(x float64) Value           { return e.Const(e.d, x) }
func (e *expander) add(a, b Value) Value          { return e.Do(Add, a, b) }
func (e *expander) sub(a, b Value) Value          { return e.Do(Sub, a, b) }
func (e *expander) mul(a, b Value) Value          { return e.Do(Mul, a, b) }
func (e *expander) div(a, b Value) Value          { return e.Do(Div, a, b) }
func (e *expander) fma(a, b, c Value) Value       { return e.Do(FMA, a, b, c) }
func (e *expander) lt(a, b Value) Value           { return e.Do(Lt, a, b) }
func (e *expander) choose(c, yes, no Value) Value { return e.Do(Select, c, yes, no) }

// low and high bound x, and let NaN pass.
func (e *expander) low(x Value, to float64) Value  { return e.Do(Max, x, e.num(to)) }
func (e *expander) high(x Value, to float64) Value { return e.Do(Min, x, e.num(to)) }

// int and float read bits; mask is a constant among them.
func (e *expander) int(x Value) Value   { return e.Bits(e.word(), x) }
func (e *expander) float(i Value) Value { return e.Bits(e.d, i) }
func (e *expander) mask(bits uint64) Value {
	if !e.wide() {
		bits &= math.MaxUint32
	}
	return e.Make(Inst{Op: Const, DType: e.word(), Imm: bits})
}

// bitsOf is a float constant's bits as an integer constant.
func (e *expander) bitsOf(x float64) Value {
	if e.wide() {
		return e.mask(math.Float64bits(x))
	}
	return e.mask(uint64(math.Float32bits(float32(x))))
}

// signBit is the sign of x alone, withSign x with that put on; x must not be negative.
func (e *expander) signBit(x Value) Value {
	return e.Do(And, e.int(x), e.bitsOf(math.Copysign(0, -1)))
}

func (e *expander) withSign(x, sign Value) Value { return e.float(e.Do(Or, e.int(x), sign)) }

// poly is a polynomial's coefficients, the constant one first, in each dtype.
type poly struct{ f32, f64 []float64 }

// eval computes a polynomial by Horner's rule: latency does not matter, for the vectors of several elements are on
// their way at once.
func (e *expander) eval(p poly, x Value) Value {
	if e.short {
		return e.horner(p.f32, x)
	}
	return e.horner(pick(e, p.f32, p.f64), x)
}

func (e *expander) horner(c []float64, x Value) Value {
	v := e.num(c[len(c)-1])
	for k := len(c) - 2; k >= 0; k-- {
		v = e.fma(v, x, e.num(c[k]))
	}
	return v
}
