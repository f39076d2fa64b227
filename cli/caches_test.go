package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
)

// TestCaches plans, runs and measures a graph with a cache, and the branch of a model that has one.
func TestCaches(t *testing.T) {
	const stepText = "append"
	file := write(t, "g.json", `{"version": 1, "symbols": {"P": {}}, "inputs": [
		{"name": "past_0", "dtype": "float32", "shape": [2, "P", 4]}, {"name": "new", "dtype": "float32", "shape": [2, 1, 4]}],
		"nodes": [{"name": "present_0", "op": "cat", "inputs": ["past_0", "new"], "attrs": {"dim": 1}},
			{"name": "y", "op": "neg", "inputs": ["present_0"]}], "outputs": ["present_0", "y"]}`)
	require.NotContains(t, succeed(t, "plan", file, "--dim", "P=5"), stepText)
	out := succeed(t, "plan", file, "--dim", "P=5", "--caches", "16")
	require.Contains(t, out, stepText)
	require.Contains(t, out, "[64,4,1]")
	succeed(t, "plan", file, "--dim", "P=5", "--caches", "16", "--measure")
	require.Contains(t, succeed(t, "run", file, "--dim", "P=5", "--caches", "16"), "strides [64,4,1]")
	succeed(t, "bench", file, "--dim", "P=5", "--caches", "16", "--runs", "2")
	for _, command := range []string{"plan", "run", "bench"} {
		for _, capacity := range []string{"-1", "0"} {
			r := call(t, command, file, "--caches", capacity)
			require.Equal(t, exit.CodeUsage, r.code)
			require.Contains(t, r.errors, "--caches "+capacity+": want a positive number")
		}
		r := call(t, command, file, "--dim", "P=5", "--caches", "5")
		require.Contains(t, r.errors, `cache "past_0" needs size 6 in dimension 1, but its capacity is 5`)
	}
	r := call(t, "plan", file, "--constant", "new=1")
	require.Contains(t, r.errors, `input "new" cannot be a constant: only inputs of ONNX models can`)

	// y = use_cache_branch ? relu(x) : neg(x)
	info := func(name string, dtype onnxpb.DataType, size int64) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.Dimension{{DimValue: new(size)}}}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{
			TensorType: &onnxpb.TensorType{ElemType: int32(dtype), Shape: shape}}}
	}
	branch := func(name, op string) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeGraph, G: &onnxpb.GraphProto{
			Node:   []*onnxpb.NodeProto{{OpType: op, Input: []string{"x"}, Output: []string{name + "_y"}}},
			Output: []*onnxpb.ValueInfoProto{{Name: name + "_y"}}}}
	}
	model := write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}}, Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{{OpType: "If", Input: []string{"use_cache_branch"}, Output: []string{"y"},
				Attribute: []*onnxpb.AttributeProto{branch("then_branch", "Relu"), branch("else_branch", "Neg")}}},
			Input:  []*onnxpb.ValueInfoProto{info("x", onnxpb.Float, 3), info("use_cache_branch", onnxpb.Bool, 1)},
			Output: []*onnxpb.ValueInfoProto{info("y", onnxpb.Float, 3)}}})))
	require.Contains(t, succeed(t, "infer", model), " if ")
	for value, op := range map[string]string{"true": " relu ", "0": " neg "} {
		out := succeed(t, "infer", model, "--constant", "use_cache_branch="+value)
		require.Contains(t, out, op)
		require.NotContains(t, out, " if ")
		succeed(t, "run", model, "--constant", "use_cache_branch="+value)
	}
	for _, c := range []struct{ constant, want string }{{"use_cache=1", "did you mean use_cache_branch?"},
		{"x", "--constant x: want an input and its value"}, {"x=a", `want true, false or a number, not "a"`}} {
		r := call(t, "run", model, "--constant", c.constant)
		require.Equal(t, exit.CodeUsage, r.code)
		require.Contains(t, r.errors, c.want)
	}
}
