package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

func warnings(g *graph.Graph) []string {
	list := []string{}
	for _, w := range g.Warnings() {
		list = append(list, w.Error())
	}
	return list
}

// firstSize adds to a graph the nodes that give the first size of x, under the name n.
func firstSize(p *pb.GraphProto) *pb.GraphProto {
	p.Initializer = append(p.Initializer, int64s("zero", nil, 0))
	p.Node = append([]*pb.NodeProto{node1("Shape", names("x"), names("shape")),
		node1("Gather", names("shape", "zero"), names("n"))}, p.Node...)
	return p
}

// larger is choice by whether the first size of x is over a bound.
func larger(bound int64) *pb.ModelProto {
	p := choice()
	p.Input = infos(info("x", tFloat, "N", "M"))
	p.Initializer = []*pb.TensorProto{int64s("bound", nil, bound)}
	p.Node = append([]*pb.NodeProto{node1("Greater", names("n", "bound"), names("cond"))}, p.Node...)
	return model(13, firstSize(p))
}

func TestDecisionsOnGuessedSizesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		m    *pb.ModelProto
		o    Options
		want []string
	}{
		"symbols": {larger(100), Options{}, []string{
			`node "y" (If): it depends on sizes that are not known: its then_branch is right for M=256, N=224 and M=480, N=448, but not for M=1, N=1`}},
		"the other branch": {larger(1000), Options{}, []string{
			`node "y" (If): it depends on sizes that are not known: its else_branch is right for M=256, N=224 and M=480, N=448, but not for M=1024, N=1056`}},
		"a default": {larger(100), Options{Default: 2}, []string{
			`node "y" (If): it depends on sizes that are not known: its else_branch is right for M=2, N=2, but not for M=1024, N=1056`}},
		"of one size": {larger(100), Options{Default: 2, Dims: map[string]int{"M": 3}}, []string{
			`node "y" (If): it depends on sizes that are not known: its else_branch is right for N=2, but not for N=1024`}},
		"given":                  {larger(100), Options{Default: 2, Dims: map[string]int{"N": 200}}, []string{}},
		"given by shapes":        {larger(100), Options{Default: 2, Shapes: map[string][]int{"x": {2, 3}}}, []string{}},
		"the same for all sizes": {larger(-1), Options{}, []string{}},
	} {
		g, err := convert(c.m, c.o)
		require.NoError(t, err, name)
		require.Equal(t, c.want, warnings(g), name)
	}
}

// atMost expands a vector of 1 to the first size of x, or to 10 if that is less.
func atMost() *pb.ModelProto {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("ten", []int64{1}, 10), int64s("at", []int64{1}, 0),
			floats("one", []int64{1}, 1)},
		Node: []*pb.NodeProto{node1("Unsqueeze", names("n", "at"), names("n1")),
			node1("Min", names("n1", "ten"), names("least")),
			node1("Expand", names("one", "least"), names("y")), node1("Neg", names("y"), names("z"))},
		Input:  infos(info("x", tFloat, "N")),
		Output: infos(info("z", tFloat, nil)),
	}
	return model(13, firstSize(p))
}

func TestShapesOfGuessedSizesAreTold(t *testing.T) {
	g, err := convert(atMost(), Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"N": 2}, g.Assumed())
	list := warnings(g)
	require.Len(t, list, 1)
	require.Contains(t, list[0], "it was read as for N=224 and N=448: for N=1 its shape is [10], and should be [1]")

	g, err = convert(atMost(), Options{Dims: map[string]int{"N": 4}})
	require.NoError(t, err)
	require.Empty(t, g.Warnings())
	require.Empty(t, g.Assumed())
	g, err = convert(atMost(), Options{Default: 2})
	require.NoError(t, err)
	require.Empty(t, g.Warnings()) // all that is made suits the size that is assumed
	require.Equal(t, map[string]int{"N": 2}, g.Assumed())
}

// TestMistakesOfAssumedSizesSaySo fails for the size that nobody gave, and for one that was given.
func TestMistakesOfAssumedSizesSaySo(t *testing.T) {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("five", []int64{1}, 5)},
		Node:        []*pb.NodeProto{node1("Reshape", names("x", "five"), names("y"))},
		Input:       infos(info("x", tFloat, "N")),
		Output:      infos(info("y", tFloat, 5)),
	}
	const told = "(sizes that are not given were assumed: N=2)"
	_, err := convert(model(13, p), Options{Default: 2})
	require.ErrorContains(t, err, told)
	_, err = convert(model(13, p), Options{Default: 2, Dims: map[string]int{"N": 4}})
	require.Error(t, err)
	require.NotContains(t, err.Error(), told)
	_, err = convert(model(13, p), Options{Default: 2, Dims: map[string]int{"N": 5}})
	require.NoError(t, err)
}

func TestSoundModelsHaveNoWarnings(t *testing.T) {
	p := &pb.GraphProto{
		Initializer: []*pb.TensorProto{int64s("rest", []int64{1}, -1), int64s("at", []int64{1}, 0), int64s("axis", nil, 0)},
		Node: []*pb.NodeProto{node1("Unsqueeze", names("n", "at"), names("n1")),
			node1("Concat", names("n1", "rest"), names("to"), attrInt("axis", 0)),
			node1("Reshape", names("x", "to"), names("y")),
			node1("MatMul", names("y", "w"), names("z"))},
		Input:  infos(info("x", tFloat, "N", 3, 4), info("w", tFloat, 12, "K")),
		Output: infos(info("z", tFloat, "N", "K")),
	}
	g, err := convert(model(13, firstSize(p)), Options{})
	require.NoError(t, err)
	require.Empty(t, g.Warnings())
}
