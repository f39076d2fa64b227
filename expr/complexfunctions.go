package expr

import (
	"math"
	"math/cmplx"
)

// Functions of a complex number in Go, by the formulas of package cmplx and the real functions of this package, which
// take half of the time. What is infinite, NaN, real or imaginary, or so large that squares overflow, is left to
// package cmplx, which tells such cases apart.

// complexSqrt is cmplx.Sqrt without branches that are taken at random. Imaginary parts keep their sign, those too that
// are nothing beside the real part.
func complexSqrt(z complex128) complex128 {
	a, b := real(z), imag(z)
	if a == 0 || b == 0 || a-a != 0 || b-b != 0 {
		return cmplx.Sqrt(z)
	}
	scale, size := 1.0, hypotenuse(a, b)
	if size == 0 { // squares overflow or underflow
		up := 0x1p54
		if scale = 0x1p-27; math.Abs(a) > 4 || math.Abs(b) > 4 {
			up, scale = 0.25, 2
		}
		a, b = a*up, b*up
		size = math.Hypot(a, b)
	}
	r := math.Sqrt(0.5*size + 0.5*math.Abs(a))
	large, small := math.Float64bits(r*scale), math.Float64bits(scale*math.Abs(0.5*b/r))
	re, im := large, small
	if a < 0 { // bits are moved under the condition
		re, im = small, large
	}
	return complex(math.Float64frombits(re), math.Float64frombits(im|math.Float64bits(b)&signBit))
}

// hypotenuse is the root of a sum of squares, 0 if these may overflow or underflow. A root writes half of a register,
// and waits for what was in it: in a loop for the element before, but not where it is a function of its own.
//
//go:noinline
func hypotenuse(a, b float64) float64 {
	square := a*a + b*b
	if square > 0x1p-900 && square < 0x1p+900 {
		return math.Sqrt(square)
	}
	return 0
}

// Parts of numbers that squares, and exponentials, do not overflow of.
const (
	squareWithin = 1e150
	powerWithin  = 300
)

// inBounds reports whether the parts of a number are below bounds.
func inBounds(z complex128, re, im float64) bool {
	return math.Abs(real(z)) < re && math.Abs(imag(z)) < im
}

// plain reports whether a number is neither real nor imaginary, and squares of its parts do not overflow.
func plain(z complex128) bool {
	return inBounds(z, squareWithin, squareWithin) && real(z) != 0 && imag(z) != 0
}

// sinhCosh returns the hyperbolic sine and cosine of an x within powerWithin.
func sinhCosh(x float64) (sinh, cosh float64) {
	if a := math.Abs(x); a > 1 {
		e := 0.5 * exp(a)
		rest := 0.25 / e
		return math.Copysign(e-rest, x), e + rest
	}
	c, z := &sinhPoly, x*x
	w := z * z
	s := x + x*z*((c[0]+z*c[1]+w*(c[2]+z*c[3]))+w*w*(c[4]+z*c[5]+w*(c[6]+z*c[7])))
	return s, math.Sqrt(1 + s*s)
}

func complexSin(z complex128) complex128 {
	if !inBounds(z, math.MaxFloat64, powerWithin) {
		return cmplx.Sin(z)
	}
	sin, cos := sinCos(real(z))
	sinh, cosh := sinhCosh(imag(z))
	return complex(sin*cosh, cos*sinh)
}

func complexCos(z complex128) complex128 {
	if !inBounds(z, math.MaxFloat64, powerWithin) {
		return cmplx.Cos(z)
	}
	sin, cos := sinCos(real(z))
	sinh, cosh := sinhCosh(imag(z))
	return complex(cos*cosh, -sin*sinh)
}

func complexSinh(z complex128) complex128 {
	if !inBounds(z, powerWithin, math.MaxFloat64) {
		return cmplx.Sinh(z)
	}
	sin, cos := sinCos(imag(z))
	sinh, cosh := sinhCosh(real(z))
	return complex(cos*sinh, sin*cosh)
}

func complexCosh(z complex128) complex128 {
	if !inBounds(z, powerWithin, math.MaxFloat64) {
		return cmplx.Cosh(z)
	}
	sin, cos := sinCos(imag(z))
	sinh, cosh := sinhCosh(real(z))
	return complex(cos*cosh, sin*sinh)
}

func complexTan(z complex128) complex128 {
	if inBounds(z, squareWithin, powerWithin/2) {
		sin, cos := sinCos(2 * real(z))
		sinh, cosh := sinhCosh(2 * imag(z))
		if d := cos + cosh; d >= 0.25 { // else the sum cancels
			return complex(sin/d, sinh/d)
		}
	}
	return cmplx.Tan(z)
}

func complexTanh(z complex128) complex128 {
	if inBounds(z, powerWithin/2, squareWithin) {
		sin, cos := sinCos(2 * imag(z))
		sinh, cosh := sinhCosh(2 * real(z))
		if d := cosh + cos; d >= 0.25 {
			return complex(sinh/d, sin/d)
		}
	}
	return cmplx.Tanh(z)
}

// complexLog is the logarithm of a sum whose square is a normal number.
func complexLog(z complex128) complex128 {
	a, b := real(z), imag(z)
	square := a*a + b*b
	if !(square > 0x1p-900 && square < 0x1p+900) {
		return cmplx.Log(z)
	}
	return complex(0.5*log(square), atan2(b, a))
}

// The inverse functions are Kahan's ("Branch cuts for complex elementary functions", 1987): of the roots of 1 - z and
// 1 + z, whose products neither cancel nor overflow, where logarithms of z + sqrt(z^2 + 1) do both.

// roots returns the roots of 1 - z and 1 + z.
func roots(z complex128) (minus, plus complex128) {
	return complexSqrt(complex(1-real(z), -imag(z))), complexSqrt(complex(1+real(z), imag(z)))
}

func complexAsin(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Asin(z)
	}
	minus, plus := roots(z)
	return complex(atan2(real(z), real(minus)*real(plus)-imag(minus)*imag(plus)),
		math.Asinh(real(minus)*imag(plus)-imag(minus)*real(plus)))
}

func complexAcos(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Acos(z)
	}
	minus, plus := roots(z)
	return complex(2*atan2(real(minus), real(plus)), math.Asinh(real(plus)*imag(minus)-imag(plus)*real(minus)))
}

func complexAsinh(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Asinh(z)
	}
	w := complexAsin(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}

func complexAcosh(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Acosh(z)
	}
	w := complexAcos(z)
	return complex(math.Abs(imag(w)), math.Copysign(real(w), imag(z)))
}

func complexAtan(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Atan(z)
	}
	a, b := real(z), imag(z)
	less := math.Abs(b) - 1
	below := a*a + less*less
	if below == 0 {
		return cmplx.Atan(z)
	}
	return complex(0.5*atan2(2*a, -less*(math.Abs(b)+1)-a*a), math.Copysign(0.25*math.Log1p(4*math.Abs(b)/below), b))
}

func complexAtanh(z complex128) complex128 {
	if !plain(z) {
		return cmplx.Atanh(z)
	}
	w := complexAtan(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}
