package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
	"github.com/graphrun/graphrun/internal/program"
)

// The memory formulas have the values of the memory of bound plans.
func TestMemoryFormulas(t *testing.T) {
	p, err := program.Compile(t.Context(), networks.Bottlenecks(4, 1, 2), program.Options{})
	require.NoError(t, err)
	k := p.SpecializationAt(t.Context(), p.NondegenerateSizes(t.Context()))
	var r Specialization
	memory := addMemory(&r, p, k)
	require.NotNil(t, memory)
	assert.Equal(t, "4000*N", r.Memory.Outputs)
	assert.Contains(t, r.Memory.AtOnce, "N")
	for _, sizes := range [][]int{{16, 2, 16}, {64, 1, 48}, {33, 8, 70}} {
		plan, serving, err := p.PlanAt(t.Context(), sizes)
		require.NoError(t, err)
		require.Same(t, k, serving)
		g := plan.Graph
		compiled, err := exec.Compile(g, exec.Options{})
		require.NoError(t, err)
		bytes, err := memory.Sizes(nil, sizes)
		require.NoError(t, err)
		assert.Equal(t, bytes[0], compiled.Need().Outputs)
		m, ok := memoryOf(g)
		require.True(t, ok)
		peak, known := m.maxLive.Known()
		require.True(t, known)
		assert.Equal(t, peak, bytes[1], "%v", sizes)
		largest := 0
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v.Root() != g.Outputs[0].Value.Root() {
					largest = max(largest, v.Meta.Bytes())
				}
			}
		}
		assert.GreaterOrEqual(t, bytes[1], largest)
	}
}
