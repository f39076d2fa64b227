package kernels_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// oracleCase is a folder written by torch_oracle.py, with PyTorch's results.
type oracleCase struct {
	Values map[string]oracleValue
	Errors map[string]string
}

type oracleValue struct {
	DType   string
	Shape   []int
	Strides []int
	Offset  int
	Flags   []string
	AliasOf *string `json:"alias_of"`
}

// TestViewsAgainstPyTorch infers the cases of all families that contain views, copies and joins: see oracleFolders.
// Where a folder has values, kernels are run too.
func TestViewsAgainstPyTorch(t *testing.T) {
	testsize.Long(t)
	compared := 0
	for _, dir := range oracleFolders(t, "views", "copies", "broken", "pairs", "nn") {
		data, err := os.ReadFile(filepath.Join(dir, "graph.json"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(dir), func(t *testing.T) { compared += checkOracle(t, dir, data) })
	}
	if compared < 600 {
		t.Errorf("only %d results were compared", compared)
	}
}

// ownOps are the ops whose results this test compares.
var ownOps = strings.Fields(
	`add permute transpose swapaxes t movedim reshape view expand slice select narrow squeeze unsqueeze
	flatten unfold diagonal split as_strided contiguous clone to cat stack pad upsample_nearest2d chunk unbind split_with_sizes
	repeat tile roll flip tril triu hstack vstack full zeros arange linspace eye full_like zeros_like ravel type_as constant_pad_nd unflatten`)

// checkOracle returns the number of results it compared.
func checkOracle(t *testing.T, dir string, data []byte) int {
	g, rejected := parseOracle(t, dir, data)
	raw, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want oracleCase
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	bad, agreed := 0, 0
	report := func(format string, args ...any) {
		if bad++; bad <= 20 {
			t.Errorf(format, args...)
		}
	}
	for _, n := range g.Nodes {
		if e := rejected[n]; e != nil {
			if _, ok := want.Errors[n.Name]; !ok {
				report("%s (%s) is rejected: %v", n.Name, n.Op.Name, e.Err)
			}
			agreed++
			continue
		}
		if why, ok := want.Errors[n.Name]; ok {
			report("%s (%s) is not rejected: %s", n.Name, n.Op.Name, why)
		}
		for _, v := range n.Out {
			if w, ok := want.Values[v.Name]; ok {
				agreed++
				if diff := oracleDiff(v, w); diff != "" {
					report("%s (%s) %v: %s; operand %v", v.Name, n.Op.Name, v.Meta, diff, n.In)
				}
			}
		}
	}
	t.Logf("%d answers compared, %d differ", agreed, bad)
	if _, err := os.Stat(filepath.Join(dir, "outputs.npz")); err == nil {
		checkOracleValues(t, dir, g, rejected)
	}
	return agreed
}

// parseOracle loads the nodes of these ops.
func parseOracle(t *testing.T, dir string, data []byte) (*graph.Graph, map[*graph.Node]*graph.Error) {
	var file map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // 2.0 is a float, 2 is not
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	nodes := []any{}
	for _, n := range file["nodes"].([]any) {
		if op := n.(map[string]any)["op"].(string); slices.Contains(ownOps, op) && kernels.Lookup(op) != nil {
			nodes = append(nodes, n)
		}
	}
	file["nodes"], file["outputs"] = nodes, []any{}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graphfile.Parse(bytes.NewReader(data), kernels.Lookup, graphfile.Options{Name: "graph.json", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return g, g.InferAll()
}

func oracleDiff(v *graph.Value, w oracleValue) string {
	got := oracleValue{DType: v.Meta.DType.String(), Shape: v.Meta.Shape, Strides: v.Meta.Strides, Offset: v.Meta.Offset,
		Flags: v.Meta.Flags()}
	switch {
	case got.DType != w.DType:
		return "dtype " + w.DType
	case !slices.Equal(got.Shape, w.Shape):
		return fmt.Sprint("shape ", w.Shape)
	case !slices.Equal(got.Strides, w.Strides):
		return fmt.Sprint("strides ", w.Strides)
	case got.Offset != w.Offset:
		return fmt.Sprint("offset ", w.Offset)
	}
	slices.Sort(got.Flags)
	slices.Sort(w.Flags)
	if !slices.Equal(got.Flags, w.Flags) {
		return fmt.Sprint("flags ", w.Flags)
	}
	if v.Meta.Numel() > 0 && (v.Alias == nil) != (w.AliasOf == nil) {
		return fmt.Sprint("alias ", w.AliasOf)
	}
	return ""
}

func checkOracleValues(t *testing.T, dir string, g *graph.Graph, rejected map[*graph.Node]*graph.Error) {
	in, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := npz.ReadFile(filepath.Join(dir, "outputs.npz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if v := g.Value(name); v != nil {
			in[name] = kerneltest.CopyInLayout(fromNumpy(in[name], v.Meta.DType), v.Meta)
		}
	}
	bad := 0
	for _, n := range g.Nodes {
		if rejected[n] != nil || n.Op.ReadsStorage { // the files do not hold the gaps between elements
			continue
		}
		ops := make([]*tensor.Tensor, len(n.In))
		for i, a := range n.In {
			if a.Kind == graph.TensorArg {
				ops[i] = in[a.Value.Name]
			}
		}
		out := kerneltest.RunNode(t, n, ops)
		for i, v := range n.Out {
			w := want[v.Name]
			if w == nil {
				continue
			}
			if diff := kerneltest.FirstRelativeDifference(out[i], fromNumpy(w, v.Meta.DType), 2e-6); diff != "" {
				if bad++; bad <= 10 {
					t.Errorf("%s (%s) %v: %s", v.Name, n.Op.Name, v.Meta, diff)
				}
			}
		}
	}
}
