package reduce

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// bestElement is the accumulator of a fold: the greatest or least element so far, and its index. The index is -1 before
// the first element. The first NaN is the best element.
type bestElement[T kit.Sortable] struct {
	value T
	index int64
}

// bestFold returns the fold of the greatest or least element of dtype d. Its results are the element, if values is set,
// and the element's index.
func bestFold(d tensor.DType, greatest, values bool) *iter.Fold {
	switch kit.LoopDType(d) {
	case tensor.Int64:
		return bestIndexFold[int64](greatest, values)
	case tensor.Float32:
		return bestIndexFold[float32](greatest, values)
	}
	return bestIndexFold[float64](greatest, values)
}

// bestIndexFold is bestFold for elements of type T.
func bestIndexFold[T number](greatest, values bool) *iter.Fold {
	f := bestElementFold[T](greatest).InOrder()
	if values {
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

type number interface {
	kit.Sortable
	tensor.Element
}

// bestElementFold returns the fold of the best element and its index.
func bestElementFold[T number](greatest bool) *iter.Fold {
	row, columns, sign := leastRow[T], leastColumns[T], T(-1)
	if greatest {
		row, columns, sign = greatestRow[T], greatestColumns[T], 1
	}
	return iter.Folding(bestElement[T]{index: -1}, row, columns, func(a, from []bestElement[T]) {
		for i, b := range from {
			// b is better if a is empty, or if b has an element that is strictly better or NaN where a has none.
			v, w := a[i].value, b.value
			if a[i].index < 0 || b.index >= 0 && (sign > 0 && w > v || sign < 0 && w < v || w != w && v == v) {
				a[i] = b
			}
		}
	}).Weight(2)
}

func withValueResult[T number](f *iter.Fold) *iter.Fold {
	return iter.WithResult(f, func(dst []T, a []bestElement[T]) {
		for i := range a {
			dst[i] = a[i].value
		}
	})
}

// firstRow initializes an empty accumulator with the first element of row x. position is the index of this element.
func (b *bestElement[T]) firstRow(x []T, position int) {
	if b.index < 0 {
		*b = bestElement[T]{x[0], int64(position)}
	}
}

// greatestRow folds a row. Most elements need a single comparison, which is false for greater elements and for NaN.
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

// firstColumns initializes empty accumulators with a row of elements. It reports whether the accumulators were empty.
func firstColumns[T kit.Sortable](a []bestElement[T], x []T, position int) bool {
	if len(a) == 0 || a[0].index >= 0 {
		return false
	}
	for i, v := range x[:len(a)] {
		a[i] = bestElement[T]{v, int64(position)}
	}
	return true
}

// greatestColumns folds one element into each accumulator.
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

// bestRow returns the best element of a row (if values is set) and its index as expressions. It first folds the
// extreme, and then the least position of an element that equals the extreme or is NaN. Workers can share a row,
// because [expr.Code.Pieces] recognizes an argmax. Without machine code, bestFold runs instead.
func bestRow(builder *expr.Builder, x expr.Value, greatest, values bool) []folds.Number {
	best := extremumRow(builder, folds.Real(x), greatest)[0].Re
	if !values || !builder.DType(x).IsFloat() {
		index := folds.Real(builder.Convert(tensor.Int64, firstWhere(builder, isBest(builder, x, best), builder.Position())))
		if !values {
			return []folds.Number{index}
		}
		return []folds.Number{folds.Real(best), index}
	}
	// A fold of extremes treats zeros of both signs as equal and may return either. The sign of the best element is
	// therefore stored in the last bit of the folded position.
	const i32 = tensor.Int32
	// negative is the sign bit of x. firstWhere then finds the least of 2*position + sign.
	bits := map[int]tensor.DType{4: i32, 8: tensor.Int64}[builder.DType(x).Size()]
	negative := builder.Convert(i32, builder.Do(expr.Lt, builder.Bits(bits, x), builder.Int(bits, 0)))
	position, one := builder.Position(), builder.Int(i32, 1)
	first := firstWhere(builder, isBest(builder, x, best),
		builder.Do(expr.Or, builder.Do(expr.Add, position, position), negative))
	// A best element of 0 gets the sign: -0 if the last bit is set. The index is the position without this bit.
	zero := builder.Const(builder.DType(x), 0)
	signed := builder.Do(expr.Select, builder.Do(expr.Eq, builder.Do(expr.And, first, one), one),
		builder.Do(expr.Neg, zero), zero)
	best = builder.Do(expr.Select, builder.Do(expr.Eq, best, zero), signed, best)
	return []folds.Number{folds.Real(best), folds.Real(builder.Convert(tensor.Int64, builder.Do(expr.Shr, first, one)))}
}

// isBest returns the condition that an element equals the extreme of its row or is NaN.
func isBest(b *expr.Builder, x, best expr.Value) expr.Value {
	condition := b.Do(expr.Eq, x, best)
	if b.DType(x).IsFloat() {
		condition = b.Do(expr.Or, condition, b.Do(expr.Ne, x, x))
	}
	return condition
}

// firstWhere returns the least of the positions for which a condition holds, as a fold. The condition must hold
// at least once in a row.
func firstWhere(b *expr.Builder, condition, position expr.Value) expr.Value {
	return b.Reduce(expr.Min, b.Do(expr.Select, condition, position, b.Int(tensor.Int32, math.MaxInt32)))
}
