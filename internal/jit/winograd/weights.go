package winograd

// Arithmetic has the operations that transform weights. V may be a number or a symbolic value.
type Arithmetic[V any] struct {
	Add, Sub func(a, b V) V
	Mul      func(k float64, v V) V
	Neg      func(v V) V
}

// Weights transforms the 3x3 weights g of a window, given row by row, to N x N points (see [Form.N]). It returns the
// points of rows [first, end). The transform is U = G*g*G', where the matrix G has one row for each point and
// transforms three weights of a row or column. For F(2x2), G transforms the weights a, b and c to the points -a,
// (a+b+c)/2, (a-b+c)/2 and c.
func Weights[V any](f Form, ops Arithmetic[V], g [9]V, first, end int) []V {
	var columns [3][]V // the columns of G*g
	for k := range columns {
		columns[k] = transformThree(f, ops, g[k], g[3+k], g[6+k])
	}
	var points []V
	for row := first; row < end; row++ {
		points = append(points, transformThree(f, ops, columns[0][row], columns[1][row], columns[2][row])...)
	}
	return points
}

// transformThree multiplies G by the three weights a, b and c. The value at a point p is the polynomial a + b*p +
// c*p^2, divided by the product of p-q over the other finite points q. The value at infinity is c, divided by the scale
// of the last result ([Form.scale]). The points +p and -p share the even part a + c*p^2 and the odd part b*p.
func transformThree[V any](f Form, ops Arithmetic[V], a, b, c V) []V {
	if f.M == 2 {
		even, odd := ops.Mul(0.5, ops.Add(a, c)), ops.Mul(0.5, b)
		return []V{ops.Neg(a), ops.Add(even, odd), ops.Sub(even, odd), c}
	}
	const (
		a2, b2       = pointA * pointA, pointB * pointB
		scaleA       = 1 / (2 * a2 * (a2 - b2)) // 1 / the product of pointA-q
		scaleB       = 1 / (2 * b2 * (b2 - a2))
		scaleZero    = 1 / (a2 * b2)
		oddA, oddB   = pointA * scaleA, pointB * scaleB // the coefficients of b
		evenA, evenB = a2 * scaleA, b2 * scaleB         // the coefficients of c
	)
	evenPartA, oddPartA := ops.Add(ops.Mul(scaleA, a), ops.Mul(evenA, c)), ops.Mul(oddA, b)
	evenPartB, oddPartB := ops.Add(ops.Mul(scaleB, a), ops.Mul(evenB, c)), ops.Mul(oddB, b)
	return []V{ops.Mul(scaleZero, a), ops.Add(evenPartA, oddPartA), ops.Sub(evenPartA, oddPartA),
		ops.Add(evenPartB, oddPartB), ops.Sub(evenPartB, oddPartB), ops.Mul(1/f.scale(f.M-1), c)}
}
