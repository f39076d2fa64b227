package fourier

import "github.com/graphrun/graphrun/kernels/internal/kit"

// This file has the loops of [fourier.runStage], which defines groups, span and length. Each of runRadix2 to runRadix5
// computes the results of one element j of all transforms; src and dst start at the element j of transform 0.
// runRadix3 and runRadix5 use the formula of runOddRadix.

func (f *fourier) runRadix2(dst, src []complex128, j, groups, span int) {
	root := f.roots[j*groups]
	src0, src1 := src[:groups], src[groups:][:groups]
	dst0, dst1 := dst[:groups], dst[span:][:groups]
	for k, a := range src0 {
		b := kit.MulComplex(src1[k], root)
		dst0[k], dst1[k] = a+b, a-b
	}
}

func (f *fourier) runRadix4(dst, src []complex128, j, groups, span int) {
	root1, root2, root3 := f.roots[j*groups], f.roots[2*j*groups], f.roots[3*j*groups]
	src0, src1, src2, src3 := src[:groups], src[groups:][:groups], src[2*groups:][:groups], src[3*groups:][:groups]
	dst0, dst1, dst2, dst3 := dst[:groups], dst[span:][:groups], dst[2*span:][:groups], dst[3*span:][:groups]
	for k, a := range src0 {
		b, c, d := kit.MulComplex(src1[k], root1), kit.MulComplex(src2[k], root2), kit.MulComplex(src3[k], root3)
		dst0[k], dst1[k], dst2[k], dst3[k] = butterfly4(a, b, c, d)
	}
}

func (f *fourier) runRadix3(dst, src []complex128, j, groups, span int) {
	root1, root2, sine := f.roots[j*groups], f.roots[2*j*groups], imag(f.roots[f.n/3])
	src0, src1, src2 := src[:groups], src[groups:][:groups], src[2*groups:][:groups]
	dst0, dst1, dst2 := dst[:groups], dst[span:][:groups], dst[2*span:][:groups]
	for k, a := range src0 {
		b, c := kit.MulComplex(src1[k], root1), kit.MulComplex(src2[k], root2)
		sum, difference := b+c, b-c
		even := complex(real(a)-float64(real(sum)*0.5), imag(a)-float64(imag(sum)*0.5))
		odd := complex(-float64(imag(difference)*sine), float64(real(difference)*sine))
		dst0[k], dst1[k], dst2[k] = a+sum, even+odd, even-odd
	}
}

func (f *fourier) runRadix5(dst, src []complex128, j, groups, span int) {
	step := j * groups
	root1, root2, root3, root4 := f.roots[step], f.roots[2*step], f.roots[3*step], f.roots[4*step]
	unit1, unit2 := f.roots[f.n/5], f.roots[2*f.n/5]
	src0, src1, src2 := src[:groups], src[groups:][:groups], src[2*groups:][:groups]
	src3, src4 := src[3*groups:][:groups], src[4*groups:][:groups]
	dst0, dst1, dst2 := dst[:groups], dst[span:][:groups], dst[2*span:][:groups]
	dst3, dst4 := dst[3*span:][:groups], dst[4*span:][:groups]
	for k, a := range src0 {
		b, e := kit.MulComplex(src1[k], root1), kit.MulComplex(src4[k], root4)
		c, d := kit.MulComplex(src2[k], root2), kit.MulComplex(src3[k], root3)
		sum1, sum2, difference1, difference2 := b+e, c+d, b-e, c-d
		even1 := a + scaled(sum1, real(unit1)) + scaled(sum2, real(unit2))
		even2 := a + scaled(sum1, real(unit2)) + scaled(sum2, real(unit1))
		odd1 := rotated(scaled(difference1, imag(unit1)) + scaled(difference2, imag(unit2)))
		odd2 := rotated(scaled(difference1, imag(unit2)) - scaled(difference2, imag(unit1)))
		dst0[k] = a + sum1 + sum2
		dst1[k], dst4[k], dst2[k], dst3[k] = even1+odd1, even1-odd1, even2+odd2, even2-odd2
	}
}

// scaled returns z times a real factor.
func scaled(z complex128, factor float64) complex128 {
	return complex(float64(real(z)*factor), float64(imag(z)*factor))
}

// rotated returns z times i.
func rotated(z complex128) complex128 { return complex(-imag(z), real(z)) }

