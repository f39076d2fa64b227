package kit

// MulComplex returns a*b. Each product and each sum is rounded. Go's operator may fuse them on processors other than
// amd64, and a conversion of its result does not prevent that (golang/go#36971).
func MulComplex(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))-float64(imag(a)*imag(b)), float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}
