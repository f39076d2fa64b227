package winograd

// Sums is the arithmetic used to transform weights. V may be a number or a symbolic value.
type Sums[V any] struct {
	Add, Sub func(a, b V) V
	Mul      func(k float64, v V) V
	Neg      func(v V) V
}

// Weights transforms the 3x3 weights g of a window, given row by row, and returns the points in the rows from first to
// end, row by row. The transform is U = G*g*G', where the matrix G has one row for each point and transforms three
// weights of a row or column.
func Weights[V any](f Form, by Sums[V], g [9]V, first, end int) []V {
	var columns [3][]V
	for k := range columns {
		columns[k] = weights(f, by, g[k], g[3+k], g[6+k])
	}
	var out []V
	for i := first; i < end; i++ {
		out = append(out, weights(f, by, columns[0][i], columns[1][i], columns[2][i])...)
	}
	return out
}

// weights multiplies G by the three weights a, b and c. The points +p and -p share their even and odd parts.
func weights[V any](f Form, by Sums[V], a, b, c V) []V {
	if f.M == 2 {
		even, odd := by.Mul(0.5, by.Add(a, c)), by.Mul(0.5, b)
		return []V{by.Neg(a), by.Add(even, odd), by.Sub(even, odd), c}
	}
	const (
		a2, b2       = pointA * pointA, pointB * pointB
		scaleA       = 1 / (2 * a2 * (a2 - b2))
		scaleB       = 1 / (2 * b2 * (b2 - a2))
		scaleZero    = 1 / (a2 * b2)
		oddA, oddB   = pointA * scaleA, pointB * scaleB
		evenA, evenB = a2 * scaleA, b2 * scaleB
	)
	evenAt, oddAt := by.Add(by.Mul(scaleA, a), by.Mul(evenA, c)), by.Mul(oddA, b)
	evenBt, oddBt := by.Add(by.Mul(scaleB, a), by.Mul(evenB, c)), by.Mul(oddB, b)
	return []V{by.Mul(scaleZero, a), by.Add(evenAt, oddAt), by.Sub(evenAt, oddAt), by.Add(evenBt, oddBt),
		by.Sub(evenBt, oddBt), by.Mul(1/f.scale(f.M-1), c)}
}
