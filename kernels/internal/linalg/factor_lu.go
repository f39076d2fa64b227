package linalg

import "math"

// lu overwrites a with its factors L and U. L has ones on the diagonal, which are not stored. L U is the matrix a after
// the exchanges of rows. lu sets pivots[k] to the number, from 1, of the row with which row k is exchanged. The pivot
// of a column is the element with the greatest sum of the magnitudes of its real and imaginary parts, as in LAPACK. The
// result is the number, from 1, of the first column whose pivot is 0, or 0 if there is none.
func (s *solver[T]) lu(a matrix[T], pivots []int) (info int) {
	size := func(v T) float64 { return math.Abs(s.re(v)) + math.Abs(s.im(v)) }
	for k := range min(a.rows, a.cols) {
		s.countWork(a.rows + a.cols)
		column := a.column(k)
		pivot := k
		for i := k + 1; i < a.rows; i++ {
			if size(column[i]) > size(column[pivot]) {
				pivot = i
			}
		}
		pivots[k] = pivot + 1
		if column[pivot] == 0 {
			if info == 0 {
				info = k + 1
			}
			continue
		}
		for j := range a.cols {
			other := a.column(j)
			other[k], other[pivot] = other[pivot], other[k]
		}
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k])
		}
		for j := k + 1; j < a.cols; j++ {
			other := a.column(j)
			s.addScaled(-other[k], column[k+1:], other[k+1:])
			s.countWork(a.rows - k)
		}
	}
	return info
}

// exchange exchanges row k of b with row pivots[k]-1, for each k in ascending order. If reverse is set, it starts with
// the last exchange and thus undoes all exchanges.
func (s *solver[T]) exchange(b matrix[T], pivots []int, reverse bool) {
	for k := range pivots {
		if reverse {
			k = len(pivots) - 1 - k
		}
		for j, i := 0, pivots[k]-1; j < b.cols; j++ {
			column := b.column(j)
			column[k], column[i] = column[i], column[k]
		}
		s.countWork(b.cols)
	}
}

// solveTriangular overwrites b with the solution x of a x = b for a triangular matrix a. It does not read the other
// triangle of a. If unit is set, the elements on the diagonal of a are taken to be 1 and are not read.
func (s *solver[T]) solveTriangular(a, b matrix[T], upper, unit bool) {
	n := a.cols
	for j := range b.cols {
		x := b.column(j)
		for step := range n {
			k := step
			if upper {
				k = n - 1 - step
			}
			column := a.column(k)
			if !unit {
				x[k] = s.div(x[k], column[k])
			}
			if upper {
				s.addScaled(-x[k], column[:k], x[:k])
			} else {
				s.addScaled(-x[k], column[k+1:], x[k+1:])
			}
			s.countWork(n)
		}
	}
}

// solveLU overwrites b with the solution x of a x = b or, if adjoint is set, of a^H x = b. lu has the factors of a.
func (s *solver[T]) solveLU(lu matrix[T], pivots []int, b matrix[T], adjoint bool) {
	if !adjoint {
		s.exchange(b, pivots, false)
		s.solveTriangular(lu, b, false, true)
		s.solveTriangular(lu, b, true, false)
		return
	}
	luAdjoint := s.copyOf(lu, true)
	s.solveTriangular(luAdjoint, b, false, false)
	s.solveTriangular(luAdjoint, b, true, true)
	s.exchange(b, pivots, true)
}

// cholesky overwrites the lower triangle of a with the factor L of a = L L^H. It does not read the other triangle, and
// overwrites it with zeros. The result is 0, or the order of the first leading minor that is not positive. In the
// latter case, the columns of L from this order on are not computed.
func (s *solver[T]) cholesky(a matrix[T]) (info int) {
	for k := range a.cols {
		column := a.column(k)
		clear(column[:k])
		if info > 0 {
			continue
		}
		diagonal := s.re(column[k])
		if !(diagonal > 0) {
			info = k + 1
			continue
		}
		column[k] = s.of(math.Sqrt(diagonal), 0)
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k])
		}
		for j := k + 1; j < a.cols; j++ {
			s.addScaled(-s.conj(column[j]), column[j:], a.column(j)[j:])
			s.countWork(a.rows - j)
		}
	}
	return info
}
