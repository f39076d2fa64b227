package format

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Numbers that differ look different, unless they differ by rounding alone.
func TestDistinct(t *testing.T) {
	assert.Equal(t, []string{"42.36ms", "42.37ms"}, DistinctNanoseconds([]float64{42.36e6, 42.37e6}))
	assert.Equal(t, []string{"42.36001ms", "42.36ms", "42.36002ms", "42.36ms"},
		DistinctNanoseconds([]float64{42.36001e6, 42.36e6, 42.36002e6, 42.36e6}))
	assert.Len(t, DistinctNanoseconds([]float64{0.1 + 0.2, 0.3}), 2)
	for x, want := range map[float64][2]string{27.384: {"27.384", "27.38"}, 14: {"14", "27.38"},
		27.38: {"27.38", "27.38"}} {
		a, b := DistinctPair(x, 27.38)
		assert.Equal(t, want, [2]string{a, b})
	}
}
