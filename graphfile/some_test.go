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
 "outputs": ["after", "b", "d", "e", "f", "g", "k",
  "f"]}`
	open := func(string, string) (tensor.Meta, graphfile.ReadConst, error) {
		return tensor.Meta{}, nil, errors.New("damaged")
	}
	dir := t.TempDir()
	if _, err := graphfile.Parse(strings.NewReader(text), lookup,
		graphfile.Options{Name: "g.json", Dir: dir, Open: open}); err == nil {
		t.Error("Parse takes it")
	}
	g, missing, err := graphfile.ParseSome(strings.NewReader(text), lookup,
		graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	if err != nil || len(missing) != 4 {
		t.Fatalf("%v, %v", missing, err)
	}
	for i, want := range []string{`constant "k": `, `constant "c": data holds 3 numbers`,
		`duplicate output "f": the first one is kept`,
		`output "k": depends on constant "k"`} {
		if !strings.Contains(missing[i].Error(), want) || !strings.HasPrefix(missing[i].Error(), "g.json:") {
			t.Errorf("%v: want %s", missing[i], want)
		}
	}
	if err := g.BindWithoutInference(nil); err != nil {
		t.Fatal(err)
	}
	refused := g.InferAll()
	root := g.RootErrors(refused).Error()
	for _, want := range []string{`node "a" (add): depends on constant "k"`, `node "b" (add): there is no value "nothing"`,
		`node "d" (nosuch): there is no op`, `node "e" (add): depends on constant "c"`,
		`node "g" (permute): attribute "dims": there is no value "nowhere"`} {
		if !strings.Contains(root, want) {
			t.Errorf("no %s in\n%s", want, root)
		}
	}
	rest := g.WithoutRejected(refused)
	if len(rest.Outputs) != 1 || rest.Outputs[0].Name != "f" || len(rest.Nodes) != 1 {
		t.Errorf("%v are left", rest.Outputs)
	}
	if err := graph.Verify(rest, graph.Sorted|graph.Typed); err != nil {
		t.Error(err)
	}
	if _, _, err := graphfile.ParseSome(strings.NewReader(text[:len(text)-5]), lookup,
		graphfile.Options{Name: "g.json", Dir: dir, Open: open}); err == nil {
		t.Error("ParseSome takes a torn file")
	}
}

// Dropping a node drops its users, rejected or not.
func TestDropTakesDependentsAlong(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 2)
	a := g.Apply("relu", nil, x)[0]
	g.Output("b", g.Apply("relu", nil, a)[0]).Output("c", g.Apply("relu", nil, x)[0])
	d := g.WithoutRejected(map[*graph.Node]*graph.Error{a.Node: g.NodeError(a.Node, errors.New("no"))})
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

// A mistake removes its place and its users only, whatever its kind.
func TestParseSomePastDeclarations(t *testing.T) {
	const text = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]},
  {"name": "u", "dtype": "float33", "shape": [2]}, {"name": "v", "shape": [2]}],
 "constants": [{"name": "k", "dtype": "float32", "shape": [2], "dota": [1, 2]}, {"name": "l", "dtype": "float32", "shape": [-1], "data": [1]}],
 "nodes": [{"name": "a", "op": "add", "inputs": ["x", "u"]}, {"name": "b", "op": "add", "inputs": ["v", "x"]},
  {"name": "c", "op": "add", "inputs": ["x", "k"]}, {"name": "d", "op": "add", "inputs": ["x", "l"]},
  {"name": "e", "op": "relu", "inputs": ["x"], "atrs": {}}, {"name": "f", "inputs": ["x"]}, {"name": "g", "op": "relu", "inputs": 5},
  {"name": "h", "op": "neg", "inputs": ["e"]}, {"name": "fine", "op": "relu", "inputs": ["x"]}],
 "outputs": ["a", "b", "c", "d", "f", "g", "h", "fine", "u", "nothing"]}`
	parse := func(text string) (*graph.Graph, graph.Errors, error) {
		return graphfile.ParseSome(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json"})
	}
	g, missing, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.BindWithoutInference(nil); err != nil {
		t.Fatal(err)
	}
	refused := g.InferAll()
	told := missing.Error() + "\n" + g.RootErrors(refused).Error()
	for _, want := range []string{`2:26: input "u": unknown dtype`, `input "v": "dtype" is missing`,
		`constant "k": unknown key "dota"`, `constant "l": negative size -1`,
		`node "a" (add): depends on input "u", which cannot be read`, `node "b" (add): depends on input "v"`,
		`node "c" (add): depends on constant "k"`,
		`node "d" (add): depends on constant "l"`, `node "e" (relu): unknown key "atrs"`, `node "f": "op" is missing`,
		`node "g" (relu): `,
		`output "nothing": there is no value "nothing"`, `output "u": depends on input "u"`} {
		if !strings.Contains(told, want) {
			t.Errorf("no %s in\n%s", want, told)
		}
	}
	if n := strings.Count(told, "\n"); n != 12 {
		t.Errorf("%d lines:\n%s", n+1, told)
	}
	rest := g.WithoutRejected(refused)
	if len(rest.Nodes) != 1 || len(rest.Outputs) != 1 || rest.Outputs[0].Name != "fine" || len(rest.Inputs) != 1 {
		t.Errorf("%d nodes, outputs %v", len(rest.Nodes), rest.Outputs)
	}
	if err := graph.Verify(rest, graph.Sorted|graph.Typed); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{`"name": "e"`, `"name": "v"`} {
		if _, _, err := parse(strings.Replace(text, wrong, `"name": "x"`, 1)); err == nil {
			t.Error("two of a name are taken")
		}
	}
}

