package program

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// openGraphs have sizes of runs in every place that binding evaluates: shapes, strides, attributes, counts of means,
// views of attentions, constants, and values within others.
var openGraphs = map[string]string{
	"decoder": `{"symbols": {"B": {}, "S": {}, "P": {}}, "inputs": [
		{"name": "q", "dtype": "float32", "shape": ["B", 8, "S", 16]},
		{"name": "past", "dtype": "float32", "shape": ["B", 2, "P", 16]},
		{"name": "new", "dtype": "float32", "shape": ["B", 2, "S", 16]},
		{"name": "v", "dtype": "float32", "shape": ["B", 2, 1, "P+S", 16]}], "nodes": [
		{"name": "rotated", "op": "neg", "inputs": ["new"]},
		{"name": "k", "op": "cat", "inputs": ["past", "rotated"], "attrs": {"dim": 2}},
		{"name": "k1", "op": "unsqueeze", "inputs": ["k"], "attrs": {"dim": 2}},
		{"name": "k4", "op": "expand", "inputs": ["k1"], "attrs": {"size": [-1, -1, 4, -1, -1]}},
		{"name": "k8", "op": "reshape", "inputs": ["k4"], "attrs": {"shape": ["B", 8, "P+S", 16]}},
		{"name": "kt", "op": "transpose", "inputs": ["k8"], "attrs": {"dim0": 2, "dim1": 3}},
		{"name": "scores", "op": "matmul", "inputs": ["q", "kt"]},
		{"name": "weights", "op": "softmax", "inputs": ["scores"], "attrs": {"dim": -1}},
		{"name": "v4", "op": "expand", "inputs": ["v"], "attrs": {"size": [-1, -1, 4, -1, -1]}},
		{"name": "v8", "op": "reshape", "inputs": ["v4"], "attrs": {"shape": ["B", 8, "P+S", 16]}},
		{"name": "y", "op": "matmul", "inputs": ["weights", "v8"]}], "outputs": ["y", "k"]}`,
	"encoder": `{"symbols": {"B": {}, "L": {"max": 64}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["B", "L", 32]}], "nodes": [
		{"name": "w.range", "op": "arange", "attrs": {"end": 3072, "dtype": "float32"}},
		{"name": "w.sin", "op": "sin", "inputs": ["w.range"]},
		{"name": "w", "op": "reshape", "inputs": ["w.sin"], "attrs": {"shape": [96, 32]}},
		{"name": "table.range", "op": "arange", "attrs": {"end": 2048, "dtype": "float32"}},
		{"name": "table.sin", "op": "sin", "inputs": ["table.range"]},
		{"name": "table", "op": "reshape", "inputs": ["table.sin"], "attrs": {"shape": [64, 32]}},
		{"name": "ones", "op": "ones", "attrs": {"size": ["L", "L"]}},
		{"name": "mask", "op": "tril", "inputs": ["ones"]},
		{"name": "hidden", "op": "mul", "inputs": ["mask", 10]},
		{"name": "positions", "op": "slice", "inputs": ["table"], "attrs": {"dim": 0, "end": "L"}},
		{"name": "sum", "op": "add", "inputs": ["x", "positions"]},
		{"name": "norm", "op": "layer_norm", "inputs": ["sum"], "attrs": {"normalized_shape": [32]}},
		{"name": "qkv", "op": "linear", "inputs": ["norm", "w"]},
		{"name": "heads", "op": "reshape", "inputs": ["qkv"], "attrs": {"shape": ["B", "L", 3, 4, 8]}},
		{"name": "by_head", "op": "permute", "inputs": ["heads"], "attrs": {"dims": [2, 0, 3, 1, 4]}},
		{"name": "q", "op": "select", "inputs": ["by_head"], "attrs": {"dim": 0, "index": 0}},
		{"name": "k", "op": "select", "inputs": ["by_head"], "attrs": {"dim": 0, "index": 1}},
		{"name": "v", "op": "select", "inputs": ["by_head"], "attrs": {"dim": 0, "index": 2}},
		{"name": "kt", "op": "transpose", "inputs": ["k"], "attrs": {"dim0": -1, "dim1": -2}},
		{"name": "scores", "op": "matmul", "inputs": ["q", "kt"]},
		{"name": "masked", "op": "add", "inputs": ["scores", "hidden"]},
		{"name": "weights", "op": "softmax", "inputs": ["masked"], "attrs": {"dim": -1}},
		{"name": "attended", "op": "matmul", "inputs": ["weights", "v"]},
		{"name": "by_token", "op": "transpose", "inputs": ["attended"], "attrs": {"dim0": 1, "dim1": 2}},
		{"name": "joined", "op": "reshape", "inputs": ["by_token"], "attrs": {"shape": ["B", "L", 32]}},
		{"name": "residual", "op": "add", "inputs": ["joined", "sum"]},
		{"name": "mean", "op": "mean", "inputs": ["residual"], "attrs": {"dim": [1]}},
		{"name": "centered", "op": "sub", "inputs": ["mean", 1]}], "outputs": ["centered", "residual"]}`,
	"dense block": `{"symbols": {"N": {}, "H": {}, "W": {}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["N", 8, "H", "W"]}], "nodes": [
		{"name": "w1.range", "op": "arange", "attrs": {"end": 576, "dtype": "float32"}},
		{"name": "w1.sin", "op": "sin", "inputs": ["w1.range"]},
		{"name": "w1", "op": "reshape", "inputs": ["w1.sin"], "attrs": {"shape": [8, 8, 3, 3]}},
		{"name": "w2.range", "op": "arange", "attrs": {"end": 128, "dtype": "float32"}},
		{"name": "w2.sin", "op": "sin", "inputs": ["w2.range"]},
		{"name": "w2", "op": "reshape", "inputs": ["w2.sin"], "attrs": {"shape": [8, 16, 1, 1]}},
		{"name": "c1", "op": "conv2d", "inputs": ["x", "w1"], "attrs": {"padding": 1}},
		{"name": "r1", "op": "relu", "inputs": ["c1"]},
		{"name": "d1", "op": "cat", "inputs": ["x", "r1"], "attrs": {"dim": 1}},
		{"name": "c2", "op": "conv2d", "inputs": ["d1", "w2"]},
		{"name": "r2", "op": "relu", "inputs": ["c2"]},
		{"name": "d2", "op": "cat", "inputs": ["d1", "r2"], "attrs": {"dim": 1}},
		{"name": "up", "op": "upsample_nearest2d", "inputs": ["d2"], "attrs": {"output_size": ["2*H", "W+1"]}},
		{"name": "y", "op": "mean", "inputs": ["up"], "attrs": {"dim": [2, 3]}}], "outputs": ["y", "d2"]}`,
	"pyramid": `{"symbols": {"N": {}, "H": {}, "W": {}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["N", 4, "H", "W"]}], "nodes": [
		{"name": "w.range", "op": "arange", "attrs": {"end": 288, "dtype": "float32"}},
		{"name": "w.sin", "op": "sin", "inputs": ["w.range"]},
		{"name": "w", "op": "reshape", "inputs": ["w.sin"], "attrs": {"shape": [8, 4, 3, 3]}},
		{"name": "down", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"stride": 2, "padding": 1}},
		{"name": "active", "op": "silu", "inputs": ["down"]},
		{"name": "pooled", "op": "max_pool2d", "inputs": ["active"], "attrs": {"kernel_size": 2, "padding": 1}},
		{"name": "up", "op": "upsample_bilinear2d", "inputs": ["pooled"],
		 "attrs": {"output_size": ["H", "W"], "align_corners": false}},
		{"name": "joined", "op": "cat", "inputs": ["x", "up"], "attrs": {"dim": 1}},
		{"name": "flat", "op": "flatten", "inputs": ["joined"], "attrs": {"start_dim": 2}},
		{"name": "y", "op": "softmax", "inputs": ["flat"], "attrs": {"dim": 2}}], "outputs": ["y", "pooled"]}`,
	"rows": `{"symbols": {"B": {}, "L": {}}, "inputs": [
		{"name": "x", "dtype": "float32", "shape": ["B", "L", 8]}], "nodes": [
		{"name": "sums", "op": "cumsum", "inputs": ["x"], "attrs": {"dim": 1}},
		{"name": "padded", "op": "constant_pad_nd", "inputs": ["sums"], "attrs": {"pad": [0, 0, 1, 2], "value": 0.5}},
		{"name": "norm", "op": "layer_norm", "inputs": ["padded"], "attrs": {"normalized_shape": [8]}},
		{"name": "flipped", "op": "flip", "inputs": ["norm"], "attrs": {"dims": [1]}},
		{"name": "steps", "op": "arange", "attrs": {"end": "L+3", "dtype": "float32"}},
		{"name": "column", "op": "reshape", "inputs": ["steps"], "attrs": {"shape": ["L+3", 1]}},
		{"name": "scaled", "op": "mul", "inputs": ["flipped", "column"]},
		{"name": "deviation", "op": "var", "inputs": ["scaled"], "attrs": {"dim": [1]}},
		{"name": "greatest", "op": "amax", "inputs": ["scaled"], "attrs": {"dim": [0, 1]}},
		{"name": "y", "op": "sub", "inputs": ["deviation", "greatest"]}], "outputs": ["y", "scaled"]}`,
}

