package reduce

import (
	"errors"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type logsumexpAttrs struct {
	Dim     []int `attr:"dim" doc:"dimensions to reduce; an empty list: all"`
	Keepdim bool  `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// Logsumexp computes log(sum(exp(x))) without overflow, in float64.
var Logsumexp = folds.Define(graph.SchemaOf[logsumexpAttrs](), graph.Op{
	Semantics: graph.Semantics{
		Name: "logsumexp",
		Doc: "Computes the logarithm of the sum of exponentials over the given dimensions. Integers are computed " +
			"as float32.",
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3)}, Attrs: graph.Attrs{"dim": []int{1}}}},
	},
	Facts: graph.Facts{Each: graph.Each{Simple: 1, Function: 0.7}},
}, func(c *graph.Call) (folds.Spec, error) {
	a, m := kit.Attrs[logsumexpAttrs](c), c.Type(0)
	if m.DType.IsComplex() {
		return folds.Spec{}, errors.New("logsumexp(): Expected floating point type for result tensor, but got: " +
			m.DType.TorchName())
	}
	mask, err := rule.ReduceMask(a.Dim, m.Rank())
	d := tensor.FloatFor(m.DType)
	return folds.Spec{Mask: mask, Keepdim: a.Keepdim, Cast: d, Outs: []tensor.DType{d},
		How: func() folds.How {
			return folds.How{Fold: func() *iter.Fold { return logsumexpFold(d) },
				Row: logsumexpRow,
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					most := math.Inf(-1)
					for _, v := range x {
						most = max(most, v.Float())
					}
					if math.IsInf(most, 0) {
						return []tensor.Scalar{tensor.FloatScalar(most)}
					}
					sum := 0.0
					for _, v := range x {
						sum += math.Exp(v.Float() - most)
					}
					return []tensor.Scalar{tensor.FloatScalar(most + math.Log(sum))}
				}}
		}}, err
})

// logsumexpRow is logsumexpFold as an expression. An infinite maximum is not subtracted.
func logsumexpRow(b *expr.Builder, x folds.Part) []folds.Part {
	d := b.DType(x.Re)
	zero := b.Const(d, 0)
	most := b.Reduce(expr.Max, x.Re)
	infinite := b.Do(expr.Eq, b.Do(expr.Abs, most), b.Const(d, math.Inf(1)))
	shift := b.Do(expr.Select, infinite, zero, most)
	sum := folds.Total(b, folds.InFloat64(b, b.Do(expr.Exp, b.Do(expr.Sub, x.Re, shift))))
	return []folds.Part{folds.Real(b.Do(expr.Add, folds.InFloat64(b, shift), b.Do(expr.Log, sum)))}
}

// expSum represents sum*e^most.
type expSum struct{ most, sum float64 }

// add adds x*e^m.
func (a *expSum) add(m, x float64) {
	switch {
	case x != x || m != m:
		a.sum = math.NaN()
	case m > a.most:
		a.sum = a.sum*math.Exp(a.most-m) + x
		a.most = m
	case m == a.most:
		// The difference of two infinities is NaN. Terms of -inf are 0.
		if !math.IsInf(m, -1) {
			a.sum += x
		}
	default:
		a.sum += x * math.Exp(m-a.most)
	}
}

func logsumexpFold(d tensor.DType) *iter.Fold {
	start := expSum{most: math.Inf(-1)}
	var f *iter.Fold
	if kit.Wide(d) == tensor.Float32 {
		f = iter.Folding(start, expRow[float32], expColumns[float32], mergeExp)
	} else {
		f = iter.Folding(start, expRow[float64], expColumns[float64], mergeExp)
	}
	return iter.Yields(f.Weight(16), func(dst []float64, a []expSum) {
		for i, e := range a {
			dst[i] = e.most + math.Log(e.sum)
		}
	})
}

// expRow passes over the block twice while it is in the cache: for the maximum, then for the sum.
func expRow[T float32 | float64](a *expSum, x []T, _ int) {
	most := T(math.Inf(-1))
	maxRow(&most, x, 0)
	if m := float64(most); math.IsInf(m, 0) || m != m {
		a.add(m, 1)
		return
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v - most))
	}
	a.add(float64(most), sum)
}

func expColumns[T float32 | float64](a []expSum, x []T, _ int) {
	x = x[:len(a)]
	for i := range a {
		a[i].add(float64(x[i]), 1)
	}
}

func mergeExp(a, from []expSum) {
	for i, e := range from {
		if e.sum != 0 {
			a[i].add(e.most, e.sum)
		}
	}
}
