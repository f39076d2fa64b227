package graphrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/inspect"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// A size that the model calls by what is no identifier is given by that name, or by the graph's.
func TestSizesByTheNamesOfTheModel(t *testing.T) {
	path := write(t, "m.onnx", swishModel(t, func(m *pb.ModelProto) {
		m.Graph.Node[1] = &pb.NodeProto{OpType: "Neg", Input: []string{"r"}, Output: []string{"y"}}
		for _, x := range []*pb.ValueInfoProto{m.Graph.Input[0], m.Graph.Output[0]} {
			x.Type.TensorType.Shape.Dim[0].DimParam = "batch-size"
		}
	}))
	g, err := graphrun.Load(path)
	require.NoError(t, err)
	require.Equal(t, "batch_size (batch-size)", g.SymbolText("batch_size"))
	for _, name := range []string{"batch-size", "batch_size"} {
		p, err := graphrun.Compile(g, graphrun.Options{Hints: []map[string]int{{name: 1}, {name: 64}}})
		require.NoError(t, err, name)
		classes, err := inspect.Specializations(p)
		require.NoError(t, err)
		require.Len(t, classes, 2)
		_, err = graphrun.Compile(g, graphrun.Options{Sizes: map[string]int{name: 3}})
		require.NoError(t, err, name)
		require.NoError(t, g.Clone().Bind(map[string]int{name: 3}))
		s, err := g.Symbolic(map[string]int{name: 3})
		require.NoError(t, err)
		require.Equal(t, 3, s.Hints["batch_size"])
	}
	require.ErrorContains(t, g.Clone().Bind(map[string]int{"batch-size": 3, "batch_size": 3}),
		"batch-size is another name")
	_, err = graphrun.Compile(g, graphrun.Options{Sizes: map[string]int{"L": 3}})
	require.EqualError(t, err, `Options.Sizes: the graph has no symbolic dimension "L"; it has batch_size (batch-size)`)
}