// openGraph parses one of openGraphs.
func openGraph(t *testing.T, name string) *graph.Graph {
	g, err := graphfile.Parse(strings.NewReader(`{"version": 1, `+openGraphs[name][1:]), kernels.Lookup, graphfile.Options{})
	require.NoError(t, err)
	return g
}

// Bindings evaluate the plan of their class: the plan is the one that is made anew, as Options.Check checks. Results
// have the bits of a program whose first run has these sizes, in any order of sizes.
func TestBindings(t *testing.T) {
	for name := range openGraphs {
		for _, strategy := range []layout.Strategy{nil, layout.ChannelsLast} {
			g := openGraph(t, name)
			p, err := Compile(t.Context(), g, Options{Strategy: strategy, Threads: 2})
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(7, 7))
			bound := 0
			count, least := 50, 20
			if testing.Short() {
				count, least = 8, 5
			}
			for range count {
				sizes := map[string]int{}
				for _, symbol := range p.OpenSymbols() {
					sizes[symbol] = []int{0, 1, 1, 2, 3, 5, 8, 17, 31, 40}[random.IntN(10)]
				}
				in := inputsAt(t, g, sizes)
				out, err := p.Run(t.Context(), in)
				fresh, freshErr := Compile(t.Context(), openGraph(t, name), Options{Strategy: strategy, Threads: 2})
				require.NoError(t, freshErr)
				want, wantErr := fresh.Run(t.Context(), in)
				require.Equal(t, wantErr == nil, err == nil, "%s at %v: %v, %v", name, sizes, err, wantErr)
				if err != nil {
					continue
				}
				inferred, err := p.GraphAt(t.Context(), p.listOfSizes(sizes))
				require.NoError(t, err)
				for _, output := range inferred.Outputs {
					require.Equal(t, output.Value.Meta.Strides, out[output.Name].Strides, "%s of %s at %v", output.Name, name, sizes)
				}
				for output := range want {
					require.Equal(t, want[output].Meta, out[output].Meta, "%s at %v", name, sizes)
					require.Equal(t, bitsOf(t, want[output]), bitsOf(t, out[output]), "%s of %s at %v", output, name, sizes)
				}
				binding, err := p.bindingForSizes(t.Context(), sizes, false)
				require.NoError(t, err)
				for _, spec := range p.specializations {
					for _, class := range spec.classes {
						if last := class.last.Load(); last != nil && last.program == binding.Program {
							bound++
							require.NoError(t, p.checkBound(t.Context(), spec, p.listOfSizes(sizes), binding.Plan.Graph),
								"%s at %v", name, sizes)
						}
					}
				}
			}
			assert.Greater(t, bound, least, name)
		}
	}
}

