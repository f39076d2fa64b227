package elementary

import (
	"math"
	"math/cmplx"
)

// Functions of a complex number, by the formulas of math/cmplx with the real functions of this package. They are twice
// as fast as math/cmplx. For infinite and NaN operands they call math/cmplx. Conversions such as float64(x*y) prevent
// fused multiply-adds. For z = x + iy:
//
//	sin(z)  = sin(x) cosh(y) + i cos(x) sinh(y)
//	cos(z)  = cos(x) cosh(y) - i sin(x) sinh(y)
//	tan(z)  = (sin(x) cos(x) + i sinh(y) cosh(y)) / (cos(x)^2 + sinh(y)^2)
//	sinh(z) = cos(y) sinh(x) + i sin(y) cosh(x)
//	cosh(z) = cos(y) cosh(x) + i sin(y) sinh(x)
//	tanh(z) = -i tan(iz)

// Bounds on the magnitude of a part.
const (
	squareLimit = 1e150 // the square of a smaller number does not overflow
	powerLimit  = 300   // the exponential of a smaller number does not overflow
)

// inBounds reports whether the magnitudes of the parts are below bounds.
func inBounds(z complex128, re, im float64) bool {
	return math.Abs(real(z)) < re && math.Abs(imag(z)) < im
}

// isFinite reports whether both parts are finite.
func isFinite(z complex128) bool { return inBounds(z, math.Inf(1), math.Inf(1)) }

// complexSqrt is cmplx.Sqrt without unpredictable branches. Imaginary parts keep their sign even if they are
// negligible. The magnitudes of the two parts of the result are r = sqrt((|z|+|a|)/2) and |b|/(2r), for z = a + bi.
func complexSqrt(z complex128) complex128 {
	a, b := real(z), imag(z)
	if a == 0 || b == 0 || a-a != 0 || b-b != 0 { // a-a is NaN if a is infinite or NaN
		return cmplx.Sqrt(z)
	}
	scale, magnitude := 1.0, hypotenuse(a, b)
	if magnitude == 0 { // squares overflow or underflow: scale z by factor, and the root by scale, 1/sqrt(factor)
		factor := 0x1p54
		scale = 0x1p-27
		if math.Abs(a) > 4 || math.Abs(b) > 4 {
			factor, scale = 0.25, 2
		}
		a, b = a*factor, b*factor
		magnitude = Hypot(a, b)
	}
	root := math.Sqrt(float64(0.5*magnitude) + float64(0.5*math.Abs(a)))
	large, small := math.Float64bits(root*scale), math.Float64bits(scale*math.Abs(0.5*b/root))
	re, im := large, small
	if a < 0 { // a conditional move
		re, im = small, large
	}
	return complex(math.Float64frombits(re), math.Float64frombits(im|math.Float64bits(b)&signBit))
}

// hypotenuse returns the root of a sum of squares, or 0 if the squares may overflow or underflow. It must not be
// inlined into a loop. The square root instruction writes only half of a register, which makes each iteration depend on
// the previous one.
//
//go:noinline
func hypotenuse(a, b float64) float64 {
	square := float64(a*a) + float64(b*b)
	if square > 0x1p-900 && square < 0x1p+900 {
		return math.Sqrt(square)
	}
	return 0
}

// sinhCosh returns the hyperbolic sine and cosine of x, |x| < powerLimit. For |x| <= 1, the sine is a polynomial, x +
// x^3 P(x^2) with the coefficients sinhPoly, and the cosine is sqrt(1 + sinh(x)^2).
func sinhCosh(x float64) (sinh, cosh float64) {
	if magnitude := math.Abs(x); magnitude > 1 {
		halfExp := float64(0.5 * Exp(magnitude))
		halfInverse := 0.25 / halfExp
		return math.Copysign(halfExp-halfInverse, x), halfExp + halfInverse
	}
	c, x2 := &sinhPoly, x*x
	x4 := x2 * x2
	low := c[0] + float64(x2*c[1]) + float64(x4*(c[2]+float64(x2*c[3])))
	high := c[4] + float64(x2*c[5]) + float64(x4*(c[6]+float64(x2*c[7])))
	sinhX := x + float64(x*x2*(low+float64(x4*x4*high)))
	return sinhX, math.Sqrt(1 + float64(sinhX*sinhX))
}

// hyperbolicProducts returns cosh(y)*sin and sinh(y)*cos for finite numbers. If |y| is powerLimit or more, both
// hyperbolic functions are half an exponential. The exponential may overflow although the product does not, and
// infinity times 0 would be NaN. The function therefore multiplies by the root of the exponential twice. If |y| exceeds
// 1400, all nonzero products overflow.
func hyperbolicProducts(sin, cos, y float64) (coshSin, sinhCos float64) {
	magnitude := math.Abs(y)
	if magnitude < powerLimit {
		sinh, cosh := sinhCosh(y)
		return sin * cosh, cos * sinh
	}
	root := Exp(0.5 * min(magnitude, 1400))
	return sin * (0.5 * root) * root, cos * math.Copysign(0.5*root, y) * root
}

// complexSin returns the sine of z.
func complexSin(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Sin(z)
	}
	sin, cos := SinCos(real(z))
	re, im := hyperbolicProducts(sin, cos, imag(z))
	return complex(re, im)
}

// complexCos returns the cosine of z.
func complexCos(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Cos(z)
	}
	sin, cos := SinCos(real(z))
	re, im := hyperbolicProducts(cos, -sin, imag(z))
	return complex(re, im)
}

// complexSinh returns the hyperbolic sine of z.
func complexSinh(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Sinh(z)
	}
	sin, cos := SinCos(imag(z))
	im, re := hyperbolicProducts(sin, cos, real(z))
	return complex(re, im)
}

// complexCosh returns the hyperbolic cosine of z.
func complexCosh(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Cosh(z)
	}
	sin, cos := SinCos(imag(z))
	re, im := hyperbolicProducts(cos, sin, real(z))
	return complex(re, im)
}

// complexTan returns the tangent of z. It divides by cos(x)^2 + sinh(y)^2, because cancellation may occur in the equal
// divisor (cos(2x) + cosh(2y))/2. If |y| is tanFar or more, squaring sinh would lose accuracy, and sinh(y)^2 is
// computed as exp(2|y|)/4.
func complexTan(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Tan(z)
	}
	const tanFar = 20
	sin, cos := SinCos(real(z))
	if b := imag(z); math.Abs(b) >= tanFar {
		return complex(4*sin*cos*Exp(-2*math.Abs(b)), math.Copysign(1, b))
	}
	sinh, cosh := sinhCosh(imag(z))
	divisor := float64(cos*cos) + float64(sinh*sinh)
	return complex(sin*cos/divisor, sinh*cosh/divisor)
}

// complexTanh returns the hyperbolic tangent of z.
func complexTanh(z complex128) complex128 {
	if !isFinite(z) {
		return cmplx.Tanh(z)
	}
	w := complexTan(complex(-imag(z), real(z)))
	return complex(imag(w), -real(w))
}
