package whole_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

// binding lists the ops whose inference binds a size to a number although it takes others, and why.
var binding = map[string]string{
	"gather_nd": "the last size of indices tells how many dimensions the result has",
}

// bindsFreely reports whether inference of a graph binds N although other sizes over 1 will do.
func bindsFreely(g *graph.Graph, n int) (bool, error) {
	s, err := g.Symbolic(map[string]int{"N": n})
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(s.Guards, func(g graph.Guard) bool { return g.Binds != nil }) {
		return false, nil
	}
	for other := 2; other < 2*n+4; other++ {
		if other != n && g.Clone().Bind(map[string]int{"N": other}) == nil {
			return true, nil
		}
	}
	return false, nil
}

// TestOpsStaySymbolic makes a symbol of each size of each example of all ops: no op may bind it where others will do,
// but for those that are listed.
func TestOpsStaySymbolic(t *testing.T) {
	asked := 0
	for _, op := range kernels.All() {
		binds := false
		for i, e := range op.Examples {
			done := map[int]bool{0: true, 1: true}
			for _, m := range e.In {
				for _, n := range m.Shape {
					if done[n] {
						continue
					}
					done[n] = true
					same := func(operand, dim int) bool { return e.In[operand].Shape[dim] == n }
					g, err := exampleGraph(op, e, n, graph.Bounds{Min: 2}, same)
					require.NoError(t, err, "%s, example %d, size %d", op.Name, i, n)
					free, err := bindsFreely(g, n)
					require.NoError(t, err, "%s, example %d, size %d", op.Name, i, n)
					binds, asked = binds || free, asked+1
				}
			}
		}
		if why := binding[op.Name]; why == "" {
			assert.False(t, binds, "%s binds sizes", op.Name)
		} else {
			assert.True(t, binds, "%s is listed since %s", op.Name, why)
		}
	}
	require.Greater(t, asked, 500)
}
