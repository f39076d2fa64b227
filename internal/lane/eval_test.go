package lane_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

var integers = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint16,
	tensor.Uint32, tensor.Uint64}

// TestOpsAreThoseOfExpressions: primitive operations have the same numbers, names and operands in both packages.
func TestOpsAreThoseOfExpressions(t *testing.T) {
	for o := expr.Const; o.Primitive(); o++ {
		require.Equal(t, o.String(), lane.Op(o).String())
		require.Equal(t, o.ArgCount(), lane.Ops[o].Args, "%v", o)
	}
	require.Equal(t, lane.Store, lane.Op(expr.Exp))
}

// wrapped returns a number modulo the width of a dtype, zero-extended.
func wrapped(d tensor.DType, x *big.Int) uint64 {
	return new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64>>(64-8*d.Size()))).Uint64()
}

// number returns the number with the given bits.
func number(d tensor.DType, bits uint64) *big.Int {
	x := new(big.Int).SetUint64(bits)
	if top := 8*d.Size() - 1; d.IsSigned() && bits>>top&1 != 0 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(top+1)))
	}
	return x
}

// TestEvalOfIntegers compares operations on integers with exact arithmetic.
func TestEvalOfIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bit := func(b bool) *big.Int { return big.NewInt(map[bool]int64{true: 1}[b]) }
	for _, d := range integers {
		width := uint64(8 * d.Size())
		edges := []uint64{0, 1, 2, 7, math.MaxUint64, math.MaxUint64 >> 1, 1 << 63, 1 << 31, 1 << 7, 1 << 15, rng.Uint64(),
			rng.Uint64()}
		for _, p := range edges {
			for _, q := range edges {
				p, q := p>>(64-width)|p&math.MaxUint64>>(64-width), q>>(64-width)|q&math.MaxUint64>>(64-width)
				a, b := number(d, p), number(d, q)
				x := func() *big.Int { return new(big.Int) }
				shift := uint(q % width)
				want := map[lane.Op]*big.Int{lane.Add: x().Add(a, b), lane.Sub: x().Sub(a, b), lane.Mul: x().Mul(a, b),
					lane.Neg: x().Neg(a), lane.Abs: x().Abs(a), lane.Min: a, lane.Max: a, lane.And: x().And(a, b),
					lane.Or: x().Or(a, b), lane.Xor: x().Xor(a, b), lane.Not: x().Not(a), lane.Shl: x().Lsh(a, shift),
					lane.Shr: x().Rsh(a, shift), lane.Eq: bit(a.Cmp(b) == 0), lane.Ne: bit(a.Cmp(b) != 0),
					lane.Lt: bit(a.Cmp(b) < 0), lane.Le: bit(a.Cmp(b) <= 0)}
				if b.Sign() != 0 {
					want[lane.Div] = x().Quo(a, b)
				}
				if a.Cmp(b) > 0 {
					want[lane.Min] = b
				} else {
					want[lane.Max] = b
				}
				for o, w := range want {
					require.True(t, lane.Ops[o].OperandDTypes.Has(d), "%v of %v", o, d)
					to := d
					if o.Compares() {
						to = tensor.Bool
					}
					require.Equal(t, wrapped(d, w), lane.Eval(o, to, d, [3]uint64{p, q}), "%v of %v: %v, %v", o, d, a, b)
				}
			}
		}
	}
}

