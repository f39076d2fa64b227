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

// checkNonEmpty rejects reductions over no elements, for ops without an identity element, as PyTorch's
// zero_numel_check_dims does. An empty list dims stands for all dimensions. hint is appended to the message for it.
func checkNonEmpty(name string, t tensor.Type, dims []int, hint string) error {
	if !kit.IsEmpty(t) {
		return nil
	}
	if len(dims) == 0 {
		return fmt.Errorf("%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name, hint)
	}
	for _, d := range dims {
		wrapped, err := tensor.WrapDim(d, t.Rank())
		if err != nil {
			return err
		}
		if kit.SizeIs(t.Shape[wrapped], 0) {
			return fmt.Errorf("%s(): Expected reduction dim %d to have non-zero size.", name, d)
		}
	}
	return nil
}

// extremumSpec describes the reduction to the greatest element, or to the least.
func extremumSpec(dtype tensor.DType, mask []bool, keepdim, greatest bool) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: func() *iter.Fold { return extremumFold(dtype, greatest) },
				Row: func(b *expr.Builder, x folds.Number) []folds.Number { return extremumRow(b, x, greatest) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					return []tensor.Scalar{x[refBest(x, greatest)]}
				}}
		}}
}

// refBest returns the index of the first greatest or least element, or of the first NaN if there is one.
func refBest(x []tensor.Scalar, greatest bool) int {
	best := 0
	for i, element := range x {
		switch current := x[best]; {
		case element.Float() != element.Float():
			return i
		case element.DType() == tensor.Float64: // the dtype of all scalars that are floats
			if greatest && element.Float() > current.Float() || !greatest && element.Float() < current.Float() {
				best = i
			}
		default:
			if greatest && element.Int() > current.Int() || !greatest && element.Int() < current.Int() {
				best = i
			}
		}
	}
	return best
}

// extremumRow returns the greatest or least element of a row as an expression. true is greater than false.
func extremumRow(builder *expr.Builder, x folds.Number, greatest bool) []folds.Number {
	op := map[bool]expr.Op{false: expr.Min, true: expr.Max}[greatest]
	if builder.DType(x.Re) == tensor.Bool {
		op = map[bool]expr.Op{false: expr.And, true: expr.Or}[greatest]
	}
	return []folds.Number{folds.Real(builder.Reduce(op, x.Re))}
}

// extremumFold returns the fold of the greatest or least element, in Go. The fold of floats also finds the position of
// the element, which takes no longer (see greatestRow).
func extremumFold(d tensor.DType, greatest bool) *iter.Fold {
	switch kit.LoopDType(d) {
	case tensor.Float32:
		return bestValueFold[float32](greatest)
	case tensor.Float64:
		return bestValueFold[float64](greatest)
	}
	if greatest {
		return kit.Accumulators[int64](iter.NewFold(math.MinInt64, maxIntRow, maxIntColumns, maxIntInto))
	}
	return kit.Accumulators[int64](iter.NewFold(math.MaxInt64, minIntRow, minIntColumns, minIntInto))
}

// The following functions are the loops of the folds of integers. The row functions fold x into the accumulator a, and
// the column functions fold x[i] into a[i]. The last two also merge accumulators.

func maxIntRow(a *int64, x []int64, _ int) {
	for _, v := range x {
		*a = max(*a, v)
	}
}

func minIntRow(a *int64, x []int64, _ int) {
	for _, v := range x {
		*a = min(*a, v)
	}
}

func maxIntColumns(a, x []int64, _ int) { maxIntInto(a, x) }

func minIntColumns(a, x []int64, _ int) { minIntInto(a, x) }

func maxIntInto(a, x []int64) {
	for i, v := range x[:len(a)] {
		a[i] = max(a[i], v)
	}
}

func minIntInto(a, x []int64) {
	for i, v := range x[:len(a)] {
		a[i] = min(a[i], v)
	}
}
