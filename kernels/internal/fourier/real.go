package fourier

import "github.com/graphrun/graphrun/kernels/internal/kit"

// This file transforms real lines, and lines with real transforms, by complex transforms of half the length.

// realFourier transforms lines of an even length n by complex transforms of length m = n/2. w stands for
// exp(-2 pi i / n).
type realFourier struct {
	half  *fourier
	roots []complex128 // element k is w^k, for k below m
}

func newRealFourier(n int) *realFourier {
	f := &realFourier{half: newFourier(n / 2), roots: zeroTable(n / 2)}
	for k := range f.roots {
		f.roots[k] = unitRoot(k, n)
	}
	return f
}

// forwardReal sets x[0] to x[m] to the first half of the transform of the n real elements of x. scratch is temporary
// memory of f.half.workLen() elements. With the transform z of the m elements x[2j] + i*x[2j+1], frequency k is
//
//	(z[k] + conj(z[m-k]))/2 - i*w^k*(z[k] - conj(z[m-k]))/2
//
// The first summand is element k of the transform of the even elements. The second is w^k times element k of the
// transform of the odd elements. As z has the period m, frequency 0 is re z[0] + im z[0], and frequency m is re z[0] -
// im z[0].
func (f *realFourier) forwardReal(x, scratch []complex128) {
	m := f.half.n
	for j := range x[:m] {
		pair := x[2*j:][:2]
		x[j] = complex(real(pair[0]), real(pair[1]))
	}
	f.half.forward(x[:m], scratch)
	first := x[0]
	x[0], x[m] = complex(real(first)+imag(first), 0), complex(real(first)-imag(first), 0)
	for k := 1; k <= m/2; k++ {
		z, mirrored := x[k], x[m-k]
		// The conversions prevent fused multiply-adds below.
		even := complex(float64((real(z)+real(mirrored))*0.5), float64((imag(z)-imag(mirrored))*0.5))
		odd := complex((imag(z)+imag(mirrored))*0.5, (real(mirrored)-real(z))*0.5) // times -i
		rotated := kit.MulComplex(odd, f.roots[k])
		x[k] = even + rotated
		// The summands of frequency m-k are the conjugates of even and -rotated.
		x[m-k] = complex(real(even)-real(rotated), imag(rotated)-imag(even))
	}
}

// forwardToReal transforms the n elements of x, whose transform is real. x[n-j] must be conj(x[j]). scratch is
// temporary memory of f.half.workLen() elements. The frequencies 2k are the transform of even[j] = x[j] + x[j+m], and
// the frequencies 2k+1 are the transform of odd[j] = (x[j] - x[j+m])*w^j. As both transforms are real, one transform of
// even + i*odd computes both.
func (f *realFourier) forwardToReal(x, scratch []complex128) {
	m := f.half.n
	low, high := x[:m], x[m:][:m]
	for j, root := range f.roots[:m] {
		even, odd := low[j]+high[j], kit.MulComplex(low[j]-high[j], root)
		low[j] = complex(real(even)-imag(odd), imag(even)+real(odd))
	}
	f.half.forward(x[:m], scratch)
	for k := m - 1; k >= 0; k-- {
		x[2*k], x[2*k+1] = complex(real(x[k]), 0), complex(imag(x[k]), 0)
	}
}
