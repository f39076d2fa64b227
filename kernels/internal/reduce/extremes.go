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

// argmaxAttrs are the attributes of argmax, argmin, max and min.
type argmaxAttrs struct {
	Dim     *int `attr:"dim" default:"none" doc:"dimension to reduce; none: all, in row-major order"`
	Keepdim bool `attr:"keepdim" default:"false" doc:"keep reduced dimensions with size 1"`
}

// checkNonEmpty rejects reductions over no elements, for ops without an identity element, as PyTorch's
// zero_numel_check_dims does. An empty list dims stands for all dimensions. The error message then ends with hint.
func checkNonEmpty(name string, self tensor.Type, dims []int, hint string) error {
	if !kit.IsEmpty(self) {
		return nil
	}
	if len(dims) == 0 {
		return fmt.Errorf("%s(): Expected reduction dim to be specified for input.numel() == 0.%s", name, hint)
	}
	for _, dim := range dims {
		wrapped, err := tensor.WrapDim(dim, self.Rank())
		if err != nil {
			return err
		}
		if kit.SizeIs(self.Shape[wrapped], 0) {
			return fmt.Errorf("%s(): Expected reduction dim %d to have non-zero size.", name, dim)
		}
	}
	return nil
}

// checkNonEmptyDim is checkNonEmpty for the single dimension dim, or for all dimensions if dim is nil.
func checkNonEmptyDim(name string, self tensor.Type, dim *int, hint string) error {
	if dim == nil {
		return checkNonEmpty(name, self, nil, hint)
	}
	// Unlike the message of amax, this message counts the dimension from the front.
	wrapped, err := tensor.WrapDim(*dim, self.Rank())
	if err != nil {
		return err
	}
	return checkNonEmpty(name, self, []int{wrapped}, hint)
}

// extremeSpec describes the reduction to the greatest element, or to the least.
func extremeSpec(dtype tensor.DType, mask []bool, keepdim, isMax bool) folds.Spec {
	return folds.Spec{Mask: mask, Keepdim: keepdim, Cast: dtype, Outs: []tensor.DType{dtype},
		Computation: func() folds.Computation {
			return folds.Computation{Fold: func() *iter.Fold { return extremeFold(dtype, isMax) },
				Row: func(builder *expr.Builder, x folds.Number) []folds.Number { return extremeRow(builder, x, isMax) },
				Ref: func(x []tensor.Scalar) []tensor.Scalar {
					if len(x) == 0 {
						return []tensor.Scalar{extremeOfNone(dtype, isMax)}
					}
					return []tensor.Scalar{x[refBestIndex(x, isMax)]}
				}}
		}}
}

// extremeOfNone returns the extreme of no elements: the least number of the dtype for the greatest element, and the
// greatest for the least.
func extremeOfNone(dtype tensor.DType, isMax bool) tensor.Scalar {
	sign := 1
	if isMax {
		sign = -1
	}
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat():
		return tensor.FloatScalar(math.Inf(sign))
	case dtype == tensor.Bool:
		return tensor.BoolScalar(!isMax)
	case !dtype.IsSigned() && isMax:
		return tensor.IntScalar(0)
	case !dtype.IsSigned(): // uint8: the ops support no other unsigned dtype
		return tensor.IntScalar(int64(1)<<bits - 1)
	case isMax:
		return tensor.IntScalar(int64(-1) << (bits - 1))
	}
	return tensor.IntScalar(int64(1)<<(bits-1) - 1)
}

// refBestIndex returns the index of the first greatest or least element, or of the first NaN if there is one.
func refBestIndex(x []tensor.Scalar, isMax bool) int {
	best := 0
	for i, element := range x {
		switch current := x[best]; {
		case element.Float() != element.Float():
			return i
		case element.DType() == tensor.Float64: // the dtype of all scalars that are floats
			if isMax && element.Float() > current.Float() || !isMax && element.Float() < current.Float() {
				best = i
			}
		default:
			if isMax && element.Int() > current.Int() || !isMax && element.Int() < current.Int() {
				best = i
			}
		}
	}
	return best
}

// extremeRow returns the greatest or least element of a row as an expression. true is greater than false.
func extremeRow(builder *expr.Builder, x folds.Number, isMax bool) []folds.Number {
	op := map[bool]expr.Op{false: expr.Min, true: expr.Max}[isMax]
	if builder.DType(x.Re) == tensor.Bool {
		op = map[bool]expr.Op{false: expr.And, true: expr.Or}[isMax]
	}
	return []folds.Number{folds.Real(builder.Reduce(op, x.Re))}
}

// extremeFold returns the fold of the greatest or least element, in Go. The fold of floats uses greatestRow and
// leastRow, which also record positions for argmax. In the fold of integers, the accumulators are the results
// (kit.Accumulators).
func extremeFold(dtype tensor.DType, isMax bool) *iter.Fold {
	switch kit.LoopDType(dtype) {
	case tensor.Float32:
		return bestValueFold[float32](isMax)
	case tensor.Float64:
		return bestValueFold[float64](isMax)
	}
	// A fold has an initial value, and functions for rows, for columns, and for merging accumulators.
	initial := extremeOfNone(dtype, isMax).Int()
	if isMax {
		return kit.Accumulators[int64](iter.NewFold(initial, maxIntRow, maxIntColumns, maxIntInto))
	}
	return kit.Accumulators[int64](iter.NewFold(initial, minIntRow, minIntColumns, minIntInto))
}

// The following functions are the loops of the folds of integers. The row functions fold the elements x into one
// accumulator. The column functions fold x[i] into accumulator i, and also merge accumulators. The unnamed parameter is
// the position of the elements, which is not used.

func maxIntRow(accumulator *int64, x []int64, _ int) {
	for _, element := range x {
		*accumulator = max(*accumulator, element)
	}
}

func minIntRow(accumulator *int64, x []int64, _ int) {
	for _, element := range x {
		*accumulator = min(*accumulator, element)
	}
}

func maxIntColumns(accumulators, x []int64, _ int) { maxIntInto(accumulators, x) }

func minIntColumns(accumulators, x []int64, _ int) { minIntInto(accumulators, x) }

func maxIntInto(accumulators, x []int64) {
	for i, element := range x[:len(accumulators)] {
		accumulators[i] = max(accumulators[i], element)
	}
}

func minIntInto(accumulators, x []int64) {
	for i, element := range x[:len(accumulators)] {
		accumulators[i] = min(accumulators[i], element)
	}
}
