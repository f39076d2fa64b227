package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// withDefault is a model of y = x + w, whose input w has the default [1, 2].
func withDefault(t *testing.T) string {
	t.Helper()
	info := func(name string, dims ...*onnxpb.Dimension) *onnxpb.ValueInfoProto {
		of := &onnxpb.TensorType{ElemType: int32(onnxpb.Float), Shape: &onnxpb.TensorShapeProto{Dim: dims}}
		return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{TensorType: of}}
	}
	two := &onnxpb.Dimension{DimValue: new(int64(2))}
	return write(t, "m.onnx", string(onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8,
		OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}}, Graph: &onnxpb.GraphProto{
			Node: []*onnxpb.NodeProto{{OpType: "Add", Input: []string{"x", "w"}, Output: []string{"y"}}},
			Initializer: []*onnxpb.TensorProto{{Name: "w", DataType: int32(onnxpb.Float), Dims: []int64{2},
				FloatData: []float32{1, 2}}},
			Input:  []*onnxpb.ValueInfoProto{info("x", &onnxpb.Dimension{DimParam: "N"}, two), info("w", two)},
			Output: []*onnxpb.ValueInfoProto{info("y")}}})))
}

func TestInputsWithDefaults(t *testing.T) {
	model := withDefault(t)
	floats := func(shape []int, data ...float32) *tensor.Tensor {
		return tensor.Must(tensor.FromSlice(data, shape...))
	}
	x, w := floats([]int{1, 2}, 10, 20), floats([]int{2}, 5, 6)
	xFile, wFile := npyFile(t, x), npyFile(t, w)
	outputs := filepath.Join(t.TempDir(), "out.npz")
	for want, args := range map[[2]float32][]string{
		{11, 22}: {"--input", "x=" + xFile},
		{15, 26}: {"--input", "x=" + xFile, "--input", "w=" + wFile},
	} {
		succeed(t, append([]string{"run", model, "--outputs", outputs}, args...)...)
		got := readArray(t, outputs, "y")
		if got.At(0, 0).Float() != float64(want[0]) || got.At(0, 1).Float() != float64(want[1]) {
			t.Errorf("%v: got %v", args, got)
		}
		succeed(t, append([]string{"bench", model, "--runs", "2"}, args...)...)
	}
	if r := call(t, "run", model); r.code != exit.CodeDone || strings.Contains(r.errors, "w") ||
		!strings.Contains(r.errors, "generated from seed 0: input x") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	if table := succeed(t, "infer", model); !strings.Contains(table, "w     input") {
		t.Errorf("got %s", table)
	}
	succeed(t, "plan", model)

	// A graph file has no defaults: w is a constant.
	converted := filepath.Join(t.TempDir(), "m.json")
	succeed(t, "convert", model, converted)
	succeed(t, "run", converted, "--outputs", outputs, "--input", "x="+xFile)
	if got := readArray(t, outputs, "y"); got.At(0, 1).Float() != 22 {
		t.Errorf("converted: got %v", got)
	}

	// A file of a batch may override the default, and another one may not.
	dir, results := t.TempDir(), t.TempDir()
	for name, entries := range map[string][]npz.Entry{
		"a": {{Name: "x", Tensor: x}}, "b": {{Name: "x", Tensor: x}, {Name: "w", Tensor: w}}, "c": {{Name: "x", Tensor: x}}} {
		file, err := os.Create(filepath.Join(dir, name+".npz"))
		if err == nil {
			err = npz.WriteNPZ(file, entries)
		}
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, "batch", model, "--inputs", filepath.Join(dir, "*.npz"), "--outputs", results)
	for name, want := range map[string]float64{"a": 11, "b": 15, "c": 11} {
		if got := readArray(t, filepath.Join(results, name+".npz"), "y"); got.At(0, 0).Float() != want {
			t.Errorf("batch, %s: got %v", name, got)
		}
	}
}

// readArray reads an array of an archive.
func readArray(t *testing.T, path, name string) *tensor.Tensor {
	t.Helper()
	archive, err := npz.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	got, err := archive.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
