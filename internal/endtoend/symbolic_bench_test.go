package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// residualNetwork returns resnet50 as in training: 175 nodes on images of any number and size.
func residualNetwork() *graph.Graph {
	g := graph.New("resnet50", kernels.Lookup)
	g.Symbols = map[string]graph.Bounds{}
	g.Symbols["N"], g.Symbols["H"], g.Symbols["W"] = graph.Bounds{}, graph.Bounds{}, graph.Bounds{}
	x := g.InputDims("x", f32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3}, graph.Dim{Symbol: "H"},
		graph.Dim{Symbol: "W"})
	if err := g.Bind(map[string]int{"N": 2, "H": 224, "W": 224}); err != nil {
		panic(err)
	}
	one := func(op string, attrs graph.Attrs, operands ...any) *graph.Value {
		return g.Apply(op, attrs, operands...)[0]
	}
	conv := func(x *graph.Value, out, kernel, stride int) *graph.Value {
		w := g.Constant(g.UniqueName("w"), tensor.Zeros(f32, out, x.Meta.Shape[1], kernel, kernel))
		channel := g.Constant(g.UniqueName("c"), tensor.Zeros(f32, out))
		y := one("conv2d", graph.Attrs{"stride": stride, "padding": kernel / 2}, x, w)
		return one("batch_norm", nil, y, channel, channel, channel, channel)
	}
	relu := func(x *graph.Value) *graph.Value { return one("relu", nil, x) }
	y := relu(conv(x, 64, 7, 2))
	y = one("max_pool2d", graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1}, y)
	for stage, blocks := range []int{3, 4, 6, 3} {
		width := 64 << stage
		for block := range blocks {
			stride := 1
			if block == 0 && stage > 0 {
				stride = 2
			}
			z := relu(conv(y, width, 1, 1))
			z = conv(relu(conv(z, width, 3, stride)), 4*width, 1, 1)
			if block == 0 {
				y = conv(y, 4*width, 1, stride)
			}
			y = relu(one("add", nil, z, y))
		}
	}
	y = one("flatten", graph.Attrs{"start_dim": 1}, one("mean", graph.Attrs{"dim": []int{2, 3}, "keepdim": true}, y))
	return g.Output("y", one("linear", nil, y, g.Constant("fc", tensor.Zeros(f32, 1000, 2048))))
}

// TestGuardsOfNetworks: a network has few guards, which hold for nearly all sizes.
func TestGuardsOfNetworks(t *testing.T) {
	s, err := residualNetwork().Symbolic(map[string]int{"N": 2, "H": 224, "W": 224})
	require.NoError(t, err)
	require.Equal(t, "[Le(7, H + 6) & Le(7, W + 6)]", fmt.Sprint(conds(s)))
	require.Equal(t, "float32[N,1000]@(1000,1)", s.Graph.Outputs[0].Value.Type.String())
	for name, want := range map[string]bool{"N": false, "H": true, "W": true} {
		sizes := map[string]int{"N": 1, "H": 1, "W": 33}
		require.True(t, s.Holds(sizes))
		sizes[name] = 0
		require.Equal(t, !want, s.Holds(sizes), name)
	}
}

func BenchmarkSymbolic(b *testing.B) {
	g := residualNetwork()
	require.NoError(b, g.Err())
	for b.Loop() {
		if _, err := g.Symbolic(map[string]int{"N": 2, "H": 224, "W": 224}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(g.Nodes)), "nodes")
}
