package pointwise

import (
	"math"
	"math/cmplx"
)

// This file has the references of complex functions for which package cmplx is inaccurate. The formulas of cmplx suffer
// from cancellation, divide infinities, multiply 0 by infinity, or do not distinguish the sides of branch cuts. The
// references use W. Kahan's formulas (Branch Cuts for Complex Elementary Functions, 1987). For operands that are not
// finite they call package cmplx. Some functions call another function at i*z: for example, sin(z) is sinh(i*z)/i
// ([applyRotated]). In the code, z is a + i*b, and angle64(y, x) is atan2.

// complexSinh and complexCosh need the product exp(m)*s/2, where m is the magnitude of the real part and s is a sine or
// a cosine of the imaginary part. For large m they compute exp(m/2)/2*s*exp(m/2), because exp(m) may overflow although
// the product is finite.
func complexSinh(z complex128) complex128 {
	if !hasFiniteParts(z) || math.Abs(real(z)) < maxExpOperand {
		return cmplx.Sinh(z)
	}
	sin, cos := math.Sincos(imag(z))
	root := sqrtOfExp(math.Abs(real(z)))
	return complex(math.Copysign(root/2, real(z))*cos*root, root/2*sin*root)
}

func complexCosh(z complex128) complex128 {
	if !hasFiniteParts(z) || math.Abs(real(z)) < maxExpOperand {
		return cmplx.Cosh(z)
	}
	sin, cos := math.Sincos(imag(z))
	root := sqrtOfExp(math.Abs(real(z)))
	return complex(root/2*cos*root, math.Copysign(root/2, real(z))*sin*root)
}

// maxExpOperand is an operand up to which exp certainly does not overflow.
const maxExpOperand = 600

// sqrtOfExp returns exp(m/2). Clamping m to 1400 keeps the result finite.
func sqrtOfExp(m float64) float64 { return math.Exp(min(m, 1400) / 2) }

func complexSin(z complex128) complex128 {
	if !hasFiniteParts(z) {
		return cmplx.Sin(z)
	}
	return applyRotated(complexSinh, z)
}

func complexCos(z complex128) complex128 {
	if !hasFiniteParts(z) {
		return cmplx.Cos(z)
	}
	return complexCosh(complex(-imag(z), real(z)))
}

func complexTan(z complex128) complex128 {
	a, b := real(z), imag(z)
	isLargeB := math.Abs(b) >= 100 // cosh(b)^2 and sinh(b)^2 then equal exp(2*|b|)/4 up to rounding
	if !hasFiniteParts(z) || !isLargeB && !squareOverflows(z) {
		return cmplx.Tan(z)
	}
	sin, cos := math.Sincos(a)
	// tan(z) = (sin(a)*cos(a) + i*sinh(b)*cosh(b)) / (cos(a)^2 + sinh(b)^2)
	if !isLargeB { // a is large: cmplx.Tan computes 2*a, which may overflow
		divisor := float64(cos*cos) + float64(math.Sinh(b)*math.Sinh(b))
		return complex(sin*cos/divisor, math.Sinh(b)*math.Cosh(b)/divisor)
	}
	return complex(4*sin*cos*math.Exp(-2*math.Abs(b)), math.Copysign(1, b))
}

// complexTanh calls complexTan, because cmplx.Tan uses a series for operands at which terms cancel, and cmplx.Tanh does
// not.
func complexTanh(z complex128) complex128 {
	if !hasFiniteParts(z) {
		return cmplx.Tanh(z)
	}
	return applyRotated(complexTan, z)
}

func complexAsinh(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !hasFiniteParts(z):
		return cmplx.Asinh(z)
	case squareOverflows(z):
		return complex(math.Copysign(logOfTwice(z), a), angle64(b, math.Abs(a)))
	}
	// With p = sqrt(1-i*z) and q = sqrt(1+i*z), asinh(z) = asinh(Im(conj(p)*q)) + i*atan2(b, Re(p*q)) (Kahan).
	p, q := signedSqrt(complex(1+b, -a)), signedSqrt(complex(1-b, a))
	y := float64(real(p)*imag(q)) - float64(real(q)*imag(p))
	return complex(math.Asinh(y), angle64(b, float64(real(p)*real(q))-float64(imag(p)*imag(q))))
}

