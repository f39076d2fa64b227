package linalg

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// TestIdentities checks the identities that define the factors of random matrices, in float64 and complex128.
func TestIdentities(t *testing.T) {
	checkIdentities(t, reals)
	checkIdentities(t, complexes)
}

// TestNorm checks norms of vectors whose squares overflow or underflow.
func TestNorm(t *testing.T) {
	s := &solver[float64]{field: reals}
	for _, x := range []float64{0x1p-1072, 0x1p-1040, 0x1p-600, 1, 0x1p600, 0x1p1020} {
		if got := s.norm([]float64{-3 * x, 4 * x}); got != 5*x {
			t.Errorf("the norm of -3 and 4 times %g is %g", x, got)
		}
	}
}

// TestExtremeExponents checks that the values of a matrix whose inner products overflow or underflow are the values of
// the same matrix with usual exponents, scaled.
func TestExtremeExponents(t *testing.T) {
	checkExtremeExponents(t, reals)
	checkExtremeExponents(t, complexes)
}

func checkExtremeExponents[T number](t *testing.T, f *field[T]) {
	s := &solver[T]{field: f, ctx: context.Background(), freeMemory: make([]T, 1<<12)}
	a := s.random(rand.New(rand.NewPCG(3, 4)), 5, 5)
	hermitian := s.product(s.adjointOf(a), a)
	wantSVD := s.svd(s.copyOf(a), s.zeros(5, 5), s.zeros(5, 5))
	wantEigh := s.eigh(s.copyOf(hermitian), nil)
	for _, exponent := range []int{-600, 600} {
		factor := math.Ldexp(1, exponent)
		columnFactors := []float64{factor, factor, factor, factor, factor}
		gotSVD := s.svd(s.scaled(a, columnFactors), s.zeros(5, 5), s.zeros(5, 5))
		gotEigh := s.eigh(s.scaled(hermitian, columnFactors), nil)
		for i := range wantSVD {
			if gotSVD[i] != wantSVD[i]*factor || gotEigh[i] != wantEigh[i]*factor {
				t.Errorf("times 2^%d: singular value %g, want %g; eigenvalue %g, want %g", exponent, gotSVD[i], wantSVD[i]*factor,
					gotEigh[i], wantEigh[i]*factor)
			}
		}
	}
}

// TestSubnormalRest checks the factors of a matrix of rank 1. Rotations leave a column of subnormal elements.
func TestSubnormalRest(t *testing.T) {
	s := &solver[float64]{field: reals, ctx: context.Background(), freeMemory: make([]float64, 1<<10)}
	a := s.zeros(3, 3)
	for i := range 3 {
		for j, x := range []float64{-0.27887507905339715, 0.829498734978446, 1.6695404005141246} {
			a.set(i, j, x)
		}
	}
	u, v := s.zeros(3, 3), s.zeros(3, 3)
	values := s.svd(a, u, v)
	if d := s.distance(s.product(s.adjointOf(u), u), s.identity(3, 3)); !(d < 1e-12) {
		t.Errorf("for the singular values %g, U^H U differs from the identity by %g", values, d)
	}
}

func checkIdentities[T number](t *testing.T, f *field[T]) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{1, 1}, {2, 2}, {5, 5}, {7, 3}, {3, 7}, {40, 40}, {60, 20}, {6, 1}} {
		for _, rank := range []int{1, 3, 100} {
			rows, cols := size[0], size[1]
			s := &solver[T]{field: f, ctx: context.Background(), freeMemory: make([]T, 1<<18)}
			a := s.random(rng, rows, cols)
			if rank < min(rows, cols) {
				a = s.product(s.random(rng, rows, rank), s.random(rng, rank, cols))
			}
			least := min(rows, cols)
			check := func(what string, got, want matrix[T]) {
				t.Helper()
				if d := s.distance(got, want); !(d < 1e-12*float64(1+rows*cols)) {
					t.Errorf("%s of %dx%d, rank %d: the distance is %g", what, rows, cols, min(rank, least), d)
				}
			}
			orthonormal := func(what string, q matrix[T]) {
				t.Helper()
				check(what, s.product(s.adjointOf(q), q), s.identity(q.cols, q.cols))
			}

			lu, pivots := s.copyOf(a), make([]int, least)
			s.lu(lu, pivots)
			b := s.copyOf(a)
			s.exchangeRows(b, pivots)
			check("L U", s.product(s.lower(lu, least), s.upper(lu, least)), b)

			qr, tau := s.copyOf(a), make([]T, least)
			s.qr(qr, tau)
			q := s.identity(rows, rows)
			s.multiplyQ(qr, tau, q, notAdjoint)
			orthonormal("Q", q)
			check("Q R", s.product(q, s.upper(qr, rows)), a)
			s.multiplyQ(qr, tau, q, useAdjoint)
			check("Q^H Q", q, s.identity(rows, rows))

			if rows >= cols {
				u, v := s.zeros(rows, rows), s.zeros(cols, cols)
				values := s.svd(s.copyOf(a), u, v)
				orthonormal("U", u)
				orthonormal("V", v)
				check("U S V^H", s.product(s.scaled(u.firstColumns(cols), values), s.adjointOf(v)), a)
				for i, x := range values {
					if x < 0 || i > 0 && x > values[i-1] {
						t.Errorf("singular values are not in descending order: %v", values)
					}
				}
			}
			if rows == cols {
				s.checkSquare(t, a, rank >= rows, check, orthonormal)
			}
		}
	}
}

