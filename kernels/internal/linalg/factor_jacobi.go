package linalg

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// This file computes singular values ([solver.svd]) by [solver.orthogonalize], which multiplies a matrix A by a unitary
// V such that the columns of A*V are orthogonal.
// In the comments, A is the content of the argument a before the call. checkContextAfter(n) counts n operations and
// checks the context now and then.

// svd returns the singular values of A in descending order, and sets the orthonormal columns of u and v such that
// A = u*S*v^H, where S is the diagonal matrix of the singular values. A has at least as many rows as columns; a is
// overwritten. v is square. u has at least as many columns as A; further columns complete an orthonormal basis. If u
// and v have no columns, svd computes only the values.
//
// svd sorts the columns of the A*V and V that orthogonalize computes. The norms of the columns of A*V are the singular
// values, their directions are the columns of u, and v is V.
func (s *solver[T]) svd(a, u, v matrix[T]) []float64 {
	scale, unsortedV := s.limitExponents(a), matrix[T]{}
	if v.cols > 0 {
		unsortedV = s.identity(a.cols, a.cols)
	}
	norms := s.orthogonalize(a, unsortedV)
	order := sortedOrder(a.cols, func(i, j int) int { return cmp.Compare(norms[j], norms[i]) })
	values := make([]float64, a.cols)
	rank := 0 // number of columns of A*V that have a direction
	for k, j := range order {
		values[k] = norms[j] / scale
		if v.cols == 0 {
			continue
		}
		copy(v.column(k), unsortedV.column(j))
		// A column of A*V that fails this test is only rounding error and has no meaningful direction: its norm is
		// below minNorm, and far below the largest norm.
		if norms[j] >= minNorm || norms[j] > norms[order[0]]*0x1p-53 {
			rank = k + 1
			column := a.column(j)
			for i, x := range column {
				u.set(i, k, s.fromParts(s.re(x)/norms[j], s.im(x)/norms[j]))
			}
		}
	}
	s.complete(u, rank)
	return values
}

// minNorm is 2^53 times the least normal number. If a norm is at least minNorm, subnormal elements are smaller than the
// rounding error of the norm.
const minNorm = 0x1p-1022 * 0x1p53

// orthogonalize rotates pairs of columns of A until all columns are orthogonal (the one-sided Jacobi method of
// Hestenes): it sets a to A*V and v to v*V, for a unitary V. It returns the norms of the columns of A*V. One round
// visits all pairs of columns; there are at most maxRounds.
func (s *solver[T]) orthogonalize(a, v matrix[T]) []float64 {
	tolerance := 0x1p-51 * (2 + math.Sqrt(float64(a.rows))) // about the rounding error of the cosine in rotatePair
	norms := make([]float64, a.cols)
	for range maxRounds {
		for j := range norms {
			norms[j] = s.norm(a.column(j))
		}
		anyRotated := false
		for i := range a.cols {
			for j := i + 1; j < a.cols; j++ {
				anyRotated = s.rotatePair(a, v, norms, i, j, tolerance) || anyRotated
			}
		}
		if !anyRotated {
			break
		}
	}
	return norms
}

// maxRounds is the greatest number of rounds of orthogonalize. Ten rounds suffice for usual matrices.
const maxRounds = 60

// rotatePair makes columns i and j of the matrix a orthogonal, unless the magnitude of the cosine of their angle is at
// most the tolerance. It rotates columns i and j of v in the same way, and updates norms[i] and norms[j], the norms of
// the columns of a. It reports whether it rotated them.
//
// For the columns x and y, let x^H*y = |x^H*y|*phase and zeta = (|y|^2 - |x|^2) / (2*|x^H*y|). The rotated columns
//
//	cosine*x - sine*conj(phase)*y    and    sine*phase*x + cosine*y
//
// are orthogonal if the tangent t of the angle of rotation satisfies t^2 + 2*zeta*t - 1 = 0. rotatePair uses the root
// of the smaller magnitude, t = sign(zeta) / (|zeta| + sqrt(1 + zeta^2)).
func (s *solver[T]) rotatePair(a, v matrix[T], norms []float64, i, j int, tolerance float64) bool {
	s.checkContextAfter(4 * a.rows)
	x, y := a.column(i), a.column(j)
	if norms[i] == 0 || norms[j] == 0 {
		return false
	}
	innerProduct := s.dot(x, y)
	// normalized is the inner product of x/|x| and y/|y|.
	normalized := s.fromParts(s.re(innerProduct)/norms[i]/norms[j], s.im(innerProduct)/norms[i]/norms[j])
	columnCosine := s.abs(normalized)
	if !(columnCosine > tolerance) { // also if it is NaN
		return false
	}
	ratio := norms[j] / norms[i]
	zeta := (ratio - 1/ratio) / (2 * columnCosine)
	tangent := 1 / (math.Abs(zeta) + hypot(1, zeta))
	if tangent == 0 { // one column is so small that a rotation would not change the other
		return false
	}
	if zeta < 0 {
		tangent = -tangent
	}
	cosine := 1 / hypot(1, tangent)
	phase := s.fromParts(s.re(normalized)/columnCosine, s.im(normalized)/columnCosine)
	yInX, xInY := s.mul(s.fromParts(-cosine*tangent, 0), s.conj(phase)), s.mul(s.fromParts(cosine*tangent, 0), phase)
	s.rotate(x, y, cosine, yInX, xInY)
	s.rotate(v.column(i), v.column(j), cosine, yInX, xInY)
	norms[i], norms[j] = s.norm(x), s.norm(y)
	s.checkContextAfter(12 * (a.rows + v.rows))
	return true
}

// hypot returns the square root of a*a + b*b, with the same bits on every processor.
func hypot(a, b float64) float64 { return kit.AbsComplex(complex(a, b)) }

// sortedOrder returns the numbers 0 to n-1, stably sorted by compare.
func sortedOrder(n int, compare func(i, j int) int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	return order
}

// complete sets the columns of u after the first rank columns such that all columns are orthonormal. The first rank
// columns are already orthonormal.
func (s *solver[T]) complete(u matrix[T], rank int) {
	if rank == u.cols {
		return
	}
	// Factor u[:, :rank] = Q*R. The first rank columns of Q span the same space as the first rank columns of u. The other
	// columns of Q are therefore orthogonal to this space.
	q := s.copyOf(u.firstColumns(rank))
	tau := s.zeros(rank, 1).elements
	s.qr(q, tau)
	lastColumns := matrix[T]{u.elements[rank*u.rows:], u.rows, u.cols - rank}
	// multiplyQ multiplies Q by the last columns of the identity.
	lastColumns.clear()
	for j := range lastColumns.cols {
		lastColumns.set(rank+j, j, s.fromParts(1, 0))
	}
	s.multiplyQ(q, tau, lastColumns, notAdjoint)
}
