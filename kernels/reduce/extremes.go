package reduce

import (
	"fmt"
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// nonEmpty refuses a reduction without identity over no elements (zero_numel_check_dims).
func nonEmpty(name string, t tensor.Type, dims []int, hint string) error {
	if !kit.Empty(t) {
		return nil
	}
	if len(dims) == 0 {
		return fmt.Errorf("%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name, hint)
	}
	for _, d := range dims {
		w, err := tensor.WrapDim(d, t.Rank())
		if err != nil {
			return err
		}
		if kit.Is(t.Shape[w], 0) {
			return fmt.Errorf("%s(): Expected reduction dim %d to have non-zero size.", name, d)
		}
	}
	return nil
}

func extremumSpec(d tensor.DType, mask []bool, keepdim, greatest bool) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: d, Outs: []tensor.DType{d},
		How: func() folds.How {
			return folds.How{Fold: func() *iter.Fold { return extremumFold(d, greatest) },
				Row: func(b *expr.Builder, x folds.Part) []folds.Part { return extremumRow(b, x, greatest) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					return []tensor.Scalar{x[refBest(x, greatest)]}
				}}
		}}
}

// refBest returns the index of the first greatest or least element, or of the first NaN.
func refBest(x []tensor.Scalar, greatest bool) int {
	best := 0
	for i, v := range x {
		switch b := x[best]; {
		case v.Float() != v.Float():
			return i
		case v.DType() == tensor.Float64:
			if greatest && v.Float() > b.Float() || !greatest && v.Float() < b.Float() {
				best = i
			}
		default:
			if greatest && v.Int() > b.Int() || !greatest && v.Int() < b.Int() {
				best = i
			}
		}
	}
	return best
}

// extremumRow is extremumFold as an expression.
func extremumRow(b *expr.Builder, x folds.Part, greatest bool) []folds.Part {
	op := map[bool]expr.Op{false: expr.Min, true: expr.Max}[greatest]
	if b.DType(x.Re) == tensor.Bool {
		op = map[bool]expr.Op{false: expr.And, true: expr.Or}[greatest]
	}
	return []folds.Part{folds.Real(b.Reduce(op, x.Re))}
}

func extremumFold(d tensor.DType, greatest bool) *iter.Fold {
	inf := math.Inf(-1)
	switch kit.Wide(d) {
	case tensor.Int64:
		if greatest {
			return kit.Same[int64](iter.Folding(math.MinInt64, maxRow[int64], maxColumns[int64], maxTo[int64]))
		}
		return kit.Same[int64](iter.Folding(math.MaxInt64, minRow[int64], minColumns[int64], minTo[int64]))
	case tensor.Float32:
		if greatest {
			return kit.Same[float32](iter.Folding(float32(inf), maxRow[float32], maxColumns[float32], maxTo[float32]))
		}
		return kit.Same[float32](iter.Folding(float32(-inf), minRow[float32], minColumns[float32], minTo[float32]))
	}
	if greatest {
		return kit.Same[float64](iter.Folding(inf, maxRow[float64], maxColumns[float64], maxTo[float64]))
	}
	return kit.Same[float64](iter.Folding(-inf, minRow[float64], minColumns[float64], minTo[float64]))
}

func maxRow[T kit.Sortable](a *T, x []T, _ int) {
	m := *a
	for _, v := range x {
		if v > m {
			m = v
		} else if v != v {
			m = v
			break
		}
	}
	if *a == *a {
		*a = m
	}
}

func minRow[T kit.Sortable](a *T, x []T, _ int) {
	m := *a
	for _, v := range x {
		if v < m {
			m = v
		} else if v != v {
			m = v
			break
		}
	}
	if *a == *a {
		*a = m
	}
}

// maxTo keeps a NaN in a: nothing compares greater.
func maxTo[T kit.Sortable](a, x []T) {
	x = x[:len(a)]
	for i := range a {
		if v := x[i]; v > a[i] || v != v {
			a[i] = v
		}
	}
}

func minTo[T kit.Sortable](a, x []T) {
	x = x[:len(a)]
	for i := range a {
		if v := x[i]; v < a[i] || v != v {
			a[i] = v
		}
	}
}

func maxColumns[T kit.Sortable](a, x []T, _ int) { maxTo(a, x) }

func minColumns[T kit.Sortable](a, x []T, _ int) { minTo(a, x) }
