package kit

import (
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// MulComplex returns a*b. Each product and each sum is rounded. Go's operator may fuse them on processors other than
// amd64, and a conversion of its result does not prevent that (golang/go#36971).
func MulComplex(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))-float64(imag(a)*imag(b)), float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}

// DivComplex returns a/b, by the algorithm of Go's operator (R. L. Smith, Algorithm 116, 1962). Each product and
// each sum is rounded.
func DivComplex(a, b complex128) complex128 {
	re, im, swapped := real(b), imag(b), math.Abs(real(b)) < math.Abs(imag(b))
	if swapped { // a/b = (-i a)/(-i b)
		a, re, im = complex(imag(a), -real(a)), im, -re
	}
	// Smith's formula, for |re| >= |im|: (a + i*b)/(re + i*im) = (a + b*ratio + i*(b - a*ratio)) / (re + im*ratio)
	ratio := im / re
	divisor := re + float64(ratio*im)
	quotient := complex((real(a)+float64(imag(a)*ratio))/divisor, (imag(a)-float64(real(a)*ratio))/divisor)
	if math.IsNaN(real(quotient)) || math.IsNaN(imag(quotient)) { // an operand is NaN, infinite or 0
		return a / complex(re, im)
	}
	return quotient
}

// AbsComplex returns the magnitude of a number.
func AbsComplex(a complex128) float64 {
	large, small := math.Abs(real(a)), math.Abs(imag(a))
	if large < small {
		large, small = small, large
	}
	if small == 0 {
		return large
	}
	// sqrt(large^2 + small^2) = large * sqrt(1 + (small/large)^2), without overflow of the squares
	small /= large
	magnitude := large * math.Sqrt(1+float64(small*small))
	if math.IsNaN(magnitude) { // a part is infinite or NaN
		return math.Hypot(real(a), imag(a))
	}
	return magnitude
}

// Precision returns the distance from 1 to the next number of a dtype: torch.finfo(dtype).eps. The dtype is float32,
// float64, or a complex dtype with such parts.
func Precision(dtype tensor.DType) float64 {
	if dtype.ToReal() == tensor.Float32 {
		return 0x1p-23
	}
	return 0x1p-52
}
