package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// TestInputsWithoutRank runs y = relu(x) for an x whose rank is not declared.
func TestInputsWithoutRank(t *testing.T) {
	info := func(name string) *onnxpb.ValueInfoProto {
		of := &onnxpb.TensorType{ElemType: int32(onnxpb.Float)}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{TensorType: of}}
	}
	model := write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}}, Graph: &onnxpb.GraphProto{
			Node:  []*onnxpb.NodeProto{{OpType: "Relu", Input: []string{"x"}, Output: []string{"y"}}},
			Input: []*onnxpb.ValueInfoProto{info("x")}, Output: []*onnxpb.ValueInfoProto{info("y")}}})))
	outputs := filepath.Join(t.TempDir(), "out.npz")
	for _, shape := range [][]int{{}, {3}, {2, 3}, {1, 2, 1, 3}} { // the array has the rank
		succeed(t, "run", model, "--input", "x="+npyFile(t, counted(tensor.Float32, shape...)), "--outputs", outputs)
		if got := readArray(t, outputs, "y"); tensor.ListString(got.Shape) != tensor.ListString(shape) {
			t.Errorf("%v: got %v", shape, got.Shape)
		}
	}
	for want, args := range map[string][]string{
		"[1,3,5,2]": {"run", model, "--shape", "x=1,3,H,W", "--dim", "H=5"},
		"[1,3,4]":   {"infer", model, "--shape", "x=1,3,4"},
		"[2*N + 1]": {"infer", model, "--shape", "x=N*2 + 1"},
		"[]":        {"infer", model, "--shape", "x="},
		"1 step":    {"plan", model, "--shape", "x=1,3,4"},
		"A run":     {"bench", model, "--shape", "x=1,3,4", "--runs", "2"},
	} {
		if got := succeed(t, args...); !strings.Contains(got, want) {
			t.Errorf("%v: got %s", args, got)
		}
	}
	// A file of a batch is a run of the declared shape.
	file := npyFile(t, counted(tensor.Float32, 3, 2))
	succeed(t, "batch", model, "--shape", "x=N,2", "--inputs", file, "--outputs", t.TempDir())
	for _, c := range []struct {
		want string
		args []string
	}{
		{`input "x": the model does not declare its rank: give its shape (--shape NAME=1,3,H,W`, nil},
		{`the model has no input "z"; inputs: x`, []string{"--shape", "z=1"}},
		{`--shape x=1,,2: "" is not a size`, []string{"--shape", "x=1,,2"}},
		{`--shape x=-1: "-1" is not a size`, []string{"--shape", "x=-1"}},
		{`--shape x=99999999999999999999: "99999999999999999999" is not a size`, []string{"--shape", "x=99999999999999999999"}},
		{`--shape x=1,N*: "N*" is not a size`, []string{"--shape", "x=1,N*"}},
		{`--shape x=a b: "a b" is not a size`, []string{"--shape", "x=a b"}},
		{`--shape x: want an input and its sizes`, []string{"--shape", "x"}},
		{`--shape x=3: want an input and its sizes, once`, []string{"--shape", "x=2", "--shape", "x=3"}},
		{`the file holds int64, the graph wants float32`, []string{"--input", "x=" + npyFile(t, counted(tensor.Int64, 2))}},
	} {
		if r := call(t, append([]string{"run", model}, c.args...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, r.code, r.errors)
		}
	}
	text := write(t, "g.txt", "x: float32[2] = input\noutput x\n")
	const want = `g.txt: the shape of input "x" is in the file: only those of ONNX models can be declared`
	if r := call(t, "run", text, "--shape", "x=3"); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}
