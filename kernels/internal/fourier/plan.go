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
// j*k/n). If the prime factors of n are small, it uses mixed radices: each stage combines the transforms of the stage
// before into longer ones. For example, n = 12 has the factors 4 and 3; the first stage computes 3 transforms of 4
// elements, and the second combines them into one of 12. Roots of unity are computed once, in float64.
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
	remaining := n
	for _, factor := range []int{4, 2} {
		for remaining%factor == 0 {
			f.factors, remaining = append(f.factors, factor), remaining/factor
		}
	}
	for factor := 3; factor <= maxRadix && remaining > 1; factor += 2 {
		for remaining%factor == 0 {
			f.factors, remaining = append(f.factors, factor), remaining/factor
		}
	}
	if remaining > 1 {
		f.makeBluesteinTables()
		return f
	}
	f.roots = zeroTable(n)
	for k := range n {
		f.roots[k] = unitRoot(k, n)
	}
	return f
}

// makeBluesteinTables computes the tables of Bluestein's algorithm.
func (f *fourier) makeBluesteinTables() {
	length := 1 << bits.Len(uint(2*f.n-1))
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
	for j := range length {
		firstIn, firstOut := j*radix*groups, j*groups // for k = 0
		switch radix {
		case 2:
			root := f.roots[j*groups]
			for k := range groups {
				a, b := src[firstIn+k], kit.MulComplex(src[firstIn+groups+k], root)
				dst[firstOut+k], dst[firstOut+span+k] = a+b, a-b
			}
		case 4:
			root1, root2, root3 := f.roots[j*groups], f.roots[2*j*groups], f.roots[3*j*groups]
			for k := range groups {
				a, b := src[firstIn+k], kit.MulComplex(src[firstIn+groups+k], root1)
				c, d := kit.MulComplex(src[firstIn+2*groups+k], root2), kit.MulComplex(src[firstIn+3*groups+k], root3)
				aPlusC, aMinusC, bPlusD, bMinusD := a+c, a-c, b+d, b-d
				rotated := complex(imag(bMinusD), -real(bMinusD)) // bMinusD times -i
				dst[firstOut+k], dst[firstOut+span+k] = aPlusC+bPlusD, aMinusC+rotated
				dst[firstOut+2*span+k], dst[firstOut+3*span+k] = aPlusC-bPlusD, aMinusC-rotated
			}
		default:
			for k := range groups {
				for p := range radix { // result p, by its definition: the sum of operand q times w^(q*(j+p*length))
					var sum complex128
					for q, root := 0, 0; q < radix; q++ {
						sum += kit.MulComplex(src[firstIn+q*groups+k], f.roots[root])
						if root += (j + p*length) * groups; root >= f.n {
							root -= f.n
						}
					}
					dst[firstOut+p*span+k] = sum
				}
			}
		}
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
