package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestByValue sets something of every value, and reads it by the values of a copy, and of one that grew.
func TestByValue(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4)
	c := g.Constant("c", tensor.Zeros(tensor.Float32, 4))
	parts := op.Split(op.Add(x, c), 2)
	g.Output("y", parts[1])
	require.NoError(t, g.Err())

	names := graph.NewByValue[string](g)
	g.Values(func(v *graph.Value) { names.Set(v, v.Name) })
	g.Values(func(v *graph.Value) { require.Equal(t, v.Name, names.At(v)) })
	copied := g.Clone()
	copied.Values(func(v *graph.Value) { require.Equal(t, v.Name, names.At(v)) })

	n, err := copied.Insert("more", "relu", []graph.Arg{{Kind: graph.TensorArg, Value: copied.Inputs[0]}}, nil, "")
	require.NoError(t, err)
	require.Empty(t, names.At(n.Out[0]))
	names.Set(n.Out[0], "grown")
	require.Equal(t, "grown", names.At(n.Out[0]))
	require.Equal(t, "x", names.At(x))
	require.Empty(t, names.At(nil))
}

// TestNamesOfACopy finds values and nodes of a copy by name before and after renaming, as in the original.
func TestNamesOfACopy(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 4)
	y := op.Relu(x).Named("y")
	parts := op.Split(y, 2)
	g.Output("out", parts[0])
	require.NoError(t, g.Err())

	c := g.Clone()
	v := c.Value("y")
	require.NotSame(t, y, v)
	require.Same(t, c.Nodes[0].Out[0], v)
	require.NoError(t, graph.Verify(c, graph.Sorted))

	c.Rename(v, "z")
	require.Nil(t, c.Value("y"))
	require.Same(t, v, c.Value("z"))
	require.Same(t, y, g.Value("y"), "the original has its names")
	require.NotEqual(t, "y", c.UniqueName("y"), "a node has the name still")
	require.NotEqual(t, parts[0].Node.Name, c.UniqueName(parts[0].Node.Name), "a node of several values has its name")
	require.NoError(t, graph.Verify(c, graph.Sorted))
}
