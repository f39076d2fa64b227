package endtoend_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// inferred lists the calls that BenchmarkInfer measures. operands has names of inferInputs, "2" for the number, and ""
// for none; nil means x. Allocations take half of the time of inference, and can be counted on any machine.
var inferred = []struct {
	name     string
	allocs   int // maximum number of allocations of one inference
	op       string
	attrs    graph.Attrs
	operands []string
}{
	{name: "add", allocs: 0, op: "add", operands: []string{"x", "x"}},
	{name: "add of a row", allocs: 8, op: "add", operands: []string{"x", "row"}},
	{name: "mul by a number", allocs: 7, op: "mul", operands: []string{"x", "2"}},
	{name: "relu", allocs: 0, op: "relu"},
	{name: "sigmoid", allocs: 0, op: "sigmoid"},
	{name: "gelu", allocs: 0, op: "gelu"},
	{name: "clamp", allocs: 13, op: "clamp", attrs: graph.Attrs{"min": 0.0, "max": 6.0}},
	{name: "where", allocs: 0, op: "where", operands: []string{"mask", "x", "x"}},
	{name: "to", allocs: 0, op: "to", attrs: graph.Attrs{"dtype": tensor.Float16}},
	{name: "clone", allocs: 0, op: "clone"},
	{name: "reshape", allocs: 1, op: "reshape", attrs: graph.Attrs{"shape": []int{8, 16, -1}}},
	{name: "view", allocs: 1, op: "view", attrs: graph.Attrs{"size": []int{8, 16, 64}}},
	{name: "flatten", allocs: 2, op: "flatten", attrs: graph.Attrs{"start_dim": 1}},
	{name: "permute", allocs: 1, op: "permute", attrs: graph.Attrs{"dims": []int{0, 2, 3, 1}}},
	{name: "transpose", allocs: 1, op: "transpose", attrs: graph.Attrs{"dim0": 1, "dim1": 2}},
	{name: "select", allocs: 1, op: "select", attrs: graph.Attrs{"dim": 0, "index": 0}},
	{name: "slice", allocs: 1, op: "slice", attrs: graph.Attrs{"dim": 1, "start": 0, "end": 8}},
	{name: "narrow", allocs: 1, op: "narrow", attrs: graph.Attrs{"dim": 1, "start": 0, "length": 8}},
	{name: "unsqueeze", allocs: 1, op: "unsqueeze", attrs: graph.Attrs{"dim": 0}},
	{name: "squeeze", allocs: 1, op: "squeeze", attrs: graph.Attrs{"dim": []int{0}}, operands: []string{"one"}},
	{name: "expand", allocs: 1, op: "expand", attrs: graph.Attrs{"size": []int{8, 16, 8, 8}}, operands: []string{"one"}},
	{name: "split", allocs: 2, op: "split", attrs: graph.Attrs{"split_size": 8, "dim": 1}},
	{name: "chunk", allocs: 2, op: "chunk", attrs: graph.Attrs{"chunks": 2, "dim": 1}},
	{name: "flip", allocs: 1, op: "flip", attrs: graph.Attrs{"dims": []int{0}}},
	{name: "contiguous", allocs: 0, op: "contiguous"},
	{name: "pad", allocs: 2, op: "pad", attrs: graph.Attrs{"pad": []int{1, 1, 1, 1}}},
	{name: "cat", allocs: 2, op: "cat", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "x"}},
	{name: "stack", allocs: 4, op: "stack", attrs: graph.Attrs{"dim": 0}, operands: []string{"x", "x"}},
	{name: "sum", allocs: 4, op: "sum", attrs: graph.Attrs{"dim": []int{0}, "keepdim": true}},
	{name: "mean", allocs: 4, op: "mean", attrs: graph.Attrs{"dim": []int{2, 3}}},
	{name: "amax", allocs: 4, op: "amax", attrs: graph.Attrs{"dim": []int{1}}},
	{name: "max", allocs: 4, op: "max", attrs: graph.Attrs{"dim": 1}},
	{name: "argmax", allocs: 4, op: "argmax", attrs: graph.Attrs{"dim": 1}},
	{name: "var", allocs: 4, op: "var", attrs: graph.Attrs{"dim": []int{1}}},
	{name: "softmax", allocs: 0, op: "softmax", attrs: graph.Attrs{"dim": -1}},
	{name: "cumsum", allocs: 0, op: "cumsum", attrs: graph.Attrs{"dim": 1}},
	{name: "topk", allocs: 2, op: "topk", attrs: graph.Attrs{"k": 3}},
	{name: "sort", allocs: 0, op: "sort"},
	{name: "matmul", allocs: 2, op: "matmul", operands: []string{"x", "square"}},
	{name: "mm", allocs: 2, op: "mm", operands: []string{"square", "square"}},
	{name: "bmm", allocs: 2, op: "bmm", operands: []string{"batch", "batch"}},
	{name: "linear", allocs: 3, op: "linear", operands: []string{"x", "square"}},
	{name: "einsum", allocs: 18, op: "einsum", attrs: graph.Attrs{"equation": "ij,jk->ik"},
		operands: []string{"square", "square"}},
	{name: "attention", allocs: 8, op: "scaled_dot_product_attention", operands: []string{"x", "x", "x"}},
	{name: "conv2d", allocs: 6, op: "conv2d", attrs: graph.Attrs{"padding": []int{1}}, operands: []string{"x", "w"}},
	{name: "max_pool2d", allocs: 3, op: "max_pool2d", attrs: graph.Attrs{"kernel_size": []int{2}}},
	{name: "avg_pool2d", allocs: 3, op: "avg_pool2d", attrs: graph.Attrs{"kernel_size": []int{2}}},
	{name: "adaptive_avg_pool2d", allocs: 2, op: "adaptive_avg_pool2d", attrs: graph.Attrs{"output_size": []int{1, 1}}},
	{name: "batch_norm", allocs: 1, op: "batch_norm", operands: []string{"x", "", "", "channel", "channel"}},
	{name: "layer_norm", allocs: 0, op: "layer_norm", attrs: graph.Attrs{"normalized_shape": []int{8}}},
	{name: "group_norm", allocs: 1, op: "group_norm", attrs: graph.Attrs{"num_groups": 4}},
	{name: "gather", allocs: 0, op: "gather", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "indices"}},
	{name: "index_select", allocs: 2, op: "index_select", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "list"}},
	{name: "embedding", allocs: 2, op: "embedding", operands: []string{"square", "list"}},
	{name: "scatter", allocs: 0, op: "scatter", attrs: graph.Attrs{"dim": 1}, operands: []string{"x", "indices", "x"}},
}

