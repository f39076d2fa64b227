package expand_test

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
	"github.com/graphrun/graphrun/tensor"
)

func TestExpandEnds(t *testing.T) {
	t.Run("float32", testEnds[float32])
	t.Run("float64", testEnds[float64])
}

func testEnds[T exprtest.Float](t *testing.T) {
	in := []T{0, T(exprtest.NegZero), 1, -1, T(exprtest.Inf), T(-exprtest.Inf), T(exprtest.Nan)}
	for _, tc := range elementaries {
		for _, run := range runsOf[T](t, tc.op) {
			got := make([]T, len(in))
			run(got, in, in)
			for k, want := range exprtest.SpecialResults[tc.op] {
				exact := want == math.Trunc(want) || want != want
				if exact && want != exprtest.Ordinary && !exprtest.SameNumber(float64(got[k]), want) || !exact &&
					!(exprtest.Ulps(got[k], want, 0) < 1) {
					t.Errorf("%v(%v) = %v, want %v", tc.op, in[k], got[k], want)
				}
			}
		}
	}
}

// TestExpandPairs compares pow and atan2 of all pairs of special operands with package math, whose other powers are up
// to 20 ulp off in float64.
func TestExpandPairs(t *testing.T) {
	t.Run("float32", testPairs[float32])
	t.Run("float64", testPairs[float64])
}

func testPairs[T exprtest.Float](t *testing.T) {
	special := []T{0, T(exprtest.NegZero), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, 4, 1 << 24, 1<<24 - 1, -1 << 24,
		T(exprtest.Inf), T(-exprtest.Inf),
		T(exprtest.Nan), 1e-38, -1e-38, 1e38, -1e38}
	var x, y []T
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	got := make([]T, len(x))
	for o, f := range map[expr.Op]func(x, y float64) float64{expr.Pow: math.Pow, expr.Atan2: math.Atan2} {
		run := runsOf[T](t, o)[0]
		run(got, x, y)
		for k := range x {
			want := f(float64(x[k]), float64(y[k]))
			if special := want != want || T(want) == 0 || T(want)-T(want) != 0; special {
				if !exprtest.SameNumber(float64(got[k]), float64(T(want))) {
					t.Errorf("%v(%v, %v) = %v, want %v", o, x[k], y[k], got[k], want)
				}
			} else if far := exprtest.Ulps(got[k], want, 0); far > 2 && tensor.DTypeOf[T]() == tensor.Float32 {
				t.Errorf("%v(%v, %v) = %v, %v ulp off %v", o, x[k], y[k], got[k], far, want)
			}
		}
	}
}

// TestExpandSubnormal holds results that float32 cannot have in full precision, and operands without it.
func TestExpandSubnormal(t *testing.T) {
	least := math.SmallestNonzeroFloat32
	for _, tc := range []struct {
		op      expr.Op
		x, want float64
	}{
		{expr.Exp, -100, math.Exp(-100)},
		{expr.Exp, -103.5, least},
		{expr.Exp, -104, 0},
		{expr.Exp, 88.72, math.Exp(float64(float32(88.72)))},
		{expr.Exp, 88.73, exprtest.Inf},
		{expr.Exp2, -149, least},
		{expr.Exp2, -150, 0},
		{expr.Exp2, 128, exprtest.Inf},
		{expr.Log, least, math.Log(least)},
		{expr.Log2, least, -149},
		{expr.Expm1, least, least},
		{expr.Sin, -least, -least},
		{expr.Tanh, least, least},
		{expr.Erf, 3 * least, 3 * least},
		{expr.Sinh, -least, -least},
		{expr.Erfc, 10, math.Erfc(10)},
		{expr.Cosh, 89.4, math.Cosh(float64(float32(89.4)))},
		{expr.Sinh, 89.42, exprtest.Inf},
	} {
		for _, run := range runsOf[float32](t, tc.op) {
			x, y := []float32{float32(tc.x)}, make([]float32, 1)
			run(y, x, x)
			if far := exprtest.Ulps(y[0], tc.want, 0); far > 1.7 || math.IsInf(tc.want, 0) && !math.IsInf(float64(y[0]), 0) {
				t.Errorf("%v(%v) = %v, want %v", tc.op, x[0], y[0], tc.want)
			}
		}
	}
}
