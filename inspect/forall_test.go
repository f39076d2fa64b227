package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/graphtest/networks"
)

// Properties are proved for all sizes, or sizes break them.
func TestForAll(t *testing.T) {
	g := networks.Bottlenecks(4, 1)
	g.Symbols = map[string]graph.Bounds{"N": {Min: 1, Max: 64}, "H": {Min: 32, Max: 256}, "W": {Min: 32, Max: 256}}
	require.NoError(t, g.BindWithoutInference(nil))
	// Without fusion every value is in memory.
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{Strategy: graphrun.ChannelsLast, NoFusion: true})
	require.NoError(t, err)
	list, err := inspect.Specializations(p)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	assert.Less(t, len(list[0].Guards), 20)
	r, err := inspect.ForAll(p, "conv2d=channels_last")
	require.NoError(t, err)
	assert.True(t, r.Proved, r.Why)
	r, err = inspect.ForAll(p, "contiguous(conv2d)")
	require.NoError(t, err)
	assert.False(t, r.Proved)
	assert.NotNil(t, r.Counterexample)
	r, err = inspect.ForAll(p, "no-copies")
	require.NoError(t, err)
	assert.NotNil(t, r.Counterexample, "the input is copied to channels_last")
	g = networks.Bottlenecks(4, 1) // another specialization serves N = 0
	g.Symbols = map[string]graph.Bounds{"N": {Min: 0, Max: 64}, "H": {Min: 32, Max: 32}, "W": {Min: 32, Max: 32}}
	require.NoError(t, g.BindWithoutInference(nil))
	whole, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	r, err = inspect.ForAll(whole, "no-copies")
	require.NoError(t, err)
	if r.Counterexample == nil { // a copy pays where convolutions are computed without machine code
		assert.True(t, r.Proved, "%s %v", r.Why, r.Cases)
		assert.Greater(t, len(r.Cases), 1)
	}
	_, err = inspect.ForAll(p, "fast")
	assert.ErrorContains(t, err, "there is no property")
}