// TestEvalOfFloats has results that distinguish the operations from similar ones.
func TestEvalOfFloats(t *testing.T) {
	nan, inf, negZero := math.NaN(), math.Inf(1), math.Copysign(0, -1)
	for _, c := range []struct {
		op         lane.Op
		a, b, c, y float64
	}{
		{lane.Min, nan, 1, 0, nan}, {lane.Min, 1, nan, 0, nan}, {lane.Min, 0, negZero, 0, negZero},
		{lane.Min, negZero, 0, 0, 0}, {lane.Max, nan, 1, 0, nan}, {lane.Max, 1, nan, 0, nan},
		{lane.Max, 0, negZero, 0, negZero}, {lane.Max, negZero, 0, 0, 0}, {lane.Max, -1, 2, 0, 2},
		{lane.Rint, 2.5, 0, 0, 2}, {lane.Rint, -0.5, 0, 0, negZero}, {lane.Rint, 3.5, 0, 0, 4},
		{lane.Floor, -0.5, 0, 0, -1}, {lane.Ceil, -0.5, 0, 0, negZero}, {lane.Trunc, -1.5, 0, 0, -1},
		{lane.Neg, 0, 0, 0, negZero}, {lane.Abs, negZero, 0, 0, 0}, {lane.Sqrt, negZero, 0, 0, negZero},
		{lane.Sqrt, -1, 0, 0, nan}, {lane.Div, 1, negZero, 0, -inf}, {lane.Mod, -5.5, 2, 0, -1.5},
		{lane.Mod, 5, 0, 0, nan}, {lane.Mod, 5, inf, 0, 5}, {lane.Scale, 3, -1.5, 0, 0.75}, {lane.Scale, 1, 5000, 0, inf},
		{lane.Scale, 1, nan, 0, nan}, {lane.Limit, -3, 2, 0, -2}, {lane.Limit, 1, -2, 0, 1}, {lane.Limit, -inf, -1, 0, -1},
		{lane.FMA, 1 + 0x1p-12, 1 - 0x1p-12, -1, -0x1p-24}, // 0 if the product were rounded to float32
		{lane.Sub, 1, 1, 0, 0}, {lane.Add, negZero, negZero, 0, negZero}, {lane.Mul, 0, inf, 0, nan},
	} {
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
			bits := func(x float64) uint64 {
				return lane.Eval(lane.Convert, d, tensor.Float64, [3]uint64{math.Float64bits(x)})
			}
			y := lane.Eval(c.op, d, d, [3]uint64{bits(c.a), bits(c.b), bits(c.c)})
			got := math.Float64frombits(lane.Eval(lane.Convert, tensor.Float64, d, [3]uint64{y}))
			if got != c.y && (got == got || c.y == c.y) || math.Signbit(got) != math.Signbit(c.y) && c.y == c.y {
				t.Errorf("%v of %v, %v, %v in %v is %v, want %v", c.op, c.a, c.b, c.c, d, got, c.y)
			}
			for o, want := range map[lane.Op]bool{lane.Eq: c.a == c.b, lane.Ne: c.a != c.b, lane.Lt: c.a < c.b,
				lane.Le: c.a <= c.b} {
				require.Equal(t, want, lane.Eval(o, tensor.Bool, d, [3]uint64{bits(c.a), bits(c.b)}) != 0)
			}
		}
	}
}

// TestEvalFMAOfFloat32: the sum is 2^-70 below the middle of two float32 numbers, which is its value in float64.
func TestEvalFMAOfFloat32(t *testing.T) {
	bits := func(x float32) uint64 { return uint64(math.Float32bits(x)) }
	const a, b, c = 0x1p-12 * (1 + 0x1p-23), 0x1p-12 * (1 - 0x1p-23), 1 + 0x1p-23
	require.NotEqual(t, float32(c), float32(math.FMA(a, b, c)))
	x := [3]uint64{bits(a), bits(b), bits(c)}
	require.Equal(t, bits(c), lane.Eval(lane.FMA, tensor.Float32, tensor.Float32, x))
}

func TestNeutralKeepsValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, d := range append(integers, tensor.Bool, tensor.Float32, tensor.Float64) {
		for _, o := range []lane.Op{lane.Add, lane.Mul, lane.Min, lane.Max, lane.And, lane.Or} {
			if !o.Folds(d) {
				continue
			}
			for range 50 {
				x := rng.Uint64() >> (64 - 8*d.Size())
				if d == tensor.Bool {
					x &= 1
				}
				if d.IsFloat() {
					x = lane.Eval(lane.Convert, d, tensor.Int8, [3]uint64{x & 0xFF})
				}
				require.Equal(t, x, lane.Eval(o, d, d, [3]uint64{lane.Neutral(o, d), x}), "%v of %v", o, d)
			}
		}
	}
}
