package linalg

import (
	"math"
	"slices"
)

// lu overwrites a with its factors L and U. L has ones on the diagonal, which are not stored. L U is the matrix a after
// the exchanges of rows. lu sets pivots[k] to the number, from 1, of the row with which row k is exchanged. The pivot
// of a column is the element with the greatest sum of the magnitudes of its real and imaginary parts, as in LAPACK. The
// result is the number, from 1, of the first column whose pivot is 0, or 0 if there is none. For example:
//
//	    0 2                    4 6
//	a = 4 6   is overwritten   0 2   and pivots is [2 2]
func (s *solver[T]) lu(a matrix[T], pivots []int) (firstZeroPivot int) {
	sumOfParts := func(v T) float64 { return math.Abs(s.re(v)) + math.Abs(s.im(v)) }
	for k := range min(a.rows, a.cols) {
		s.checkContextAfter(a.rows + a.cols) // the number of operations, for checks of the context now and then
		column := a.column(k)
		pivot := k
		for i := k + 1; i < a.rows; i++ {
			if sumOfParts(column[i]) > sumOfParts(column[pivot]) {
				pivot = i
			}
		}
		pivots[k] = pivot + 1
		if column[pivot] == 0 {
			if firstZeroPivot == 0 {
				firstZeroPivot = k + 1
			}
			continue
		}
		for j := range a.cols {
			exchanged := a.column(j)
			exchanged[k], exchanged[pivot] = exchanged[pivot], exchanged[k]
		}
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k]) // L[i,k]
		}
		// a[i,j] -= L[i,k] U[k,j] for all i, j > k
		for j := k + 1; j < a.cols; j++ {
			updated := a.column(j)
			s.addScaled(-updated[k], column[k+1:], updated[k+1:])
			s.checkContextAfter(a.rows - k)
		}
	}
	return firstZeroPivot
}

// exchangeRows exchanges row k of b with row pivots[k]-1, for each k in ascending order.
func (s *solver[T]) exchangeRows(b matrix[T], pivots []int) {
	for k, pivot := range pivots {
		s.exchangeTwoRows(b, k, pivot-1)
	}
}

// undoExchanges undoes exchangeRows: it makes the same exchanges, for each k in descending order.
func (s *solver[T]) undoExchanges(b matrix[T], pivots []int) {
	for k, pivot := range slices.Backward(pivots) {
		s.exchangeTwoRows(b, k, pivot-1)
	}
}

// exchangeTwoRows exchanges the rows of b with the indices row1 and row2.
func (s *solver[T]) exchangeTwoRows(b matrix[T], row1, row2 int) {
	for j := range b.cols {
		column := b.column(j)
		column[row1], column[row2] = column[row2], column[row1]
	}
	s.checkContextAfter(b.cols)
}

// triangle describes a triangular matrix. The zero value is a lower triangle.
type triangle struct {
	isUpper         bool
	hasUnitDiagonal bool // the elements on the diagonal are 1, and the stored ones are not read
}

// solveTriangular overwrites b with the solution x of a x = b, where a is the triangle that shape describes. The
// elements of a outside the triangle, and a unit diagonal, are not read.
func (s *solver[T]) solveTriangular(a matrix[T], shape triangle, b matrix[T]) {
	n := a.cols
	for j := range b.cols {
		x := b.column(j)
		for step := range n {
			k := step // index of the unknown x[k] that this step computes
			if shape.isUpper {
				k = n - 1 - step
			}
			column := a.column(k)
			if !shape.hasUnitDiagonal {
				x[k] = s.div(x[k], column[k])
			}
			// x[i] -= a[i,k] x[k] for all unknown x[i]
			if shape.isUpper {
				s.addScaled(-x[k], column[:k], x[:k])
			} else {
				s.addScaled(-x[k], column[k+1:], x[k+1:])
			}
			s.checkContextAfter(n)
		}
	}
}

// solveLU overwrites b with the solution x of a x = b or, if isAdjoint is set, of a^H x = b. factors and pivots are the
// results of lu for a: P a = L U, where P makes the exchanges of pivots. Hence a^H = U^H L^H P.
func (s *solver[T]) solveLU(factors matrix[T], pivots []int, b matrix[T], isAdjoint bool) {
	if !isAdjoint {
		s.exchangeRows(b, pivots)
		s.solveTriangular(factors, triangle{hasUnitDiagonal: true}, b)
		s.solveTriangular(factors, triangle{isUpper: true}, b)
		return
	}
	adjoint := s.adjointOf(factors)
	s.solveTriangular(adjoint, triangle{}, b)
	s.solveTriangular(adjoint, triangle{isUpper: true, hasUnitDiagonal: true}, b)
	s.undoExchanges(b, pivots)
}

// cholesky overwrites the lower triangle of a with the factor L of a = L L^H. It does not read the elements above the
// diagonal, and overwrites them with zeros. The result is 0, or the order of the first leading minor that is not
// positive. If there is such a minor, the columns of L from its order on are not computed.
func (s *solver[T]) cholesky(a matrix[T]) (failedMinor int) {
	for k := range a.cols {
		column := a.column(k)
		clear(column[:k])
		if failedMinor > 0 {
			continue
		}
		diagonal := s.re(column[k])
		if !(diagonal > 0) { // also if it is NaN
			failedMinor = k + 1
			continue
		}
		column[k] = s.fromParts(math.Sqrt(diagonal), 0)
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k])
		}
		// a[i,j] -= L[i,k] conj(L[j,k]) for all i >= j > k
		for j := k + 1; j < a.cols; j++ {
			s.addScaled(-s.conj(column[j]), column[j:], a.column(j)[j:])
			s.checkContextAfter(a.rows - j)
		}
	}
	return failedMinor
}
