package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// TestResidualPrices: a residual operand that is added to a convolution has a price beyond the L2 cache, in the layouts
// of both kinds of implementations. It has none within the L2 cache, and none if it is a vector.
func TestResidualPrices(t *testing.T) {
	if !loops.CodeAvailable() {
		t.Skip("loops have no machine code: nothing is fused to a convolution")
	}
	const noResidual = 0
	copied := func(format tensor.MemoryFormat, channels, side, residualSide int) (bytes float64) {
		g := graph.New("residual", kernels.Lookup)
		image := func(name string, channels, side int) *graph.Value {
			meta, err := tensor.NewFormat(tensor.Float32, []int{1, channels, side, side}, format)
			require.NoError(t, err)
			return g.InputMeta(name, meta)
		}
		v := g.Apply("conv2d", nil, image("x", channels/4, side),
			g.Constant("w", tensor.Zeros(tensor.Float32, channels, channels/4, 1, 1)))[0]
		if residualSide != noResidual {
			v = g.Apply("add", nil, v, image("r", channels, residualSide))[0]
		}
		g.Output("y", g.Apply("relu", nil, v)[0])
		plan, err := passes.Run(g, passes.Options{})
		require.NoError(t, err)
		require.Len(t, plan.Graph.Nodes, 1, "all is one step")
		for _, work := range plan.Graph.Nodes[0].WorkParts() {
			bytes += work.Bytes[pricing.Copied]
		}
		return bytes
	}
	for _, format := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.Contiguous} {
		const large, small, vector = 56, 7, 1
		residualBytes := 4.0 * 256 * large * large
		wait := copied(format, 256, large, large) - copied(format, 256, large, noResidual)
		assert.Greater(t, wait, 3*residualBytes, format)
		assert.Less(t, wait, 10*residualBytes, format)
		assert.Equal(t, copied(format, 256, large, noResidual), copied(format, 256, large, vector), format)
		assert.Equal(t, copied(format, 256, small, noResidual), copied(format, 256, small, small), format)
	}
}
