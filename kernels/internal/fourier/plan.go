package fourier

import (
	"math"
	"math/bits"
	"math/cmplx"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// fourier computes discrete Fourier transforms of one length n: result k is the sum over j of x[j] * exp(-2 pi i
// j*k/n). If the prime factors of n are small, it uses mixed radices: each stage combines the transforms of the
// previous stage into longer transforms. For example, n = 12 has the factors 4 and 3; the first stage computes 3
// transforms of 4 elements, and the second combines them into one of 12. Roots of unity are computed once, in float64.
//
// Other lengths use Bluestein's algorithm. Because 2*j*k = j*j + k*k - (k-j)*(k-j), result k is
//
//	chirp[k] * sum over j of (x[j] * chirp[j]) * filter[k-j]
//
// where chirp[k] = exp(-pi i k*k / n), and filter is the conjugate chirp. The sum is a convolution, which is computed
// by transforms of a power-of-two length.
type fourier struct {
	n       int          // length
	factors []int        // factors of n, in the order of the stages; unused in Bluestein's algorithm
	roots   []complex128 // element k is exp(-2 pi i k / n); nil in Bluestein's algorithm

	// The fields of Bluestein's algorithm.
	inner           *fourier     // transform of the convolution's length, a power of two
	chirp           []complex128 // element k is exp(-pi i k*k / n)
	filterTransform []complex128 // transform of the filter, the conjugate chirp
}

// maxRadix is the greatest prime factor whose transforms are computed by summation. Lengths with greater prime factors
// use Bluestein's algorithm.
const maxRadix = 61

// newFourier returns the transform of length n.
func newFourier(n int) *fourier {
	f := &fourier{n: n}
	var hasGreatPrime bool
	if f.factors, hasGreatPrime = radices(n); hasGreatPrime {
		f.makeBluesteinTables()
		return f
	}
	f.roots = zeroTable(n)
	for k := range n {
		f.roots[k] = unitRoot(k, n)
	}
	return f
}

// radices returns the factors 2, 4 and odd primes up to maxRadix of a length. It reports whether the length also has a
// greater prime factor.
func radices(n int) (factors []int, hasGreatPrime bool) {
	if bits.TrailingZeros(uint(n))%2 == 1 {
		factors, n = append(factors, 2), n/2
	}
	for n%4 == 0 {
		factors, n = append(factors, 4), n/4
	}
	for factor := 3; factor <= maxRadix && n > 1; factor += 2 {
		for n%factor == 0 {
			factors, n = append(factors, factor), n/factor
		}
	}
	return factors, n > 1
}

// bluesteinLength returns the length of the convolution of Bluestein's algorithm for a length n.
func bluesteinLength(n int) int { return 1 << bits.Len(uint(2*n-1)) }

// flops returns the approximate number of arithmetic operations of a transform of length n.
func flops(n int) float64 {
	if _, hasGreatPrime := radices(n); hasGreatPrime {
		return 2 * flops(bluesteinLength(n))
	}
	return 5 * float64(n) * math.Log2(float64(n))
}

// makeBluesteinTables computes the tables of Bluestein's algorithm.
func (f *fourier) makeBluesteinTables() {
	length := bluesteinLength(f.n)
	f.inner = newFourier(length)
	f.chirp, f.filterTransform = zeroTable(f.n), zeroTable(length)
	for k := range f.n {
		// k*k is reduced modulo 2n, because the sine of a large number is less accurate.
		f.chirp[k] = unitRoot(k*k%(2*f.n), 2*f.n)
	}
	for k, value := range f.chirp {
		f.filterTransform[k] = cmplx.Conj(value)
		if k > 0 { // filter[-k] = filter[k] is at length-k, because a convolution by transforms is periodic
			f.filterTransform[length-k] = cmplx.Conj(value)
		}
	}
	f.inner.forward(f.filterTransform, zeroTable(f.inner.workLen()))
}

// zeroTable returns a table of n zeros. It panics with a [*tensor.MemoryError] if memory is short.
func zeroTable(n int) []complex128 {
	return unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(tensor.NewStorage(complexBytes*n).Bytes()))), n)
}

// unitRoot returns exp(-2 pi i k / n).
func unitRoot(k, n int) complex128 {
	angle := -2 * math.Pi * float64(k) / float64(n)
	return complex(cos(angle), sin(angle))
}

// The results of sin and cos have the same bits on all processors.
var sin, cos = expr.Sin.Unary(), expr.Cos.Unary()

// workLen returns the number of elements of memory that forward needs.
func (f *fourier) workLen() int {
	if f.inner != nil {
		return 2 * f.inner.n
	}
	return f.n
}

// forward transforms x, which has n elements, in place. scratch is temporary memory of f.workLen() elements.
func (f *fourier) forward(x, scratch []complex128) {
	if f.inner != nil {
		f.convolve(x, scratch)
		return
	}
	src, dst := x, scratch[:f.n]
	length := 1 // length of the transforms so far
	for _, radix := range f.factors {
		f.runStage(dst, src, radix, length)
		src, dst = dst, src
		length *= radix
	}
	if f.n > 0 && len(f.factors)%2 == 1 {
		copy(x, src)
	}
}

// runStage performs one stage of Stockham's algorithm. It combines each group of radix transforms of the given length
// into one transform of radix*length elements. The transforms are interleaved: before the stage, element j of transform
// k is src[j*radix*groups+k]; after the stage, it is dst[j*groups+k]. The transforms k, k+groups, k+2*groups and so on
// before the stage are combined into transform k. Their elements j give the elements j, j+length, j+2*length and so on.
// For this, element j of transform k+q*groups is multiplied by w^(q*j), where w = exp(-2 pi i / (radix*length)). In
// f.roots, w^(q*j) has the index q*j*groups.
func (f *fourier) runStage(dst, src []complex128, radix, length int) {
	groups := f.n / (radix * length) // number of transforms after the stage
	span := length * groups          // distance between the results of a group
	runRadix := f.runRadix4
	switch {
	case radix == 4 && length == 1:
		firstRadix4(dst, src, groups)
		return
	case radix == 4 && groups == 1:
		f.lastRadix4(dst, src, length)
		return
	case radix == 2:
		runRadix = f.runRadix2
	case radix == 3:
		runRadix = f.runRadix3
	case radix == 5:
		runRadix = f.runRadix5
	case radix > 5:
		f.runOddRadix(dst, src, radix, length)
		return
	}
	for j := range length {
		runRadix(dst[j*groups:], src[j*radix*groups:], j, groups, span)
	}
}

// convolve transforms x in place by Bluestein's algorithm: it convolves x times the chirp with the filter, and
// multiplies the result by the chirp.
func (f *fourier) convolve(x, scratch []complex128) {
	innerLength := f.inner.n
	padded, innerScratch := scratch[:innerLength], scratch[innerLength:] // padded: the operand, and then the convolution
	clear(padded)
	for k, value := range x[:f.n] {
		padded[k] = kit.MulComplex(value, f.chirp[k])
	}
	f.inner.forward(padded, innerScratch)
	for k := range padded {
		value := kit.MulComplex(padded[k], f.filterTransform[k])
		// conj(forward(conj(x))) is the inverse transform of x, without its scale.
		padded[k] = complex(real(value), -imag(value))
	}
	f.inner.forward(padded, innerScratch)
	scale := 1 / float64(innerLength)
	for k := range x[:f.n] {
		x[k] = kit.MulComplex(complex(real(padded[k])*scale, -imag(padded[k])*scale), f.chirp[k])
	}
}
