package pointwise

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Erfcx is torch.special.erfcx.
var Erfcx = formulaOp("special_erfcx", "erfcx_cpu",
	"Returns exp(x^2) * erfc(x) of each element, the scaled complementary error function.", erfcxText(), unaryFloat,
	erfcx, nil, kit.UnaryExample, kit.Example(nil, kit.IntMatrix))

// erfcxText returns the formula of erfcx. Up to 10 it is exp(x^2) * erfc(x), with the exponential corrected by the
// rounding error of x^2. Above 10 it is the asymptotic series (DLMF 7.12.1), where 0.564... is 1/sqrt(pi). Below -27
// the result overflows float64.
func erfcxText() string {
	const terms = 13
	series := "1"
	for k := terms; k > 0; k-- {
		series = fmt.Sprintf("1 - %d * q * (%s)", 2*k-1, series)
	}
	return "v = float64(x); s = v * v; q = 0.5 / s; near = exp(s) * (1 + fma(v, v, -s)) * erfc(v); " +
		"far = 0.56418958354775628695 / v * (" + series + "); " +
		"type_as(where(v < -27, inf, where(v > 10, far, near)), x)"
}

// erfcx is the reference function. Above 2 it is a continued fraction (DLMF 7.9.1).
func erfcx(x float64) float64 {
	switch {
	case x < -27:
		return math.Inf(1)
	case x > 2:
		fraction := x
		for k := 200; k > 0; k-- {
			fraction = x + float64(k)/2/fraction
		}
		return 1 / math.SqrtPi / fraction
	}
	square := float64(x * x)
	return math.Exp(square) * (1 + math.FMA(x, x, -square)) * math.Erfc(x)
}
