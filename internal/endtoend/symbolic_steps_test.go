package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// mostSteps bounds the reasoning steps of inferring a small graph and its flags.
const mostSteps = 1 << 20

var predicates = []tensor.Predicate{tensor.IsContiguous, tensor.IsChannelsLast, tensor.IsNonOverlappingAndDense}

var ofNumbers = []func(tensor.Meta) bool{tensor.Meta.IsContiguous, tensor.Meta.IsChannelsLast,
	tensor.Meta.IsNonOverlappingAndDense}

// TestStepsOfBroadcast adds a value per channel to a channels-last image of any size. The strides of the sum depend on
// eight classes of sizes. A check of their density once did not end.
func TestStepsOfBroadcast(t *testing.T) {
	g := graph.New("bias", kernels.Lookup)
	g.Symbols = map[string]graph.Bounds{"N": {Min: 1}, "C": {Min: 1}, "H": {Min: 1}, "W": {Min: 1}}
	x := g.InputDecl("x", graph.Decl{DType: f32, Layout: graph.Pin{Format: tensor.ChannelsLast},
		Dims: []graph.Dim{{Symbol: "N"}, {Symbol: "C"}, {Symbol: "H"}, {Symbol: "W"}}})
	b := g.InputDecl("b", graph.Decl{DType: f32, Dims: []graph.Dim{{Size: 1}, {Symbol: "C"}, {Size: 1}, {Size: 1}}})
	y := g.Apply("add", nil, x, b)[0]
	g.Output("y", y)
	require.NoError(t, g.Err())
	s, err := g.SymbolicForked(map[string]int{"N": 2, "C": 3, "H": 4, "W": 5})
	require.NoError(t, err)
	require.NoError(t, s.IncompleteReason)
	typ := s.Graph.Value(y.Name).Type.Simplify()
	for k, p := range predicates {
		cond := typ.Condition(p).Decide()
		for i := range 81 {
			sizes := map[string]int{"N": 1 + i%3, "C": 1 + i/3%3, "H": 1 + i/9%3, "W": 1 + i/27}
			holds, err := cond.At(s.Binding(sizes))
			require.NoError(t, err)
			held, err := sameInference(g, s, sizes)
			require.NoError(t, err)
			require.True(t, held, "guards of all classes at %v", sizes)
			require.NoError(t, g.Bind(sizes))
			assert.Equal(t, ofNumbers[k](y.Meta), holds, "%v at %v", p, sizes)
		}
	}
	assert.Less(t, s.Env.Steps(), mostSteps)
}

// TestStepsOfRandomGraphs counts the steps of inference for all classes, and of the predicates of all values.
func TestStepsOfRandomGraphs(t *testing.T) {
	for seed := range randomGraphs(120) {
		g, hints, _ := symbolicGraph(seed)
		if g == nil {
			continue
		}
		s, err := g.SymbolicForked(hints)
		if err != nil {
			continue
		}
		s.Graph.Values(func(v *graph.Value) {
			if v.Dynamic {
				return
			}
			typ := v.Type.Simplify()
			for _, p := range predicates {
				typ.Condition(p).Decide()
			}
		})
		assert.Less(t, s.Env.Steps(), mostSteps, fmt.Sprintf("seed %d", seed))
	}
}
