package exec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// TestArenaGrowsAtItsEnd compares the arena of a chain of convolutions, whose scratch memory is larger than their
// results, with the bytes that are live at the same time. The first result lies before scratch memory. The second
// result takes a part of that memory, so that the next scratch memory needs a larger block.
func TestArenaGrowsAtItsEnd(t *testing.T) {
	g := graph.New("chain", kernels.Lookup)
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, 32, 14, 14)
	for i := range 5 {
		w := g.Constant(fmt.Sprint("w", i), tensor.Zeros(tensor.Float32, 32, 32, 3, 3))
		x = op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}})
	}
	g.Output("y", x)
	require.NoError(t, g.Err())
	plan, err := passes.Run(g, passes.Options{})
	require.NoError(t, err)
	for threads := 1; threads <= 3; threads++ {
		p := compile(t, plan.Graph, threads)
		live := make([]int, len(p.Steps()))
		for _, l := range p.Lifetimes() {
			for i := l.Steps[0]; i <= l.Steps[len(l.Steps)-1] && !l.Output; i++ {
				live[i] += l.Bytes
			}
		}
		most := 0
		for _, bytes := range live {
			most = max(most, bytes)
		}
		assert.LessOrEqual(t, p.ArenaBytes(), most*9/8, "%d threads", threads)
		assert.Empty(t, p.Unordered())
	}
}
