package endtoend_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
)

// extendedLookup finds extensions of all ops that have implementations. The extensions add nothing.
func extendedLookup(t *testing.T) graph.Lookup {
	t.Helper()
	var list []*graph.Op
	for _, op := range kernels.All() {
		if len(op.Impls) == 0 {
			continue
		}
		extended, err := graph.Extend(op)
		require.NoError(t, err)
		list = append(list, extended)
	}
	assert.Greater(t, len(list), 200)
	lookup, err := graphrun.Lookup(list...)
	require.NoError(t, err)
	return lookup
}

// linesOf describes the nodes of a plan and the rewritten ones.
func linesOf(t *testing.T, g *graph.Graph) (list []string) {
	t.Helper()
	require.NoError(t, g.Err())
	p, err := passes.Run(g, passes.Options{})
	require.NoError(t, err)
	for _, n := range p.Graph.Nodes {
		impl := ""
		if n.Impl != nil {
			impl = n.Impl.Name
		}
		list = append(list, n.Name+" "+n.Op.Name+" "+impl+" "+n.Out[0].Meta.String())
	}
	for _, d := range p.Decomposed {
		list = append(list, d.Node+" "+d.Why)
	}
	return list
}

// TestExtensionsKeepIdentity: graphs whose ops are extensions have the plans of graphs with the ops themselves. Ops
// that rewrite quantized products, and fused and composite ops, recognize the extensions.
func TestExtensionsKeepIdentity(t *testing.T) {
	lookup, rewritten := extendedLookup(t), 0
	for seed := range randomGraphs(150) {
		g, _ := grow(seed)
		extended, _ := growWith(seed, lookup)
		assert.Equal(t, linesOf(t, g), linesOf(t, extended), "seed %d", seed)
	}
	for i := range uint64(12) {
		var plans [2][]string
		for k, catalogue := range []graph.Lookup{kernels.Lookup, lookup} {
			q := &quantizedGraph{r: rand.New(rand.NewPCG(i, 22)), g: graph.New("g", catalogue)}
			if i%3 == 0 {
				q.moves()
			} else {
				q.product()
			}
			plans[k] = linesOf(t, q.g)
		}
		assert.Equal(t, plans[0], plans[1], "quantized graph %d", i)
		for _, line := range plans[1] {
			if multiplies(line) || fromLevels(line) {
				rewritten++
			}
		}
	}
	assert.NotZero(t, rewritten)
}
