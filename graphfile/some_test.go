package graphfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/tensor"
)

func TestParseSome(t *testing.T) {
	const text = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "constants": [{"name": "k", "dtype": "float32", "shape": [2], "file": "k.npy"}, {"name": "c", "dtype": "float32", "shape": [2], "data": [1, 2, 3]}],
 "nodes": [{"name": "after", "op": "relu", "inputs": ["a"]}, {"name": "a", "op": "add", "inputs": ["x", "k"]}, {"name": "b", "op": "add", "inputs": ["x", "nothing"]},
  {"name": "d", "op": "nosuch", "inputs": ["x"]}, {"name": "e", "op": "add", "inputs": ["c", "x"]}, {"name": "f", "op": "relu", "inputs": ["x"]},
  {"name": "g", "op": "permute", "inputs": ["x"], "attrs": {"dims": {"value": "nowhere"}}}],
 "outputs": ["after", "b", "d", "e", "f", "g", "k"]}`
	open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
		return tensor.Meta{}, nil, errors.New("damaged")
	}
	dir := t.TempDir()
	if _, err := graphfile.Parse(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open}); err == nil {
		t.Error("Parse takes it")
	}
	g, missing, err := graphfile.ParseSome(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	if err != nil || len(missing) != 3 {
		t.Fatalf("%v, %v", missing, err)
	}
	for i, want := range []string{`constant "k": `, `constant "c": data holds 3 numbers`, `depends on constant "k", which cannot be read`} {
		if !strings.Contains(missing[i].Error(), want) || !strings.HasPrefix(missing[i].Error(), "g.json:") {
			t.Errorf("%v: want %s", missing[i], want)
		}
	}
	if err := g.BindOnly(nil); err != nil {
		t.Fatal(err)
	}
	refused := g.InferAll()
	root := g.RootErrors(refused).Error()
	for _, want := range []string{`node "a" (add): depends on constant "k"`, `node "b" (add): there is no value "nothing"`,
		`node "d" (nosuch): there is no op`, `node "e" (add): depends on constant "c"`, `node "g" (permute): attribute "dims": there is no value "nowhere"`} {
		if !strings.Contains(root, want) {
			t.Errorf("no %s in\n%s", want, root)
		}
	}
	rest := g.Drop(refused)
	if len(rest.Outputs) != 1 || rest.Outputs[0].Name != "f" || len(rest.Nodes) != 1 {
		t.Errorf("%v are left", rest.Outputs)
	}
	if err := graph.Verify(rest, graph.Sorted|graph.Typed); err != nil {
		t.Error(err)
	}
	if _, _, err := graphfile.ParseSome(strings.NewReader(text[:len(text)-5]), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open}); err == nil {
		t.Error("ParseSome takes a torn file")
	}
}

// Drop takes along what depends on a node, whether it was refused itself or not.
func TestDropTakesDependentsAlong(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 2)
	a := g.Apply("relu", nil, x)[0]
	g.Output("b", g.Apply("relu", nil, a)[0]).Output("c", g.Apply("relu", nil, x)[0])
	d := g.Drop(map[*graph.Node]*graph.Error{a.Node: g.Fail(a.Node, errors.New("no"))})
	if len(d.Nodes) != 1 || len(d.Outputs) != 1 || d.Outputs[0].Name != "c" {
		t.Errorf("%d nodes, outputs %v", len(d.Nodes), d.Outputs)
	}
	if err := graph.Verify(d, graph.Sorted|graph.Typed); err != nil {
		t.Error(err)
	}
}

func TestEvaluationsThatDoNotFit(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.InputMeta("x", tensor.Meta{DType: tensor.Float32, Shape: []int{1 << 22, 1 << 22}, Strides: []int{0, 0}})
	g.Output("y", g.Apply("relu", nil, x)[0])
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	in := map[string]*tensor.Tensor{"x": tensor.Empty(x.Meta)}
	var short *tensor.MemoryError
	if _, err := graph.Evaluate(g, in); !errors.As(err, &short) {
		t.Error(err)
	}
}
