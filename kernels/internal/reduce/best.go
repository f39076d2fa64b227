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

// Values of the parameter withValue of bestFold and bestRow: the results are the index of the best element, or the
// element and its index.
const (
	onlyIndex     = false
	valueAndIndex = true
)

// bestFold returns the fold of the best element of a dtype. Its results are the element, if withValue is set, and the
// element's index.
func bestFold(d tensor.DType, greatest, withValue bool) *iter.Fold {
	switch kit.LoopDType(d) {
	case tensor.Int64:
		return bestIndexFold[int64](greatest, withValue)
	case tensor.Float32:
		return bestIndexFold[float32](greatest, withValue)
	}
	return bestIndexFold[float64](greatest, withValue)
}

// bestIndexFold is bestFold for elements of type T.
func bestIndexFold[T number](greatest, withValue bool) *iter.Fold {
	f := bestElementFold[T](greatest).InOrder()
	if withValue {
		f = withValueResult[T](f)
	}
	return iter.WithResult(f, func(dst []int64, a []bestElement[T]) {
		for i := range a {
			dst[i] = a[i].index
		}
	})
}

// bestValueFold returns the fold of the best element without its index.
func bestValueFold[T number](greatest bool) *iter.Fold {
	return withValueResult[T](bestElementFold[T](greatest))
}

// number lists the Go types in which the loops find the best element.
type number interface {
	kit.Sortable
	tensor.Element
}

// bestElementFold returns the fold of the best element and its index. The caller adds the results.
func bestElementFold[T number](greatest bool) *iter.Fold {
	row, columns := leastRow[T], leastColumns[T]
	if greatest {
		row, columns = greatestRow[T], greatestColumns[T]
	}
	merge := func(a, later []bestElement[T]) {
		for i, b := range later {
			// b replaces a[i] if a[i] is empty, or if the element of b is strictly better, or if only b has a NaN.
			old, value := a[i].value, b.value
			isBetter := greatest && value > old || !greatest && value < old || value != value && old == old
			if a[i].index < 0 || b.index >= 0 && isBetter {
				a[i] = b
			}
		}
	}
	return iter.NewFold(bestElement[T]{index: -1}, row, columns, merge).Weight(2)
}

// withValueResult adds the best element to the results of f.
func withValueResult[T number](f *iter.Fold) *iter.Fold {
	return iter.WithResult(f, func(dst []T, a []bestElement[T]) {
		for i := range a {
			dst[i] = a[i].value
		}
	})
}

// firstRow initializes an empty accumulator with x[0]. position is the index of x[0] among the elements that are folded
// into one result.
func (b *bestElement[T]) firstRow(x []T, position int) {
	if b.index < 0 {
		*b = bestElement[T]{x[0], int64(position)}
	}
}

// greatestRow folds the elements x into one accumulator. position is the index of x[0]. Most elements need a single
// comparison, v <= a.value, which is false for greater elements and for NaN.
func greatestRow[T kit.Sortable](a *bestElement[T], x []T, position int) {
	a.firstRow(x, position)
	for i, v := range x {
		if !(v <= a.value) && a.value == a.value {
			*a = bestElement[T]{v, int64(position + i)}
		}
	}
}

// leastRow is greatestRow for the least element.
func leastRow[T kit.Sortable](a *bestElement[T], x []T, position int) {
	a.firstRow(x, position)
	for i, v := range x {
		if !(v >= a.value) && a.value == a.value {
			*a = bestElement[T]{v, int64(position + i)}
		}
	}
}

// firstColumns initializes a[i] with x[i] if the accumulators are empty, and reports whether they were. position is the
// index of each of these elements.
func firstColumns[T kit.Sortable](a []bestElement[T], x []T, position int) bool {
	if len(a) == 0 || a[0].index >= 0 {
		return false
	}
	for i, v := range x[:len(a)] {
		a[i] = bestElement[T]{v, int64(position)}
	}
	return true
}

// greatestColumns folds the element x[i] into a[i]. position is the index of each of these elements.
func greatestColumns[T kit.Sortable](a []bestElement[T], x []T, position int) {
	if firstColumns(a, x, position) {
		return
	}
	for i, v := range x[:len(a)] {
		if b := &a[i]; !(v <= b.value) && b.value == b.value {
			*b = bestElement[T]{v, int64(position)}
		}
	}
}

// leastColumns is greatestColumns for the least element.
func leastColumns[T kit.Sortable](a []bestElement[T], x []T, position int) {
	if firstColumns(a, x, position) {
		return
	}
	for i, v := range x[:len(a)] {
		if b := &a[i]; !(v >= b.value) && b.value == b.value {
			*b = bestElement[T]{v, int64(position)}
		}
	}
}

// bestRow returns the best element of a row (if withValue is set) and its index as expressions. It first folds the
// extreme, and then the least position of an element that equals the extreme or is NaN. Several workers can compute one
// row, because [expr.Code.Pieces] recognizes an argmax. If there is no machine code, bestFold runs instead.
func bestRow(builder *expr.Builder, x expr.Value, greatest, withValue bool) []folds.Number {
	best := extremumRow(builder, folds.Real(x), greatest)[0].Re
	if !withValue || !builder.DType(x).IsFloat() {
		index := folds.Real(builder.Convert(tensor.Int64, firstWhere(builder, isBest(builder, x, best), builder.Position())))
		if !withValue {
			return []folds.Number{index}
		}
		return []folds.Number{folds.Real(best), index}
	}
	// The fold of the extreme treats 0 and -0 as equal and may return either. Therefore firstWhere finds the least of
	// 2*position + signBit, where signBit is the sign bit of the element at the position.
	const i32 = tensor.Int32
	bitsDType := map[int]tensor.DType{4: i32, 8: tensor.Int64}[builder.DType(x).Size()]
	signBit := builder.Convert(i32, builder.Emit(expr.Lt, builder.Bits(bitsDType, x), builder.Int(bitsDType, 0)))
	position, one := builder.Position(), builder.Int(i32, 1)
	first := firstWhere(builder, isBest(builder, x, best),
		builder.Emit(expr.Or, builder.Emit(expr.Add, position, position), signBit))
	// If the best element is zero, it gets the sign of the last bit of first. The index is first without this bit.
	zero := builder.Const(builder.DType(x), 0)
	signedZero := builder.Emit(expr.Select, builder.Emit(expr.Eq, builder.Emit(expr.And, first, one), one),
		builder.Emit(expr.Neg, zero), zero)
	best = builder.Emit(expr.Select, builder.Emit(expr.Eq, best, zero), signedZero, best)
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

// firstWhere returns a fold over a row: the least position (an int32) for which the condition holds. The condition must
// hold at least once in a row.
func firstWhere(b *expr.Builder, condition, position expr.Value) expr.Value {
	return b.Reduce(expr.Min, b.Emit(expr.Select, condition, position, b.Int(tensor.Int32, math.MaxInt32)))
}
