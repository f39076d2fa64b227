//go:build !386 && !arm

package kernels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestSizesThatLeaveAnInt checks that a call is rejected whose shapes agree only if a product wraps around at 2^64.
func TestSizesThatLeaveAnInt(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, w := g.Input("x", tensor.Float32, 1, 0, 4, 4), g.Input("w", tensor.Float32, 0, 1<<40, 1, 1)
	offset := g.Input("offset", tensor.Float32, 1, 2, 4, 4)
	g.Apply("deform_conv2d", graph.Attrs{"groups": 1 << 24}, x, w, offset)
	require.ErrorContains(t, g.Err(), "1099511627776 * 16777216 does not fit 64 bits")
}
