package kernels_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// TestPointwiseOracle compares pointwise ops with PyTorch's results: see oracleFolders.
func TestPointwiseOracle(t *testing.T) {
	testsize.Long(t)
	for _, dir := range oracleFolders(t, "elementwise", "pairs", "promotion") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, "graph.json"))
			if err != nil {
				t.Fatal(err)
			}
			g, err := graphfile.Parse(bytes.NewReader(data), kernels.Lookup, graphfile.Options{Name: dir, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			checkPointwiseOracle(t, dir, g)
		})
	}
}

// oraclePointwise is a result of the oracle.
type oraclePointwise struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Strides []int  `json:"strides"`
	Offset  int    `json:"offset"`
}

func checkPointwiseOracle(t *testing.T, dir string, g *graph.Graph) {
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Values map[string]oraclePointwise
		Errors map[string]string
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	inputs, outputs := pointwiseArrays(dir)
	rejected := g.InferAll()
	for _, n := range g.Nodes {
		v := n.Out[0]
		w, ok := want.Values[v.Name]
		if (rejected[n] != nil) == ok {
			t.Errorf("%s: error %v, want %q", describeNode(n), rejected[n], want.Errors[n.Name])
		}
		if !ok || rejected[n] != nil {
			continue
		}
		if v.Meta.DType.String() != w.DType || v.Meta.Offset != w.Offset || !slices.Equal(v.Meta.Shape, w.Shape) ||
			!slices.Equal(v.Meta.Strides, w.Strides) {
			t.Errorf("%s: got %v, want %v", describeNode(n), v.Meta, w)
			continue
		}
		if outputs != nil {
			checkPointwiseValue(t, n, inputs, outputs)
		}
	}
}

// pointwiseArrays reads the values; nil if the folder has none.
func pointwiseArrays(dir string) (inputs, outputs map[string]*tensor.Tensor) {
	inputs, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	if err != nil {
		return nil, nil
	}
	if outputs, err = npz.ReadFile(filepath.Join(dir, "outputs.npz")); err != nil {
		return nil, nil
	}
	return inputs, outputs
}

func checkPointwiseValue(t *testing.T, n *graph.Node, inputs, outputs map[string]*tensor.Tensor) {
	in := make([]*tensor.Tensor, len(n.In))
	for i, a := range n.In {
		if a.Kind == graph.TensorArg {
			in[i] = tensor.Empty(a.Value.Meta)
			tensor.CopyElements(in[i], fromNumpy(inputs[a.Value.Name], a.Value.Meta.DType))
		}
	}
	out, err := kerneltest.RunCall(n.Op, n.Call(), in)
	if err == nil {
		err = kerneltest.CompareTensors(out[0], fromNumpy(outputs[n.Name], n.Out[0].Meta.DType))
	}
	if err != nil {
		t.Errorf("%s: %v", describeNode(n), err)
	}
}
