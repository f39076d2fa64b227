package expr

import (
	"math"
	"math/big"
	"unsafe"

	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/tensor"
)

// Number is an element of any dtype.
type Number struct {
	Re uint64 // bits of the element, or of its real part, zero-extended
	Im uint64 // bits of the imaginary part of a complex element, else 0
}

// Eval computes the outputs for one element, given the operands. Its results define the code, and tests compare the
// interpreter and compiled code with them. Eval is slow. Elementary functions are computed by package math where that
// package is accurate. Eval panics if there are fewer operands than the code has.
func (c *Code) Eval(in ...Number) []Number {
	if len(in) < len(c.In) {
		panic("expr: Eval of fewer operands than the code has")
	}
	v := make([]uint64, len(c.Insts))
	for k, i := range c.Insts {
		var x [3]uint64
		for n, u := range i.Uses() {
			x[n] = v[u]
		}
		switch i.Op {
		case Const:
			v[k] = i.Imm
		case Load:
			v[k] = in[i.A].Re
			if i.Imm != 0 {
				v[k] = in[i.A].Im
			}
		case Convert:
			tensor.Converter(i.DType, c.Insts[i.A].DType)(unsafe.Pointer(&v[k]), unsafe.Pointer(&x[0]), 0, 0, 1)
		case Bits:
			v[k] = x[0]
		case Lookup:
			v[k] = uint64(math.Float32bits(elementary.Tables[i.Imm][x[0]&31]))
		case Select:
			if v[k] = x[2]; x[0] != 0 {
				v[k] = x[1]
			}
		default:
			v[k] = c.evalIn(c.Insts[i.A].DType, i, x)
		}
	}
	out := make([]Number, len(c.Out))
	for k, o := range c.Out {
		if out[k].Re = v[o.Re]; o.Im != None {
			out[k].Im = v[o.Im]
		}
	}
	return out
}

// evalIn computes an instruction whose operands have dtype d.
func (c *Code) evalIn(d tensor.DType, i Inst, x [3]uint64) uint64 {
	if !d.IsFloat() {
		return evalInt(d, i.Op, x)
	}
	var f [3]float64
	for k := range f {
		if f[k] = math.Float64frombits(x[k]); d == tensor.Float32 {
			f[k] = float64(math.Float32frombits(uint32(x[k])))
		}
	}
	switch i.Op {
	case Eq:
		return boolBits(f[0] == f[1])
	case Ne:
		return boolBits(f[0] != f[1])
	case Lt:
		return boolBits(f[0] < f[1])
	case Le:
		return boolBits(f[0] <= f[1])
	case FMA:
		if d == tensor.Float32 {
			return uint64(math.Float32bits(evalFMA(f[0], f[1], f[2])))
		}
	}
	var r float64
	if i.Op == Call {
		r = c.Funcs[i.Imm].F(f[0], f[1], f[2])
	} else {
		r = evalFloat(i.Op, f)
	}
	// Rounding the float64 result gives the float32 result, because float64 has more than twice as many bits.
	if d == tensor.Float32 {
		return uint64(math.Float32bits(float32(r)))
	}
	return math.Float64bits(r)
}

func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// evalFMA returns a*b + c, rounded once.
func evalFMA(a, b, c float64) float32 {
	p := float64(a * b) // exact: the factors have 24 bits
	s := p + c
	if s == 0 || math.IsInf(s, 0) || s != s {
		return float32(s) // a sum that is 0 in float64 is exact
	}
	sum := new(big.Float).SetPrec(2000).SetFloat64(p)
	r, _ := sum.Add(sum, new(big.Float).SetFloat64(c)).Float32()
	return r
}

func evalFloat(o Op, f [3]float64) float64 {
	a, b := f[0], f[1]
	if g := elementary.Unary[o.String()]; g != nil {
		return g(a)
	}
	if g := elementary.Binary[o.String()]; g != nil {
		return g(a, b)
	}
	switch o {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case FMA:
		return math.FMA(a, b, f[2])
	case Neg:
		return -a
	case Abs:
		return math.Abs(a)
	case Sqrt:
		return math.Sqrt(a)
	case Min:
		if a != a || a < b {
			return a
		}
		return b
	case Max:
		if a != a || a > b {
			return a
		}
		return b
	case Floor:
		return math.Floor(a)
	case Ceil:
		return math.Ceil(a)
	case Trunc:
		return math.Trunc(a)
	}
	return math.RoundToEven(a)
}

// evalInt computes with integers of any width and with bools. It sign-extends signed operands to 64 bits and truncates
// the result to the dtype.
func evalInt(d tensor.DType, o Op, x [3]uint64) uint64 {
	width := 8 * d.Size()
	a, b := int64(x[0]), int64(x[1])
	less := x[0] < x[1]
	if d.IsSigned() {
		a, b = a<<(64-width)>>(64-width), b<<(64-width)>>(64-width)
		less = a < b
	}
	switch o {
	case Min, Max:
		if less == (o == Min) {
			return x[0]
		}
		return x[1]
	case Eq:
		return boolBits(x[0] == x[1])
	case Ne:
		return boolBits(x[0] != x[1])
	case Lt:
		return boolBits(less)
	case Le:
		return boolBits(less || x[0] == x[1])
	case Not:
		if d == tensor.Bool {
			return x[0] ^ 1
		}
	}
	return uint64(evalWide(d, o, a, b, x)) & (^uint64(0) >> (64 - width))
}

// evalWide computes in 64 bits. Only the bits of the result that belong to dtype d are meaningful.
func evalWide(d tensor.DType, o Op, a, b int64, x [3]uint64) int64 {
	shift := x[1] & uint64(8*d.Size()-1)
	switch o {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		switch {
		case b == 0:
			return 0
		case d.IsSigned():
			return a / b
		}
		return int64(x[0] / x[1])
	case Neg:
		return -a
	case Abs:
		if d.IsSigned() && a < 0 {
			return -a
		}
		return a
	case And:
		return a & b
	case Or:
		return a | b
	case Xor:
		return a ^ b
	case Shl:
		return a << shift
	case Shr:
		if d.IsSigned() {
			return a >> shift
		}
		return int64(x[0] >> shift)
	}
	return ^a // Not
}