// bitsOf returns the bits of the elements of a float32 tensor.
func bitsOf(t *testing.T, x *tensor.Tensor) []uint32 {
	elements, err := tensor.ToSlice[float32](x)
	require.NoError(t, err)
	bits := make([]uint32, len(elements))
	for i, element := range elements {
		bits[i] = math.Float32bits(element)
	}
	return bits
}

// inputsAt returns float32 inputs of a graph at the given sizes.
func inputsAt(t *testing.T, g *graph.Graph, sizes map[string]int) map[string]*tensor.Tensor {
	at := g.Clone()
	require.NoError(t, at.BindWithoutInference(sizes))
	random, in := rand.New(rand.NewPCG(3, 1)), map[string]*tensor.Tensor{}
	for _, v := range at.Inputs {
		elements := make([]float32, v.Meta.Numel())
		for i := range elements {
			elements[i] = random.Float32() - 0.5
		}
		in[v.Name] = tensor.Must(tensor.FromSlice(elements, v.Meta.Shape...))
	}
	return in
}

// A step of a decoder, at which only the number of past tokens changes, shares the kernels of all other nodes with the
// last binding.
func TestBindingsShareKernels(t *testing.T) {
	g := openGraph(t, "decoder")
	p, err := Compile(t.Context(), g, Options{})
	require.NoError(t, err)
	at := func(past int) *Binding {
		binding, err := p.bindingForSizes(t.Context(), map[string]int{"B": 1, "S": 2, "P": past}, false)
		require.NoError(t, err)
		return binding
	}
	first, second := at(20), at(21)
	shared := 0
	for i, n := range first.Plan.Graph.Nodes {
		if second.Plan.Graph.Nodes[i] == n {
			shared++
			assert.NotContains(t, []string{"cat", "fused_attention"}, n.Op.Name)
		}
	}
	assert.NotZero(t, shared)
}

// Goroutines with different sizes bind one template at once.
func TestBindingsOfGoroutines(t *testing.T) {
	g := openGraph(t, "encoder")
	p, err := Compile(t.Context(), g, Options{Threads: 1})
	require.NoError(t, err)
	var group errgroup.Group
	for i := range 8 {
		sizes := map[string]int{"B": 1 + i%3, "L": 3 + 2*i}
		in := inputsAt(t, g, sizes)
		fresh, err := Compile(t.Context(), openGraph(t, "encoder"), Options{Threads: 1})
		require.NoError(t, err)
		want, err := fresh.Run(t.Context(), in)
		require.NoError(t, err)
		group.Go(func() error {
			out, err := p.Run(t.Context(), in)
			for name := range want {
				assert.Equal(t, bitsOf(t, want[name]), bitsOf(t, out[name]), "%s at %v", name, sizes)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
}
