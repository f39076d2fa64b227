package reduce

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// bestElement is the accumulator of a fold for the best element: the greatest or the least, depending on the op. If
// there is a NaN, the first NaN is the best element. The accumulator has the best element so far and its index. The
// index is -1 before the first element.
type bestElement[T kit.Sortable] struct {
	value T
	index int64
}

// Values of the parameter withValue of bestFold and bestRow. The results are only the index of the best element, or the
// element and its index.
const (
	onlyIndex     = false
	valueAndIndex = true
)

// bestFold returns the fold of the best element of a dtype. Its result is the index of the element. If withValue is
// set, the element is the first result.
func bestFold(dtype tensor.DType, isMax, withValue bool) *iter.Fold {
	switch kit.LoopDType(dtype) {
	case tensor.Int64:
		return bestFoldOf[int64](isMax, withValue)
	case tensor.Float32:
		return bestFoldOf[float32](isMax, withValue)
	}
	return bestFoldOf[float64](isMax, withValue)
}

// bestFoldOf is bestFold for elements of type T.
func bestFoldOf[T orderedElement](isMax, withValue bool) *iter.Fold {
	fold := bestElementFold[T](isMax).InOrder() // the first of equal elements wins; without an index, any may win
	if withValue {
		fold = withValueResult[T](fold)
	}
	return iter.WithResult(fold, func(dst []int64, accumulators []bestElement[T]) {
		for i := range accumulators {
			dst[i] = accumulators[i].index
		}
	})
}

// bestValueFold returns the fold of the best element without its index.
func bestValueFold[T orderedElement](isMax bool) *iter.Fold {
	return withValueResult[T](bestElementFold[T](isMax))
}

// orderedElement lists the Go types in which the loops find the best element.
type orderedElement interface {
	kit.Sortable
	tensor.Element
}

// bestElementFold returns the fold of the best element and its index. The caller adds the results.
func bestElementFold[T orderedElement](isMax bool) *iter.Fold {
	row, columns := leastRow[T], leastColumns[T]
	if isMax {
		row, columns = greatestRow[T], greatestColumns[T]
	}
	merge := func(accumulators, later []bestElement[T]) {
		for i, candidate := range later {
			if candidate.index < 0 { // no elements
				continue
			}
			old, value := accumulators[i].value, candidate.value
			isBeyond := isMax && value > old || !isMax && value < old
			isFirstNaN := value != value && old == old
			if accumulators[i].index < 0 || isBeyond || isFirstNaN {
				accumulators[i] = candidate
			}
		}
	}
	const weight = 2 // time to fold an element, relative to an addition
	var ofNone T     // the value of a fold over no elements, which only floats have
	if sign := map[bool]int{false: 1, true: -1}[isMax]; tensor.DTypeOf[T]().IsFloat() {
		ofNone = T(math.Inf(sign))
	}
	return iter.NewFold(bestElement[T]{ofNone, -1}, row, columns, merge).Weight(weight)
}

// withValueResult adds the best element to the results of a fold.
func withValueResult[T orderedElement](fold *iter.Fold) *iter.Fold {
	return iter.WithResult(fold, func(dst []T, accumulators []bestElement[T]) {
		for i := range accumulators {
			dst[i] = accumulators[i].value
		}
	})
}

// startRow initializes an empty accumulator with x[0]. position is the index of x[0] among the elements that are folded
// into one result.
func (best *bestElement[T]) startRow(x []T, position int) {
	if best.index < 0 {
		*best = bestElement[T]{x[0], int64(position)}
	}
}

// greatestRow folds the elements x into one accumulator. position is the index of x[0]. Most elements need a single
// comparison, element <= best.value, which is false for greater elements and for NaN. The second comparison is false if
// the best element so far is NaN, because no element replaces a NaN.
func greatestRow[T kit.Sortable](best *bestElement[T], x []T, position int) {
	best.startRow(x, position)
	for i, element := range x {
		if !(element <= best.value) && best.value == best.value {
			*best = bestElement[T]{element, int64(position + i)}
		}
	}
}

// leastRow is greatestRow for the least element.
func leastRow[T kit.Sortable](best *bestElement[T], x []T, position int) {
	best.startRow(x, position)
	for i, element := range x {
		if !(element >= best.value) && best.value == best.value {
			*best = bestElement[T]{element, int64(position + i)}
		}
	}
}

// startColumns initializes accumulator i with x[i] if the accumulators are empty, and reports whether they were.
// position is the index of each of these elements.
func startColumns[T kit.Sortable](accumulators []bestElement[T], x []T, position int) bool {
	if len(accumulators) == 0 || accumulators[0].index >= 0 {
		return false
	}
	for i, element := range x[:len(accumulators)] {
		accumulators[i] = bestElement[T]{element, int64(position)}
	}
	return true
}