// inferInputs adds the operands of all calls.
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

// inferredGraph returns a graph of nodes with the same call: a chain if the result has the layout of the first operand,
// and otherwise nodes that share their operands.
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

// BenchmarkInfer measures the inference of one node of each call. Large graphs, and runs with shapes that depend on
// data, need it for each node.
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

// TestInferenceAllocates counts the allocations of the calls of BenchmarkInfer.
func TestInferenceAllocates(t *testing.T) {
	testsize.Long(t)
	for _, c := range inferred {
		t.Run(c.name, func(t *testing.T) {
			g := inferredGraph(t, c.op, c.attrs, c.operands)
			perRun := testing.AllocsPerRun(1, func() {
				if err := g.Infer(); err != nil {
					t.Fatal(err)
				}
			})
			if got := int(perRun) / inferredNodes; got > c.allocs {
				t.Errorf("%d allocations for a node, want at most %d", got, c.allocs)
			}
		})
	}
}

// BenchmarkInferMany infers a chain of 1,000,000 adds with known sizes.
func BenchmarkInferMany(b *testing.B) {
	g := graph.New("chain", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 8, 16)
	v := x
	for range 1_000_000 {
		v = g.Apply("add", nil, v, x)[0]
	}
	if err := g.Err(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := g.Infer(); err != nil {
			b.Fatal(err)
		}
	}
}
