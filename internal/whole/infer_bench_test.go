package whole_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// inferred are calls whose inference BenchmarkInfer measures. Operands are inputs of inferInputs by name, where
// "2" is the number and "" is left out; without any it is x.
var inferred = []struct {
	name, op string
	attrs    graph.Attrs
	operands []string
}{
	{name: "add", op: "add", operands: []string{"x", "x"}},
	{name: "add of a row", op: "add", operands: []string{"x", "row"}},
	{name: "mul by a number", op: "mul", operands: []string{"x", "2"}},
	{name: "relu", op: "relu"},
	{name: "sigmoid", op: "sigmoid"},
	{name: "gelu", op: "gelu"},
	{name: "clamp", op: "clamp", attrs: graph.Attrs{"min": 0.0, "max": 6.0}},
	{name: "where", op: "where", operands: []string{"mask", "x", "x"}},
	{name: "to", op: "to", attrs: graph.Attrs{"dtype": tensor.Float16}},
	{name: "clone", op: "clone"},
	{name: "reshape", op: "reshape", attrs: graph.Attrs{"shape": []int{8, 16, -1}}},
	{name: "view", op: "view", attrs: graph.Attrs{"size": []int{8, 16, 64}}},
	{name: "flatten", op: "flatten", attrs: graph.Attrs{"start_dim": 1}},
	{name: "permute", op: "permute", attrs: graph.Attrs{"dims": []int{0, 2, 3, 1}}},
	{name: "transpose", op: "transpose", attrs: graph.Attrs{"dim0": 1, "dim1": 2}},
	{name: "select", op: "select", attrs: graph.Attrs{"dim": 0, "index": 0}},
	{name: "slice", op: "slice", attrs: graph.Attrs{"dim": 1, "start": 0, "end": 8}},
	{name: "narrow", op: "narrow", attrs: graph.Attrs{"dim": 1, "start": 0, "length": 8}},
	{name: "unsqueeze", op: "unsqueeze", attrs: graph.Attrs{"dim": 0}},
	{name: "squeeze", op: "squeeze", attrs: graph.Attrs{"dim": []int{0}}, operands: []string{"one"}},
	{name: "expand", op: "expand", attrs: graph.Attrs{"size": []int{8, 16, 8, 8}}, operands: []string{"one"}},
	{name: "split", op: "split", attrs: graph.Attrs{"split_size": 8, "dim": 1}},
	{name: "chunk", op: "chunk", attrs: graph.Attrs{"chunks": 2, "dim": 1}},
	{name: "flip", op: "flip", attrs: graph.Attrs{"dims": []int{0}}},
	{name: "contiguous", op: "contiguous"},
	{name: "pad", op: "pad", attrs: graph.Attrs{"pad": []int{1, 1, 1, 1}}},
	{name: "cat", op: "cat", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "x"}},
	{name: "stack", op: "stack", attrs: graph.Attrs{"dim": 0}, operands: []string{"x", "x"}},
	{name: "sum", op: "sum", attrs: graph.Attrs{"dim": []int{0}, "keepdim": true}},
	{name: "mean", op: "mean", attrs: graph.Attrs{"dim": []int{2, 3}}},
	{name: "amax", op: "amax", attrs: graph.Attrs{"dim": []int{1}}},
	{name: "max", op: "max", attrs: graph.Attrs{"dim": 1}},
	{name: "argmax", op: "argmax", attrs: graph.Attrs{"dim": 1}},
	{name: "var", op: "var", attrs: graph.Attrs{"dim": []int{1}}},
	{name: "softmax", op: "softmax", attrs: graph.Attrs{"dim": -1}},
	{name: "cumsum", op: "cumsum", attrs: graph.Attrs{"dim": 1}},
	{name: "topk", op: "topk", attrs: graph.Attrs{"k": 3}},
	{name: "sort", op: "sort"},
	{name: "matmul", op: "matmul", operands: []string{"x", "square"}},
	{name: "mm", op: "mm", operands: []string{"square", "square"}},
	{name: "bmm", op: "bmm", operands: []string{"batch", "batch"}},
	{name: "linear", op: "linear", operands: []string{"x", "square"}},
	{name: "einsum", op: "einsum", attrs: graph.Attrs{"equation": "ij,jk->ik"}, operands: []string{"square", "square"}},
	{name: "scaled_dot_product_attention", op: "scaled_dot_product_attention", operands: []string{"x", "x", "x"}},
	{name: "conv2d", op: "conv2d", attrs: graph.Attrs{"padding": []int{1}}, operands: []string{"x", "w"}},
	{name: "max_pool2d", op: "max_pool2d", attrs: graph.Attrs{"kernel_size": []int{2}}},
	{name: "avg_pool2d", op: "avg_pool2d", attrs: graph.Attrs{"kernel_size": []int{2}}},
	{name: "adaptive_avg_pool2d", op: "adaptive_avg_pool2d", attrs: graph.Attrs{"output_size": []int{1, 1}}},
	{name: "batch_norm", op: "batch_norm", operands: []string{"x", "", "", "channel", "channel"}},
	{name: "layer_norm", op: "layer_norm", attrs: graph.Attrs{"normalized_shape": []int{8}}},
	{name: "group_norm", op: "group_norm", attrs: graph.Attrs{"num_groups": 4}},
	{name: "gather", op: "gather", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "indices"}},
	{name: "index_select", op: "index_select", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "list"}},
	{name: "embedding", op: "embedding", operands: []string{"square", "list"}},
	{name: "scatter", op: "scatter", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "indices", "x"}},
}

