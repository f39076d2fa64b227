package kernels

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

type varAttrs struct {
	Dim        []int    `attr:"dim" default:"none" doc:"dimensions to reduce; none: all"`
	Correction *float64 `attr:"correction" default:"none" doc:"what is taken from the number of elements to give the divisor; none: 1"`
	Unbiased   *bool    `attr:"unbiased" default:"none" doc:"false stands for correction 0, true for 1"`
	Keepdim    bool     `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

func (a *varAttrs) correction() float64 {
	switch {
	case a.Correction != nil:
		return *a.Correction
	case a.Unbiased != nil && !*a.Unbiased:
		return 0
	}
	return 1
}

// Var and the others compute in float64 by Welford's and Chan's updates.
var (
	Var     = varOp("var", "Computes the variance over the given dimensions. Of complex numbers it is the sum of the parts' variances.", false, false)
	Std     = varOp("std", "Computes the standard deviation over the given dimensions.", true, false)
	VarMean = varOp("var_mean", "Computes the variance and the mean over the given dimensions.", false, true)
	StdMean = varOp("std_mean", "Computes the standard deviation and the mean over the given dimensions.", true, true)
)

func varOp(name, doc string, root, mean bool) *graph.Op {
	o := graph.Op{Name: name, Doc: doc,
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": []int{1}}}}}
	if mean {
		o.Outputs = []string{name[:3], "mean"}
	}
	return reductionOp[varAttrs](o, func(c *graph.Call) (reduceSpec, error) {
		a, t := attrs[varAttrs](c), c.Type(0)
		if !t.DType.IsFloat() && !t.DType.IsComplex() {
			if mean {
				return reduceSpec{}, errors.New(name + " only support floating point and complex dtypes")
			}
			return reduceSpec{}, errors.New("std and var only support floating point and complex dtypes")
		}
		mask, err := iter.ReduceMask(a.Dim, t.Rank())
		if err != nil {
			return reduceSpec{}, err
		}
		n := reducedSizes(t.Shape, mask)
		divisor := func() float64 { return max(float64(numberOf(n))-a.correction(), 0) }
		s := reduceSpec{mask: mask, keepdim: a.Keepdim, cast: t.DType, outs: []tensor.DType{t.DType.ToReal()},
			fold: func() *iter.Fold { return varFold(t.DType, divisor(), root, mean) },
			ref:  func(x []tensor.Scalar) []tensor.Scalar { return refVar(t.DType.IsComplex(), divisor(), root, mean)(x) }}
		if mean {
			s.outs = append(s.outs, t.DType)
		}
		return s, nil
	})
}

func refVar(isComplex bool, divisor float64, root, mean bool) func(x []tensor.Scalar) []tensor.Scalar {
	return func(x []tensor.Scalar) []tensor.Scalar {
		var sum complex128
		for _, v := range x {
			sum += v.Complex()
		}
		n := float64(len(x))
		mu := complex(real(sum)/n, imag(sum)/n)
		var m2 [2]float64
		for _, v := range x {
			d := v.Complex() - mu
			m2[0] += real(d) * real(d)
			m2[1] += imag(d) * imag(d)
		}
		y := m2[0] / divisor
		if isComplex {
			y += m2[1] / divisor
		}
		if root {
			y = math.Sqrt(y)
		}
		if !mean {
			return []tensor.Scalar{tensor.FloatScalar(y)}
		}
		return []tensor.Scalar{tensor.FloatScalar(y), tensor.ComplexScalar(mu)}
	}
}

// moments are the number of elements, their mean, and the sum of squares of the distances
// from it; of complex numbers part by part.
type moments[M float64 | complex128] struct {
	n    float64
	mean M
	m2   M
}

func varFold(d tensor.DType, divisor float64, root, mean bool) *iter.Fold {
	switch wide(d) {
	case tensor.Float32:
		return momentsOf(iter.Folding(moments[float64]{}, momentsRow[float32], momentsColumns[float32], mergeMoments), divisor, root, mean)
	case tensor.Float64:
		return momentsOf(iter.Folding(moments[float64]{}, momentsRow[float64], momentsColumns[float64], mergeMoments), divisor, root, mean)
	case tensor.Complex64:
		return momentsOfZ(iter.Folding(moments[complex128]{}, momentsRowZ[complex64], momentsColumnsZ[complex64], mergeMomentsZ), divisor, root, mean)
	}
	return momentsOfZ(iter.Folding(moments[complex128]{}, momentsRowZ[complex128], momentsColumnsZ[complex128], mergeMomentsZ), divisor, root, mean)
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

// momentsRow takes the block twice, while it is in the cache: mean, then distances.
func momentsRow[T float32 | float64](a *moments[float64], x []T, _ int) {
	var sum float64
	sumRow(&sum, x, 0)
	b := moments[float64]{n: float64(len(x)), mean: sum / float64(len(x))}
	b.m2 = squares(x, b.mean)
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

// momentsColumns: all accumulators of a block have seen the same number of elements.
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
