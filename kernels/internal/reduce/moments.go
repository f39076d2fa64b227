package reduce

import (
	"math"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// moments are the number of elements, their mean, and the sum of squared deviations; for complex numbers, of each part.
type moments[M float64 | complex128] struct {
	n    float64
	mean M
	m2   M
}

func varFold(d tensor.DType, divisor float64, root, mean bool) *iter.Fold {
	switch kit.Wide(d) {
	case tensor.Float32:
		return momentsOf(iter.Folding(moments[float64]{}, momentsRow[float32], momentsColumns[float32], mergeMoments),
			divisor, root, mean)
	case tensor.Float64:
		return momentsOf(iter.Folding(moments[float64]{}, momentsRow[float64], momentsColumns[float64], mergeMoments),
			divisor, root, mean)
	case tensor.Complex64:
		return momentsOfZ(iter.Folding(moments[complex128]{}, momentsRowZ[complex64], momentsColumnsZ[complex64],
			mergeMomentsZ), divisor, root, mean)
	}
	return momentsOfZ(iter.Folding(moments[complex128]{}, momentsRowZ[complex128], momentsColumnsZ[complex128],
		mergeMomentsZ), divisor, root, mean)
}

func momentsOf(f *iter.Fold, divisor float64, root, mean bool) *iter.Fold {
	f = spread(f, root, func(m2 float64) float64 { return m2 / divisor })
	if !mean {
		return f
	}
	return iter.Yields(f, func(dst []float64, a []moments[float64]) {
		for i := range a {
			if dst[i] = a[i].mean; a[i].n == 0 {
				dst[i] = math.NaN()
			}
		}
	})
}

func momentsOfZ(f *iter.Fold, divisor float64, root, mean bool) *iter.Fold {
	f = spread(f, root, func(m2 complex128) float64 { return real(m2)/divisor + imag(m2)/divisor })
	if !mean {
		return f
	}
	return iter.Yields(f, func(dst []complex128, a []moments[complex128]) {
		for i := range a {
			if dst[i] = a[i].mean; a[i].n == 0 {
				dst[i] = complex(math.NaN(), math.NaN())
			}
		}
	})
}

func spread[M float64 | complex128](f *iter.Fold, root bool, variance func(m2 M) float64) *iter.Fold {
	return iter.Yields(f.Weight(4), func(dst []float64, a []moments[M]) {
		for i := range a {
			dst[i] = variance(a[i].m2)
			if root {
				dst[i] = math.Sqrt(dst[i])
			}
		}
	})
}

// momentsRow passes over the block twice while it is in the cache: for the mean, then for the deviations.
func momentsRow[T float32 | float64](a *moments[float64], x []T, _ int) {
	var sum float64
	folds.SumRow(&sum, x, 0)
	b := moments[float64]{n: float64(len(x)), mean: sum / float64(len(x))}
	b.m2 = folds.Squares(x, b.mean)
	mergeReal(a, &b)
}

// add merges the moments of later elements (Chan).
func (a *moments[M]) add(b *moments[M], square func(M) M, scale func(M, float64) M) {
	switch {
	case b.n == 0:
		return
	case a.n == 0:
		*a = *b
		return
	}
	n := a.n + b.n
	d := b.mean - a.mean
	part := b.n / n
	a.mean += scale(d, part)
	a.m2 += b.m2 + scale(square(d), a.n*part)
	a.n = n
}

func mergeReal(a, b *moments[float64]) {
	a.add(b, func(d float64) float64 { return d * d }, func(d, f float64) float64 { return d * f })
}

func mergeZ(a, b *moments[complex128]) {
	a.add(b, func(d complex128) complex128 { return complex(real(d)*real(d), imag(d)*imag(d)) },
		func(d complex128, f float64) complex128 { return complex(real(d)*f, imag(d)*f) })
}

// momentsColumns requires that all accumulators of a block have seen the same number of elements.
func momentsColumns[T float32 | float64](a []moments[float64], x []T, _ int) {
	x = x[:len(a)]
	n := a[0].n + 1
	share := 1 / n
	for i := range a {
		v, m := float64(x[i]), &a[i]
		d := v - m.mean
		m.mean += d * share
		m.m2 += d * (v - m.mean)
		m.n = n
	}
}

func mergeMoments(a, from []moments[float64]) {
	for i := range a {
		mergeReal(&a[i], &from[i])
	}
}

func momentsRowZ[T complex64 | complex128](a *moments[complex128], x []T, _ int) {
	for _, v := range x {
		takeZ(a, complex128(v))
	}
}

func momentsColumnsZ[T complex64 | complex128](a []moments[complex128], x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		takeZ(&a[i], complex128(x[i]))
	}
}

func takeZ(m *moments[complex128], v complex128) {
	m.n++
	d := v - m.mean
	m.mean += complex(real(d)/m.n, imag(d)/m.n)
	e := v - m.mean
	m.m2 += complex(real(d)*real(e), imag(d)*imag(e))
}

func mergeMomentsZ(a, from []moments[complex128]) {
	for i := range a {
		mergeZ(&a[i], &from[i])
	}
}
