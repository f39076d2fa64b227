package kernels_test

import (
	"bytes"
	"encoding/json"
	"errors"
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

// walkValue is PyTorch's description of a value in testdata/walk.
type walkValue struct {
	DType          string
	Shape, Strides []int
	Offset         int
	AliasOf        *string `json:"alias_of"`
}

// walkVectors are calls of every op with unusual operands, and PyTorch's results, written by scripts/aten_walk. The
// elements of all values of a dtype are in one array.
type walkVectors struct {
	graph    *graph.Graph
	inputs   map[*graph.Value]*tensor.Tensor
	Values   map[string]*walkValue
	Errors   map[string]string
	elements map[string]*tensor.Tensor // of the results
	at       map[string]int
}

func readWalk(t *testing.T) *walkVectors {
	t.Helper()
	dir := filepath.Join("testdata", "walk")
	w := &walkVectors{inputs: map[*graph.Value]*tensor.Tensor{}, at: map[string]int{}}
	if err := json.Unmarshal(readGzip(t, filepath.Join(dir, "expected.json.gz")), w); err != nil {
		t.Fatal(err)
	}
	var err error
	text := bytes.NewReader(readGzip(t, filepath.Join(dir, "graph.json.gz")))
	if w.graph, err = graphfile.Parse(text, kernels.Lookup, graphfile.Options{Name: "graph.json", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	flat, err := npz.ReadFile(filepath.Join(dir, "inputs.npz"))
	if err != nil {
		t.Fatal(err)
	}
	if w.elements, err = npz.ReadFile(filepath.Join(dir, "outputs.npz")); err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, v := range w.graph.Inputs {
		w.inputs[v] = tensor.Empty(v.Meta)
		tensor.CopyElements(w.inputs[v], nextElements(flat, at, v.Meta.DType, v.Meta.Shape))
	}
	return w
}

// nextElements returns the next row-major value of a dtype from the array of elements.
func nextElements(flat map[string]*tensor.Tensor, at map[string]int, d tensor.DType, shape []int) *tensor.Tensor {
	m := tensor.New(d, shape...)
	if m.Numel() == 0 {
		return tensor.Zeros(d, shape...)
	}
	m.Offset = at[d.String()]
	at[d.String()] += m.Numel()
	return tensor.Must(fromNumpy(flat[d.String()], d).View(m))
}

// TestWalk compares dtypes, layouts, aliasing, errors and values of kernels and references with PyTorch's.
func TestWalk(t *testing.T) {
	testsize.Long(t)
	w := readWalk(t)
	rejected := w.graph.InferAll()
	ops := map[string]int{}
	for _, n := range w.graph.Nodes {
		want := w.want(n)
		if why, bad := w.Errors[n.Name]; bad {
			if strings.Contains(why, "resulted in a negative output size") {
				continue // the size is 0, which PyTorch 2 accepts
			}
			if err := rejected[n]; err == nil && w.run(n, nil) == nil {
				t.Errorf("%s: accepted; PyTorch's error: %s", describeNode(n), why)
			}
		} else if err := rejected[n]; err != nil {
			t.Errorf("%s: %v", describeNode(n), err)
		} else if err := errors.Join(w.metas(n), w.run(n, want)); err != nil {
			t.Errorf("%s: %v", describeNode(n), err)
		}
		ops[n.Op.Name]++
	}
	if len(ops) < 280 || len(w.Values) < 1500 || len(w.Errors) < 500 {
		t.Errorf("compared only %d values and %d errors of %d ops", len(w.Values),
			len(w.Errors), len(ops))
	}
	for name, n := range w.at {
		if all := w.elements[name].Numel(); n != all {
			t.Errorf("compared %d of %d elements of %s", n, all, name)
		}
	}
}

// want returns PyTorch's results of a node, nil if PyTorch rejects the call.
func (w *walkVectors) want(n *graph.Node) []*tensor.Tensor {
	var out []*tensor.Tensor
	for _, v := range n.Out {
		if x := w.Values[v.Name]; x != nil {
			d, err := tensor.ParseDType(x.DType)
			if err != nil {
				panic(err)
			}
			out = append(out, nextElements(w.elements, w.at, d, x.Shape))
		}
	}
	return out
}

// metas compares the inferred types of a node.
func (w *walkVectors) metas(n *graph.Node) error {
	var wrong []string
	for _, v := range n.Out {
		x, m := w.Values[v.Name], v.Meta
		if m.DType.String() != x.DType {
			wrong = append(wrong, m.DType.String()+", want "+x.DType)
		}
		if v.Dynamic {
			continue
		}
		alias, want := "", ""
		if v.Alias != nil && m.Numel() > 0 {
			alias = v.Alias.Name
		}
		if x.AliasOf != nil {
			want = *x.AliasOf
		}
		if !slices.Equal(m.Shape, x.Shape) || !slices.Equal(m.Strides, x.Strides) || m.Numel() > 0 && m.Offset != x.Offset ||
			alias != want {
			wrong = append(wrong, m.String()+" of "+alias+", want "+tensor.ListString(x.Shape)+tensor.ListString(
				x.Strides)+" of "+want)
		}
	}
	if wrong == nil {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// run compares the results of a node's kernel and reference with want. Without want it returns the error of the call.
func (w *walkVectors) run(n *graph.Node, want []*tensor.Tensor) error {
	in := make([]*tensor.Tensor, len(n.In))
	full := make([]*tensor.Tensor, len(n.In)) // with plain numbers as tensors, for the reference
	for i, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			in[i], full[i] = w.inputs[a.Value], w.inputs[a.Value]
		case graph.NumberArg:
			full[i] = a.Number.Tensor(a.Number.DType())
		}
	}
	got, err := kerneltest.RunCall(n.Op, n.Call(), in)
	if errors.Is(err, graph.ErrNoImpl) { // passes insert copies before such a kernel
		got, err = kerneltest.RunCall(n.Op, inRows(n.Call(), in), in)
	}
	if want == nil || err != nil {
		return err
	}
	if n.Op.Ref == nil || n.Out[0].Dynamic {
		for k := range want {
			err = errors.Join(err, kerneltest.CompareTensors(got[k], want[k]))
		}
		return err
	}
	err = kerneltest.CompareTorch(n.Op, n.Call(), full, got[:len(want)], want)
	ref, rerr := n.Op.Ref(n.Call(), full)
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	if rerr := kerneltest.CompareTorch(n.Op, n.Call(), full, ref[:len(want)], want); rerr != nil {
		err = errors.Join(err, errors.New("reference: "+rerr.Error()))
	}
	return err
}

// inRows makes the tensors of a call row-major.
func inRows(c *graph.Call, in []*tensor.Tensor) *graph.Call {
	c.In = slices.Clone(c.In)
	for i, x := range in {
		if x != nil {
			in[i] = x.CopyTo(tensor.New(x.DType, x.Shape...))
			c.In[i].Value = &graph.Value{Name: c.In[i].Value.Name, Meta: in[i].Meta}
		}
	}
	return c
}
