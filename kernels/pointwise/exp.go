package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Powers of constants, and logarithms. bool and integers are computed as float32.
var (
	Exp   = transcendental("exp", "exp_vml_cpu", "Raises e to the power of each element.", kit.Exp, complexExp)
	Exp2  = transcendental("exp2", "exp2", "Raises 2 to the power of each element.", math.Exp2, nil)
	Expm1 = transcendental("expm1", "expm1_vml_cpu", "Raises e to the power of each element and takes 1 off, "+
		"exact near 0.", math.Expm1, nil)
	Log  = transcendental("log", "log_vml_cpu", "Takes the natural logarithm of each element.", logarithm, complexLog)
	Log2 = transcendental("log2", "log2_vml_cpu", "Takes the logarithm to base 2 of each element.", math.Log2,
		func(z complex128) complex128 { return complexLog(z) / math.Ln2 })
	Log10 = transcendental("log10", "log10_vml_cpu", "Takes the logarithm to base 10 of each element.",
		func(x float64) float64 { return logarithm(x) / math.Ln10 },
		func(z complex128) complex128 { return complexLog(z) / math.Ln10 })
	Log1p = transcendental("log1p", "log1p_vml_cpu", "Takes the natural logarithm of each element plus 1, exact near 0.",
		math.Log1p, nil)
)

// logarithm is math.Log, which is wrong for subnormal numbers on some processors.
func logarithm(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// complexLog is cmplx.Log with the angle's sign.
func complexLog(z complex128) complex128 {
	return complex(logarithm(cmplx.Abs(z)), angle64(imag(z), real(z)))
}

// angle64 is math.Atan2 with the sign of y also where y / x is too small for a number.
func angle64(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }

// complexExp is cmplx.Exp, which knows no real parts close to where a number is too great.
func complexExp(z complex128) complex128 {
	size := kit.Exp(real(z))
	if size == 0 || math.IsInf(size, 0) || imag(z) == 0 || !isFinite(imag(z)) {
		return cmplx.Exp(z)
	}
	sin, cos := math.Sincos(imag(z))
	return complex(size*cos, size*sin)
}