// inferInputs adds what the calls of inferred take.
func inferInputs(g *graph.Graph) {
	g.Input("x", tensor.Float32, 8, 16, 8, 8)
	g.Input("one", tensor.Float32, 1, 16, 8, 8)
	g.Input("row", tensor.Float32, 8)
	g.Input("channel", tensor.Float32, 16)
	g.Input("square", tensor.Float32, 8, 8)
	g.Input("batch", tensor.Float32, 4, 8, 8)
	g.Input("mask", tensor.Bool, 8, 16, 8, 8)
	g.Input("w", tensor.Float32, 16, 16, 3, 3)
	g.Input("indices", tensor.Int64, 8, 16, 8, 8)
	g.Input("list", tensor.Int64, 8)
}

// inferredNodes is the number of nodes in the graphs of BenchmarkInfer.
const inferredNodes = 1000

// inferredGraph makes nodes of one call: a chain where a result lies as the first operand does, else nodes
// that share their operands.
func inferredGraph(b testing.TB, op string, attrs graph.Attrs, names []string) *graph.Graph {
	g := graph.New("chain", kernels.Lookup)
	inferInputs(g)
	if names == nil {
		names = []string{"x"}
	}
	operands := make([]any, len(names))
	for i, name := range names {
		switch v := g.Value(name); {
		case v != nil:
			operands[i] = v
		case name == "2":
			operands[i] = 2.0
		}
	}
	for range inferredNodes {
		y, x := g.Apply(op, attrs, operands...)[0], operands[0].(*graph.Value)
		if y.Meta.DType == x.Meta.DType && y.Meta.SameLayout(x.Meta) {
			operands[0] = y
		}
	}
	if err := g.Err(); err != nil {
		b.Fatal(err)
	}
	return g
}

// BenchmarkInfer gives the time of one node's inference, by op: what planning a large graph, and running
// one whose shapes depend on data, pays for every node.
func BenchmarkInfer(b *testing.B) {
	for _, c := range inferred {
		b.Run(c.name, func(b *testing.B) {
			g := inferredGraph(b, c.op, c.attrs, c.operands)
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Infer(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/inferredNodes, "ns/node")
		})
	}
}
