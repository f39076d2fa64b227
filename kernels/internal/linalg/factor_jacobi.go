package linalg

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// orthogonalize rotates pairs of columns of a until all columns are orthogonal (the one-sided Jacobi method of
// Hestenes). It rotates the columns of v in the same way. It returns the norms of the columns of a. It visits all pairs
// at most maxSweeps times.
func (s *solver[T]) orthogonalize(a, v matrix[T]) []float64 {
	tolerance := 0x1p-51 * (2 + math.Sqrt(float64(a.rows))) // rounding errors of a sum
	norms := make([]float64, a.cols)
	for range maxSweeps {
		rotated := false
		for j := range norms {
			norms[j] = s.norm(a.column(j))
		}
		for i := range a.cols {
			for j := i + 1; j < a.cols; j++ {
				rotated = s.rotate(a, v, norms, i, j, tolerance) || rotated
			}
		}
		if !rotated {
			break
		}
	}
	return norms
}

// maxSweeps is the greatest number of times that orthogonalize visits all pairs of columns. Ten times suffice for usual
// matrices.
const maxSweeps = 60

// hypot returns the square root of a*a + b*b, with the same bits on every processor.
func hypot(a, b float64) float64 { return kit.AbsComplex(complex(a, b)) }

// rotate makes columns i and j of a orthogonal, unless the cosine of their angle is at most the tolerance. It rotates
// the columns of v in the same way, and updates the norms of the two columns. It reports whether it rotated the
// columns.
func (s *solver[T]) rotate(a, v matrix[T], norms []float64, i, j int, tolerance float64) bool {
	s.countWork(4 * a.rows)
	x, y := a.column(i), a.column(j)
	if norms[i] == 0 || norms[j] == 0 {
		return false
	}
	// The cosine is computed for columns that are divided by their norms, so that no product is too large or too small.
	product := s.dot(x, y)
	product = s.of(s.re(product)/norms[i]/norms[j], s.im(product)/norms[i]/norms[j])
	size := s.abs(product)
	if !(size > tolerance) {
		return false
	}
	ratio := norms[j] / norms[i]
	zeta := (ratio - 1/ratio) / (2 * size)
	tangent := 1 / (math.Abs(zeta) + hypot(1, zeta))
	if tangent == 0 { // one column is so small that a rotation would not change the other
		return false
	}
	if zeta < 0 {
		tangent = -tangent
	}
	cosine := 1 / hypot(1, tangent)
	phase := s.of(s.re(product)/size, s.im(product)/size)
	s.rotateColumns(x, y, cosine, cosine*tangent, phase)
	s.rotateColumns(v.column(i), v.column(j), cosine, cosine*tangent, phase)
	norms[i], norms[j] = s.norm(x), s.norm(y)
	s.countWork(12 * (a.rows + v.rows))
	return true
}

// rotateColumns sets x to cosine x - sine conj(phase) y, and y to sine phase x + cosine y.
func (s *solver[T]) rotateColumns(x, y []T, cosine, sine float64, phase T) {
	down, up := s.mul(s.of(-sine, 0), s.conj(phase)), s.mul(s.of(sine, 0), phase)
	for i, xValue := range x {
		yValue := y[i]
		x[i] = s.of(float64(s.re(xValue)*cosine), float64(s.im(xValue)*cosine)) + s.mul(down, yValue)
		y[i] = s.mul(up, xValue) + s.of(float64(s.re(yValue)*cosine), float64(s.im(yValue)*cosine))
	}
}

// svd returns the singular values of a in descending order, and sets columns of u and v such that a = u s v^H, where s
// is the diagonal matrix of the singular values. a has at least as many rows as columns, and is overwritten. u has at
// least as many columns as a.
func (s *solver[T]) svd(a, u, v matrix[T]) []float64 {
	rotations := s.identity(a.cols, a.cols)
	norms := s.orthogonalize(a, rotations)
	order := make([]int, a.cols)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(norms[j], norms[i]) })
	values := make([]float64, a.cols)
	rank := 0
	for k, j := range order {
		values[k] = norms[j]
		copy(v.column(k), rotations.column(j))
		if norms[j] > 0 {
			rank = k + 1
			column := a.column(j)
			for i, x := range column {
				u.set(i, k, s.of(s.re(x)/norms[j], s.im(x)/norms[j]))
			}
		}
	}
	s.complete(u, rank)
	return values
}

// complete sets the columns of u after the first rank columns such that all columns are orthonormal. The first rank
// columns are already orthonormal.
func (s *solver[T]) complete(u matrix[T], rank int) {
	if rank == u.cols {
		return
	}
	q := s.copyOf(u.leading(rank), false)
	tau := s.make(rank, 1).elements
	s.qr(q, tau)
	rest := matrix[T]{u.elements[rank*u.rows:], u.rows, u.cols - rank}
	rest.clear()
	for j := range rest.cols {
		rest.set(rank+j, j, s.of(1, 0))
	}
	s.multiplyQ(q, tau, rest, false)
}

// eigh returns the eigenvalues of the Hermitian matrix a in ascending order, and sets the columns of v to eigenvectors.
// It adds a multiple of the identity to a. The sum is positive definite, and its singular vectors are eigenvectors of
// a.
func (s *solver[T]) eigh(a, v matrix[T]) []float64 {
	n := a.cols
	shift := 0.0
	for j := range n {
		shift = max(shift, s.norm(a.column(j)))
	}
	shift *= 2 * math.Sqrt(float64(n))
	shifted := s.copyOf(a, false)
	for j := range n {
		shifted.set(j, j, shifted.at(j, j)+s.of(shift, 0))
	}
	vectors := s.identity(n, n)
	s.orthogonalize(shifted, vectors)
	values := make([]float64, n)
	product := s.make(n, 1).elements
	for j := range n {
		x := vectors.column(j)
		clear(product)
		for k, factor := range x {
			s.addScaled(factor, a.column(k), product)
			s.countWork(n)
		}
		values[j] = s.re(s.dot(x, product))
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	sorted := make([]float64, n)
	for k, j := range order {
		sorted[k] = values[j]
		copy(v.column(k), vectors.column(j))
	}
	return sorted
}
