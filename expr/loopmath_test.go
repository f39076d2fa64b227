package expr

import (
	"math"
	"math/big"
	"testing"
)

// TestLargeExponentials holds e^x, sinh and cosh up to the largest that float64 has, where package math is infinite,
// against products of exact numbers.
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
		check("exp", functions1[Exp], x, 1)
		for _, s := range []float64{x, -x} {
			check("cosh", functions1[Cosh], s, 0.5)
			check("sinh", functions1[Sinh], s, math.Copysign(0.5, s))
		}
	}
	for _, o := range []Op{Exp, Sinh, Cosh} {
		if f := functions1[o]; !math.IsNaN(f(math.NaN())) || !math.IsInf(f(math.Inf(1)), 1) {
			t.Errorf("%v of NaN and infinity is %v and %v", o, f(math.NaN()), f(math.Inf(1)))
		}
	}
}
