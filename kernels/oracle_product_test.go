package kernels_test

import (
	"encoding/json"
	"math/cmplx"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

type productGraph struct {
	Inputs []struct {
		Name, DType    string
		Shape, Strides []int
		Offset         int
	}
	Nodes []struct {
		Name, Op string
		Inputs   []any
		Attrs    graph.Attrs
	}
}

// TestProductOracle compares products with PyTorch's results, including values where a folder has them: see
// oracleFolders.
func TestProductOracle(t *testing.T) {
	testsize.Long(t)
	compared := 0
	for _, dir := range oracleFolders(t, "nn") {
		compared += productOracle(t, dir)
	}
	if compared < 20 {
		t.Errorf("only %d results were compared", compared)
	}
}

func readJSON(t *testing.T, path string, to any) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func productOracle(t *testing.T, dir string) (compared int) {
	var g productGraph
	var want struct {
		Values map[string]struct {
			DType          string
			Shape, Strides []int
		}
	}
	readJSON(t, filepath.Join(dir, "graph.json"), &g)
	readJSON(t, filepath.Join(dir, "expected.json"), &want)
	data, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	outputs, err2 := npz.ReadFile(filepath.Join(dir, "outputs.npz"))
	values := err == nil && err2 == nil
	in := map[string]*tensor.Tensor{}
	for _, x := range g.Inputs {
		d, err := tensor.ParseDType(x.DType)
		if err != nil {
			t.Fatal(err)
		}
		in[x.Name] = tensor.Empty(tensor.Meta{DType: d, Shape: x.Shape, Strides: x.Strides, Offset: x.Offset})
		if values {
			tensor.CopyElements(in[x.Name], data[x.Name])
		}
	}
	for _, n := range g.Nodes {
		if !slices.Contains([]string{"matmul", "linear", "conv2d"}, n.Op) {
			continue
		}
		var ops []*tensor.Tensor
		for _, name := range n.Inputs {
			ops = append(ops, in[name.(string)])
		}
		p, err := kerneltest.NewProductCall(n.Op, n.Attrs, ops)
		if err != nil {
			t.Errorf("%s: %v", n.Name, err)
			continue
		}
		compared++
		w := want.Values[n.Name]
		if m := p.Call.Out[0]; !slices.Equal(m.Shape, w.Shape) || !slices.Equal(m.Strides, w.Strides) ||
			m.DType.String() != w.DType {
			t.Errorf("%s/%s (%s): got %v, want %v", dir, n.Name, n.Op, m, w)
		} else if values {
			sameValues(t, n.Name, p, outputs[n.Name])
		}
	}
	return compared
}

func sameValues(t *testing.T, name string, p *kerneltest.ProductCall, want *tensor.Tensor) {
	r := p.Compile(t)
	r.Run(t, false)
	kit.EachIndex(want.Shape, func(i []int) {
		a, b := r.Out.At(i...).Complex(), want.At(i...).Complex()
		if cmplx.Abs(a-b) > 2e-5*(1+cmplx.Abs(b)) {
			t.Fatalf("%s (%s) at %v: got %v, want %v", name, p.Op.Name, i, a, b)
		}
	})
}
