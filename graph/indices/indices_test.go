package indices_test

import (
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/indices"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestValid compares valid indices with the bounds of their ops, for candidates from -2 to 9 and tables of 3, 5 and 8
// rows.
func TestValid(t *testing.T) {
	var candidates []int64
	for c := range int64(12) {
		candidates = append(candidates, c-2)
	}
	for _, c := range []struct {
		name  string
		build func(g *graph.Graph, ids, other, t3, t5, t8 *graph.Value) *graph.Value
		want  []int64 // nil: ids is omitted
	}{
		{"an index", func(g *graph.Graph, ids, _, t3, _, _ *graph.Value) *graph.Value {
			return op.Embedding(t3, ids)
		}, []int64{0, 1, 2}},
		{"the least of two tables", func(g *graph.Graph, ids, _, t3, t5, _ *graph.Value) *graph.Value {
			return op.Add(op.Embedding(t5, ids), op.Embedding(t3, ids))
		}, []int64{0, 1, 2}},
		{"no index", func(g *graph.Graph, ids, _, _, _, _ *graph.Value) *graph.Value { return op.Add(ids, 1) }, nil},
		{"less two", func(g *graph.Graph, ids, _, _, t5, _ *graph.Value) *graph.Value {
			return op.Embedding(t5, op.Sub(ids, 2))
		}, []int64{2, 3, 4, 5, 6}},
		{"with itself", func(g *graph.Graph, ids, _, _, _, t8 *graph.Value) *graph.Value {
			return op.Embedding(t8, op.Mul(ids, ids))
		}, []int64{-2, -1, 0, 1, 2}},
		{"through views", func(g *graph.Graph, ids, _, t3, _, _ *graph.Value) *graph.Value {
			half := g.Apply("chunk", graph.Attrs{"chunks": 2, "dim": 1}, op.Transpose(ids, 0, 1))
			return op.Embedding(t3, half[1])
		}, []int64{0, 1, 2}},
		{"with itself elsewhere", func(g *graph.Graph, ids, _, t3, _, _ *graph.Value) *graph.Value {
			return op.Embedding(t3, op.Add(ids, op.Flip(ids, []int{0})))
		}, nil},
		{"with another input", func(g *graph.Graph, ids, other, t3, _, _ *graph.Value) *graph.Value {
			return op.Embedding(t3, op.Add(ids, other))
		}, nil},
		{"by zero", func(g *graph.Graph, ids, _, t3, _, _ *graph.Value) *graph.Value {
			return op.Embedding(t3, op.Remainder(7, ids))
		}, nil},
		{"none will do", func(g *graph.Graph, ids, _, t3, _, _ *graph.Value) *graph.Value {
			return op.Embedding(t3, op.Add(ids, 100))
		}, []int64{}},
	} {
		g := graph.New(c.name, kernels.Lookup)
		ids, other := g.Input("ids", tensor.Int64, 4, 4), g.Input("other", tensor.Int64, 4, 4)
		tables := []*graph.Value{g.Input("t3", tensor.Float32, 3, 2), g.Input("t5", tensor.Float32, 5, 2),
			g.Input("t8", tensor.Float32, 8, 2)}
		g.Output("y", c.build(g, ids, other, tables[0], tables[1], tables[2]))
		if err := g.Err(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, found := indices.Valid(g, candidates)[ids]
		if found != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, found, c.want)
		}
	}
}
