package linalg

// qr factors a = Q R as LAPACK's geqrf does. It overwrites the upper triangle of a with R. Q is the product of the
// reflections I - tau v v^H. qr overwrites the columns of a below the diagonal with the vectors v, and sets tau. The
// first element of each v is 1 and is not stored.
func (s *solver[T]) qr(a matrix[T], tau []T) {
	for k := range min(a.rows, a.cols) {
		s.qrStep(a, tau, k)
	}
}

// qrStep computes row k of R and reflection k of a factorization of a, of which the steps before k are done.
func (s *solver[T]) qrStep(a matrix[T], tau []T, k int) {
	column := a.column(k)
	tau[k] = s.reflection(column[k:])
	top := column[k]
	column[k] = s.of(1, 0)
	for j := k + 1; j < a.cols; j++ {
		s.reflect(s.conj(tau[k]), column[k:], a.column(j)[k:])
	}
	column[k] = top
}

// qrPivoted factors a as qr does, after exchanges of its columns: column k of the result was column columns[k]. The
// column with the greatest norm of its rows from k on becomes column k, as in LAPACK's geqp3, so that the magnitudes on
// the diagonal of R do not increase.
func (s *solver[T]) qrPivoted(a matrix[T], tau []T, columns []int) {
	for j := range columns {
		columns[j] = j
	}
	for k := range tau {
		pivot, greatest := k, -1.0
		for j := k; j < a.cols; j++ {
			if norm := s.norm(a.column(j)[k:]); norm > greatest {
				pivot, greatest = j, norm
			}
			s.countWork(a.rows - k)
		}
		columns[k], columns[pivot] = columns[pivot], columns[k]
		if pivot != k {
			first, second := a.column(k), a.column(pivot)
			for i, v := range first {
				first[i], second[i] = second[i], v
			}
		}
		s.qrStep(a, tau, k)
	}
}

// reflection computes a reflection I - tau v v^H whose adjoint maps x to a vector with the elements beta, 0, 0 and so
// on. It overwrites the first element of x with beta, and the others with the elements of v after the first, which is
// 1. The result is tau.
func (s *solver[T]) reflection(x []T) (tau T) {
	rest := s.norm(x[1:])
	re, im := s.re(x[0]), s.im(x[0])
	if rest == 0 && im == 0 {
		return s.of(0, 0)
	}
	beta := hypot(hypot(re, im), rest)
	if re >= 0 {
		beta = -beta
	}
	tau = s.of((beta-re)/beta, -im/beta)
	divisor := s.of(re-beta, im)
	for i, v := range x[1:] {
		x[1+i] = s.div(v, divisor)
	}
	x[0] = s.of(beta, 0)
	s.countWork(4 * len(x))
	return tau
}

// reflect applies the reflection I - tau v v^H to y.
func (s *solver[T]) reflect(tau T, v, y []T) {
	if tau != 0 {
		s.addScaled(-s.mul(tau, s.dot(v, y)), v, y)
	}
	s.countWork(4 * len(v))
}

// multiplyQ overwrites c with Q c or, if adjoint is set, with Q^H c. Q is the product of the reflections that qr stored
// in tau and in the first len(tau) columns of a.
func (s *solver[T]) multiplyQ(a matrix[T], tau []T, c matrix[T], adjoint bool) {
	for k := range tau {
		if !adjoint {
			k = len(tau) - 1 - k
		}
		column, factor := a.column(k), tau[k]
		if adjoint {
			factor = s.conj(factor)
		}
		top := column[k]
		column[k] = s.of(1, 0)
		for j := range c.cols {
			s.reflect(factor, column[k:], c.column(j)[k:])
		}
		column[k] = top
	}
}
