package reduce

import (
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// best is the best element so far and its index; -1 before the first.
type best[T kit.Sortable] struct {
	v T
	i int64
}

func bestFold(d tensor.DType, greatest, values bool) *iter.Fold {
	switch kit.Wide(d) {
	case tensor.Int64:
		return bestOf[int64](greatest, values)
	case tensor.Float32:
		return bestOf[float32](greatest, values)
	}
	return bestOf[float64](greatest, values)
}

func bestOf[T interface {
	kit.Sortable
	tensor.Element
}](greatest, values bool) *iter.Fold {
	row, columns, sign := leastRow[T], leastColumns[T], T(-1)
	if greatest {
		row, columns, sign = greatestRow[T], greatestColumns[T], 1
	}
	f := iter.Folding(best[T]{i: -1}, row, columns, func(a, from []best[T]) {
		for i, b := range from {
			v, w := a[i].v, b.v
			if a[i].i < 0 || b.i >= 0 && (sign > 0 && w > v || sign < 0 && w < v || w != w && v == v) {
				a[i] = b
			}
		}
	}).InOrder().Weight(2)
	if values {
		f = iter.Yields(f, func(dst []T, a []best[T]) {
			for i := range a {
				dst[i] = a[i].v
			}
		})
	}
	return iter.Yields(f, func(dst []int64, a []best[T]) {
		for i := range a {
			dst[i] = a[i].i
		}
	})
}

// firstRow begins with the first element of a row.
func (b *best[T]) firstRow(x []T, at int) {
	if b.i < 0 {
		*b = best[T]{x[0], int64(at)}
	}
}

// greatestRow makes one comparison of an element, which holds for most: at most the greatest so far, and no NaN.
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

// firstColumns begins with a row of elements, and reports whether that was to be done.
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
