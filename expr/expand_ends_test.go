package expr

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/tensor"
)

var (
	inf  = math.Inf(1)
	nan  = math.NaN()
	neg0 = math.Copysign(0, -1)
)

// ends are annex F of C99: what functions of one operand give for 0, -0, 1, -1, inf, -inf and NaN; tilde stands for a
// number that is nothing special and is checked elsewhere.
const tilde = 12345

var ends = map[Op][7]float64{
	Exp:   {1, 1, tilde, tilde, inf, 0, nan},
	Exp2:  {1, 1, 2, 0.5, inf, 0, nan},
	Expm1: {0, neg0, tilde, tilde, inf, -1, nan},
	Log:   {-inf, -inf, 0, nan, inf, nan, nan},
	Log2:  {-inf, -inf, 0, nan, inf, nan, nan},
	Log10: {-inf, -inf, 0, nan, inf, nan, nan},
	Log1p: {0, neg0, tilde, -inf, inf, nan, nan},
	Sin:   {0, neg0, tilde, tilde, nan, nan, nan},
	Cos:   {1, 1, tilde, tilde, nan, nan, nan},
	Tan:   {0, neg0, tilde, tilde, nan, nan, nan},
	Asin:  {0, neg0, math.Pi / 2, -math.Pi / 2, nan, nan, nan},
	Acos:  {math.Pi / 2, math.Pi / 2, 0, math.Pi, nan, nan, nan},
	Atan:  {0, neg0, math.Pi / 4, -math.Pi / 4, math.Pi / 2, -math.Pi / 2, nan},
	Sinh:  {0, neg0, tilde, tilde, inf, -inf, nan},
	Cosh:  {1, 1, tilde, tilde, inf, inf, nan},
	Tanh:  {0, neg0, tilde, tilde, 1, -1, nan},
	Asinh: {0, neg0, tilde, tilde, inf, -inf, nan},
	Acosh: {nan, nan, 0, nan, inf, nan, nan},
	Atanh: {0, neg0, inf, -inf, nan, nan, nan},
	Erf:   {0, neg0, tilde, tilde, 1, -1, nan},
	Erfc:  {1, 1, tilde, tilde, 0, 2, nan},
}

func TestExpandEnds(t *testing.T) {
	t.Run("float32", testEnds[float32])
	t.Run("float64", testEnds[float64])
}

func testEnds[T float](t *testing.T) {
	in := []T{0, T(neg0), 1, -1, T(inf), T(-inf), T(nan)}
	for _, tc := range elementaries {
		for _, run := range runsOf[T](t, tc.op) {
			got := make([]T, len(in))
			run(got, in, in)
			for k, want := range ends[tc.op] {
				exact := want == math.Trunc(want) || want != want
				if exact && want != tilde && !sameNumber(float64(got[k]), want) || !exact && !(ulps(got[k], want, 0) < 1) {
					t.Errorf("%v(%v) = %v, want %v", tc.op, in[k], got[k], want)
				}
			}
		}
	}
}

// sameNumber tells zeros apart, and all NaN alike.
func sameNumber(a, b float64) bool {
	return a != a && b != b || a == b && math.Signbit(a) == math.Signbit(b)
}

// TestExpandPairs goes over all pairs of special operands of pow and atan2, as package math has them; its other powers
// are up to 20 ulp off in float64.
func TestExpandPairs(t *testing.T) {
	t.Run("float32", testPairs[float32])
	t.Run("float64", testPairs[float64])
}

func testPairs[T float](t *testing.T) {
	special := []T{0, T(neg0), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, 4, 1 << 24, 1<<24 - 1, -1 << 24, T(inf), T(-inf),
		T(nan), 1e-38, -1e-38, 1e38, -1e38}
	var x, y []T
	for _, a := range special {
		for _, b := range special {
			x, y = append(x, a), append(y, b)
		}
	}
	got := make([]T, len(x))
	for o, f := range map[Op]func(x, y float64) float64{Pow: math.Pow, Atan2: math.Atan2} {
		run := runsOf[T](t, o)[0]
		run(got, x, y)
		for k := range x {
			want := f(float64(x[k]), float64(y[k]))
			if special := want != want || T(want) == 0 || T(want)-T(want) != 0; special {
				if !sameNumber(float64(got[k]), float64(T(want))) {
					t.Errorf("%v(%v, %v) = %v, want %v", o, x[k], y[k], got[k], want)
				}
			} else if far := ulps(got[k], want, 0); far > 2 && dtypeOf[T]() == tensor.Float32 {
				t.Errorf("%v(%v, %v) = %v, %v ulp off %v", o, x[k], y[k], got[k], far, want)
			}
		}
	}
}

// TestExpandSubnormal holds results that float32 cannot have in full precision, and operands without it.
func TestExpandSubnormal(t *testing.T) {
	least := math.SmallestNonzeroFloat32
	for _, tc := range []struct {
		op      Op
		x, want float64
	}{
		{Exp, -100, math.Exp(-100)},
		{Exp, -103.5, least},
		{Exp, -104, 0},
		{Exp, 88.72, math.Exp(float64(float32(88.72)))},
		{Exp, 88.73, inf},
		{Exp2, -149, least},
		{Exp2, -150, 0},
		{Exp2, 128, inf},
		{Log, least, math.Log(least)},
		{Log2, least, -149},
		{Expm1, least, least},
		{Sin, -least, -least},
		{Tanh, least, least},
		{Erf, 3 * least, 3 * least},
		{Sinh, -least, -least},
		{Erfc, 10, math.Erfc(10)},
		{Cosh, 89.4, math.Cosh(float64(float32(89.4)))},
		{Sinh, 89.42, inf},
	} {
		for _, run := range runsOf[float32](t, tc.op) {
			x, y := []float32{float32(tc.x)}, make([]float32, 1)
			run(y, x, x)
			if far := ulps(y[0], tc.want, 0); far > 1.7 || math.IsInf(tc.want, 0) && !math.IsInf(float64(y[0]), 0) {
				t.Errorf("%v(%v) = %v, want %v", tc.op, x[0], y[0], tc.want)
			}
		}
	}
}
