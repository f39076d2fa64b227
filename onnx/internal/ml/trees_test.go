package ml

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThresholds checks the comparisons at the thresholds: zeros of both signs, infinities, NaN, and doubles that are
// no float32.
func TestThresholds(t *testing.T) {
	inf := math.Inf(1)
	f := flatTrees{isFloat32: true}
	require.Equal(t, float64(math.Nextafter32(0.1, 0)), f.atMost(0.1)) // float32(0.1) is greater than 0.1
	require.Equal(t, f.atMost(0.1), f.below(0.1))
	require.Equal(t, -math.SmallestNonzeroFloat32, f.below(0))
	require.Equal(t, float64(math.MaxFloat32), f.below(inf))
	require.True(t, math.IsNaN(f.below(-inf)))
	require.Equal(t, math.Nextafter(0.1, 0), (&flatTrees{}).below(0.1))
}
