package elementary

import (
	"math"
	"math/cmplx"
)

// Inverse functions of a complex number, by W. Kahan's formulas (Branch Cuts for Complex Elementary Functions, 1987).
// They use roots of 1+z and 1-z, because the difference 1-z*z would lose digits for numbers near 1 and for small and
// large numbers. The functions of math/cmplx lose digits by cancellation, and return infinities for some numbers of
// magnitude 1e8 or more. The sign of a zero selects the side of a branch cut. In each function, z = a + bi, and p and q
// are the two roots. The square of a part does not overflow if both parts are in bounds, below squareLimit. Conversions
// such as float64(x*y) prevent fused multiply-adds.
//
// The real part of acosh(z), for example, is asinh(Re(conj(p) q)) with p = sqrt(z-1) and q = sqrt(z+1), and the
// imaginary part is 2 atan2(Im(p), Re(q)). For a part beyond squareLimit, z+1 and z-1 are z, and acosh(z) is log(2z).

// complexAsinh returns the inverse hyperbolic sine of z, by p = sqrt(1-iz) and q = sqrt(1+iz).
func complexAsinh(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !isFinite(z):
		return cmplx.Asinh(z)
	case !inBounds(z, squareLimit, squareLimit):
		return complex(math.Copysign(logOfTwice(a, b), a), atan2(b, math.Abs(a)))
	}
	p, q := complexSqrt(complex(1+b, -a)), complexSqrt(complex(1-b, a))
	sinhRe := float64(real(p)*imag(q)) - float64(real(q)*imag(p))
	return complex(asinh(sinhRe), atan2(b, float64(real(p)*real(q))-float64(imag(p)*imag(q))))
}

// complexAsin returns the arcsine of z: -i asinh(iz).
func complexAsin(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Asin(z)
	}
	w := complexAsinh(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

// complexAcos returns the arccosine of z, by p = sqrt(1-z) and q = sqrt(1+z).
func complexAcos(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !isFinite(z):
		return cmplx.Acos(z)
	case !inBounds(z, squareLimit, squareLimit):
		return complex(atan2(math.Abs(b), a), -math.Copysign(logOfTwice(a, b), b))
	}
	p, q := complexSqrt(complex(1-a, -b)), complexSqrt(complex(1+a, b))
	return complex(2*atan2(real(p), real(q)), asinh(float64(real(q)*imag(p))-float64(imag(q)*real(p))))
}

// complexAcosh returns the inverse hyperbolic cosine of z, by p = sqrt(z-1) and q = sqrt(z+1).
func complexAcosh(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !isFinite(z):
		return cmplx.Acosh(z)
	case !inBounds(z, squareLimit, squareLimit):
		return complex(logOfTwice(a, b), atan2(b, a))
	}
	p, q := complexSqrt(complex(a-1, b)), complexSqrt(complex(a+1, b))
	return complex(asinh(float64(real(p)*real(q))+float64(imag(p)*imag(q))), 2*atan2(imag(p), real(q)))
}

// complexAtanh returns the inverse hyperbolic tangent of z. The real part is log(|1+z|/|1-z|)/2, and the imaginary part
// is the angle of (1+z) conj(1-z), divided by 2. For large z, the real part is the real part of 1/z, and the imaginary
// part is pi/2 with the sign of b.
func complexAtanh(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Atanh(z)
	}
	sign := math.Copysign(1, real(z)) // the function is odd
	a, b := math.Abs(real(z)), float64(sign*imag(z))
	var re, im float64
	switch {
	case !inBounds(z, squareLimit, squareLimit):
		halfMagnitude := Hypot(0.5*a, 0.5*b)
		re, im = 0.25*a/halfMagnitude/halfMagnitude, math.Copysign(math.Pi/2, b)
	case a == 1 && math.Abs(b) < 1/squareLimit: // the square of b might underflow
		re, im = 0.5*(math.Ln2-Log(math.Abs(b))), math.Copysign(math.Pi/4, b)
		if b == 0 {
			im = b
		}
	default:
		oneMinusA := 1 - a
		re = 0.25 * log1p(4*a/(float64(oneMinusA*oneMinusA)+float64(b*b)))
		im = 0.5 * atan2(2*b, float64(oneMinusA*(1+a))-float64(b*b))
	}
	return complex(sign*re, sign*im)
}

// complexAtan returns the arctangent of z: -i atanh(iz).
func complexAtan(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Atan(z)
	}
	w := complexAtanh(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

// logOfTwice returns log(2|a + bi|) for a large complex number.
func logOfTwice(a, b float64) float64 { return Log(Hypot(0.5*a, 0.5*b)) + 2*math.Ln2 }
