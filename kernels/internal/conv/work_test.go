package conv_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// directTaps returns the multiply-adds of full tiles that take as long as a convolution of an image of 48 x 48 pixels.
func directTaps(t *testing.T, impl string, channels, out, size int) float64 {
	t.Helper()
	g := graph.New("direct", kernels.Lookup)
	n := g.Apply("conv2d", graph.Attrs{"padding": size / 2}, g.Input("x", tensor.Float32, 1, channels, 48, 48),
		g.Input("w", tensor.Float32, out, channels, size, size))[0].Node
	require.NoError(t, g.Err())
	m, err := n.Op.Impl(impl)
	require.NoError(t, err)
	walks := m.Walks(n.Call(), nil)
	require.NotEmpty(t, walks)
	work := m.Work(n.Call(), walks[0])
	i := slices.IndexFunc(work.Parts[:], func(p pricing.Part) bool { return p.Kernel == "direct.taps" })
	require.GreaterOrEqual(t, i, 0)
	return work.Parts[i].Units
}

// TestDirectPrices compares prices of direct convolutions with what was measured on Zen 2: by planes, windows of 3 x 3
// taps take 1.1 to 1.3 times as long as by pixels, and single taps as long; the multiply-adds of tiles of one vector of
// channels take longer than those of two.
func TestDirectPrices(t *testing.T) {
	if jit.Available() != nil {
		t.Skip("direct convolutions need machine code")
	}
	for _, channels := range []int{16, 64} {
		ratio := directTaps(t, "direct_planes", channels, 64, 3) / directTaps(t, "direct_nhwc", channels, 64, 3)
		assert.Greater(t, ratio, 1.05)
		assert.Less(t, ratio, 1.3)
		assert.Equal(t, directTaps(t, "direct_planes", channels, 64, 1), directTaps(t, "direct_nhwc", channels, 64, 1))
	}
	_, vectorBytes := tile.VectorRegisters(machine.HostFeatures())
	lanes := vectorBytes / 4
	one, two := directTaps(t, "direct_nhwc", 64, lanes, 3), directTaps(t, "direct_nhwc", 64, 2*lanes, 3)
	assert.Greater(t, one/two, .55, "half of the multiply-adds")
}
