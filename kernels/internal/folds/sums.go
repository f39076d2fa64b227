package folds

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file computes sums, and means as sums divided by a number. [Summing] has three forms of the computation: an
// expression (sumExpression in rows.go), loops in Go ([iter.Fold]) and a reference. Depending on the strides, a loop
// adds all elements of a row to one sum ([SumRow]), or adds element i of a row to sum i ([SumColumns]).

// SumDType returns the dtype of a sum of elements of a dtype: requested if it is valid, else int64 for bools and
// integers, and dtype for others.
func SumDType(dtype, requested tensor.DType) tensor.DType {
	switch {
	case requested != tensor.Invalid:
		return requested
	case dtype.IsIntegral(true):
		return tensor.Int64
	}
	return dtype
}

// Summing returns the computation that sums elements of a dtype. Sums of floats and complex numbers are divided by
// divisor.
func Summing(dtype tensor.DType, divisor float64) Computation {
	return Computation{
		Row:  sumExpression(dtype, divisor),
		Fold: func() *iter.Fold { return sumFold(dtype, divisor) },
		Ref:  refSum(dtype, divisor),
	}
}

// sumFold returns a fold that sums elements of a dtype and divides sums of floats and complex numbers by divisor.
// Floats are summed in float64, and integers in int64, where sums wrap. The arguments of [iter.NewFold] are the initial
// sum, the loops over rows and over columns, and the loop that adds partial sums.
func sumFold(dtype tensor.DType, divisor float64) *iter.Fold {
	if dtype == tensor.Bool { // PyTorch computes torch.any if the result is a bool
		const isAny = true
		return AnyOrAll(isAny)
	}
	switch kit.LoopDType(dtype) { // float32 also for 16-bit floats, int64 for all integers
	case tensor.Int64:
		return kit.Accumulators[int64](iter.NewFold(0, SumRow[int64, int64], SumColumns[int64, int64], AddTo[int64]))
	case tensor.Float32:
		return averaging(iter.NewFold(0, SumRow[float32, float64], SumColumns[float32, float64], AddTo[float64]), divisor)
	case tensor.Float64:
		return averaging(iter.NewFold(0, SumRow[float64, float64], SumColumns[float64, float64], AddTo[float64]), divisor)
	case tensor.Complex64:
		return averagingComplex(iter.NewFold(0, sumRowComplex[complex64], sumColumnsComplex[complex64],
			AddTo[complex128]), divisor)
	}
	return averagingComplex(iter.NewFold(0, sumRowComplex[complex128], sumColumnsComplex[complex128],
		AddTo[complex128]), divisor)
}

// averaging returns a fold whose result is the sum of the given fold divided by a number.
func averaging(fold *iter.Fold, divisor float64) *iter.Fold {
	return iter.WithResult(fold, func(dst, sums []float64) {
		for i, sum := range sums {
			dst[i] = sum / divisor
		}
	})
}

// averagingComplex is averaging for complex numbers.
func averagingComplex(fold *iter.Fold, divisor float64) *iter.Fold {
	return iter.WithResult(fold, func(dst, sums []complex128) {
		for i, sum := range sums {
			dst[i] = complex(real(sum)/divisor, imag(sum)/divisor)
		}
	})
}

// SumRow adds the elements of a row to *sum. It computes eight partial sums, because each addition to a single sum
// would wait for the previous addition. The last parameter is a position (see [iter.NewFold]), which a sum does not
// use.
func SumRow[T, A int64 | float32 | float64](sum *A, x []T, _ int) {
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
	for _, element := range x {
		s0 += A(element)
	}
	*sum += ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
}

// SumColumns adds x[i] to the sum sums[i] for each index i of sums.
func SumColumns[T, A int64 | float32 | float64](sums []A, x []T, _ int) {
	x = x[:len(sums)]
	for i := range sums {
		sums[i] += A(x[i])
	}
}

// AddTo adds src[i] to dst[i] for each index i of dst.
func AddTo[A int64 | float64 | complex128](dst, src []A) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

// sumRowComplex is [SumRow] for complex numbers.
func sumRowComplex[T complex64 | complex128](sum *complex128, x []T, _ int) {
	var s0, s1, s2, s3 complex128
	for len(x) >= 4 {
		s0 += complex128(x[0])
		s1 += complex128(x[1])
		s2 += complex128(x[2])
		s3 += complex128(x[3])
		x = x[4:]
	}
	for _, element := range x {
		s0 += complex128(element)
	}
	*sum += (s0 + s1) + (s2 + s3)
}

// sumColumnsComplex is [SumColumns] for complex numbers.
func sumColumnsComplex[T complex64 | complex128](sums []complex128, x []T, _ int) {
	x = x[:len(sums)]
	for i := range sums {
		sums[i] += complex128(x[i])
	}
}

// refSum returns a function that sums values, and divides sums of floats and complex numbers by divisor.
func refSum(dtype tensor.DType, divisor float64) func(x []tensor.Scalar) []tensor.Scalar {
	return func(x []tensor.Scalar) []tensor.Scalar {
		var intSum int64
		var sum complex128 // of floats, too
		for _, element := range x {
			intSum += element.Int()
			sum += element.Complex()
		}
		switch {
		case dtype.IsIntegral(true):
			return []tensor.Scalar{tensor.IntScalar(intSum)}
		case dtype.IsComplex():
			return []tensor.Scalar{tensor.ComplexScalar(complex(real(sum)/divisor, imag(sum)/divisor))}
		}
		return []tensor.Scalar{tensor.FloatScalar(real(sum) / divisor)}
	}
}
