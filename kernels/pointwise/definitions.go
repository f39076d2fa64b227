package pointwise

import (
	"math"
	"math/cmplx"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// Functions that definitions take where those of packages math and cmplx are wrong at the ends of ranges.

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

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

// power64 is math.Pow, which is wrong for subnormal bases.
func power64(x, y float64) float64 {
	if x == 0 || math.Abs(x) >= 0x1p-1022 || math.IsInf(y, 0) || y != y {
		return math.Pow(x, y)
	}
	fraction, exponent := math.Frexp(x)
	return math.Pow(fraction, y) * math.Exp2(float64(exponent)*y)
}

// plainComplex reports whether a number is neither real nor imaginary, and squares of its parts do not overflow:
// package cmplx is right at others.
func plainComplex(z complex128) bool {
	a, b := math.Abs(real(z)), math.Abs(imag(z))
	return a < 1e150 && b < 1e150 && a > 0 && b > 0
}

// asinComplex is Kahan's inverse sine ("Branch cuts for complex elementary functions", 1987); that of package cmplx
// cancels where the imaginary part is large and positive.
func asinComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Asin(z)
	}
	minus, plus := cmplx.Sqrt(1-z), cmplx.Sqrt(1+z)
	im := math.Asinh(imag(cmplx.Conj(minus) * plus))
	return complex(math.Atan(real(z)/real(minus*plus)), math.Copysign(im, imag(z)))
}

func acosComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Acos(z)
	}
	minus, plus := cmplx.Sqrt(1-z), cmplx.Sqrt(1+z)
	im := math.Asinh(imag(cmplx.Conj(plus) * minus))
	return complex(2*math.Atan(real(minus)/real(plus)), math.Copysign(im, -imag(z)))
}

func asinhComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Asinh(z)
	}
	w := asinComplex(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

func acoshComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Acosh(z)
	}
	minus, plus := cmplx.Sqrt(z-1), cmplx.Sqrt(z+1)
	im := 2 * math.Atan(imag(minus)/real(plus))
	return complex(math.Asinh(real(cmplx.Conj(minus)*plus)), math.Copysign(im, imag(z)))
}

// atanComplex is the inverse tangent; that of package cmplx takes the wrong side of the imaginary axis where numbers
// are large.
func atanComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Atan(z)
	}
	a, b := real(z), math.Abs(imag(z))
	im := 0.25 * math.Log1p(4*b/(a*a+(b-1)*(b-1)))
	return complex(0.5*angle64(2*a, (1-b)*(1+b)-a*a), math.Copysign(im, imag(z)))
}

func atanhComplex(z complex128) complex128 {
	if !plainComplex(z) {
		return cmplx.Atanh(z)
	}
	w := atanComplex(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}
