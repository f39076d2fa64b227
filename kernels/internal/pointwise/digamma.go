package pointwise

import (
	"fmt"
	"math"
	"strings"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Digamma is torch.digamma.
var Digamma = formulaOp("digamma", "digamma", "Returns the logarithmic derivative of the gamma function of each "+
	"element: an infinity at 0 and NaN at negative integers.", digammaText(), unaryFloat, digamma, nil,
	kit.UnaryExample, kit.Example(nil, kit.IntMatrix))

// digammaText returns the formula of digamma. At 10 or more it is the asymptotic series. Below 10 it applies the
// recurrence digamma(y) = digamma(y+1) - 1/y first. For negative v it uses the reflection digamma(v) = digamma(1-v) -
// pi/tan(pi v). The variables y0 to y10 are the values of y after each step of the recurrence, and s0 to s10 are the
// sums of the terms -1/y. For example, the first step is
//
//	s1 = where(y0 < 10, s0 - 1 / y0, s0); y1 = where(y0 < 10, y0 + 1, y0);
func digammaText() string {
	var text strings.Builder
	text.WriteString("v = float64(x); y0 = where(v < 0, 1 - v, v); s0 = float64(0); ")
	for i := range 10 {
		fmt.Fprintf(&text, "s%[2]d = where(y%[1]d < 10, s%[1]d - 1 / y%[1]d, s%[1]d); "+
			"y%[2]d = where(y%[1]d < 10, y%[1]d + 1, y%[1]d); ", i, i+1)
	}
	text.WriteString("z = 1 / (y10 * y10); " +
		"p = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12)))))); " +
		"r = log(y10) - 0.5 / y10 - p + s10; " +
		"t = where(v < 0, r - pi / tan(pi * (v - rint(v))), r); " +
		"type_as(where(v == 0, copysign(inf, -v), where(v < 0 and v == trunc(v), nan, t)), x)")
	return text.String()
}

// digamma is the reference function. It uses the recurrence below 20, and the first terms of the series log(x) - 1/(2x)
// - sum over k of B(2k)/(2k*x^(2k)), where B(2k) are the Bernoulli numbers.
func digamma(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), -x)
	case x < 0 && x == math.Trunc(x):
		return math.NaN()
	case x < 0:
		return digamma(1-x) - math.Pi/math.Tan(math.Pi*(x-math.RoundToEven(x)))
	}
	sum := 0.0
	for ; x < 20; x++ {
		sum -= 1 / x
	}
	z, series := 1/(x*x), 0.0
	for _, coefficient := range [...]float64{1. / 132, 1. / 240, 1. / 252, 1. / 120, 1. / 12} {
		series = float64(z * (coefficient - series))
	}
	return math.Log(x) - 0.5/x - series + sum
}