func complexAsin(z complex128) complex128 {
	if !hasFiniteParts(z) {
		return cmplx.Asin(z)
	}
	return applyRotated(complexAsinh, z)
}

func complexAcos(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !hasFiniteParts(z):
		return cmplx.Acos(z)
	case squareOverflows(z):
		return complex(angle64(math.Abs(b), a), -math.Copysign(logOfTwice(z), b))
	}
	// With p = sqrt(1-z) and q = sqrt(1+z), acos(z) = 2*atan2(Re(p), Re(q)) + i*asinh(Im(conj(q)*p)).
	p, q := signedSqrt(complex(1-a, -b)), signedSqrt(complex(1+a, b))
	return complex(2*angle64(real(p), real(q)), math.Asinh(float64(real(q)*imag(p))-float64(imag(q)*real(p))))
}

func complexAcosh(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !hasFiniteParts(z):
		return cmplx.Acosh(z)
	case squareOverflows(z):
		return complex(logOfTwice(z), angle64(b, a))
	}
	// With p = sqrt(z-1) and q = sqrt(z+1), acosh(z) = asinh(Re(conj(p)*q)) + 2*i*atan2(Im(p), Re(q)).
	p, q := signedSqrt(complex(a-1, b)), signedSqrt(complex(a+1, b))
	return complex(math.Asinh(float64(real(p)*real(q))+float64(imag(p)*imag(q))), 2*angle64(imag(p), real(q)))
}

// complexAtanh computes only with a positive real part. For a negative real part it uses atanh(-z) = -atanh(z).
func complexAtanh(z complex128) complex128 {
	a, b := real(z), imag(z)
	switch {
	case !hasFiniteParts(z):
		return cmplx.Atanh(z)
	case math.Signbit(a):
		negated := complexAtanh(complex(-a, -b))
		return complex(-real(negated), -imag(negated))
	case squareOverflows(z):
		halfMagnitude := cmplx.Abs(half(z)) // atanh(z) is about 1/z + i*pi/2, and the real part of 1/z is a/|z|^2
		return complex(a/4/halfMagnitude/halfMagnitude, math.Copysign(math.Pi/2, b))
	case a == 1 && b == 0:
		return complex(math.Inf(1), b)
	case a == 1 && math.Abs(b) < 1e-150: // b^2 may underflow
		return complex((math.Ln2-logWithSubnormals(math.Abs(b)))/2, math.Copysign(math.Pi/4, b))
	}
	// log1p(4*a / ((1-a)^2 + b^2))/4 + i*atan2(2*b, (1-a)*(1+a) - b^2)/2
	realPart := math.Log1p(4*a/(float64((1-a)*(1-a))+float64(b*b))) / 4
	return complex(realPart, angle64(2*b, float64((1-a)*(1+a))-float64(b*b))/2)
}

func complexAtan(z complex128) complex128 {
	if !hasFiniteParts(z) {
		return cmplx.Atan(z)
	}
	return applyRotated(complexAtanh, z)
}

func hasFiniteParts(z complex128) bool { return isFinite(real(z)) && isFinite(imag(z)) }

// squareOverflows reports whether the square of z may overflow.
func squareOverflows(z complex128) bool { return max(math.Abs(real(z)), math.Abs(imag(z))) > 1e150 }

// half returns z/2. It multiplies the parts separately, because a complex product is a sum of products, which the
// compiler may fuse.
func half(z complex128) complex128 { return complex(0.5*real(z), 0.5*imag(z)) }

// logOfTwice returns log(|2z|), computed as log(|z/2|) + log(4), so that it is correct even if 2z overflows.
func logOfTwice(z complex128) float64 { return math.Log(cmplx.Abs(half(z))) + 2*math.Ln2 }

// signedSqrt is cmplx.Sqrt, but the imaginary part of the result has the sign of imag(z) even if imag(z) is 0.
func signedSqrt(z complex128) complex128 {
	root := cmplx.Sqrt(z)
	return complex(real(root), math.Copysign(imag(root), imag(z)))
}

// applyRotated returns f(i*z)/i.
func applyRotated(f func(complex128) complex128, z complex128) complex128 {
	rotated := f(complex(-imag(z), real(z)))
	return complex(imag(rotated), -real(rotated))
}
