package kernels_test

import (
	"bytes"
	"encoding/json"
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

type torchMeta struct {
	DType          string
	Shape, Strides []int
	Offset         int
}

type torchAnswers struct {
	Values map[string]torchMeta
	Errors map[string]string
}

// TestReduceOracle compares reductions with PyTorch's results: layouts, dtypes, errors and, where the case has
// inputs.npz, values. See oracleFolders.
func TestReduceOracle(t *testing.T) {
	testsize.Long(t)
	compared := 0
	for _, d := range oracleFolders(t, "reductions", "nn", "promotion") {
		t.Run(filepath.Base(d), func(t *testing.T) { compared += checkReduceOracle(t, d) })
	}
	if compared < 200 {
		t.Errorf("only %d results were compared", compared)
	}
}

// onlyReductions removes the nodes of other families from a graph file.
func onlyReductions(t *testing.T, data []byte) []byte {
	var g map[string]json.RawMessage
	var nodes []map[string]any
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(g["nodes"]))
	dec.UseNumber()
	if err := dec.Decode(&nodes); err != nil {
		t.Fatal(err)
	}
	nodes = slices.DeleteFunc(nodes, func(n map[string]any) bool {
		return !slices.Contains(kerneltest.ReduceFamily, n["op"].(string))
	})
	g["nodes"], _ = json.Marshal(nodes)
	g["outputs"] = []byte("[]")
	out, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkReduceOracle returns the number of calls it compared.
func checkReduceOracle(t *testing.T, dir string) int {
	data, err := os.ReadFile(filepath.Join(dir, "graph.json"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := graphfile.Parse(bytes.NewReader(onlyReductions(t, data)), kernels.Lookup,
		graphfile.Options{Name: "graph.json", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var want torchAnswers
	data, err = os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	rejected := g.InferAll()
	var in, out map[string]*tensor.Tensor
	if in, err = npz.ReadFile(filepath.Join(dir, "inputs.npz")); err == nil {
		if out, err = npz.ReadFile(filepath.Join(dir, "outputs.npz")); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range g.Nodes {
		if err := rejected[n]; err != nil {
			if msg, ok := want.Errors[n.Name]; !ok || !strings.HasPrefix(msg, err.Err.Error()) {
				t.Errorf("%s %s %v %+v: rejected with %q, PyTorch: %q", n.Name, n.Op.Name, callMetas(n), n.Attrs, err.Err,
					want.Errors[n.Name])
			}
			continue
		}
		if msg := want.Errors[n.Name]; msg != "" {
			if strings.Contains(msg, "not implemented for 'Half'") || strings.Contains(msg, "not implemented for 'BFloat16'") {
				// PyTorch versions after the oracle's support 16-bit floats everywhere.
				continue
			}
			t.Errorf("%s %s %v %+v: accepted, PyTorch: %q", n.Name, n.Op.Name, callMetas(n), n.Attrs, msg)
			continue
		}
		same := true
		for _, v := range n.Out {
			w := want.Values[v.Name]
			if m := v.Meta; m.DType.String() != w.DType || !slices.Equal(m.Shape, w.Shape) ||
				!slices.Equal(m.Strides, w.Strides) || m.Offset != w.Offset {
				t.Errorf("%s %s %v %+v: got %v, PyTorch: %v", n.Name, n.Op.Name, callMetas(n), n.Attrs, m, w)
				same = false
			}
		}
		if n.Op.Name == "layer_norm" && n.Out[0].Meta.DType == tensor.BFloat16 {
			continue // PyTorch 1.13 rounds the shift to bfloat16; the error exceeds a short row's values
		}
		if same && in != nil {
			checkTorchValues(t, n, in, out)
		}
	}
	return len(g.Nodes)
}

func callMetas(n *graph.Node) (s []string) {
	for i := range n.In {
		s = append(s, n.Call().Meta(i).String())
	}
	return s
}

// checkTorchValues runs one node on PyTorch's inputs.
func checkTorchValues(t *testing.T, n *graph.Node, in, out map[string]*tensor.Tensor) {
	var args []*tensor.Tensor
	for _, a := range n.In {
		if a.Kind == graph.Null {
			args = append(args, nil)
			continue
		}
		x := tensor.Empty(a.Value.Meta)
		tensor.CopyElements(x, fromNumpy(in[a.Value.Name], x.DType))
		args = append(args, x)
	}
	got, err := kerneltest.RunReduce(n.Op, n.Call(), args, false)
	if err != nil {
		t.Fatal(err)
	}
	var want []*tensor.Tensor
	for _, v := range n.Out {
		want = append(want, fromNumpy(out[v.Name], v.Meta.DType))
	}
	if err := kerneltest.CompareTorch(n.Op, n.Call(), args, got, want); err != nil {
		t.Errorf("%s %s %v %+v: %v", n.Name, n.Op.Name, callMetas(n), n.Attrs, err)
	}
}
