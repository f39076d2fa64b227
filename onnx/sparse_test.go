package onnx

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// TestSparseTensors checks constants and initializers: [[0, 0, 5], [7, 0, 0]] with both kinds of indices.
func TestSparseTensors(t *testing.T) {
	sparse := func(name string, indices *pb.TensorProto) *pb.SparseTensorProto {
		return &pb.SparseTensorProto{Values: floats(name, []int64{2}, 5, 7), Indices: indices, Dims: []int64{2, 3}}
	}
	positions, pairs := int64s("", []int64{2}, 2, 3), int64s("", []int64{2, 2}, 0, 2, 1, 0)
	add := node1("Add", names("x", "w"), names("y"))
	constant := node1("Constant", nil, names("w"), &pb.AttributeProto{Name: "sparse_value",
		Type: pb.AttributeSparseTensor, SparseTensor: sparse("", pairs)})
	in, out := infos(info("x", tFloat, 3)), infos(info("y", tFloat, 2, 3))
	for name, g := range map[string]*pb.GraphProto{
		"constant": {Node: []*pb.NodeProto{constant, add}},
		"initializer": {Node: []*pb.NodeProto{add},
			SparseInitializer: []*pb.SparseTensorProto{sparse("w", positions)}},
		"initializer with pairs": {Node: []*pb.NodeProto{add},
			SparseInitializer: []*pb.SparseTensorProto{sparse("w", int64s("", []int64{2, 2}, 0, 2, 1, 0))}},
	} {
		g.Input, g.Output = in, out
		got := run(t, model(13, g), map[string]*tensor.Tensor{"x": f32([]int{3}, 1, 2, 3)})["y"]
		assert.Equal(t, []float32{1, 2, 8, 8, 2, 3}, floatsOf(t, got), name)
	}
	for want, indices := range map[string]*pb.TensorProto{
		"index 6 of element 1 is out of range": int64s("", []int64{2}, 2, 6),
		"index -1 of element 0":                int64s("", []int64{2}, -1, 3),
		"index 2 of element 1":                 int64s("", []int64{2, 2}, 0, 2, 2, 0),
		"indices of int64 of the shape [3]":    int64s("", []int64{3}, 1, 2, 3),
		"indices of float32":                   floats("", []int64{2}, 1, 2),
	} {
		_, err := toGraph(model(13, &pb.GraphProto{Node: []*pb.NodeProto{add}, Input: in, Output: out,
			SparseInitializer: []*pb.SparseTensorProto{sparse("w", indices)}}), Options{})
		require.Error(t, err)
		assert.Contains(t, err.Error(), want)
		assert.Contains(t, err.Error(), `initializer "w"`)
	}
}
