package winograd

// Form is a Winograd convolution F(MxM, 3x3): a tile of outputs has M x M elements, and the window 3 x 3. Its methods
// add the transforms of a tile to a block of operations, which is compiled later.
//
// The transforms in two dimensions apply those in one dimension to the columns and then to the rows. In one dimension,
// F(2, 3) computes the results y[0] and y[1] from pixels x[0] to x[3] and weights g[0] to g[2]. It has four products m,
// where the direct computation has six:
//
//	m[0] = (x[2]-x[0]) * g[0]                y[0] = (m[1]+m[2])/2 - m[0] = x[0]*g[0] + x[1]*g[1] + x[2]*g[2]
//	m[1] = (x[2]+x[1]) * (g[0]+g[1]+g[2])    y[1] = (m[1]-m[2])/2 + m[3] = x[1]*g[0] + x[2]*g[1] + x[3]*g[2]
//	m[2] = (x[2]-x[1]) * (g[0]-g[1]+g[2])
//	m[3] = (x[3]-x[1]) * g[2]
//
// The left factors are the input transform, the right factors are the transform of the weights, and the sums of the
// products are the output transform.
type Form struct {
	// M is the number of rows and of columns of an output tile: 2 or 4.
	M int
}

// A Winograd convolution multiplies polynomials by their values at some points. The points, in the order of all slices
// of points, are 0, 1, -1, infinity for F(2x2), and 0, pointA, -pointA, pointB, -pointB, infinity for F(4x4). The usual
// points for F(4x4) have 1 and 2 in place of pointA and pointB. With pointA and pointB, the rounding error is less than
// a third of the error with the usual points. The powers of pointA and pointB are exact in float32.
const (
	pointA = 0.75
	pointB = 1.5
)

// N is the number of rows and of columns of an input tile, and also of the matrix of its points.
func (f Form) N() int { return f.M + 2 }

// Points is the number of points of a tile.
func (f Form) Points() int { return f.N() * f.N() }

// inputTransform is the one-dimensional input transform, from N pixels to N points. The matrices of inputTransform,
// weightTransform and outputTransform together satisfy the identity of the Winograd convolution.
func (f Form) inputTransform(b *block, pixels []valueID) []valueID {
	if f.M == 2 {
		return []valueID{b.sub(pixels[2], pixels[0]), b.add(pixels[2], pixels[1]), b.sub(pixels[2], pixels[1]),
			b.sub(pixels[3], pixels[1])}
	}
	points := make([]valueID, 6)
	copy(points[1:5], f.pointsAB(b, pixels))
	points[0], points[5] = f.pointsZeroInfinity(b, pixels)
	return points
}

// pointsAB computes the values at +-pointA and +-pointB. With pixels x[0] to x[5], the values at +-A are
// x[4] - B^2*x[2] +- A*(x[3] - B^2*x[1]). For the values at +-B, A and B are exchanged.
func (f Form) pointsAB(b *block, pixels []valueID) []valueID {
	even, odd := b.fma(-pointB*pointB, pixels[2], pixels[4]), b.fma(-pointB*pointB, pixels[1], pixels[3])
	positive, negative := b.fma(pointA, odd, even), b.fma(-pointA, odd, even)
	even, odd = b.fma(-pointA*pointA, pixels[2], pixels[4]), b.fma(-pointA*pointA, pixels[1], pixels[3])
	return []valueID{positive, negative, b.fma(pointB, odd, even), b.fma(-pointB, odd, even)}
}

// pointsZeroInfinity computes the values at 0 and infinity: x[4] - (A^2+B^2)*x[2] + A^2*B^2*x[0], and the same formula
// for x[5], x[3] and x[1].
func (f Form) pointsZeroInfinity(b *block, pixels []valueID) (atZero, atInfinity valueID) {
	const sumOfSquares, productOfSquares = pointA*pointA + pointB*pointB, pointA * pointA * pointB * pointB
	atZero = b.fma(productOfSquares, pixels[0], b.fma(-sumOfSquares, pixels[2], pixels[4]))
	atInfinity = b.fma(productOfSquares, pixels[1], b.fma(-sumOfSquares, pixels[3], pixels[5]))
	return atZero, atInfinity
}

// weightTransform is the one-dimensional transform of three weights (first, middle and last) to N points. The value at
// a finite point p is first + middle*p + last*p^2, and the value at infinity is last. The points +p and -p share the
// even part first + last*p^2. The scale factors of the values are in outputTransform, so that all constants of the
// weight transform are exact.
func (f Form) weightTransform(b *block, weights []valueID) []valueID {
	first, middle, last := weights[0], weights[1], weights[2]
	if f.M == 2 {
		even := b.add(first, last)
		return []valueID{first, b.add(even, middle), b.sub(even, middle), last}
	}
	evenA, evenB := b.fma(pointA*pointA, last, first), b.fma(pointB*pointB, last, first)
	return []valueID{first, b.fma(pointA, middle, evenA), b.fma(-pointA, middle, evenA),
		b.fma(pointB, middle, evenB), b.fma(-pointB, middle, evenB), last}
}

// outputTransform is the one-dimensional output transform, from N points to M results. Result i is the sum of
// p^i * points[p] / d[p] over the finite points p, plus the value at infinity for the last result, divided by scale(i).
// d[p] is the product of p-q over the other finite points q. The caller must multiply result i by scale(i).
func (f Form) outputTransform(b *block, points []valueID) []valueID {
	sumA, diffA := b.add(points[1], points[2]), b.sub(points[1], points[2])
	if f.M == 2 {
		return []valueID{b.fma(-1/scaleOne, points[0], sumA), b.fma(1/scaleOne, points[3], diffA)}
	}
	sumB, diffB := b.add(points[3], points[4]), b.sub(points[3], points[4])
	const (
		ratio         = pointB / pointA
		scaleB        = -pointA * pointA / (pointB * pointB)                    // d[pointA] / d[pointB]
		scaleZero     = 2 * (pointA*pointA - pointB*pointB) / (pointB * pointB) // d[pointA] / d[0]
		scaleInfinity = 1 / (scaleA * pointA * pointA * pointA)                 // 1 / scale(3)
	)
	return []valueID{
		b.fma(scaleZero, points[0], b.fma(scaleB, sumB, sumA)),
		b.fma(ratio*scaleB, diffB, diffA),
		b.addScaled(ratio*ratio*scaleB, sumB, sumA),
		b.fma(scaleInfinity, points[5], b.fma(ratio*ratio*ratio*scaleB, diffB, diffA)),
	}
}

// scaleOne is 1/d[1] for F(2x2), and scaleA is 1/d[pointA] for F(4x4): see outputTransform.
const (
	scaleOne = 0.5
	scaleA   = 1 / (2 * pointA * pointA * (pointA*pointA - pointB*pointB))
)

// scale returns the factor of result i that outputTransform omits: 1/2 for F(2x2), and scaleA times a power of pointA
// for F(4x4). The multiply-add that adds the bias applies the factor without an additional instruction.
func (f Form) scale(i int) float64 {
	if f.M == 2 {
		return scaleOne
	}
	return scaleA * [...]float64{1, pointA, pointA * pointA, pointA * pointA * pointA}[i]
}
