package endtoend_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// mustLoad reads a graph file.
func mustLoad(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g, err := loadText(t, text)
	require.NoError(t, err)
	return g
}

// Every pin that cannot be met is a PinError, which names the pin, under every strategy.
func TestUnmetPins(t *testing.T) {
	gaps := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3], "strides": [6, 1]}],
 "nodes": [{"name": "p", "op": "as_strided", "inputs": ["x"], "attrs": {"size": [2], "stride": [3]}},
           {"name": "r", "op": "slice", "inputs": ["x"], "attrs": {"dim": 1, "end": 2}}], "outputs": ["p", "r"]}`
	view := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 6, 6]}],
 "nodes": [{"name": "r", "op": "relu", "inputs": ["x"]}, {"name": "s", "op": "neg", "inputs": ["r"]},
           {"name": "c", "op": "clone", "inputs": ["s"]},
           {"name": "f", "op": "view", "inputs": ["s"], "attrs": {"size": [2, -1]}}], "outputs": ["f", "c"]}`
	conv := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 6, 6]},
                                        {"name": "w", "dtype": "float32", "shape": [8, 8, 3, 3]}],
 "nodes": [{"name": "conv", "op": "conv2d", "inputs": ["x", "w"]}], "outputs": [{"value": "conv", "name": "y"}]}`
	strided := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 6]}],
 "nodes": [{"name": "e", "op": "empty_strided", "inputs": [], "attrs": {"size": [4, 6], "stride": [8, 1]}},
           {"name": "z", "op": "mul", "inputs": ["e", 0]}, {"name": "a", "op": "copy", "inputs": ["e", "x"]},
           {"name": "s", "op": "as_strided", "inputs": ["a"], "attrs": {"size": [5], "stride": [1]}}], "outputs": ["s", "z"]}`
	for _, c := range []struct {
		file, name, pin string
		options         graphrun.Options
	}{
		{file: gaps, name: "x", pin: "order:1,0"}, {file: gaps, name: "r", pin: "channels_last"},
		{file: gaps, name: "nosuch", pin: "contiguous"}, {file: gaps, name: "x", pin: "impl:plain"},
		{file: view, name: "r", pin: "channels_last"}, {file: view, name: "s", pin: "order:3,2,1,0"},
		{file: view, name: "r", pin: "device:vulkan"}, {file: view, name: "c", pin: "device:vulkan"},
		{file: view, name: "f", pin: "device:vulkan"}, {file: view, name: "x", pin: "device:cpu"},
		{file: conv, name: "conv", pin: "impl:depthwise_nhwc"}, {file: conv, name: "conv", pin: "impl:nosuch"},
		{file: conv, name: "conv", pin: "impl:winograd4", options: graphrun.Options{Exact: true}},
		{file: conv, name: "y", pin: "order:1,0"}, {file: conv, name: "y", pin: "channels_last_3d"},
		{file: strided, name: "a", pin: "order:1,0"},
	} {
		pin, err := graph.ParsePin(c.pin)
		require.NoError(t, err)
		for _, s := range graphrun.Strategies() {
			options := c.options
			options.Strategy, options.Pins = s, map[string]graph.Pin{c.name: pin}
			_, err = graphrun.Compile(ctx, mustLoad(t, c.file), options)
			var unmet *graphrun.PinError
			require.ErrorAs(t, err, &unmet, "%s=%s, %s", c.name, c.pin, s.Name())
			require.Equal(t, []string{c.name, pin.String()}, []string{unmet.Name, unmet.Pin.String()}, "%v", err)
		}
	}
	// On the host, copies and views are on the host.
	for _, name := range []string{"r", "c", "f"} {
		_, err := graphrun.Compile(ctx, mustLoad(t, view), graphrun.Options{Pins: map[string]graph.Pin{name: {Device: graph.HostDevice}}})
		require.NoError(t, err)
	}
}

// A pin changes no values that an op reads from storage, under any strategy: neither of the pinned value, nor of values
// that have its layout, nor of their views.
func TestPinsKeepReadStorage(t *testing.T) {
	strategies := graphrun.Strategies()
	for seed := range uint64(testsize.Of(40, 400)) {
		rng := rand.New(rand.NewPCG(seed, 9))
		build := func() *graph.Graph {
			rng := rand.New(rand.NewPCG(seed, 10))
			g := graph.New("storage", kernels.Lookup)
			v := g.Input("x", f32, 3, 4, 5)
			for _, name := range []string{"a", "b", "c", "d"} {
				switch rng.IntN(4) {
				case 0:
					v = g.Apply("transpose", graph.Attrs{"dim0": rng.IntN(3), "dim1": rng.IntN(3)}, v)[0]
				case 1:
					v = g.Apply("slice", graph.Attrs{"dim": rng.IntN(3), "start": rng.IntN(2)}, v)[0]
				case 2:
					v = g.Apply("clone", nil, v)[0]
				default:
					v = g.Apply("neg", nil, v)[0]
				}
				v = v.Named(name)
			}
			s := g.Apply("as_strided", graph.Attrs{"size": []int{4}, "stride": []int{2}, "storage_offset": rng.IntN(3)}, v)[0]
			g.Output("y", g.Apply("neg", nil, s)[0])
			return g.Output("d", g.Apply("neg", nil, v)[0])
		}
		g := build()
		require.NoError(t, g.Err())
		in := map[string]*tensor.Tensor{"x": (&joiner{rng: rng}).fill(tensor.New(f32, 3, 4, 5))}
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		dims := rng.Perm(3)
		order, err := tensor.NewOrder(dims...)
		require.NoError(t, err)
		pins := map[string]graph.Pin{string("xabcd"[rng.IntN(5)]): {Order: order}}
		for _, s := range strategies {
			p, err := graphrun.Compile(ctx, build(), graphrun.Options{Strategy: s, Pins: pins, Check: true})
			if err != nil {
				require.ErrorAs(t, err, new(*graphrun.PinError), "seed %d, %v, %s", seed, pins, s.Name())
				continue
			}
			got, err := p.Run(t.Context(), in)
			require.NoError(t, err)
			for name := range want {
				require.Equal(t, floats(want[name]), floats(got[name]), "seed %d, %v, %s, %s", seed, pins, s.Name(), name)
			}
		}
	}
}

// Hints are accepted for symbols on which only strides depend. The layouts of inputs follow from them.
func TestHintsOfStrides(t *testing.T) {
	for _, strides := range []string{`"strides": ["S", 1]`, `"offset": "S"`} {
		g := mustLoad(t, `{"version": 1, "symbols": {"N": {"min": 1, "max": 64}, "S": {"min": 8, "max": 4096}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4], `+strides+`}],
 "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Hints: []map[string]int{{"N": 8, "S": 100}, {"S": 30}}})
		require.NoError(t, err)
		x := p.Graph().Inputs[0].Meta
		require.Equal(t, strings.HasPrefix(strides, `"offset`), x.Offset == 100)
		require.Equal(t, strings.HasPrefix(strides, `"strides`), x.Strides[0] == 100)
		in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 4)}
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, []int{3, 4}, out["y"].Shape)
		_, err = graphrun.Compile(ctx, g, graphrun.Options{Hints: []map[string]int{{"S": 7}}})
		require.Error(t, err)
	}
}
