package expr

import (
	"fmt"
	"math"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

// ends are what C99's annex F says of special operands, and the ends of ranges.
var (
	inf  = math.Inf(1)
	nan  = math.NaN()
	neg0 = math.Copysign(0, -1)
)

// expanded returns f(x) or f(x, y) in a dtype by primitive operations.
func expanded(t testing.TB, o Op, d tensor.DType) (*Code, func(x, y float64) float64) {
	t.Helper()
	b := NewBuilder(d, d)
	args := []Value{b.Load(0), b.Load(1)}[:o.Args()]
	c, err := b.Build(b.Real(b.Do(o, args...)))
	if err == nil {
		c, err = c.Expand()
	}
	if err != nil {
		t.Fatal(o, err)
	}
	for _, i := range c.Insts {
		if !i.Op.Primitive() {
			t.Fatalf("%v of %v keeps %v", o, d, i.Op)
		}
	}
	v := make([]uint64, len(c.Insts))
	return c, func(x, y float64) float64 {
		in := [2]uint64{toBits(d, x), toBits(d, y)}
		for k, i := range c.Insts {
			v[k] = primitive(c, v, i, in)
		}
		return fromBits(d, v[c.Out[0].Re])
	}
}

func toBits(d tensor.DType, x float64) uint64 {
	if d == tensor.Float32 {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

func fromBits(d tensor.DType, v uint64) float64 {
	if d == tensor.Float32 {
		return float64(math.Float32frombits(uint32(v)))
	}
	return math.Float64frombits(v)
}

// primitive computes one instruction.
func primitive(c *Code, v []uint64, i Inst, in [2]uint64) uint64 {
	of := func(a Value) uint64 { return v[a] }
	switch i.Op {
	case Const:
		return i.Imm
	case Load:
		return in[i.A]
	case Bits:
		return of(i.A)
	case Select:
		if of(i.A) != 0 {
			return of(i.B)
		}
		return of(i.C)
	case Convert:
		from := c.Insts[i.A].DType
		switch {
		case from == tensor.Int32:
			return toBits(i.DType, float64(int32(of(i.A))))
		case i.DType == tensor.Int32:
			return uint64(uint32(int32(fromBits(from, of(i.A)))))
		}
		return toBits(i.DType, fromBits(from, of(i.A)))
	}
	if from := c.Insts[i.A].DType; from.IsFloat() {
		return floating(i, from, of)
	}
	return integral(i, c.Insts[i.A].DType, of)
}

func floating(i Inst, d tensor.DType, of func(Value) uint64) uint64 {
	a, b := fromBits(d, of(i.A)), 0.0
	if i.Op.Args() > 1 {
		b = fromBits(d, of(i.B))
	}
	var r float64
	switch i.Op {
	case Add:
		r = a + b
	case Sub:
		r = a - b
	case Mul:
		r = a * b
	case Div:
		r = a / b
	case FMA:
		r = fused(d, a, b, fromBits(d, of(i.C)))
	case Neg:
		r = -a
	case Abs:
		r = math.Abs(a)
	case Sqrt:
		r = math.Sqrt(a)
	case Rint:
		r = math.RoundToEven(a)
	case Trunc:
		r = math.Trunc(a)
	case Min:
		if r = b; a != a || a < b {
			r = a
		}
	case Max:
		if r = b; a != a || a > b {
			r = a
		}
	default:
		return truth(map[Op]bool{Eq: a == b, Ne: a != b, Lt: a < b, Le: a <= b}, i.Op)
	}
	return toBits(d, r)
}

// fused rounds once: in float32 the sum in float64 is made odd where it is not exact, so that rounding it again is right.
func fused(d tensor.DType, a, b, c float64) float64 {
	if d == tensor.Float64 {
		return math.FMA(a, b, c)
	}
	p := a * b
	s := p + c
	v := s - p
	lost := (p - (s - v)) + (c - v)
	if bits := math.Float64bits(s); lost != 0 && !math.IsInf(s, 0) && s == s && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return s
}

func truth(m map[Op]bool, o Op) uint64 {
	yes, ok := m[o]
	if !ok {
		panic(o)
	}
	if yes {
		return 1
	}
	return 0
}

func integral(i Inst, d tensor.DType, of func(Value) uint64) uint64 {
	n := 8 * d.Size()
	a, b := of(i.A), uint64(0)
	if i.Op.Args() > 1 {
		b = of(i.B)
	}
	sign := func(v uint64) int64 { return int64(v<<(64-n)) >> (64 - n) }
	var r uint64
	switch i.Op {
	case Add:
		r = a + b
	case Sub:
		r = a - b
	case And:
		r = a & b
	case Or:
		r = a | b
	case Xor:
		r = a ^ b
	case Not:
		if r = ^a; d == tensor.Bool {
			return a ^ 1
		}
	case Shl:
		r = a << (b % uint64(n))
	case Shr:
		if r = a >> (b % uint64(n)); d.IsSigned() {
			r = uint64(sign(a) >> (b % uint64(n)))
		}
	case Eq:
		return truth(map[Op]bool{Eq: a == b}, Eq)
	case Lt:
		if d.IsSigned() {
			return truth(map[Op]bool{Lt: sign(a) < sign(b)}, Lt)
		}
		return truth(map[Op]bool{Lt: a < b}, Lt)
	default:
		panic(fmt.Sprint(i.Op, d))
	}
	return r & (math.MaxUint64 >> (64 - n))
}

// ulps is how far y is from the true value, in units of the last place of the dtype there.
func ulps(d tensor.DType, y, want float64) float64 {
	least, mantissa, over := -1022, 52, inf
	if d == tensor.Float32 {
		least, mantissa, over = -126, 23, 0x1p128
	}
	switch {
	case want != want && y != y, y == want && math.Signbit(y) == math.Signbit(want):
		return 0
	case want != want || y != y || y == 0 && want == 0, math.Signbit(y) != math.Signbit(want):
		return inf
	case math.IsInf(y, 0):
		y = math.Copysign(over, y)
	case math.IsInf(want, 0):
		return inf
	}
	return math.Abs(y-want) / math.Ldexp(1, max(math.Ilogb(want), least)-mantissa)
}
