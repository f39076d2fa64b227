package elementary_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/internal/elementary"
	"github.com/graphrun/graphrun/expr/internal/exprtest"
)

// TestLargeExponentials compares e^x, sinh and cosh up to the greatest float64, where package math overflows, with
// exact products.
func TestLargeExponentials(t *testing.T) {
	power := func(x float64) *big.Float { // e^x by its series, of x/2^20
		y := new(big.Float).SetPrec(300).SetMantExp(big.NewFloat(x), -20)
		sum, term := new(big.Float).SetPrec(300).SetInt64(1), new(big.Float).SetPrec(300).SetInt64(1)
		for k := int64(1); k < 30; k++ {
			term.Mul(term, y).Quo(term, new(big.Float).SetInt64(k))
			sum.Add(sum, term)
		}
		for range 20 {
			sum.Mul(sum, sum)
		}
		return sum
	}
	check := func(name string, f func(float64) float64, x, scale float64) {
		want, _ := new(big.Float).Mul(power(math.Abs(x)), big.NewFloat(math.Abs(scale))).Float64()
		got := f(x)
		if math.IsInf(want, 0) != math.IsInf(got, 0) || math.Signbit(got) != (scale < 0) ||
			!math.IsInf(want, 0) && !(math.Abs(math.Abs(got)/want-1) <= 3*0x1p-53) {
			t.Errorf("%s of %v is %v, want %v", name, x, got, math.Copysign(want, scale))
		}
	}
	for _, x := range []float64{700, 709, math.Nextafter(709, 710), 709.43, 709.44, 709.7, 709.782712893384, 709.7828, 710,
		710.4, 710.475860073943, 710.476, 711, 800} {
		check("exp", elementary.Unary[expr.Exp.String()], x, 1)
		for _, s := range []float64{x, -x} {
			check("cosh", elementary.Unary[expr.Cosh.String()], s, 0.5)
			check("sinh", elementary.Unary[expr.Sinh.String()], s, math.Copysign(0.5, s))
		}
	}
	for _, o := range []expr.Op{expr.Exp, expr.Sinh, expr.Cosh} {
		if f := elementary.Unary[o.String()]; !math.IsNaN(f(math.NaN())) || !math.IsInf(f(math.Inf(1)), 1) {
			t.Errorf("%v of NaN and infinity is %v and %v", o, f(math.NaN()), f(math.Inf(1)))
		}
	}
}

// TestFunctionsFloat64 bounds the errors by 2 ulp, for numbers of any size, near multiples of pi/2 and near 1.
func TestFunctionsFloat64(t *testing.T) {
	worst := map[string]float64{}
	ops := map[string]expr.Op{}
	for o := expr.Exp; o.Elementary(); o++ {
		ops[o.String()] = o
	}
	exprtest.EachExact(t, func(name string, x, y, want, low float64) {
		got := goFunction(t, ops[name])(x, y)
		far := exprtest.Ulps(got, want, low)
		worst[name] = max(worst[name], far)
		if far > 2 {
			t.Errorf("%s(%v, %v) = %v, %v ulp off %v", name, x, y, got, far, want)
		}
	})
	if len(worst) != len(ops) {
		t.Errorf("values of %d functions of %d", len(worst), len(ops))
	}
	t.Log(worst)
}

// goFunction returns a function of one or two operands.
func goFunction(t *testing.T, o expr.Op) func(x, y float64) float64 {
	t.Helper()
	if f := elementary.Binary[o.String()]; f != nil {
		return f
	}
	f := elementary.Unary[o.String()]
	if f == nil {
		t.Fatalf("Go has no %v", o)
	}
	return func(x, _ float64) float64 { return f(x) }
}

// TestFunctionsEnds checks operands whose results C99 defines, and all pairs of these.
func TestFunctionsEnds(t *testing.T) {
	in := [7]float64{0, exprtest.NegZero, 1, -1, exprtest.Inf, -exprtest.Inf, exprtest.Nan}
	for o, list := range exprtest.SpecialResults {
		for k, want := range list {
			got := goFunction(t, o)(in[k], 0)
			exact := want == math.Trunc(want) || want != want
			if exact && want != exprtest.Ordinary && !exprtest.SameNumber(got, want) || !exact && !(exprtest.Ulps(got, want,
				0) < 1) {
				t.Errorf("%v(%v) = %v, want %v", o, in[k], got, want)
			}
		}
	}
	pairs := append(in[:], 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, 1<<53, 1<<53-1, -1<<53, 5e-324, -5e-324, 1e308, -1e308)
	for _, x := range pairs {
		for _, y := range pairs {
			got, want := elementary.Binary[expr.Pow.String()](x, y), math.Pow(x, y)
			special := want != want || want == 0 || math.IsInf(want, 0) || math.Abs(want) == 1
			if special && !exprtest.SameNumber(got, want) {
				t.Errorf("pow(%v, %v) = %v, want %v", x, y, got, want)
			}
		}
	}
}

