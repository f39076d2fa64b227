//go:build !386 && !arm

package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
)

// TestArangeOfUnknownSizes checks that the number of elements between a bound and an unknown size equals that between
// known numbers, also for the greatest bounds and steps, whose differences and sums must not wrap.
func TestArangeOfUnknownSizes(t *testing.T) {
	const far = 1 << 47
	for _, c := range []struct{ start, step, at, want int }{
		{0, 3, 10, 4}, {-far, far, 5, 2}, {-far, far, 0, 1}, {-far, 1 << 30, 1 << 30, 1<<17 + 1}, {far, -far, 1, 1},
		{far - 1, -far, 0, 1}, {far, 1 - far, 1, 1}, {far, -1 << 40, 0, 1 << 7},
	} {
		env := sym.NewEnv()
		n, err := env.Symbol("N", 0, math.MaxInt, c.at)
		require.NoError(t, err)
		op := kernels.Lookup("arange")
		attrs, err := op.Schema.Decode(graph.Attrs{"start": c.start, "end": "N", "step": c.step}, map[string]sym.Int{"N": n})
		require.NoError(t, err)
		res, err := op.Infer(&graph.Call{Attrs: attrs})
		require.NoError(t, err)
		got, err := res[0].Type.Shape[0].At(sym.Binding{"N": c.at})
		require.NoError(t, err)
		require.Equal(t, c.want, got, "from %d to %d by %d", c.start, c.at, c.step)
	}
}
