package graphfile_test

import (
	"math"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func TestClone(t *testing.T) {
	dir, open := weights(t)
	g, err := graphfile.Read(strings.NewReader(contract), lookup, graphfile.Options{Name: "g.json", Dir: dir, Open: open})
	must(t, err)
	c := g.Clone()
	must(t, graph.Verify(c, graph.Sorted|graph.Typed))
	if a, b := save(t, g), save(t, c); a != b {
		t.Errorf("the clone is\n%s\nwant\n%s", b, a)
	}
	before := save(t, g)
	c.Value("scaled").Named("other").Pinned(tensor.Contiguous)
	op.Add(c.Value("lo"), 1)
	c.Outputs = nil
	must(t, c.Err())
	must(t, graph.Verify(g, graph.Sorted|graph.Typed))
	if after := save(t, g); after != before {
		t.Errorf("changing the clone made the graph\n%s", after)
	}
	if g.Value("scaled").Meta.IsContiguous() {
		t.Error("the pin reached the first graph")
	}
}

func TestKeepGoing(t *testing.T) {
	text := file(x, "", `{"name": "a", "op": "permute", "inputs": ["x"], "attrs": {"dims": [0]}}, {"name": "b", "op": "relu", "inputs": ["a"]},
{"name": "c", "op": "relu", "inputs": ["x"]}`, `"b", "c"`)
	g, err := graphfile.Parse(strings.NewReader(text), lookup, graphfile.Options{Name: "g.json", Dir: "."})
	must(t, err)
	refused := g.InferAll()
	if len(refused) != 2 || refused[g.Nodes[1]].Error() !=
		`g.json:4:84: node "b" (relu): depends on "a", which was rejected` {
		t.Errorf("refused %v", refused)
	}
	for _, bad := range []string{`"attrs": {"dims": "N"}`, `"attrs": {"more": 1}`, `"attrs": {}`} {
		h, err := graphfile.Parse(strings.NewReader(strings.Replace(text, `"attrs": {"dims": [0]}`, bad, 1)), lookup,
			graphfile.Options{Name: "g.json", Dir: "."})
		must(t, err)
		if list := h.InferAll(); len(list) != 2 || !strings.Contains(list[h.Nodes[0]].Error(), "attribute") {
			t.Errorf("%s: refused %v", bad, list)
		}
	}
	d := g.WithoutRejected(refused)
	must(t, graph.Verify(d, graph.Sorted|graph.Typed))
	if len(d.Nodes) != 1 || len(d.Outputs) != 1 || d.Value("b") != nil || len(g.Nodes) != 3 {
		t.Errorf("left are %v and %v", d.Nodes, d.Outputs)
	}
}

func TestBind(t *testing.T) {
	text := `{"version": 1, "inputs": [{"name": "x", "dtype": "int8", "shape": ["N", "M"]}],
"symbols": {"N": {"min": 1, "max": 8}, "K": {"min": 3}},
"nodes": [{"name": "y", "op": "expand", "inputs": ["x"], "attrs": {"size": ["K", "N", "M"]}}], "outputs": ["y"]}`
	for _, c := range []struct {
		dims map[string]int
		want string
	}{
		{nil, "int8[3,2,2]@(0,2,1)"},
		{map[string]int{"N": 8, "M": 3}, "int8[3,8,3]@(0,3,1)"},
		{map[string]int{"M": 0}, "int8[3,2,0]@(0,1,1)"},
		{map[string]int{"N": 9}, "N=9 is outside its bounds: min 1, max 8"},
		{map[string]int{"K": 2}, "K=2 is outside its bounds: min 3, no max"},
		{map[string]int{"J": 2}, `the graph has no symbolic dimension "J"`},
		{map[string]int{"M": -1}, "M=-1 is outside its bounds: min 0, no max"},
		{map[string]int{"M": min(1<<60, math.MaxInt)},
			`g.json:1:27: input "x": shape [2, 1152921504606846976] has too many elements: at most 140737488355328 of dtype int8 fit into 2^47 bytes`},
	} {
		g := mustLoad(t, text)
		err := g.Bind(c.dims)
		got := g.Value("y").Meta.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: got %s, want %s", c.dims, got, c.want)
		}
	}
}

// TestHintOfZero checks that a hint of 0 is kept like any other.
func TestHintOfZero(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader(`{"version": 1, "symbols": {"N": {"hint": 0}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["N", 3]}], "nodes": [], "outputs": ["x"]}`), lookup,
		graphfile.Options{Name: "g.json"})
	must(t, err)
	s, err := g.Symbolic(nil)
	must(t, err)
	if n, assumed := g.Assumed()["N"]; n != 0 || !assumed || g.Inputs[0].Meta.Shape[0] != 0 || s.Hints["N"] != 0 {
		t.Errorf("%v is assumed, %v inferred, the hints are %v", g.Assumed(), g.Inputs[0].Meta, s.Hints)
	}
	var text strings.Builder
	must(t, graphfile.Save(&text, g))
	if !strings.Contains(text.String(), `"N": {"hint": 0}`) {
		t.Errorf("written: %s", text.String())
	}
}

// TestHint checks that a size that is not given takes the symbol's hint.
func TestHint(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader(`{"version": 1, "symbols": {"N": {"max": 64, "hint": 8}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["N", 3]}], "nodes": [], "outputs": ["x"]}`), lookup,
		graphfile.Options{Name: "g.json"})
	must(t, err)
	if got := g.Assumed()["N"]; got != 8 || g.Inputs[0].Meta.Shape[0] != 8 {
		t.Errorf("%d is assumed, %v inferred", got, g.Inputs[0].Meta)
	}
	s, err := g.Symbolic(nil)
	must(t, err)
	if s.Hints["N"] != 8 {
		t.Errorf("the hints are %v", s.Hints)
	}
	must(t, g.Bind(map[string]int{"N": 5}))
	if len(g.Assumed()) != 0 || g.Inputs[0].Meta.Shape[0] != 5 {
		t.Errorf("bound, %v is assumed, %v inferred", g.Assumed(), g.Inputs[0].Meta)
	}
}

// A hint that is not an integer is one mistake, without a second one for a hint of 0.
func TestHintOfWrongType(t *testing.T) {
	_, err := graphfile.Read(strings.NewReader(`{"version": 1, "symbols": {"N": {"hint": "3"}}, "inputs": [], "nodes": [],
		"outputs": []}`), lookup, graphfile.Options{Name: "g.json"})
	if want := "g.json:1:42: want an integer, got a string"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
