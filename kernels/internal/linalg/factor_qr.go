package linalg

// qr overwrites a with R, its upper triangle, and below it the vectors v of the reflections I - tau v v^H whose product
// is Q, as LAPACK's geqrf does. The first element of v is 1 and not stored.
func (s *solver[T]) qr(a matrix[T], tau []T) {
	for k := range min(a.rows, a.cols) {
		column := a.column(k)
		tau[k] = s.reflection(column[k:])
		top := column[k]
		column[k] = s.of(1, 0)
		for j := k + 1; j < a.cols; j++ {
			s.reflect(s.conj(tau[k]), column[k:], a.column(j)[k:])
		}
		column[k] = top
	}
}

// reflection overwrites x with beta and the rest of v: the adjoint of the reflection I - tau v v^H maps x to a vector
// whose first element is beta and whose others are 0. The result is tau.
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
	s.did(4 * len(x))
	return tau
}

// reflect applies the reflection I - tau v v^H to y.
func (s *solver[T]) reflect(tau T, v, y []T) {
	if tau != 0 {
		s.addScaled(-s.mul(tau, s.dot(v, y)), v, y)
	}
	s.did(4 * len(v))
}

// multiplyQ overwrites c with the product of c and the matrix Q of the first len(tau) columns of a, which qr computed:
// Q c, or Q^H c if adjoint is set.
func (s *solver[T]) multiplyQ(a matrix[T], tau []T, c matrix[T], adjoint bool) {
	for k := range tau {
		if !adjoint {
			k = len(tau) - 1 - k
		}
		column, t := a.column(k), tau[k]
		if adjoint {
			t = s.conj(t)
		}
		top := column[k]
		column[k] = s.of(1, 0)
		for j := range c.cols {
			s.reflect(t, column[k:], c.column(j)[k:])
		}
		column[k] = top
	}
}
