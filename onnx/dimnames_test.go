package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// flattened returns a model that reshapes x, of the given sizes, to a vector and negates it.
func flattened(dims ...any) *pb.ModelProto {
	return model(13, &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("flat", []int64{1}, -1)},
		Node: []*pb.NodeProto{node1("Reshape", names("in.x", "flat"), names("v")),
			node1("Neg", names("v"), names("z"))},
		Input:  infos(info("in.x", tFloat, dims...)),
		Output: infos(info("z", tFloat, nil)),
	})
}

func TestDimParamsThatAreNoNames(t *testing.T) {
	m := flattened("batch-size", "batch_size", "range", "2*L", "?", "", "L//2+1", "batch_size-M", "N/2", "M")
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	require.Equal(t, []graph.Dim{{Symbol: "batch_size_"}, {Symbol: "batch_size"}, {Symbol: "s_range"}, {Expr: "2*L"},
		{Symbol: "in_x_dim4"}, {Symbol: "in_x_dim5"}, {Expr: "L//2 + 1"}, {Expr: "batch_size - M"}, {Symbol: "N_2"},
		{Symbol: "M"}},
		g.Inputs[0].Dims)
	require.Len(t, g.Symbols, 8)

	g, err = toGraph(m, Options{Dims: map[string]int{"batch-size": 3, "L": 1, "in.x_dim4": 5, "N/2": 2, "M": 1}})
	require.NoError(t, err)
	require.Equal(t, []graph.Dim{{Size: 3}, {Symbol: "batch_size"}, {Symbol: "s_range"}, {Size: 2},
		{Size: 5}, {Symbol: "in_x_dim5"}, {Size: 1}, {Expr: "batch_size - 1"}, {Size: 2}, {Size: 1}}, g.Inputs[0].Dims)

	_, err = toGraph(m, Options{Dims: map[string]int{"batch-size": 3, "batch_size_": 4}})
	require.ErrorContains(t, err, `the size batch_size_ is given twice: as "batch-size" and as "batch_size_"`)
	_, err = toGraph(flattened("L-1"), Options{Dims: map[string]int{"L": 0}})
	require.ErrorContains(t, err, "size 0: L-1 is -1")
}

func TestSizesOfDimParamsThatAreNoNames(t *testing.T) {
	m := flattened("batch-size", "2*L")
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	for _, g := range []*graph.Graph{g, kept(t, g)} {
		for _, n := range []int{0, 1, 5} {
			require.NoError(t, g.Bind(map[string]int{"batch_size": n, "L": 3}))
			x := ramp(n, 6)
			z := runGraph(t, g, map[string]*tensor.Tensor{"in.x": x})["z"]
			require.Equal(t, []int{6 * n}, z.Shape)
		}
	}
}