// greatestColumns folds the element x[i] into accumulator i. position is the index of each of these elements.
func greatestColumns[T kit.Sortable](accumulators []bestElement[T], x []T, position int) {
	if startColumns(accumulators, x, position) {
		return
	}
	for i, element := range x[:len(accumulators)] {
		if best := &accumulators[i]; !(element <= best.value) && best.value == best.value {
			*best = bestElement[T]{element, int64(position)}
		}
	}
}

// leastColumns is greatestColumns for the least element.
func leastColumns[T kit.Sortable](accumulators []bestElement[T], x []T, position int) {
	if startColumns(accumulators, x, position) {
		return
	}
	for i, element := range x[:len(accumulators)] {
		if best := &accumulators[i]; !(element >= best.value) && best.value == best.value {
			*best = bestElement[T]{element, int64(position)}
		}
	}
}

// bestComputation returns the computation of the index of the best element of a row. If withValue is set, the element
// is the first result.
func bestComputation(dtype tensor.DType, isMax, withValue bool) folds.Computation {
	return folds.Computation{
		Fold:                   func() *iter.Fold { return bestFold(dtype, isMax, withValue) },
		UseFoldForUnsuitedRows: true,
		Row: func(builder *expr.Builder, x folds.Number) []folds.Number {
			return bestRow(builder, x.Re, isMax, withValue)
		},
		Ref: func(x []tensor.Scalar) []tensor.Scalar {
			i := refBestIndex(x, isMax)
			if withValue {
				return []tensor.Scalar{x[i], tensor.IntScalar(int64(i))}
			}
			return []tensor.Scalar{tensor.IntScalar(int64(i))}
		},
	}
}

// bestRow returns the best element of a row (if withValue is set) and its index as expressions. The first fold gives
// the extreme. The second fold gives the least position of an element that equals the extreme or is NaN. Several
// workers can compute one row, because [expr.Code.Pieces] recognizes an argmax. If there is no machine code, bestFold
// runs instead.
func bestRow(builder *expr.Builder, x expr.Value, isMax, withValue bool) []folds.Number {
	best := extremeRow(builder, folds.Real(x), isMax)[0].Re
	if withValue && builder.DType(x).IsFloat() {
		return bestFloatWithIndex(builder, x, best)
	}
	index := folds.Real(builder.Convert(tensor.Int64, firstWhere(builder, isBest(builder, x, best), builder.Position())))
	if withValue {
		return []folds.Number{folds.Real(best), index}
	}
	return []folds.Number{index}
}

// bestFloatWithIndex returns the best element of a row of floats and its index. The fold of extreme treats 0 and -0 as
// equal and may return either, so the sign of a zero extreme is unknown. firstWhere therefore finds the least of
// 2*position + signBit, where signBit is the sign bit of the element at the position. For the least element of the row
// [3, -0, 0], it finds 2*1 + 1. Thus the index is 1, and the element is -0.
func bestFloatWithIndex(builder *expr.Builder, x, extreme expr.Value) []folds.Number {
	const i32 = tensor.Int32
	bitsDType := map[int]tensor.DType{4: i32, 8: tensor.Int64}[builder.DType(x).Size()]
	signBit := builder.Convert(i32, builder.Emit(expr.Lt, builder.Bits(bitsDType, x), builder.Int(bitsDType, 0)))
	position, one := builder.Position(), builder.Int(i32, 1)
	first := firstWhere(builder, isBest(builder, x, extreme),
		builder.Emit(expr.Or, builder.Emit(expr.Add, position, position), signBit))
	// If the best element is zero, it gets the sign of the last bit of first. The index is first without this bit.
	zero := builder.Const(builder.DType(x), 0)
	signedZero := builder.Emit(expr.Select, builder.Emit(expr.Eq, builder.Emit(expr.And, first, one), one),
		builder.Emit(expr.Neg, zero), zero)
	best := builder.Emit(expr.Select, builder.Emit(expr.Eq, extreme, zero), signedZero, extreme)
	return []folds.Number{folds.Real(best), folds.Real(builder.Convert(tensor.Int64, builder.Emit(expr.Shr, first, one)))}
}

// isBest returns the condition that an element equals the extreme of its row or is NaN.
func isBest(builder *expr.Builder, x, best expr.Value) expr.Value {
	condition := builder.Emit(expr.Eq, x, best)
	if builder.DType(x).IsFloat() {
		condition = builder.Emit(expr.Or, condition, builder.Emit(expr.Ne, x, x))
	}
	return condition
}

// firstWhere returns a fold over a row that gives the least position (an int32) for which the condition holds. The
// condition must hold at least once in a row.
func firstWhere(builder *expr.Builder, condition, position expr.Value) expr.Value {
	return builder.Reduce(expr.Min,
		builder.Emit(expr.Select, condition, position, builder.Int(tensor.Int32, math.MaxInt32)))
}
