package product

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeterminantOfSpecials: a pivot of 0 does not hide an infinity or NaN.
func TestDeterminantOfSpecials(t *testing.T) {
	inf, nan := complex(math.Inf(1), 0), complex(math.NaN(), 0)
	for _, c := range []struct {
		matrix []complex128
		want   float64
	}{
		{[]complex128{0, 1, 0, 2}, 0},
		{[]complex128{0, 1, nan, 2}, math.NaN()},
		{[]complex128{nan, 1, 0, 2}, math.NaN()},
		{[]complex128{0, 1, 0, 0, inf, 3, 0, 1, nan}, math.NaN()},
		{[]complex128{0, 2, 3, 0}, -6},
	} {
		n := int(math.Sqrt(float64(len(c.matrix))))
		got := real(determinant(t.Context(), c.matrix, n))
		require.True(t, got == c.want || got != got && c.want != c.want, "%v: %v, want %v", c.matrix, got, c.want)
	}
}
