package winograd

// Form is a convolution F(m x m, 3 x 3).
type Form struct {
	// M is the number of rows and of columns of an output tile: 2 or 4.
	M int
}

// The polynomials are evaluated at 0, at infinity, and at +-1 for F(2x2) or +-pointA and +-pointB for F(4x4). The usual
// points for F(4x4) are 1 and 2. pointA and pointB reduce the error to less than a third, and their powers are also
// exact in float32.
const (
	pointA = 0.75
	pointB = 1.5
)

// N is the number of rows and of columns of an input tile, and also of the matrix of its points.
func (f Form) N() int { return f.M + 2 }

// Points is the number of points of a tile.
func (f Form) Points() int { return f.N() * f.N() }

// inputTransform is the one-dimensional input transform, from n pixels to n points. The matrices of
// inputTransform, weights and outputTransform together satisfy the identity of the Winograd convolution.
func (f Form) inputTransform(b *block, pixels []value) []value {
	if f.M == 2 {
		return []value{b.sub(pixels[2], pixels[0]), b.add(pixels[2], pixels[1]), b.sub(pixels[2], pixels[1]),
			b.sub(pixels[3], pixels[1])}
	}
	r := make([]value, 6)
	copy(r[1:5], f.pointsAB(b, pixels))
	r[0], r[5] = f.pointsZeroInfinity(b, pixels)
	return r
}

// pointsAB computes the points +-pointA and +-pointB.
func (f Form) pointsAB(b *block, pixels []value) []value {
	even, odd := b.fma(-pointB*pointB, pixels[2], pixels[4]), b.fma(-pointB*pointB, pixels[1], pixels[3])
	p, q := b.fma(pointA, odd, even), b.fma(-pointA, odd, even)
	even, odd = b.fma(-pointA*pointA, pixels[2], pixels[4]), b.fma(-pointA*pointA, pixels[1], pixels[3])
	return []value{p, q, b.fma(pointB, odd, even), b.fma(-pointB, odd, even)}
}

// pointsZeroInfinity computes the points 0 and infinity.
func (f Form) pointsZeroInfinity(b *block, pixels []value) (zero, infinite value) {
	const sum, product = pointA*pointA + pointB*pointB, pointA * pointA * pointB * pointB
	return b.fma(product, pixels[0], b.fma(-sum, pixels[2], pixels[4])), b.fma(product, pixels[1],
		b.fma(-sum, pixels[3], pixels[5]))
}

// outputTransform is the one-dimensional output transform, from n points to m results. The caller must multiply each
// result by its scale.
func (f Form) outputTransform(b *block, points []value) []value {
	if f.M == 2 {
		return []value{b.add(b.add(points[1], points[2]), points[0]), b.add(b.sub(points[1], points[2]), points[3])}
	}
	s, t := b.add(points[1], points[2]), b.sub(points[1], points[2])
	u, v := b.add(points[3], points[4]), b.sub(points[3], points[4])
	const r = pointB / pointA
	return []value{b.add(b.add(s, u), points[0]), b.fma(r, v, t), b.fma(r*r, u, s), b.add(b.fma(r*r*r, v, t), points[5])}
}

// scale returns the factor, a power of pointA, that outputTransform omits from result i. The multiply-add of the bias
// applies the factor without an additional instruction. The point at infinity must not have this factor, so its weights
// are divided by it.
func (f Form) scale(i int) float64 {
	if f.M == 2 {
		return 1
	}
	return [...]float64{1, pointA, pointA * pointA, pointA * pointA * pointA}[i]
}
