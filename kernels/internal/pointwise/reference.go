package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Some functions of packages math and cmplx return wrong results for extreme arguments. The references of ops use the
// functions of this file instead.

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// logWithSubnormals is math.Log with a correction for subnormal numbers. On some processors, math.Log of a subnormal
// number is wrong.
func logWithSubnormals(x float64) float64 {
	if x > 0 && x < 0x1p-1022 { // below the least normal number
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// log2 is math.Log2, but accurate near 1.
func log2(x float64) float64 {
	if x > 0.5 && x < 2 {
		return math.Log1p(x-1) / math.Ln2
	}
	return math.Log2(x)
}

// complexLog is cmplx.Log, but accurate near 1, and computes the imaginary part by angle64.
func complexLog(z complex128) complex128 {
	magnitude := cmplx.Abs(z)
	logarithm := logWithSubnormals(magnitude)
	if magnitude > 0.5 && magnitude < 2 { // the rounding of the magnitude would be most of a small logarithm
		large, small := math.Abs(real(z)), math.Abs(imag(z))
		if large < small {
			large, small = small, large
		}
		logarithm = math.Log1p(float64((large-1)*(large+1))+float64(small*small)) / 2
	}
	return complex(logarithm, angle64(imag(z), real(z)))
}

// divideParts divides both parts of z by divisor. A division by complex(divisor, 0) would multiply the parts by 0, so
// an infinite part would give NaN.
func divideParts(z complex128, divisor float64) complex128 {
	return complex(real(z)/divisor, imag(z)/divisor)
}

// angle64 is math.Atan2, but the result has the sign of y even if y / x underflows.
func angle64(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }

// complexExp is cmplx.Exp, but is also correct for real parts near the overflow threshold ([kit.Exp]).
func complexExp(z complex128) complex128 {
	magnitude := kit.Exp(real(z))
	if magnitude == 0 || math.IsInf(magnitude, 0) || imag(z) == 0 || !isFinite(imag(z)) {
		return cmplx.Exp(z)
	}
	sin, cos := math.Sincos(imag(z))
	return complex(magnitude*cos, magnitude*sin)
}

// power64 is math.Pow with a correction for subnormal bases.
func power64(x, y float64) float64 {
	if x == 0 || math.Abs(x) >= 0x1p-1022 || math.IsInf(y, 0) || y != y {
		return math.Pow(x, y)
	}
	fraction, exponent := math.Frexp(x)
	return math.Pow(fraction, y) * math.Exp2(float64(exponent)*y)
}

// overflowBound is slightly less than the least argument at which math.Sinh and math.Cosh overflow too early: the true
// results there are finite.
const overflowBound = 709

// sinh is math.Sinh, and cosh is math.Cosh, without the early overflow.
func sinh(x float64) float64 {
	if magnitude := math.Abs(x); magnitude > overflowBound {
		return math.Copysign(cosh(magnitude), x)
	}
	return math.Sinh(x)
}

func cosh(x float64) float64 {
	if magnitude := math.Abs(x); magnitude > overflowBound {
		return math.Exp(magnitude/2) / 2 * math.Exp(magnitude/2) // exp(a)/2, where exp(a) may overflow
	}
	return math.Cosh(x)
}
