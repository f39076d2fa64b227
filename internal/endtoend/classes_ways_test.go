package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// edges has sizes near multiples of tiles, panels and vectors, and smaller ones.
var edges = []int{0, 1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 28, 31, 33, 56, 57, 64, 65, 100}

// built has the sizes for building graphs. Every window fits in them.
var built = map[string]int{"N": 2, "H": 40, "W": 40, "K": 20}

// openInput adds an input whose dimensions may be symbols.
func openInput(g *graph.Graph, name string, f tensor.MemoryFormat, dims ...graph.Dim) *graph.Value {
	v, sizes := g.InputDims(name, f32, f, dims...), map[string]int{}
	for symbol, n := range built {
		if usesSymbol(g, symbol) {
			sizes[symbol] = n
		}
	}
	if err := g.Bind(sizes); err != nil {
		panic(err)
	}
	return v
}

// waysGraph returns a random graph of ops with several implementations. The sizes N, H, W and K are symbols.
func waysGraph(rng *rand.Rand) *graph.Graph {
	g := graphrun.New("ways")
	open := func(names ...string) (dims []graph.Dim) {
		for _, name := range names {
			dims = append(dims, graph.Dim{Symbol: name})
		}
		return dims
	}
	weights := 0
	constant := func(shape ...int) *graph.Value {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = float32(rng.IntN(17)-8) / 64
		}
		weights++
		return g.Constant(fmt.Sprint("w", weights), tensor.Must(tensor.FromSlice(data, shape...)))
	}
	var y *graph.Value
	switch rng.IntN(5) {
	case 0: // products of inputs whose sizes are symbols
		x := openInput(g, "x", tensor.NoFormat, open("N", "H", "K")...)
		y = op.Matmul(x, openInput(g, "b", tensor.NoFormat, open("K", "W")...))
		if rng.IntN(2) == 0 {
			y = op.Softmax(y, rng.IntN(3))
		}
	case 1: // products by constants
		k := []int{1, 3, 16, 33}[rng.IntN(4)]
		x := openInput(g, "x", tensor.NoFormat, append(open("N", "H"), graph.Dim{Size: k})...)
		o := []int{1, 7, 16, 40}[rng.IntN(4)]
		y = op.Relu(op.Linear(x, constant(o, k), constant(o)))
		y = op.Mean(op.Linear(y, constant(8, o), nil), op.MeanAttrs{Dim: []int{1}})
	case 2:
		heads := graph.Dim{Size: 1 + rng.IntN(3)}
		wide := graph.Dim{Size: []int{4, 16, 20}[rng.IntN(3)]}
		value := func(name, length string) *graph.Value {
			return openInput(g, name, tensor.NoFormat, graph.Dim{Symbol: "N"}, heads, graph.Dim{Symbol: length}, wide)
		}
		q, k, v := value("q", "H"), value("k", "W"), value("v", "W")
		switch rng.IntN(5) {
		case 0:
			y = op.ScaledDotProductAttention(q, k, v, nil)
		case 1:
			y = op.Matmul(op.Softmax(op.Matmul(q, op.Transpose(k, 2, 3)), 3), v)
		case 2: // by equations
			y = op.Softmax(op.Einsum([]*graph.Value{q, k}, "bhid,bhjd->bhij"), 3)
			y = op.Einsum([]*graph.Value{y, v}, "bhij,bhjd->bihd")
		case 3: // one row for each of several heads that share keys and values
			q = openInput(g, "row", tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3 * heads.Size},
				graph.Dim{Size: 1}, wide)
			k, v = groupings[1].build(k, 3), groupings[1].build(v, 3)
			y = op.Matmul(op.Softmax(op.Matmul(q, op.Transpose(k, 2, 3)), 3), v)
		case 4:
			y = headsAsRows(g, heads, wide, rng)
		}
	default:
		y = drawImages(g, rng, constant)
	}
	return g.Output("y", y)
}

// headsAsRows returns an attention whose heads share keys and values. The heads are rows of one product, and a
// dimension of their own where masks are added.
func headsAsRows(g *graph.Graph, heads, wide graph.Dim, rng *rand.Rand) *graph.Value {
	n, long, keys := graph.Dim{Symbol: "N"}, graph.Dim{Symbol: "H"}, graph.Dim{Symbol: "W"}
	q := openInput(g, "rows", tensor.NoFormat, n, long, heads, wide)
	k := openInput(g, "shared", tensor.NoFormat, n, keys, wide)
	last := 2
	rows := op.FlattenAttrs{StartDim: 1, EndDim: &last}
	x := op.Matmul(op.Flatten(q, rows), op.Transpose(k, 1, 2))
	x = op.Unflatten(x, 1, []int{-1, heads.Size})
	one := graph.Dim{Size: 1}
	switch rng.IntN(4) {
	case 0:
		x = op.Add(x, openInput(g, "mask", tensor.NoFormat, n, one, one, keys))
	case 1:
		x = op.Add(x, openInput(g, "bias", tensor.NoFormat, long, heads, keys))
	case 2:
		x = op.Add(x, openInput(g, "head", tensor.NoFormat, heads, one))
	}
	x = op.Flatten(op.Softmax(x, 3), rows)
	return op.Matmul(x, openInput(g, "values", tensor.NoFormat, n, keys, wide))
}

