package onnx

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// TestSizesThatDependOnEachOther converts models whose symbols must have sizes that their names do not tell. The sizes
// that the graph assumes must satisfy the model, and so must the sizes of a conversion that skips mistakes.
func TestSizesThatDependOnEachOther(t *testing.T) {
	zeros := func(name string, dims ...int64) *pb.TensorProto {
		n := int64(1)
		for _, size := range dims {
			n *= size
		}
		return floats(name, dims, make([]float32, n)...)
	}
	branch := func(result string) *pb.GraphProto {
		return &pb.GraphProto{Name: result, Node: []*pb.NodeProto{node1("MatMul", names("x", "w"), names(result))},
			Output: infos(info(result, tFloat))}
	}
	for name, g := range map[string]*pb.GraphProto{
		"mask of a cache": {Node: []*pb.NodeProto{node1("Concat", names("past", "x"), names("keys"), attrInt("axis", 0)),
			node1("Transpose", names("keys"), names("turned")), node1("MatMul", names("x", "turned"), names("scores")),
			node1("Add", names("scores", "mask"), names("y"))},
			Input: infos(info("past", tFloat, "P", 8), info("x", tFloat, "S", 8), info("mask", tFloat, "S", "T"))},
		"widths of weights": {Node: []*pb.NodeProto{node1("MatMul", names("x", "w"), names("h")),
			node1("Concat", names("h", "z"), names("c"), attrInt("axis", 1)), node1("MatMul", names("c", "v"), names("y"))},
			Initializer: []*pb.TensorProto{zeros("w", 12, 5), zeros("v", 12, 2)},
			Input:       infos(info("x", tFloat, "N", "C"), info("z", tFloat, "M", "D"))},
		"heads": {Node: []*pb.NodeProto{node1("Reshape", names("x", "shape"), names("y"))},
			Initializer: []*pb.TensorProto{int64s("shape", []int64{3}, 0, 3, 7)},
			Input:       infos(info("x", tFloat, "N", "C"))},
		"expression": {Node: []*pb.NodeProto{node1("Concat", names("x", "x"), names("twice"), attrInt("axis", 1)),
			node1("MatMul", names("twice", "w"), names("y"))},
			Initializer: []*pb.TensorProto{zeros("w", 26, 2)}, Input: infos(info("x", tFloat, "N", "C"))},
		"branch": {Node: []*pb.NodeProto{node1("If", names("cond"), names("y"), attrGraph("then_branch", branch("r")),
			attrGraph("else_branch", branch("q")))},
			Initializer: []*pb.TensorProto{zeros("w", 9, 2)}, Input: infos(info("cond", tBool), info("x", tFloat, "N", "C"))},
	} {
		g.Output = infos(info("y", tFloat))
		converted, err := toGraph(model(13, g), Options{})
		require.NoError(t, err, name)
		require.NoError(t, converted.Infer(), name)
		p, err := Parse(pb.Marshal(model(13, g)), "")
		require.NoError(t, err)
		some, mistakes, err := p.GraphSome(Options{})
		require.NoError(t, err, name)
		assert.Empty(t, mistakes, name)
		assert.Empty(t, some.InferAll(), name)
	}
	// A model that no sizes satisfy is rejected with the error at the first hints.
	_, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("MatMul", names("x", "w"), names("h")),
		node1("MatMul", names("x", "v"), names("y"))}, Initializer: []*pb.TensorProto{zeros("w", 9, 2), zeros("v", 8, 2)},
		Input: infos(info("x", tFloat, "N", "C")), Output: infos(info("h", tFloat), info("y", tFloat))}), Options{})
	require.ErrorContains(t, err, `node "h" (MatMul)`)
}

// TestMetadata reads the properties of a model.
func TestMetadata(t *testing.T) {
	m := model(13, &pb.GraphProto{Node: []*pb.NodeProto{node1("Relu", names("x"), names("y"))},
		Input: infos(info("x", tFloat, 2)), Output: infos(info("y", tFloat))})
	m.MetadataProps = []*pb.StringStringEntryProto{{Key: "names", Value: "{0: 'cat'}"}, {Key: "stride", Value: "32"}}
	g, err := toGraph(m, Options{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"names": "{0: 'cat'}", "stride": "32"}, g.Clone().Metadata)
}

// TestImageSizes: heights and widths of images are assumed to be large, if the model accepts them.
func TestImageSizes(t *testing.T) {
	relu := node1("Relu", names("x"), names("y"))
	for _, c := range []struct {
		input *pb.ValueInfoProto
		node  *pb.NodeProto
		want  map[string]int
	}{
		{info("x", tFloat, "N", 3, "H", "W"), relu, map[string]int{"N": 2, "H": 256, "W": 256}},
		{info("x", tFloat, "N", "H", "W", 3), relu, map[string]int{"N": 2, "H": 256, "W": 256}},
		{info("x", tFloat, "N", 3, 32, "W"), relu, map[string]int{"N": 2, "W": 2}},                       // one size is open
		{info("x", tFloat, "N", "H"), relu, map[string]int{"N": 2, "H": 2}},                              // not an image
		{info("x", tFloat, "N", 8, "D", "H", "W"), relu, map[string]int{"N": 2, "D": 2, "H": 2, "W": 2}}, // too large
		{info("x", tFloat, "N", 3, "H", "W"), node1("Add", names("x", "w"), names("y")), // H must be 2
			map[string]int{"N": 2, "H": 2, "W": 2}},
		{info("x", tFloat, "N", 3, "H", "W"), node1("Add", names("x", "b"), names("y")), // N must be 16
			map[string]int{"N": 16, "H": 256, "W": 256}},
		{info("x", tFloat, "N", "L", "C"), relu, map[string]int{"N": 2, "L": 2, "C": 2}}, // not an image
		{info("x", tFloat, 1, 512, "H", "W"), node1("Expand", names("x", "s"), names("y")), // a value is too large
			map[string]int{"H": 2, "W": 2}},
	} {
		g, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{c.node}, Input: infos(c.input),
			Initializer: []*pb.TensorProto{floats("w", []int64{2, 2}, 1, 2, 3, 4), int64s("s", []int64{4}, 64, 1, 1, 1),
				floats("b", []int64{16, 1, 1, 1}, make([]float32, 16)...)}, Output: infos(info("y", tFloat))}), Options{})
		require.NoError(t, err)
		assert.Equal(t, c.want, g.BoundSizes())
		assert.Len(t, g.Assumed(), len(c.want))
	}
}