// firstRadix4 performs a stage of radix 4 with length 1, whose twiddle factors are 1.
func firstRadix4(dst, src []complex128, groups int) {
	src0, src1, src2, src3 := src[:groups], src[groups:][:groups], src[2*groups:][:groups], src[3*groups:][:groups]
	dst0, dst1, dst2, dst3 := dst[:groups], dst[groups:][:groups], dst[2*groups:][:groups], dst[3*groups:][:groups]
	for k, a := range src0 {
		dst0[k], dst1[k], dst2[k], dst3[k] = butterfly4(a, src1[k], src2[k], src3[k])
	}
}

// lastRadix4 performs a stage of radix 4 with groups = 1.
func (f *fourier) lastRadix4(dst, src []complex128, length int) {
	dst0, dst1, dst2, dst3 := dst[:length], dst[length:][:length], dst[2*length:][:length], dst[3*length:][:length]
	for j := range dst0 {
		x := src[4*j:][:4]
		b, c := kit.MulComplex(x[1], f.roots[j]), kit.MulComplex(x[2], f.roots[2*j])
		dst0[j], dst1[j], dst2[j], dst3[j] = butterfly4(x[0], b, c, kit.MulComplex(x[3], f.roots[3*j]))
	}
}

// butterfly4 returns the transform of 4 elements.
func butterfly4(a, b, c, d complex128) (w, x, y, z complex128) {
	aPlusC, aMinusC, bPlusD, bMinusD := a+c, a-c, b+d, b-d
	odd := complex(imag(bMinusD), -real(bMinusD)) // bMinusD times -i
	return aPlusC + bPlusD, aMinusC + odd, aPlusC - bPlusD, aMinusC - odd
}

// runOddRadix performs a stage of an odd radix. The transform of the elements x[0] to x[radix-1] is, with m = radix/2,
// angle = 2*pi*p/radix, sum[q] = x[q] + x[radix-q] and difference[q] = x[q] - x[radix-q],
//
//	result[p] = x[0] + sum over q from 1 to m of (sum[q]*cos(angle*q) - i*difference[q]*sin(angle*q))
//
// and result[radix-p] is the same with +i.
func (f *fourier) runOddRadix(dst, src []complex128, radix, length int) {
	groups := f.n / (radix * length)
	span, half := length*groups, radix/2
	var sums, differences, roots [maxRadix/2 + 1]complex128
	for p := range half + 1 {
		roots[p] = f.roots[p*(f.n/radix)]
	}
	for j := range length {
		firstIn, firstOut := j*radix*groups, j*groups
		for k := range groups {
			first, total := src[firstIn+k], src[firstIn+k]
			for q := 1; q <= half; q++ {
				a := kit.MulComplex(src[firstIn+q*groups+k], f.roots[q*j*groups])
				b := kit.MulComplex(src[firstIn+(radix-q)*groups+k], f.roots[(radix-q)*j*groups])
				sums[q], differences[q] = a+b, a-b
				total += sums[q]
			}
			dst[firstOut+k] = total
			for p := 1; p <= half; p++ {
				even, odd := oddRadixSums(first, sums[1:half+1], differences[1:half+1], &roots, p, radix)
				dst[firstOut+p*span+k], dst[firstOut+(radix-p)*span+k] = even+odd, even-odd
			}
		}
	}
}

// oddRadixSums returns first + sum over q of sums[q-1]*cos(angle*q), and the sum over q of
// -i*differences[q-1]*sin(angle*q), with angle = 2*pi*p/radix. Element p of roots is exp(-2*pi*i*p/radix).
func oddRadixSums(first complex128, sums, differences []complex128, roots *[maxRadix/2 + 1]complex128,
	p, radix int) (even, odd complex128) {
	evenRe, evenIm, oddRe, oddIm := real(first), imag(first), 0.0, 0.0
	index := 0
	for q, sum := range sums {
		if index += p; index >= radix {
			index -= radix
		}
		root := roots[min(index, radix-index)]
		cosine, sine := real(root), imag(root) // sine: of -angle*q
		if 2*index > radix {
			sine = -sine
		}
		evenRe += float64(real(sum) * cosine)
		evenIm += float64(imag(sum) * cosine)
		oddRe -= float64(imag(differences[q]) * sine)
		oddIm += float64(real(differences[q]) * sine)
	}
	return complex(evenRe, evenIm), complex(oddRe, oddIm)
}