// checkSquare checks the identities of a square matrix.
func (s *solver[T]) checkSquare(t *testing.T, a matrix[T], regular bool, check func(string, matrix[T], matrix[T]),
	orthonormal func(string, matrix[T])) {
	n := a.cols
	h := s.product(s.adjointOf(a), a)
	v := s.zeros(n, n)
	values := s.eigh(s.copyOf(h), &v)
	orthonormal("eigenvectors", v)
	check("V diag V^H", s.product(s.scaled(v, values), s.adjointOf(v)), h)
	for i := range n {
		h.set(i, i, h.at(i, i)+s.fromParts(1, 0))
	}
	l := s.copyOf(h)
	if info := s.cholesky(l); info != 0 {
		t.Errorf("cholesky: info %d", info)
	}
	check("L L^H", s.product(l, s.adjointOf(l)), h)
	if !regular {
		return
	}
	for _, adjoint := range []bool{false, true} {
		lu, pivots, x := s.copyOf(h), make([]int, n), s.copyOf(a)
		for i := range n { // not Hermitian
			lu.set(0, i, lu.at(0, i)+s.fromParts(1, 0))
		}
		m := s.copyOf(lu)
		if adjoint {
			m = s.adjointOf(lu)
		}
		s.lu(lu, pivots)
		s.solveLU(lu, pivots, x, adjoint)
		check("A X", s.product(m, x), a)
	}
}

func (s *solver[T]) random(rng *rand.Rand, rows, cols int) matrix[T] {
	m := s.zeros(rows, cols)
	for i := range m.elements {
		m.elements[i] = s.fromParts(rng.NormFloat64(), rng.NormFloat64())
	}
	return m
}

func (s *solver[T]) product(a, b matrix[T]) matrix[T] {
	c := s.zeros(a.rows, b.cols)
	for i := range a.rows {
		for j := range b.cols {
			for k := range a.cols {
				c.set(i, j, c.at(i, j)+s.mul(a.at(i, k), b.at(k, j)))
			}
		}
	}
	return c
}

func (s *solver[T]) distance(a, b matrix[T]) float64 {
	if a.rows != b.rows || a.cols != b.cols {
		return math.NaN()
	}
	d := make([]T, len(a.elements))
	for i := range d {
		d[i] = a.elements[i] - b.elements[i]
	}
	return s.norm(d)
}

func (s *solver[T]) lower(a matrix[T], cols int) matrix[T] {
	l := s.identity(a.rows, cols)
	for j := range cols {
		for i := j + 1; i < a.rows; i++ {
			l.set(i, j, a.at(i, j))
		}
	}
	return l
}

func (s *solver[T]) upper(a matrix[T], rows int) matrix[T] {
	u := s.zeros(rows, a.cols)
	for j := range a.cols {
		for i := range min(j+1, rows) {
			u.set(i, j, a.at(i, j))
		}
	}
	return u
}

func (s *solver[T]) scaled(a matrix[T], by []float64) matrix[T] {
	c := s.copyOf(a)
	for j, f := range by {
		s.multiplyBy(c.column(j), f)
	}
	return c
}

// multiplyBy multiplies the elements of a vector by a real number.
func (s *solver[T]) multiplyBy(x []T, r float64) {
	for i, v := range x {
		x[i] = s.fromParts(s.re(v)*r, s.im(v)*r)
	}
}

// TestLeastSquares checks minimum-norm solutions against their definition: A^H (A x - b) is 0, and x is in the space
// that the rows of A span, so that the projection of x by the right singular vectors is x.
func TestLeastSquares(t *testing.T) {
	checkLeastSquares(t, reals)
	checkLeastSquares(t, complexes)
}

func checkLeastSquares[T number](t *testing.T, f *field[T]) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{1, 1}, {4, 4}, {7, 3}, {3, 7}, {30, 20}, {20, 30}} {
		for _, rank := range []int{0, 1, 2, 100} {
			rows, cols := size[0], size[1]
			least := min(rows, cols)
			rank = min(rank, least)
			s := &solver[T]{field: f, ctx: context.Background(), freeMemory: make([]T, 1<<18)}
			a := s.product(s.random(rng, rows, rank), s.random(rng, rank, cols))
			b := s.random(rng, rows, 2)
			u, v := s.zeros(rows, least), s.zeros(cols, least)
			if rows < cols {
				s.svd(s.adjointOf(a), v, u)
			} else {
				s.svd(s.copyOf(a), u, v)
			}
			v = v.firstColumns(rank)
			check := func(driver string, x matrix[T]) {
				t.Helper()
				residual := s.product(a, x)
				for i := range residual.elements {
					residual.elements[i] -= b.elements[i]
				}
				if d := s.norm(s.product(s.adjointOf(a), residual).elements); !(d < 1e-10) {
					t.Errorf("%s, %dx%d of rank %d: the gradient is %g", driver, rows, cols, rank, d)
				}
				if d := s.distance(s.product(v, s.product(s.adjointOf(v), x)), x); !(d < 1e-10) {
					t.Errorf("%s, %dx%d of rank %d: the distance from the row space is %g", driver, rows, cols, rank, d)
				}
			}
			x := s.zeros(cols, 2)
			if got := s.solvePivoted(s.copyOf(a), s.copyOf(b), x, 1e-12); got != rank {
				t.Errorf("gelsy, %dx%d: rank %d, want %d", rows, cols, got, rank)
			}
			check("gelsy", x)
			x = s.zeros(cols, 2)
			if _, got := s.solveBySVD(s.copyOf(a), b, x, 1e-12); got != rank {
				t.Errorf("gelsd, %dx%d: rank %d, want %d", rows, cols, got, rank)
			}
			check("gelsd", x)
			x = s.zeros(cols, 2)
			switch dependent := s.solveFullRank(s.copyOf(a), s.copyOf(b), x); {
			case rank == least && dependent != 0:
				t.Errorf("gels, %dx%d: column %d depends on others", rows, cols, dependent)
			case rank == least:
				check("gels", x)
			}
		}
	}
}
