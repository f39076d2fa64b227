package reduce

import (
	"math"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// best is the best element so far and its index; -1 before the first.
type best[T kit.Sortable] struct {
	v T
	i int64
}

func bestFold(d tensor.DType, greatest, values bool) *iter.Fold {
	switch kit.LoopDType(d) {
	case tensor.Int64:
		return bestOf[int64](greatest, values)
	case tensor.Float32:
		return bestOf[float32](greatest, values)
	}
	return bestOf[float64](greatest, values)
}

func bestOf[T number](greatest, values bool) *iter.Fold {
	f := bestAmong[T](greatest).InOrder()
	if values {
		f = yieldsValue[T](f)
	}
	return iter.Yields(f, func(dst []int64, a []best[T]) {
		for i := range a {
			dst[i] = a[i].i
		}
	})
}

// extremeOf returns the fold of the best element alone.
func extremeOf[T number](greatest bool) *iter.Fold { return yieldsValue[T](bestAmong[T](greatest)) }

type number interface {
	kit.Sortable
	tensor.Element
}

// bestAmong returns the fold of the best element and its index.
func bestAmong[T number](greatest bool) *iter.Fold {
	row, columns, sign := leastRow[T], leastColumns[T], T(-1)
	if greatest {
		row, columns, sign = greatestRow[T], greatestColumns[T], 1
	}
	return iter.Folding(best[T]{i: -1}, row, columns, func(a, from []best[T]) {
		for i, b := range from {
			v, w := a[i].v, b.v
			if a[i].i < 0 || b.i >= 0 && (sign > 0 && w > v || sign < 0 && w < v || w != w && v == v) {
				a[i] = b
			}
		}
	}).Weight(2)
}

func yieldsValue[T number](f *iter.Fold) *iter.Fold {
	return iter.Yields(f, func(dst []T, a []best[T]) {
		for i := range a {
			dst[i] = a[i].v
		}
	})
}

// firstRow starts with the first element of a row.
func (b *best[T]) firstRow(x []T, at int) {
	if b.i < 0 {
		*b = best[T]{x[0], int64(at)}
	}
}

// greatestRow needs one comparison for most elements: not greater than the best so far, and not NaN.
func greatestRow[T kit.Sortable](a *best[T], x []T, at int) {
	a.firstRow(x, at)
	b, i := *a, 0
	for b.v == b.v && i < len(x) {
		for ; i+4 <= len(x); i += 4 {
			q := (*[4]T)(x[i:])
			if !(q[0] <= b.v && q[1] <= b.v && q[2] <= b.v && q[3] <= b.v) {
				break
			}
		}
		for end := min(i+4, len(x)); i < end; i++ {
			if v := x[i]; !(v <= b.v) {
				if b = (best[T]{v, int64(at + i)}); v != v {
					break
				}
			}
		}
	}
	*a = b
}

func leastRow[T kit.Sortable](a *best[T], x []T, at int) {
	a.firstRow(x, at)
	b, i := *a, 0
	for b.v == b.v && i < len(x) {
		for ; i+4 <= len(x); i += 4 {
			q := (*[4]T)(x[i:])
			if !(q[0] >= b.v && q[1] >= b.v && q[2] >= b.v && q[3] >= b.v) {
				break
			}
		}
		for end := min(i+4, len(x)); i < end; i++ {
			if v := x[i]; !(v >= b.v) {
				if b = (best[T]{v, int64(at + i)}); v != v {
					break
				}
			}
		}
	}
	*a = b
}

// firstColumns starts with a row of elements, and reports whether it was the first one.
func firstColumns[T kit.Sortable](a []best[T], x []T, at int) bool {
	if len(a) == 0 || a[0].i >= 0 {
		return false
	}
	for i, v := range x[:len(a)] {
		a[i] = best[T]{v, int64(at)}
	}
	return true
}

func greatestColumns[T kit.Sortable](a []best[T], x []T, at int) {
	if firstColumns(a, x, at) {
		return
	}
	for i, v := range x[:len(a)] {
		if b := &a[i]; !(v <= b.v) && b.v == b.v {
			*b = best[T]{v, int64(at)}
		}
	}
}

func leastColumns[T kit.Sortable](a []best[T], x []T, at int) {
	if firstColumns(a, x, at) {
		return
	}
	for i, v := range x[:len(a)] {
		if b := &a[i]; !(v >= b.v) && b.v == b.v {
			*b = best[T]{v, int64(at)}
		}
	}
}

// bestRow returns the best element of a row and its index as an expression, or the index only: it folds the extreme
// first, and then the least position of an element equal to it. The first NaN is the best. Rows that are cut use it
// too, because [expr.Code.Pieces] recognizes an argmax; bestFold runs without machine code.
func bestRow(b *expr.Builder, x expr.Value, greatest, values bool) []folds.Part {
	best := extremumRow(b, folds.Real(x), greatest)[0].Re
	if !values || !b.DType(x).IsFloat() {
		index := folds.Real(b.Convert(tensor.Int64, firstWhere(b, isBest(b, x, best), b.Position())))
		if !values {
			return []folds.Part{index}
		}
		return []folds.Part{folds.Real(best), index}
	}
	// A fold treats zeros of both signs as equal and returns either. The sign is therefore the last bit of the
	// position.
	const i32 = tensor.Int32
	bits := map[int]tensor.DType{4: i32, 8: tensor.Int64}[b.DType(x).Size()]
	negative := b.Convert(i32, b.Do(expr.Lt, b.Bits(bits, x), b.Int(bits, 0)))
	place, one := b.Position(), b.Int(i32, 1)
	first := firstWhere(b, isBest(b, x, best), b.Do(expr.Or, b.Do(expr.Add, place, place), negative))
	zero := b.Const(b.DType(x), 0)
	signed := b.Do(expr.Select, b.Do(expr.Eq, b.Do(expr.And, first, one), one), b.Do(expr.Neg, zero), zero)
	best = b.Do(expr.Select, b.Do(expr.Eq, best, zero), signed, best)
	return []folds.Part{folds.Real(best), folds.Real(b.Convert(tensor.Int64, b.Do(expr.Shr, first, one)))}
}

// isBest tests whether an element equals the extreme of its row, or is NaN.
func isBest(b *expr.Builder, x, best expr.Value) expr.Value {
	is := b.Do(expr.Eq, x, best)
	if b.DType(x).IsFloat() {
		is = b.Do(expr.Or, is, b.Do(expr.Ne, x, x))
	}
	return is
}

// firstWhere folds the least position where a condition holds; it holds at least once.
func firstWhere(b *expr.Builder, holds, place expr.Value) expr.Value {
	return b.Reduce(expr.Min, b.Do(expr.Select, holds, place, b.Int(tensor.Int32, math.MaxInt32)))
}
