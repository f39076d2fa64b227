package main

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestMethodsBuild writes a graph as users do, with the real catalogue. Package graph
// cannot: it knows no ops.
func TestMethodsBuild(t *testing.T) {
	g := graph.New("built", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3, 4, 5)
	b := g.InputFormat("b", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	y := g.Add(x, b).Named("sum").Pinned(tensor.ChannelsLast)
	y = g.Add(y, 2, graph.Attrs{"alpha": 3}, graph.Attrs{"alpha": 0.5})
	g.Output("y", y)
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	if err := graph.Verify(g, graph.Sorted|graph.Typed); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := graphfile.Save(&text, g); err != nil {
		t.Fatal(err)
	}
	if want := `{"name": "add", "op": "add", "inputs": ["sum", 2], "attrs": {"alpha": 0.5}}`; !strings.Contains(text.String(), want) {
		t.Errorf("missing %s in\n%s", want, &text)
	}
}