// drawImages adds random convolutions and pools of images whose batch, height and width are symbols.
func drawImages(g *graph.Graph, rng *rand.Rand, constant func(shape ...int) *graph.Value) *graph.Value {
	format := []tensor.MemoryFormat{tensor.NoFormat, tensor.ChannelsLast}[rng.IntN(2)]
	channels := []int{1, 3, 4, 16, 20, 32}[rng.IntN(6)]
	y := openInput(g, "x", format, graph.Dim{Symbol: "N"}, graph.Dim{Size: channels}, graph.Dim{Symbol: "H"},
		graph.Dim{Symbol: "W"})
	for range 1 + rng.IntN(3) {
		k, step := []int{1, 1, 3, 3, 5}[rng.IntN(5)], 1+rng.IntN(2)
		pad := []int{k / 2, k / 2, 0}[rng.IntN(3)]
		switch rng.IntN(5) {
		case 0:
			y = op.MaxPool2d(y, []int{3, 3}, op.MaxPool2dAttrs{Stride: []int{step, step}, Padding: []int{1, 1}})
			continue
		case 1:
			y = op.AvgPool2d(y, []int{2, 2}, op.AvgPool2dAttrs{Stride: []int{step, step}})
			continue
		case 2: // depthwise
			groups := channels
			y = op.Conv2d(y, constant(channels, 1, k, k), constant(channels), op.Conv2dAttrs{Stride: []int{step, step},
				Padding: []int{pad, pad}, Groups: &groups})
		default:
			out := []int{1, 4, 16, 24, 32}[rng.IntN(5)]
			dilation := 1 + rng.IntN(4)/3
			y = op.Conv2d(y, constant(out, channels, k, k), constant(out), op.Conv2dAttrs{Stride: []int{step, step},
				Padding: []int{pad, pad}, Dilation: []int{dilation, dilation}})
			channels = out
		}
		if rng.IntN(2) == 0 {
			y = op.Relu(y)
		}
	}
	return y
}

// TestClassesOfWays compares programs, whose implementations were chosen for other sizes, with plans for each size. A
// way through a call that exists at the hint must be right or rejected at all sizes of the class.
func TestClassesOfWays(t *testing.T) {
	testsize.Long(t)
	runs, seeds := 0, randomGraphs(90)
	for seed := range seeds {
		runs += runWays(t, seed, seed%4 == 1)
	}
	require.Greater(t, runs, int(seeds)*2)
}

// runWays runs one graph of [waysGraph], as a branch if inBranch is true, and returns the number of sizes that were
// compared.
func runWays(t *testing.T, seed uint64, inBranch bool) (runs int) {
	rng := rand.New(rand.NewPCG(seed, 11))
	g := waysGraph(rng)
	require.NoError(t, g.Err(), "seed %d", seed)
	require.NoError(t, g.BindWithoutInference(nil)) // no sizes are given
	o := graphrun.Options{Strategy: []layout.Strategy{layout.Optimal, layout.Optimal, layout.Propagate}[seed%3],
		Threads: 1 + rng.IntN(2)}
	draw := func() map[string]int {
		sizes := map[string]int{}
		for _, name := range []string{"N", "H", "W", "K"} {
			if name == "N" || rng.IntN(6) == 0 {
				sizes[name] = rng.IntN(4)
			} else {
				sizes[name] = edges[rng.IntN(len(edges))]
			}
		}
		for name := range sizes {
			if !usesSymbol(g, name) {
				delete(sizes, name)
			}
		}
		return sizes
	}
	if rng.IntN(2) == 0 {
		hint := draw()
		for name := range hint {
			hint[name] = max(hint[name], 7)
		}
		o.Hints = []map[string]int{hint}
	}
	whole := g
	if inBranch {
		whole = asBranch(t, g, built)
	}
	p, err := graphrun.Compile(ctx, whole, o)
	if err != nil {
		return 0 // a window is larger than the images that the graph is planned for
	}
	for range 5 {
		sizes := draw()
		compared, err := boundAlike(g, whole, p, o, sizes, rng)
		require.NoError(t, err, "seed %d, %v", seed, o.Hints)
		if compared {
			runs++
		}
	}
	return runs
}

// usesSymbol reports whether a dimension of an input is the symbol.
func usesSymbol(g *graph.Graph, name string) bool {
	for _, v := range g.Inputs {
		for _, d := range v.Dims {
			if d.Symbol == name {
				return true
			}
		}
	}
	return false
}

func FuzzWays(f *testing.F) {
	f.Add(uint64(1000), false)
	f.Add(uint64(1000), true)
	f.Fuzz(func(t *testing.T, seed uint64, inBranch bool) { runWays(t, seed, inBranch) })
}
