package linalg

import "math"

// lu overwrites a with its factors L, which has ones on the diagonal, and U: row exchanges by pivots make L U of a. The
// pivot of a column is the element with the greatest sum of the magnitudes of its parts, as in LAPACK. pivots has the
// number of the exchanged row, from 1. The result is the number of the first column without a pivot, or 0.
func (s *solver[T]) lu(a matrix[T], pivots []int) (info int) {
	size := func(v T) float64 { return math.Abs(s.re(v)) + math.Abs(s.im(v)) }
	for k := range min(a.rows, a.cols) {
		s.did(a.rows + a.cols)
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
			c := a.column(j)
			c[k], c[pivot] = c[pivot], c[k]
		}
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k])
		}
		for j := k + 1; j < a.cols; j++ {
			c := a.column(j)
			s.addScaled(-c[k], column[k+1:], c[k+1:])
			s.did(a.rows - k)
		}
	}
	return info
}

// exchange exchanges rows of b by pivots, in their order or in reverse.
func (s *solver[T]) exchange(b matrix[T], pivots []int, reverse bool) {
	for k := range pivots {
		if reverse {
			k = len(pivots) - 1 - k
		}
		for j, i := 0, pivots[k]-1; j < b.cols; j++ {
			c := b.column(j)
			c[k], c[i] = c[i], c[k]
		}
		s.did(b.cols)
	}
}

// solveTriangular overwrites b with the solution x of a x = b for a triangular matrix a. The other triangle is
// not read. unit: the diagonal of a has ones, and is not read.
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
			s.did(n)
		}
	}
}

// solveLU overwrites b with the solution x of a x = b for the factors lu of a, or of a^H x = b if adjoint is set.
func (s *solver[T]) solveLU(lu matrix[T], pivots []int, b matrix[T], adjoint bool) {
	if !adjoint {
		s.exchange(b, pivots, false)
		s.solveTriangular(lu, b, false, true)
		s.solveTriangular(lu, b, true, false)
		return
	}
	h := s.copyOf(lu, true)
	s.solveTriangular(h, b, false, false)
	s.solveTriangular(h, b, true, true)
	s.exchange(b, pivots, true)
}

// cholesky overwrites the lower triangle of a with the factor L of a = L L^H, and the other triangle, which it does
// not read, with zeros. The result is 0, or the order of the first leading minor that is not positive. Then the columns
// from this order on are not computed.
func (s *solver[T]) cholesky(a matrix[T]) (info int) {
	for k := range a.cols {
		column := a.column(k)
		clear(column[:k])
		if info > 0 {
			continue
		}
		d := s.re(column[k])
		if !(d > 0) {
			info = k + 1
			continue
		}
		column[k] = s.of(math.Sqrt(d), 0)
		for i := k + 1; i < a.rows; i++ {
			column[i] = s.div(column[i], column[k])
		}
		for j := k + 1; j < a.cols; j++ {
			s.addScaled(-s.conj(column[j]), column[j:], a.column(j)[j:])
			s.did(a.rows - j)
		}
	}
	return info
}
