package graphfile_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

const symbolic = `{"version": 1, "symbols": {"N": {"min": 3}, "unused": {}, "K": {}},
"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "M"]}],
"nodes": [{"name": "y", "op": "expand", "inputs": ["x"], "attrs": {"size": ["K", "N", "M"]}}],
"outputs": ["y"]}`

func TestAssumedSizes(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader(symbolic), kernels.Lookup, graphfile.Options{Name: "g.json"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(g *graph.Graph, want map[string]int) {
		t.Helper()
		if got := g.Assumed(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	check(g, map[string]int{"N": 3, "M": 2, "K": 2})
	c := g.Clone()
	if err := g.Bind(map[string]int{"N": 5, "K": 2}); err != nil {
		t.Fatal(err)
	}
	check(g, map[string]int{"M": 2})
	check(c, map[string]int{"N": 3, "M": 2, "K": 2})
	if err := g.Bind(map[string]int{"N": 5, "K": 2, "M": 1}); err != nil {
		t.Fatal(err)
	}
	check(g, nil)
	if err := g.Bind(nil); err != nil {
		t.Fatal(err)
	}
	check(g, map[string]int{"N": 3, "M": 2, "K": 2})
}

func TestAssumedSizesOfABuiltGraph(t *testing.T) {
	g := graph.New("", kernels.Lookup)
	g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3})
	if got := g.Assumed(); !maps.Equal(got, map[string]int{"N": 2}) {
		t.Errorf("got %v", got)
	}
	g.Assume("batch", 4)
	if got := g.Clone().Assumed(); !maps.Equal(got, map[string]int{"N": 2, "batch": 4}) {
		t.Errorf("got %v", got)
	}
}

func TestWarnings(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader("{\"version\": 1, \"inputs\": [], \"nodes\": [],\n \"outputs\": []}"),
		kernels.Lookup, graphfile.Options{Name: "g.json"})
	if err != nil {
		t.Fatal(err)
	}
	g = g.Clone()
	g.Warn("cond", "If", "decided for N=%d", 2)
	g.Warn("cond", "If", "decided for N=%d", 2)
	want := []string{"g.json:2:2: the graph has no outputs: a run returns nothing",
		`node "cond" (If): decided for N=2`}
	got := g.Warnings()
	if len(got) != 2 || got[0].Error() != want[0] || got[1].Error() != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
	if g, err = graphfile.Read(strings.NewReader(symbolic), kernels.Lookup, graphfile.Options{Name: "g.json"}); err !=
		nil || len(g.Warnings()) != 0 {
		t.Errorf("got %v, %v", g.Warnings(), err)
	}
}

// A graph and its copies collect separate warnings, and many as well as few.
func TestWarningsOfCopies(t *testing.T) {
	g := graph.New("", kernels.Lookup)
	g.Output("y", g.Input("x", tensor.Float32, 1))
	g.Warn("", "", "first")
	c := g.Clone()
	const n = 20_000
	for i := range n {
		g.Warn("", "", "mine %d", i)
		c.Warn("", "", "its %d", i)
		g.Warn("", "", "first")
	}
	for name, list := range map[string][]*graph.Error{"mine": g.Warnings(), "its": c.Clone().Warnings()} {
		if last := name + " 19999"; len(list) != n+1 || list[0].Error() != "first" || list[n].Error() != last {
			t.Errorf("%s: %d warnings", name, len(list))
		}
	}
}
