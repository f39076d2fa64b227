package winograd

// Arithmetic is the arithmetic used to transform weights. V may be a number or a symbolic value.
type Arithmetic[V any] struct {
	Add, Sub func(a, b V) V
	Mul      func(k float64, v V) V
	Neg      func(v V) V
}

// Weights transforms the 3x3 weights g of a window, given row by row, and returns the points in the rows from first to
// end, row by row. The transform is U = G*g*G', where the matrix G has one row for each point and transforms three
// weights of a row or column.
func Weights[V any](f Form, ops Arithmetic[V], g [9]V, first, end int) []V {
	var columns [3][]V
	for k := range columns {
		columns[k] = transformThree(f, ops, g[k], g[3+k], g[6+k])
	}
	var out []V
	for i := first; i < end; i++ {
		out = append(out, transformThree(f, ops, columns[0][i], columns[1][i], columns[2][i])...)
	}
	return out
}

// transformThree multiplies G by the three weights a, b and c. The value at a point p is the polynomial a + b*p +
// c*p^2, divided by the product of p-q over the other finite points q; the value at infinity is c. The points +p and -p
// share the even part a + c*p^2 and the odd part b*p.
func transformThree[V any](f Form, ops Arithmetic[V], a, b, c V) []V {
	if f.M == 2 {
		even, odd := ops.Mul(0.5, ops.Add(a, c)), ops.Mul(0.5, b)
		return []V{ops.Neg(a), ops.Add(even, odd), ops.Sub(even, odd), c}
	}
	const (
		a2, b2       = pointA * pointA, pointB * pointB
		scaleA       = 1 / (2 * a2 * (a2 - b2))
		scaleB       = 1 / (2 * b2 * (b2 - a2))
		scaleZero    = 1 / (a2 * b2)
		oddA, oddB   = pointA * scaleA, pointB * scaleB
		evenA, evenB = a2 * scaleA, b2 * scaleB
	)
	evenAt, oddAt := ops.Add(ops.Mul(scaleA, a), ops.Mul(evenA, c)), ops.Mul(oddA, b)
	evenBt, oddBt := ops.Add(ops.Mul(scaleB, a), ops.Mul(evenB, c)), ops.Mul(oddB, b)
	return []V{ops.Mul(scaleZero, a), ops.Add(evenAt, oddAt), ops.Sub(evenAt, oddAt), ops.Add(evenBt, oddBt),
		ops.Sub(evenBt, oddBt), ops.Mul(1/f.scale(f.M-1), c)}
}
