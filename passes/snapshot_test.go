package passes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestUnchanged changes all that the values of a graph follow from, one after the other, in place.
func TestUnchanged(t *testing.T) {
	changes := map[string]func(*graph.Graph){
		"nothing":           func(*graph.Graph) {},
		"an op":             func(g *graph.Graph) { g.Nodes[0].Op = kernels.Lookup("mul") },
		"an operand":        func(g *graph.Graph) { g.Nodes[0].In[1] = g.Nodes[0].In[0] },
		"operands":          func(g *graph.Graph) { g.Nodes[0].In = g.Nodes[0].In[:1] },
		"an attribute":      func(g *graph.Graph) { g.Nodes[1].Attrs = g.Nodes[2].Attrs },
		"the order":         func(g *graph.Graph) { g.Nodes[1], g.Nodes[2] = g.Nodes[2], g.Nodes[1] },
		"a node less":       func(g *graph.Graph) { g.Nodes = g.Nodes[:2] },
		"a layout":          func(g *graph.Graph) { g.Inputs[0].Meta = g.Inputs[0].Meta.WithStrides([]int{1, 2}) },
		"a constant's data": func(g *graph.Graph) { g.Constants[0].Const = tensor.Empty(g.Constants[0].Meta) },
		"a storage":         func(g *graph.Graph) { g.Nodes[0].Out[0].Alias = g.Inputs[0] },
		"a place":           func(g *graph.Graph) { g.Nodes[0].Out[0].ContainedIn = g.Inputs[0] },
		"packed data":       func(g *graph.Graph) { g.Constants[0].Packed = &graph.Packed{} },
		"an output":         func(g *graph.Graph) { g.Outputs[0].Value = g.Nodes[1].Out[0] },
		"a result":          func(g *graph.Graph) { g.Nodes[0].Out[0] = g.Nodes[1].Out[0] },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			sum := op.Add(g.Input("x", tensor.Float32, 2, 2), g.Constant("c", tensor.Empty(tensor.New(tensor.Float32, 2, 2))))
			g.Output("y", op.Sum(op.Sum(sum, op.SumAttrs{Dim: []int{1}}), op.SumAttrs{Dim: []int{0}}))
			require.NoError(t, g.Infer())
			before := snapshotOf(g)
			change(g)
			assert.Equal(t, name == "nothing", before.equals(snapshotOf(g)))
		})
	}
	assert.False(t, (*snapshot)(nil).equals(&snapshot{}), "nothing was evaluated")
}
