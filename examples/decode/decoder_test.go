package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// sumModel writes a model whose next token is 1 plus the sum of all tokens, which are in its cache. A merged model has
// two branches, as optimum writes it.
func sumModel(t *testing.T, merged bool) string {
	node := func(op string, in []string, out string, attrs ...*pb.AttributeProto) *pb.NodeProto {
		return &pb.NodeProto{OpType: op, Input: in, Output: []string{out}, Attribute: attrs}
	}
	integer := func(name string, n int64) *pb.AttributeProto {
		return &pb.AttributeProto{Name: name, Type: pb.AttributeInt, I: n}
	}
	value := func(name string, dtype pb.DataType, dims ...string) *pb.ValueInfoProto {
		shape := &pb.TensorShapeProto{}
		for _, dim := range dims {
			declared := &pb.Dimension{DimParam: dim}
			if dim == "1" {
				declared = &pb.Dimension{DimValue: new(int64(1))}
			}
			shape.Dim = append(shape.Dim, declared)
		}
		return &pb.ValueInfoProto{Name: name, Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype), Shape: shape}}}
	}
	// logits computes -|class - (sum(keys) + 1)|.
	logits := func(keys, prefix string) []*pb.NodeProto {
		return []*pb.NodeProto{node("ReduceSum", []string{keys}, prefix+"sum", integer("keepdims", 1)),
			node("Sub", []string{"classes", prefix + "sum"}, prefix+"rest"), node("Abs", []string{prefix + "rest"}, prefix+"far"),
			node("Neg", []string{prefix + "far"}, prefix+"near"),
			node("Reshape", []string{prefix + "near", "logits_shape"}, prefix+"logits")}
	}
	classes := make([]float32, 100)
	for i := range classes {
		classes[i] = float32(i) - 1
	}
	rows := []*pb.NodeProto{node("Cast", []string{"input_ids"}, "floats", integer("to", int64(pb.Float))),
		node("Reshape", []string{"floats", "rows_shape"}, "rows")}
	withPast := append(logits("present", ""),
		node("Concat", []string{"past_key_values.0.key", "rows"}, "present", integer("axis", 2)))
	g := &pb.GraphProto{Name: "sum",
		Input: []*pb.ValueInfoProto{value("input_ids", pb.Int64, "batch", "tokens"),
			value("attention_mask", pb.Int64, "batch", "total"), value("past_key_values.0.key", pb.Float, "batch", "1", "past", "1")},
		Output: []*pb.ValueInfoProto{value("logits", pb.Float, "1", "1", "classes"),
			value("present.0.key", pb.Float, "batch", "1", "length", "1")},
		Initializer: []*pb.TensorProto{
			{Name: "classes", DataType: int32(pb.Float), Dims: []int64{1, 1, 1, 100}, FloatData: classes},
			{Name: "rows_shape", DataType: int32(pb.Int64), Dims: []int64{4}, Int64Data: []int64{1, 1, -1, 1}},
			{Name: "logits_shape", DataType: int32(pb.Int64), Dims: []int64{3}, Int64Data: []int64{1, 1, 100}}}}
	if merged {
		branch := func(nodes []*pb.NodeProto, outputs ...string) *pb.GraphProto {
			g := &pb.GraphProto{Name: "branch", Node: nodes}
			for _, name := range outputs {
				g.Output = append(g.Output, &pb.ValueInfoProto{Name: name})
			}
			return g
		}
		graphAttr := func(name string, g *pb.GraphProto) *pb.AttributeProto {
			return &pb.AttributeProto{Name: name, Type: pb.AttributeGraph, G: g}
		}
		g.Input = append(g.Input, value("use_cache_branch", pb.Bool, "1"))
		choice := node("If", []string{"use_cache_branch"}, "logits", graphAttr("then_branch", branch(withPast, "logits", "present")),
			graphAttr("else_branch", branch(append(logits("rows", "first_"), node("Identity", []string{"rows"}, "first_present")),
				"first_logits", "first_present")))
		choice.Output = append(choice.Output, "present.0.key")
		g.Node = append(rows, choice)
	} else {
		g.Node = append(append(rows, withPast...), node("Identity", []string{"present"}, "present.0.key"))
	}
	path := filepath.Join(t.TempDir(), "sum.onnx")
	model := &pb.ModelProto{IrVersion: 8, Graph: g, OpsetImport: []*pb.OperatorSetIDProto{{Version: 14}}}
	require.NoError(t, os.WriteFile(path, pb.Marshal(model), 0o600))
	return path
}

// TestStream continues a text until the caches are full. A token that is missing in a cache would change all later
// ones.
func TestStream(t *testing.T) {
	const threads, capacity = 2, 6
	for _, merged := range []bool{false, true} {
		d, err := newDecoder(t.Context(), sumModel(t, merged), nil, capacity, threads)
		require.NoError(t, err)
		assert.Equal(t, merged, d.forPrompt != nil)
		text := []int64{1, 2}
		for i, want := range []int64{4, 8, 16, 32, 64} {
			token, err := d.next(t.Context(), text)
			require.NoError(t, err)
			require.Equal(t, want, token, "run %d, merged %t", i, merged)
			text = []int64{token}
		}
		_, err = d.next(t.Context(), text)
		assert.ErrorContains(t, err, "capacity is 6")
	}
	_, err := stream(t.Context(), sumModel(t, false), "", "1,x", -1, capacity, 3, threads)
	assert.ErrorContains(t, err, "-prompt")
	times, err := stream(t.Context(), sumModel(t, false), "", "1, 2", -1, capacity, 3, threads)
	require.NoError(t, err)
	assert.Len(t, times, 2)
}
