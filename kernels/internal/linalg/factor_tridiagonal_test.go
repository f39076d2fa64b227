package linalg

import (
	"context"
	"math"
	"slices"
	"testing"
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
