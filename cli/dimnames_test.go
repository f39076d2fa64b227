package cli

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/onnxpb"
)

// batched is a model with a size whose name is no identifier.
func batched(t *testing.T) string {
	t.Helper()
	info := func(name string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{Dim: []*onnxpb.Dimension{
			{DimParam: "batch-size"},
			{DimValue: new(int64(3))}}}
		of := &onnxpb.TensorType{ElemType: int32(onnxpb.Float), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: name,
			Type: &onnxpb.TypeProto{TensorType: of}}
	}
	data := onnxpb.Marshal(&onnxpb.ModelProto{IrVersion: 8, OpsetImport: []*onnxpb.OperatorSetIDProto{{Version: 13}},
		Graph: &onnxpb.GraphProto{
			Node:  []*onnxpb.NodeProto{{Name: "n", OpType: "Neg", Input: []string{"x"}, Output: []string{"y"}}},
			Input: []*onnxpb.ValueInfoProto{info("x")}, Output: []*onnxpb.ValueInfoProto{info("y")}}})
	return write(t, "m.onnx", string(data))
}

// TestSizesByTheNamesOfTheModel gives a size by the model's name for it and by the graph's.
func TestSizesByTheNamesOfTheModel(t *testing.T) {
	path := batched(t)
	for _, name := range []string{"batch-size", "batch_size"} {
		if got := succeed(t, "run", path, "--dim", name+"=5"); !strings.Contains(got, "[5,3]") {
			t.Errorf("%s=5: %s", name, got)
		}
		for _, command := range []string{"run", "plan", "infer"} {
			dims := name + "=4,64"
			if command == "infer" {
				dims = name + "=4"
			}
			if got := succeed(t, command, path, "--dim", dims); !strings.Contains(got, "[4,3]") && command != "plan" {
				t.Errorf("%s --dim %s: %s", command, dims, got)
			}
		}
	}
	for dims, want := range map[string]string{
		"batchsize=4":     `has no symbolic dimension "batchsize"; did you mean batch_size?`,
		"L=4":             `has no symbolic dimension "L"; it has batch_size (batch-size)`,
		"L=4,5":           `has no symbolic dimension "L"; it has batch_size (batch-size)`,
		"batch-size=-1,2": "want a symbol and its size",
	} {
		if r := call(t, "run", path, "--dim", dims); r.code != exit.CodeUsage || !strings.Contains(r.errors, want) {
			t.Errorf("--dim %s: exit %d, %s", dims, r.code, r.errors)
		}
	}
	if r := call(t, "infer", path, "--json"); r.code != exit.CodeDone && r.errors != "" {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}

// Measurements of a model have its sizes in the table and in JSON.
func TestSizesOfModelsAreMeasured(t *testing.T) {
	args := []string{"bench", batched(t), "--dim", "batch-size=4", "--runs", "2"}
	if doc := decode[benchDoc](t, succeed(t, append(args, "--json")...)); !maps.Equal(doc.Dims,
		map[string]int{"batch-size": 4}) {
		t.Errorf("sizes %v", doc.Dims)
	}
	if out := succeed(t, args...); !regexp.MustCompile(`\nstrategy +call +runs +batch-size +threads +median.*\n` +
		`optimal +Run +2 +4 +\d`).MatchString(out) {
		t.Errorf("got\n%s", out)
	}
}

// The import of a model replaces symbols of given sizes by numbers: comparisons still name the sizes.
func TestSizesOfModelsAreCompared(t *testing.T) {
	dir := t.TempDir()
	table, bench := filepath.Join(dir, "o.csv"), filepath.Join(dir, "o.txt")
	text := succeed(t, "compare", batched(t), "--dim", "batch-size=1,4", "--strategies", "propagate", "--runs", "2",
		"--threads", "2", "--json", "--csv", table, "--benchstat", bench)
	var sizes []int
	for _, r := range decode[compareDoc](t, text).Strategies {
		sizes = append(sizes, r.Dims["batch-size"])
	}
	if !slices.Equal(sizes, []int{1, 4}) {
		t.Errorf("sizes %v in %s", sizes, text)
	}
	if text := string(read(t, table)); !strings.HasPrefix(text, "file,dim_batch-size,threads,strategy,") {
		t.Error(text)
	}
	for _, size := range []string{"1", "4"} {
		name := "BenchmarkRun/file=m.onnx/batch-size=" + size + "/threads=2/strategy=propagate "
		if got := string(read(t, bench)); strings.Count(got, name) != 2 {
			t.Errorf("%q is not there twice:\n%s", name, got)
		}
	}
}
