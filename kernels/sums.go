package kernels

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// squares adds the squares of the distances from mean.
func squares[T float32 | float64](x []T, mean float64) float64 {
	var q0, q1, q2, q3 float64
	for len(x) >= 4 {
		d0, d1, d2, d3 := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		q0 += d0 * d0
		q1 += d1 * d1
		q2 += d2 * d2
		q3 += d3 * d3
		x = x[4:]
	}
	for _, v := range x {
		d := float64(v) - mean
		q0 += d * d
	}
	return (q0 + q1) + (q2 + q3)
}

func prodColumns[T, A int64 | float32 | float64](a []A, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] *= A(x[i])
	}
}

func mulTo[A int64 | float64 | complex128](a, from []A) {
	from = from[:len(a)]
	for i := range a {
		a[i] *= from[i]
	}
}

func prodColumnsZ[T complex64 | complex128](a []complex128, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] *= complex128(x[i])
	}
}

// sumDType: bools and integers are summed as int64 unless a dtype is given.
func sumDType(d, given tensor.DType) tensor.DType {
	switch {
	case given != tensor.Invalid:
		return given
	case d.IsIntegral(true):
		return tensor.Int64
	}
	return d
}

func refSum(d tensor.DType, divisor float64) func(x []tensor.Scalar) []tensor.Scalar {
	return func(x []tensor.Scalar) []tensor.Scalar {
		var i int64
		var z complex128
		for _, v := range x {
			i += v.Int()
			z += v.Complex()
		}
		switch {
		case d.IsIntegral(true):
			return []tensor.Scalar{tensor.IntScalar(i)}
		case d.IsComplex():
			return []tensor.Scalar{tensor.ComplexScalar(complex(real(z)/divisor, imag(z)/divisor))}
		}
		return []tensor.Scalar{tensor.FloatScalar(real(z) / divisor)}
	}
}

// sumFold sums elements of dtype d and divides floats by divisor.
func sumFold(d tensor.DType, divisor float64) *iter.Fold {
	if d == tensor.Bool {
		return truthFold(true)
	}
	switch wide(d) {
	case tensor.Int64:
		return same[int64](iter.Folding(0, sumRow[int64, int64], sumColumns[int64, int64], addTo[int64]))
	case tensor.Float32:
		return averaging(iter.Folding(0, sumRow[float32, float64], sumColumns[float32, float64], addTo[float64]), divisor)
	case tensor.Float64:
		return averaging(iter.Folding(0, sumRow[float64, float64], sumColumns[float64, float64], addTo[float64]), divisor)
	case tensor.Complex64:
		return averagingComplex(iter.Folding(0, sumRowZ[complex64], sumColumnsZ[complex64], addTo[complex128]), divisor)
	}
	return averagingComplex(iter.Folding(0, sumRowZ[complex128], sumColumnsZ[complex128], addTo[complex128]), divisor)
}

func averaging(f *iter.Fold, by float64) *iter.Fold {
	return iter.Yields(f, func(dst, a []float64) {
		for i, s := range a {
			dst[i] = s / by
		}
	})
}

func averagingComplex(f *iter.Fold, by float64) *iter.Fold {
	return iter.Yields(f, func(dst, a []complex128) {
		for i, s := range a {
			dst[i] = complex(real(s)/by, imag(s)/by)
		}
	})
}

// sumRow keeps eight sums, since one would wait for each addition to end.
func sumRow[T, A int64 | float32 | float64](a *A, x []T, _ int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 A
	for len(x) >= 8 {
		s0 += A(x[0])
		s1 += A(x[1])
		s2 += A(x[2])
		s3 += A(x[3])
		s4 += A(x[4])
		s5 += A(x[5])
		s6 += A(x[6])
		s7 += A(x[7])
		x = x[8:]
	}
	for _, v := range x {
		s0 += A(v)
	}
	*a += ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
}

func sumColumns[T, A int64 | float32 | float64](a []A, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] += A(x[i])
	}
}

func addTo[A int64 | float64 | complex128](a, from []A) {
	from = from[:len(a)]
	for i := range a {
		a[i] += from[i]
	}
}

func sumRowZ[T complex64 | complex128](a *complex128, x []T, _ int) {
	var s0, s1, s2, s3 complex128
	for len(x) >= 4 {
		s0 += complex128(x[0])
		s1 += complex128(x[1])
		s2 += complex128(x[2])
		s3 += complex128(x[3])
		x = x[4:]
	}
	for _, v := range x {
		s0 += complex128(v)
	}
	*a += (s0 + s1) + (s2 + s3)
}

func sumColumnsZ[T complex64 | complex128](a []complex128, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i] += complex128(x[i])
	}
}
