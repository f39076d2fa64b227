package whole_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// BenchmarkInfer gives the time of one node's inference, in chains of one op: what planning a
// large graph, and running one whose shapes depend on data, pays for every node.
func BenchmarkInfer(b *testing.B) {
	const nodes = 1000
	for name, next := range map[string]func(g *graph.Graph, x *graph.Value) *graph.Value{
		"add":          func(g *graph.Graph, x *graph.Value) *graph.Value { return op.Add(x, x) },
		"add of a row": func(g *graph.Graph, x *graph.Value) *graph.Value { return op.Add(x, g.Value("row")) },
		"reshape": func(g *graph.Graph, x *graph.Value) *graph.Value {
			if x.Meta.Rank() == 4 {
				return op.Reshape(x, []int{8, -1})
			}
			return op.Reshape(x, []int{8, 16, -1, 8})
		},
		"conv2d": func(g *graph.Graph, x *graph.Value) *graph.Value {
			return op.Conv2d(x, g.Value("w"), nil, op.Conv2dAttrs{Padding: []int{1}})
		},
		"sum": func(g *graph.Graph, x *graph.Value) *graph.Value {
			return op.Sum(x, op.SumAttrs{Dim: []int{0}, Keepdim: true})
		},
	} {
		b.Run(name, func(b *testing.B) {
			g := graph.New("chain", kernels.Lookup)
			x := g.Input("x", tensor.Float32, 8, 16, 8, 8)
			g.Input("row", tensor.Float32, 8)
			g.Input("w", tensor.Float32, 16, 16, 3, 3)
			for range nodes {
				x = next(g, x)
			}
			g.Output("y", x)
			if err := g.Err(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Infer(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
		})
	}
}
