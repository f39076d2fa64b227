package linalg

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// TestSecondDifferences checks the eigenvalues of the matrix of second differences, which are 2 - 2*cos(k*pi/(n+1)).
// They are the same with and without eigenvectors.
func TestSecondDifferences(t *testing.T) {
	const n = 60
	s := &solver[float64]{field: reals, ctx: context.Background(), freeMemory: make([]float64, 1<<15)}
	a, v := s.zeros(n, n), s.zeros(n, n)
	for i := range n {
		a.set(i, i, 2)
		if i > 0 {
			a.set(i, i-1, -1)
			a.set(i-1, i, -1)
		}
	}
	values := s.eigh(s.copyOf(a), &v)
	for k, value := range values {
		if want := 2 - 2*math.Cos(float64(k+1)*math.Pi/(n+1)); !(math.Abs(value-want) <= 1e-14) {
			t.Errorf("eigenvalue %d is %g, want %g", k, value, want)
		}
	}
	if withoutVectors := s.eigh(a, nil); !slices.Equal(values, withoutVectors) {
		t.Errorf("without eigenvectors: %v, want %v", withoutVectors, values)
	}
}

// TestSubnormalBlock checks that the eigenvectors of a matrix with a block of subnormal numbers are orthonormal.
func TestSubnormalBlock(t *testing.T) {
	const n = 6
	s := &solver[float64]{field: reals, ctx: t.Context()}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, unit := range []float64{0x1p-1074, 0x1p-1050, 0x1p-1000} {
		for _, position := range []int{0, n - 1} { // of the element 1 on the diagonal
			s.freeMemory = make([]float64, 1<<10)
			a, v := s.zeros(n, n), s.zeros(n, n)
			for i := range n {
				for j := range i + 1 {
					a.set(i, j, float64(rng.IntN(20))*unit)
					a.set(j, i, a.at(i, j))
				}
			}
			a.set(position, position, 1)
			values := s.eigh(a, &v)
			if distance := s.distance(s.product(s.adjointOf(v), v), s.identity(n, n)); !(distance <= 1e-14) {
				t.Errorf("unit %g: V^H V differs from the identity by %g", unit, distance)
			}
			if values[n-1] != 1 {
				t.Errorf("unit %g: the greatest eigenvalue is %g, want 1", unit, values[n-1])
			}
		}
	}
}

// TestDiagonalizeChecksContext checks that a cancelled context ends diagonalize without eigenvectors.
func TestDiagonalizeChecksContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &solver[float64]{field: reals, ctx: ctx}
	const n = 500
	diagonal, offDiagonal := make([]float64, n), make([]float64, n)
	for i := range n {
		diagonal[i], offDiagonal[i] = 2, -1
	}
	err := func() (err error) {
		defer interrupt.Catch(&err)
		s.diagonalize(diagonal, offDiagonal, matrix[float64]{})
		return nil
	}()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
