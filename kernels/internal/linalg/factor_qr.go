package linalg

// qr factors a = Q R as LAPACK's geqrf does. It overwrites the upper triangle of a with R. Q is the product H_0 H_1 ...
// of the reflections H_k = I - tau[k] v v^H, one for each column k. The elements of v before k are 0, and v[k] is 1. qr
// overwrites column k of a below the diagonal with the elements of v after v[k]. For example, a matrix with 4 rows and
// 3 columns is overwritten with these elements of R and of the vectors u, v and w of the reflections H_0, H_1 and H_2:
//
//	R00 R01 R02
//	u1  R11 R12
//	u2  v2  R22
//	u3  v3  w3
func (s *solver[T]) qr(a matrix[T], tau []T) {
	for k := range min(a.rows, a.cols) {
		s.qrStep(a, tau, k)
	}
}

// qrStep is step k of qr, after the steps 0 to k-1. It computes the reflection H_k and row k of R, and applies H_k^H to
// the columns of a after k.
func (s *solver[T]) qrStep(a matrix[T], tau []T, k int) {
	column := a.column(k)
	tau[k] = s.makeReflection(column[k:])
	diagonal := column[k] // R[k,k]; column[k] stores v[k] = 1 until reflect returns
	column[k] = s.fromParts(1, 0)
	for j := k + 1; j < a.cols; j++ {
		s.reflect(s.conj(tau[k]), column[k:], a.column(j)[k:])
	}
	column[k] = diagonal
}

// qrPivoted factors A P = Q R as qr does. A is the argument a, and P permutes columns: column k of A P is column
// columns[k] of A. Before step k, the column j >= k for which a[k:,j] has the greatest norm is exchanged with column k,
// as in LAPACK's geqp3. Therefore the magnitudes on the diagonal of R do not increase. tau and columns are overwritten.
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
			s.checkContextAfter(a.rows - k)
		}
		columns[k], columns[pivot] = columns[pivot], columns[k]
		if pivot != k {
			columnK, columnPivot := a.column(k), a.column(pivot)
			for i, v := range columnK {
				columnK[i], columnPivot[i] = columnPivot[i], v
			}
		}
		s.qrStep(a, tau, k)
	}
}

// makeReflection computes a reflection H = I - tau v v^H with v[0] = 1 such that H^H x = (beta, 0, ..., 0) for a real
// beta. It overwrites x[0] with beta and x[1:] with v[1:], and returns tau. The formulas are beta = -sign(re x[0]) |x|,
// tau = (beta - x[0]) / beta, and v[1:] = x[1:] / (x[0] - beta), where |x| is the norm of x. The sign of beta avoids
// cancellation in x[0] - beta.
func (s *solver[T]) makeReflection(x []T) (tau T) {
	tailNorm := s.norm(x[1:])
	re, im := s.re(x[0]), s.im(x[0])
	if tailNorm == 0 && im == 0 { // H = I, beta = x[0]
		return s.fromParts(0, 0)
	}
	beta := hypot(hypot(re, im), tailNorm)
	if re >= 0 {
		beta = -beta
	}
	tau = s.fromParts((beta-re)/beta, -im/beta)
	divisor := s.fromParts(re-beta, im)
	for i, v := range x[1:] {
		x[1+i] = s.div(v, divisor)
	}
	x[0] = s.fromParts(beta, 0)
	s.checkContextAfter(4 * len(x))
	return tau
}

// reflect overwrites y with (I - tau v v^H) y = y - tau (v^H y) v.
func (s *solver[T]) reflect(tau T, v, y []T) {
	if tau != 0 {
		s.addScaled(-s.mul(tau, s.dot(v, y)), v, y)
	}
	s.checkContextAfter(4 * len(v))
}

// multiplyQ overwrites c with Q c or, if isAdjoint is set, with Q^H c. Q is the product H_0 H_1 ... of the len(tau)
// reflections that qr stored in a and tau. For Q c it applies the reflections from the last to the first, for
// Q^H c from the first to the last.
func (s *solver[T]) multiplyQ(a matrix[T], tau []T, c matrix[T], isAdjoint bool) {
	for k := range tau {
		if !isAdjoint {
			k = len(tau) - 1 - k
		}
		column, tauK := a.column(k), tau[k]
		if isAdjoint {
			tauK = s.conj(tauK)
		}
		diagonal := column[k] // R[k,k]; column[k] stores v[k] = 1 until reflect returns
		column[k] = s.fromParts(1, 0)
		for j := range c.cols {
			s.reflect(tauK, column[k:], c.column(j)[k:])
		}
		column[k] = diagonal
	}
}
