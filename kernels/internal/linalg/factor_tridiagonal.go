package linalg

import (
	"cmp"
	"math"
)

// This file computes eigenvalues of Hermitian matrices ([solver.eigh]): reflections reduce the matrix to a real
// tridiagonal matrix, and the implicit QL algorithm reduces the tridiagonal matrix to a diagonal matrix.

// eigh returns the eigenvalues of the Hermitian matrix A, the argument a, in ascending order. It sets the columns of v
// to eigenvectors of norm 1, unless v is nil. a is overwritten.
func (s *solver[T]) eigh(a matrix[T], v *matrix[T]) []float64 {
	n, scale := a.cols, s.limitExponents(a)
	diagonal, offDiagonal, tau := s.tridiagonalize(a)
	var vectors matrix[T] // first Q of tridiagonalize, then the eigenvectors
	if v != nil {
		vectors = s.identity(n, n)
		for k := n - 2; k >= 0; k-- {
			for j := k + 1; j < n; j++ { // earlier columns have zeros where v of the reflection has elements
				s.reflect(tau[k], a.column(k)[k+1:], vectors.column(j)[k+1:])
			}
		}
	}
	s.diagonalize(diagonal, offDiagonal, vectors)
	sortedValues := make([]float64, n)
	for k, j := range sortedOrder(n, func(i, j int) int { return cmp.Compare(diagonal[i], diagonal[j]) }) {
		sortedValues[k] = diagonal[j] / scale
		if v != nil {
			copy(v.column(k), vectors.column(j))
		}
	}
	return sortedValues
}

// tridiagonalize computes the real tridiagonal matrix Q^H*A*Q for the product Q of reflections H_k = I - tau[k] v v^H,
// for k from 0 to n-2. It overwrites column k of a below the diagonal with v, whose first element is 1.
func (s *solver[T]) tridiagonalize(a matrix[T]) (diagonal, offDiagonal []float64, tau []T) {
	n := a.cols
	diagonal, offDiagonal = make([]float64, n), make([]float64, n)
	tau, product := s.zeros(n, 1).elements, s.zeros(n, 1).elements
	for k := range n {
		diagonal[k] = s.re(a.at(k, k))
		if k == n-1 {
			break
		}
		v := a.column(k)[k+1:]
		tau[k] = s.makeReflection(v)
		offDiagonal[k] = s.re(v[0])
		v[0] = s.fromParts(1, 0)
		if math.Abs(offDiagonal[k]) < minNorm { // negligible, and v may be inaccurate
			tau[k] = s.fromParts(0, 0)
		}
		if tau[k] != 0 {
			s.reflectBothSides(a, k+1, tau[k], v, product[k+1:])
		}
	}
	return diagonal, offDiagonal, tau
}

// reflectBothSides overwrites B with H^H*B*H, for the reflection H = I - tau v v^H. B is the part of a with the rows
// and columns from first on. With x = tau*B*v and w = x - (tau/2)*(x^H*v)*v, the result is B - v*w^H - w*v^H. w is
// temporary memory.
func (s *solver[T]) reflectBothSides(a matrix[T], first int, tau T, v, w []T) {
	clear(w)
	for j, factor := range v {
		s.addScaled(s.mul(tau, factor), a.column(first + j)[first:], w)
		s.checkContextAfter(len(v))
	}
	half := s.mul(s.fromParts(-0.5, 0), s.mul(tau, s.dot(w, v)))
	s.addScaled(half, v, w)
	for j := range v {
		column := a.column(first + j)[first:]
		s.addScaled(-s.conj(w[j]), v, column)
		s.addScaled(-s.conj(v[j]), w, column)
		s.checkContextAfter(2 * len(v))
	}
}

// maxIterations is the greatest number of iterations of diagonalize for an eigenvalue. Two suffice for usual matrices.
const maxIterations = 60

// diagonalize overwrites the diagonal of a real tridiagonal matrix with its eigenvalues, by the implicit QL algorithm.
// offDiagonal[k] is the element below diagonal[k]; it is overwritten. The columns of vectors are multiplied by the
// eigenvectors, unless vectors has no columns.
func (s *solver[T]) diagonalize(diagonal, offDiagonal []float64, vectors matrix[T]) {
	n := len(diagonal)
	for first := range n {
		for range maxIterations {
			last := first // of the block of the matrix that starts at first
			for last < n-1 && !isNegligible(offDiagonal[last], diagonal[last], diagonal[last+1]) {
				last++
			}
			if last == first {
				break
			}
			s.stepQL(diagonal, offDiagonal, vectors, first, last)
		}
	}
}

// isNegligible reports whether an element between two elements of the diagonal is below their rounding errors, or below
// minNorm. The matrix has an element above 2^-400, because of limitExponents, so minNorm is below its rounding errors.
func isNegligible(offDiagonal, upper, lower float64) bool {
	magnitude := math.Abs(offDiagonal)
	return magnitude < minNorm || magnitude <= 0x1p-53*(math.Abs(upper)+math.Abs(lower))
}

// rotationCost is the approximate cost in operations of a rotation of stepQL without eigenvectors.
const rotationCost = 32

// stepQL performs a QL step with Wilkinson's shift on the block of the rows first to last (J. H. Wilkinson and
// C. Reinsch, Handbook for Automatic Computation II, 1971, contribution II/4).
func (s *solver[T]) stepQL(diagonal, offDiagonal []float64, vectors matrix[T], first, last int) {
	halfSlope := (diagonal[first+1] - diagonal[first]) / (2 * offDiagonal[first])
	g := diagonal[last] - diagonal[first] +
		offDiagonal[first]/(halfSlope+math.Copysign(hypot(halfSlope, 1), halfSlope))
	sine, cosine, change := 1.0, 1.0, 0.0
	for i := last - 1; i >= first; i-- {
		f, b := float64(sine*offDiagonal[i]), float64(cosine*offDiagonal[i])
		r := hypot(f, g)
		if r < minNorm { // negligible: the block splits between i+1 and i+2
			diagonal[i+1] -= change
			offDiagonal[i+1], offDiagonal[last] = 0, 0
			return
		}
		offDiagonal[i+1] = r
		sine, cosine = f/r, g/r
		g = diagonal[i+1] - change
		r = float64((diagonal[i]-g)*sine) + float64(2*cosine*b)
		change = float64(sine * r)
		diagonal[i+1] = g + change
		g = float64(cosine*r) - b
		if vectors.cols > 0 {
			s.rotate(vectors.column(i), vectors.column(i+1), cosine, s.fromParts(-sine, 0), s.fromParts(sine, 0))
		}
		s.checkContextAfter(4*vectors.rows + rotationCost)
	}
	diagonal[first] -= change
	offDiagonal[first], offDiagonal[last] = g, 0
}
