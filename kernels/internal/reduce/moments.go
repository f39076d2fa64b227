package reduce

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// variance describes a call that computes a variance or a standard deviation, with or without the mean. For the n
// elements x of a row:
//
//	mean = sum(x) / n
//	variance = sum((x-mean)^2) / (n-correction)
//
// There are three implementations. Method row makes an expression, from which machine code is compiled. Method fold
// makes a fold in Go, whose accumulator is a [moments]. Method ref is the reference.
type variance struct {
	dtype       tensor.DType
	n           sym.Int // number of elements of a row
	correction  float64
	returnsStd  bool // return the standard deviation instead of the variance
	returnsMean bool // return the mean as the second result
}

// spec describes the variance as a reduction. mask marks the reduced dimensions. outs are the dtypes of the results.
func (v variance) spec(mask []bool, keepdim bool, outs ...tensor.DType) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: v.dtype, Outs: outs, Computation: func() folds.Computation {
		computation := folds.Computation{Row: v.row, Ref: v.ref}
		if !v.dtype.IsComplex() {
			computation.Fold = v.fold
		}
		return computation
	}}
}

// fold returns the computation in Go, for real numbers.
func (v variance) fold() *iter.Fold {
	if kit.LoopDType(v.dtype) == tensor.Float32 {
		return momentsFold[float32](v.divisor(), v.returnsStd, v.returnsMean)
	}
	return momentsFold[float64](v.divisor(), v.returnsStd, v.returnsMean)
}

// row returns the computation as an expression over a row x. The variance of complex numbers is the sum of the
// variances of their real and imaginary parts.
func (v variance) row(builder *expr.Builder, x folds.Number) []folds.Number {
	count := float64(kit.KnownSize(v.n))
	result, realMean := varianceAndMean(builder, x.Re, count, v.divisor())
	mean := folds.Real(realMean)
	if x.Im != expr.None {
		var imagVariance expr.Value
		imagVariance, mean.Im = varianceAndMean(builder, x.Im, count, v.divisor())
		result = builder.Emit(expr.Add, result, imagVariance)
	}
	if v.returnsStd {
		result = builder.Emit(expr.Sqrt, result)
	}
	if !v.returnsMean {
		return []folds.Number{folds.Real(result)}
	}
	return []folds.Number{folds.Real(result), mean}
}

// divisor returns the number by which the sum of squared deviations is divided: n - correction, but not less than 0.
func (v variance) divisor() float64 { return max(float64(kit.KnownSize(v.n))-v.correction, 0) }

// ref computes the results of one row for the reference.
func (v variance) ref(x []tensor.Scalar) []tensor.Scalar {
	var sum complex128
	for _, element := range x {
		sum += element.Complex()
	}
	count := float64(len(x))
	mean := complex(real(sum)/count, imag(sum)/count)
	realSquares, imagSquares := 0.0, 0.0
	for _, element := range x {
		deviation := element.Complex() - mean
		realSquares += float64(real(deviation) * real(deviation))
		imagSquares += float64(imag(deviation) * imag(deviation))
	}
	result := realSquares / v.divisor()
	if v.dtype.IsComplex() {
		result += imagSquares / v.divisor()
	}
	if v.returnsStd {
		result = math.Sqrt(result)
	}
	if !v.returnsMean {
		return []tensor.Scalar{tensor.FloatScalar(result)}
	}
	return []tensor.Scalar{tensor.FloatScalar(result), tensor.ComplexScalar(mean)}
}

// moments is the accumulator of a variance. n is the number of elements so far, mean is their mean, and m2 is the sum
// of their squared deviations from the mean.
type moments struct{ n, mean, m2 float64 }

// momentsFold returns the fold that computes the variance or, if returnsStd is set, the standard deviation. If
// returnsMean is set, the mean is the second result.
func momentsFold[T float32 | float64](divisor float64, returnsStd, returnsMean bool) *iter.Fold {
	const weight = 4 // time to fold an element, relative to an addition
	fold := iter.NewFold(moments{}, momentsRow[T], momentsColumns[T], mergeMoments).Weight(weight)
	fold = iter.WithResult(fold, func(dst []float64, accumulators []moments) {
		for i := range accumulators {
			dst[i] = accumulators[i].m2 / divisor
			if returnsStd {
				dst[i] = math.Sqrt(dst[i])
			}
		}
	})
	if !returnsMean {
		return fold
	}
	return iter.WithResult(fold, func(dst []float64, accumulators []moments) {
		for i := range accumulators {
			dst[i] = accumulators[i].mean
			if accumulators[i].n == 0 {
				dst[i] = math.NaN()
			}
		}
	})
}

// momentsRow folds the elements x, a block of a row. It passes over the block twice while the block is in the cache:
// first for the mean, then for the deviations.
func momentsRow[T float32 | float64](accumulator *moments, x []T, _ int) {
	var sum float64
	const unusedPosition = 0
	folds.SumRow(&sum, x, unusedPosition)
	block := moments{n: float64(len(x)), mean: sum / float64(len(x))}
	block.m2 = sumOfSquares(x, block.mean)
	accumulator.merge(&block)
}

// merge adds the elements of b to a by Chan's formula. With n = a.n + b.n and d = b.mean - a.mean:
//
//	mean = a.mean + d*b.n/n
//	m2 = a.m2 + b.m2 + d*d*a.n*b.n/n
func (a *moments) merge(b *moments) {
	switch {
	case b.n == 0:
		return
	case a.n == 0:
		*a = *b
		return
	}
	n, d := a.n+b.n, b.mean-a.mean
	share := b.n / n
	a.mean += float64(d * share)
	a.m2 += b.m2 + float64(d*d*(a.n*share))
	a.n = n
}

// momentsColumns adds one element x to each accumulator by Welford's formula. With d = x - mean, it adds d/n to the
// mean and d*(x - new mean) to m2. All accumulators have the same number n of elements, which includes x.
func momentsColumns[T float32 | float64](accumulators []moments, x []T, _ int) {
	x = x[:len(accumulators)]
	n := accumulators[0].n + 1
	reciprocal := 1 / n
	for i := range accumulators {
		element, accumulator := float64(x[i]), &accumulators[i]
		d := element - accumulator.mean
		accumulator.mean += float64(d * reciprocal)
		accumulator.m2 += float64(d * (element - accumulator.mean))
		accumulator.n = n
	}
}

// mergeMoments adds the elements of each accumulator in src to the accumulator at the same index in dst.
func mergeMoments(dst, src []moments) {
	for i := range dst {
		dst[i].merge(&src[i])
	}
}

// sumOfSquares returns the sum of the squares of x - mean. It uses four partial sums, so that an addition does not wait
// for the previous addition. The conversions of the squares prevent fused multiply-adds.
func sumOfSquares[T float32 | float64](x []T, mean float64) float64 {
	var q0, q1, q2, q3 float64
	for len(x) >= 4 {
		d0, d1, d2, d3 := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		q0 += float64(d0 * d0)
		q1 += float64(d1 * d1)
		q2 += float64(d2 * d2)
		q3 += float64(d3 * d3)
		x = x[4:]
	}
	for _, element := range x {
		deviation := float64(element) - mean
		q0 += float64(deviation * deviation)
	}
	return (q0 + q1) + (q2 + q3)
}