func TestDropValues(t *testing.T) {
	g := graph.New("g", lookup)
	x, y := g.Input("x", tensor.Float32, 2), g.Input("y", tensor.Float32, 2)
	k := g.Constant("k", tensor.Zeros(tensor.Float32, 2))
	a := g.Apply("add", nil, x, y)[0].Named("a")
	g.Output("b", g.Apply("relu", nil, a)[0].Named("b")).Output("c", g.Apply("relu", nil, x)[0]).Output("y", y)
	g.Output("d", g.Apply("relu", nil, k)[0].Named("d"))
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	d, errs := g.DropValues(map[*graph.Value]error{y: errors.New("torn"), k: nil})
	want := []string{`input "y": torn`, `constant "k": no cause was given`,
		`node "a" (add): depends on input "y", which cannot be read`,
		`node "d" (relu): depends on constant "k", which cannot be read`,
		`output "y": depends on input "y", which cannot be read`}
	if got := errs.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s", got)
	}
	if len(d.Inputs) != 1 || len(d.Constants) != 0 || len(d.Nodes) != 1 || len(d.Outputs) != 1 || d.Value("y") != nil ||
		len(g.Inputs) != 2 {
		t.Errorf("%v, %v, %v are left", d.Inputs, d.Nodes, d.Outputs)
	}
	if err := graph.Verify(d, graph.Sorted|graph.Typed); err != nil {
		t.Error(err)
	}
	if same, errs := g.DropValues(nil); len(errs) != 0 || len(same.Nodes) != len(g.Nodes) {
		t.Errorf("%v", errs)
	}
}

// Rejected nodes keep their names, and inference returns their errors.
func TestRefuse(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 2)
	bad := g.AddRejected("odd", "NoSuch", []string{"p", "x"}, errors.New("not supported"), x)
	g.Output("p", bad[0]).Output("after", g.AddRejected("next", "Relu", nil, nil, bad[1])[0]).Output("c",
		g.Apply("relu", nil, x)[0])
	if g.Err() != nil || bad[1].Name == "x" || g.Value("next") == nil {
		t.Fatalf("%v, %v", g.Err(), bad)
	}
	refused := g.InferAll()
	if got := g.RootErrors(refused).Error(); got != `node "odd" (NoSuch): not supported` || len(refused) != 2 {
		t.Errorf("got %s, %v", got, refused)
	}
	if rest := g.WithoutRejected(refused); len(rest.Outputs) != 1 || rest.Outputs[0].Name != "c" {
		t.Errorf("%v are left", rest.Outputs)
	}
	g.AddRejected("odd", "NoSuch", nil, nil, nil, graph.New("", lookup).Input("z", tensor.Float32))
	if err := g.TakeErr(); err == nil || strings.Count(err.Error(), "is not a value of the graph") != 2 || g.Err() != nil {
		t.Errorf("got %v, then %v", err, g.Err())
	}
}

// A cycle removes its nodes and their users.
func TestParseSomePastCycles(t *testing.T) {
	const text = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "nodes": [{"name": "a", "op": "add", "inputs": ["x", "b"]}, {"name": "b", "op": "add", "inputs": ["c", "a"]},
  {"name": "c", "op": "add", "inputs": ["b", "d"]}, {"name": "d", "op": "relu", "inputs": ["c"]}, {"name": "self", "op": "add", "inputs": ["self", 1]},
  {"name": "after", "op": "relu", "inputs": ["d"]}, {"name": "fine", "op": "relu", "inputs": ["x"]}], "outputs": ["after", "fine", "self"]}`
	g, missing, err := graphfile.ParseSome(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json"})
	if err != nil || len(missing) != 0 {
		t.Fatal(missing, err)
	}
	refused := g.InferAll()
	told := g.RootErrors(refused).Error()
	for _, want := range []string{`g.json:2:12: node "a" (add): the graph has a cycle: a -> b -> a`,
		`node "self" (add): the graph has a cycle: self -> self`,
		`the graph has a cycle: b -> c -> b`} {
		if !strings.Contains(told, want) {
			t.Errorf("no %s in\n%s", want, told)
		}
	}
	if rest := g.WithoutRejected(refused); len(rest.Nodes) != 1 || len(rest.Outputs) != 1 ||
		rest.Outputs[0].Name != "fine" {
		t.Errorf("outputs %v", rest.Outputs)
	}
}