// TestLgammaAndErfinv compares with package math, whose Lgamma loses digits near its zeros 1 and 2.
func TestLgammaAndErfinv(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100000 {
		x := math.Exp(10*rng.Float64() - 5)
		if rng.IntN(4) == 0 {
			x = -x
		}
		want, _ := math.Lgamma(x)
		if got := elementary.Lgamma(x); !(math.Abs(got-want) <= 1e-13*max(math.Abs(want), 1)) {
			t.Fatalf("lgamma of %v is %v, want %v", x, got, want)
		}
		u := 1 - math.Exp(-36*rng.Float64())
		want = math.Erfinv(u)
		if got := elementary.Erfinv(u); !(math.Abs(got-want) <= 1.5e-15*want) || elementary.Erfinv(-u) != -got {
			t.Fatalf("erfinv of %v is %v, want %v", u, got, want)
		}
	}
	for _, c := range [][2]float64{{1, 0}, {2, 0}, {0, exprtest.Inf}, {-3, exprtest.Inf}, {-1e300, exprtest.Inf},
		{-exprtest.Inf, exprtest.Inf}, {exprtest.Inf, exprtest.Inf}, {3, math.Ln2}, {-0.5, 1.2655121234846454},
		{5e-324, 744.4400719213812}, {exprtest.Nan, exprtest.Nan}, {0.19305753429923445, 1.5614302140483907},
		{1.0001, -5.771334222047127e-05}, {1.23, -0.0934815108295696},
		{1.9375, -0.02514761940298887}, {2.0625, 0.027667521522857022}, {2.75, 0.47521466691493713}, {7.7,
			7.926541356269005}, {9.99, 12.779315214350193}, {10.5, 13.940625219403763}, {1234.5, 7550.550901077895},
		{-1.3, 1.2024757863901114}, {1e-20, 46.051701859880914}} {
		if got := elementary.Lgamma(c[0]); !(exprtest.Ulps(got, c[1], 0) <= 2) {
			t.Errorf("lgamma of %v is %v, want %v", c[0], got, c[1])
		}
	}
	for _, c := range [][2]float64{{1, exprtest.Inf}, {-1, -exprtest.Inf}, {exprtest.NegZero, exprtest.NegZero},
		{1.5, exprtest.Nan}, {-exprtest.Inf, exprtest.Nan}, {exprtest.Nan, exprtest.Nan}} {
		if got := elementary.Erfinv(c[0]); !exprtest.SameNumber(got, c[1]) {
			t.Errorf("erfinv of %v is %v, want %v", c[0], got, c[1])
		}
	}
}

// TestLogarithmsOfPowers checks that logarithms of powers of their base are integers.
func TestLogarithmsOfPowers(t *testing.T) {
	for k := -1074; k < 1024; k++ {
		if got := elementary.Unary["log2"](math.Ldexp(1, k)); got != float64(k) {
			t.Errorf("log2(2^%d) = %v", k, got)
		}
	}
	for k := -307; k < 309; k++ {
		if got := elementary.Unary["log10"](math.Pow10(k)); got != float64(k) {
			t.Errorf("log10(10^%d) = %v", k, got)
		}
	}
}

// TestAnglesFar checks multiples of pi/2, where most digits of an angle cancel, as long as numbers are close to them:
// the cosine is given by the next digits of pi.
func TestAnglesFar(t *testing.T) {
	digits, _, err := new(big.Float).SetPrec(480).Parse("3."+
		"141592653589793238462643383279502884197169399375105820974944592307816406286208"+
		"9986280348253421170679821480865132823066470938446095505822317253594081", 10)
	if err != nil {
		t.Fatal(err)
	}
	half := new(big.Float).Quo(digits, big.NewFloat(2))
	near := 0
	for e := 1; e < 60; e++ {
		k := new(big.Float).SetInt(new(big.Int).SetBit(big.NewInt(int64(2*e+1)), e, 1)) // odd: cosine is near 0
		turns := new(big.Float).SetPrec(480).Mul(k, half)
		x, _ := turns.Float64()
		rest, _ := new(big.Float).SetPrec(480).Sub(new(big.Float).SetFloat64(x), turns).Float64()
		if math.Abs(rest) > 0.01 {
			continue // numbers are too far apart
		}
		near++
		if got := math.Abs(elementary.Unary[expr.Cos.String()](x)); !(math.Abs(got/math.Abs(math.Sin(rest))-1) < 4e-16) {
			t.Errorf("cos(%v) is %v, want %v", x, got, math.Sin(rest))
		}
	}
	if near < 10 {
		t.Errorf("%d angles near multiples of pi/2", near)
	}
}
