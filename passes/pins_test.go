package passes_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

const pinnedFile = `{"version": 1,
 "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 5, 6], "order": [0, 3, 1, 2]},
            {"name": "w", "dtype": "float32", "shape": [4, 1, 3, 3]}],
 "nodes": [{"name": "conv", "op": "conv2d", "inputs": ["x", "w"], "attrs": {"groups": 4, "padding": 1}, "impl": "depthwise_planes"},
           {"name": "sum", "op": "add", "inputs": ["conv", 1], "order": [3, 1, 0, 2]},
           {"name": "mm", "op": "matmul", "inputs": ["sum", "sum2"], "order": [1, 0, 3, 2]},
           {"name": "sum2", "op": "permute", "inputs": ["sum"], "attrs": {"dims": [0, 1, 3, 2]}}],
 "outputs": ["sum", {"value": "mm", "name": "product", "order": [2, 3, 1, 0]}]}`

func order(t *testing.T, text string) tensor.Order {
	o, err := tensor.ParseOrder(text)
	require.NoError(t, err)
	return o
}

// Pins of a file hold under every strategy, and survive saving.
func TestPinsOfFiles(t *testing.T) {
	g, err := graphfile.Read(strings.NewReader(pinnedFile), kernels.Lookup, graphfile.Options{Name: "g.json", Dir: "."})
	require.NoError(t, err)
	assert.True(t, order(t, "0,3,1,2").Matches(g.Value("x").Meta))
	var saved strings.Builder
	require.NoError(t, graphfile.Save(&saved, g))
	for _, text := range []string{`"order": [0, 3, 1, 2]`, `"impl": "depthwise_planes"`, `"order": [3, 1, 0, 2]`,
		`"order": [2, 3, 1, 0]`} {
		assert.Contains(t, saved.String(), text)
	}
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err)
		assert.Empty(t, p.Unchecked)
		conv := p.Graph.Value("conv").Node
		assert.Equal(t, "depthwise_planes", conv.Impl.Name, s.Name())
		assert.True(t, order(t, "3,1,0,2").Matches(p.Graph.Outputs[0].Value.Meta), s.Name())
		assert.True(t, order(t, "1,0,3,2").Matches(p.Graph.Value("mm").Meta), s.Name())
		byWish := []layout.Strategy{layout.Propagate, layout.Contiguous, layout.ChannelsLast, layout.Inductor}
		if slices.Contains(byWish, s) {
			assert.Equal(t, "matmul", p.Graph.Value("mm").Kind(), "a product writes the order itself") // others weigh a copy
		}
		assert.True(t, order(t, "2,3,1,0").Matches(p.Graph.Outputs[1].Value.Meta), s.Name())
	}
}

// What reads a pinned input finds it in that layout; outputs are laid out as without the pin.
func TestPinnedInput(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3, 4, 5)
	require.NoError(t, g.Output("y", op.Exp(op.Relu(x))).Pin("x", graph.Pin{Format: tensor.ChannelsLast}))
	p := run(t, g, "")
	require.Len(t, p.Copies, 1, "the last op writes the output's layout itself")
	assert.Equal(t, `"x" is pinned to channels_last`, p.Copies[0].Why)
	assert.Equal(t, []int{60, 20, 5, 1}, p.Graph.Outputs[0].Value.Meta.Strides)
	assert.True(t, p.Graph.Outputs[0].Value.Node.In[0].Value.Meta.IsChannelsLast())
}

func TestPinMistakes(t *testing.T) {
	build := func() *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", f32, 2, 3, 4, 5)
		return g.Output("y", op.Conv2d(x, g.Input("w", f32, 6, 3, 1, 1), nil).Named("conv"))
	}
	for want, pin := range map[string]func(g *graph.Graph) error{
		`there is no value or node "con"; did you mean "conv"?`: func(g *graph.Graph) error {
			return g.Pin("con", graph.Pin{Impl: "nhwc"})
		},
		`, nchw; did you mean nhwc?`: func(g *graph.Graph) error {
			return g.Pin("conv", graph.Pin{Impl: "nwhc"})
		},
		`order 1,0 has 2 dimensions, but the value has 4`: func(g *graph.Graph) error {
			return g.Pin("conv", graph.Pin{Order: order(t, "1,0")})
		},
		`a value that no node computes can be pinned only to a layout: only nodes have implementations`: func(g *graph.Graph) error {
			return g.Pin("x", graph.Pin{Impl: "nhwc"})
		},
		`output "y": an output can be pinned only to a layout: only nodes have implementations`: func(g *graph.Graph) error {
			return g.Pin("y", graph.Pin{Impl: "nhwc"})
		},
		`output "y": a pin cannot demand both a memory format and an order`: func(g *graph.Graph) error {
			err := g.Pin("y", graph.Pin{Format: tensor.Contiguous, Order: order(t, "3,2,1,0")})
			assert.Zero(t, g.Outputs[0].Pin)
			return err
		},
		`: pin conv=impl:depthwise_nhwc: the implementation does not support these operands: use `: func(g *graph.Graph) error {
			require.NoError(t, g.Pin("conv", graph.Pin{Impl: "depthwise_nhwc"}))
			_, err := passes.Run(g, passes.Options{})
			return err
		},
	} {
		if err := pin(build()); assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
	for _, text := range []string{"nhwc", "order:0,0", "order:", "impl:", "preserve"} {
		_, err := graph.ParsePin(text)
		assert.Error(t, err, text)
	}
	p, err := graph.ParsePin("order:0,2,3,1")
	require.NoError(t, err)
	assert.Equal(t, "order:0,2,3,1", p.String())
}

// full is a tensor of one number.
func full(d tensor.DType, x int64, shape ...int) *tensor.Tensor {
	t := tensor.Zeros(d, shape...)
	for i := range t.Numel() {
		t.SetFlat(i, tensor.IntScalar(x))
	}
	return t
}

// readsPin checks that a value is laid out as pinned, and that nodes read it or copies of it only.
func readsPin(t *testing.T, p *passes.Plan, name string, pin graph.Pin) {
	t.Helper()
	found := false
	p.Graph.Values(func(v *graph.Value) {
		if v.Name != name {
			return
		}
		found = true
		assert.True(t, pin.Matches(v.Meta), "%s: %v", p.Strategy, v.Meta)
		assert.Nil(t, v.Packed, p.Strategy)
	})
	assert.True(t, found, "%s has no %q", p.Strategy, name)
}

// A node is not rewritten past a pinned one: products of bytes, and those by matrices that are repeated.
func TestPinsAreNotRewritten(t *testing.T) {
	quantized := func() *graph.Graph {
		g := graph.New("quantized", kernels.Lookup)
		s, z := g.Constant("s", full(f32, 1)), g.Constant("z", full(tensor.Uint8, 128))
		zw, w := g.Constant("zw", full(tensor.Int8, 0)), g.Constant("w", full(tensor.Int8, 3, 4, 8, 3, 3))
		d := g.Apply("dequantize_linear", nil, g.Input("x", tensor.Uint8, 2, 8, 10, 10), s, z)[0].Named("d")
		dw := g.Apply("dequantize_linear", nil, w, s, zw)[0].Named("dw")
		c := g.Apply("conv2d", nil, d, dw)[0].Named("c")
		return g.Output("y", g.Apply("quantize_linear", nil, c, s, z)[0])
	}
	repeated := func() *graph.Graph {
		g := graph.New("repeated", kernels.Lookup)
		k := g.Apply("unsqueeze", graph.Attrs{"dim": 2}, g.Input("k", f32, 1, 2, 16, 32))[0]
		r := g.Apply("reshape", graph.Attrs{"shape": []int{1, 8, 16, 32}},
			g.Apply("expand", graph.Attrs{"size": []int{1, 2, 4, 16, 32}}, k)[0])[0].Named("r")
		v := g.Apply("transpose", graph.Attrs{"dim0": 2, "dim1": 3}, r)[0].Named("t")
		return g.Output("y", g.Apply("matmul", nil, g.Input("q", f32, 1, 8, 16, 32), v)[0])
	}
	for _, c := range []struct {
		build func() *graph.Graph
		name  string
		pin   graph.Pin
	}{
		{quantized, "d", graph.Pin{Format: tensor.ChannelsLast}}, {quantized, "dw", graph.Pin{Format: tensor.ChannelsLast}},
		{quantized, "c", graph.Pin{Format: tensor.ChannelsLast}}, {quantized, "c", graph.Pin{Impl: "nhwc"}},
		{repeated, "r", graph.Pin{Format: tensor.ChannelsLast}}, {repeated, "t", graph.Pin{Format: tensor.Contiguous}},
	} {
		for _, s := range layout.All() {
			g := c.build()
			require.NoError(t, g.Err())
			require.NoError(t, g.Pin(c.name, c.pin))
			require.NoError(t, g.Infer())
			p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
			require.NoError(t, err, "%s, %s", s.Name(), c.name)
			readsPin(t, p, c.name, c.pin)
			if c.pin.Impl != "" {
				assert.Equal(t, c.pin.Impl, p.Graph.Value(c.name).Node.Impl.Name, s.Name())
			}
			assert.True(t, slices.ContainsFunc(p.Unfused, func(a report.Unfused) bool {
				return a.Node == c.name && a.Why == "would not keep the pin of "+c.name ||
					!(loops.CodeAvailable() && machine.HostFeatures().Has(machine.AVX2)) &&
						a.Why == "no machine code multiplies bytes of such shapes"
			}), "%s, %s: %v", s.Name(), c.name, p.Unfused)
		}
	}
}

// All results of a pinned view are pinned; a pinned value is not placed where its strides in a join are others; a
// pinned constant is not packed.
func TestPinsOfJoinsPartsAndWeights(t *testing.T) {
	last := graph.Pin{Format: tensor.ChannelsLast}
	for _, s := range layout.All() {
		g := graph.New("g", kernels.Lookup)
		x, w := g.Input("x", f32, 2, 8, 6, 6), g.Constant("w", full(f32, 2, 4, 4, 3, 3))
		parts := g.Apply("split", graph.Attrs{"split_size": 4, "dim": 1}, x)
		a := g.Apply("conv2d", graph.Attrs{"padding": 1}, parts[0], w)[0]
		b := op.Relu(parts[1])
		g.Output("y", op.Exp(g.Apply("cat", graph.Attrs{"dim": 1}, a, b)[0]))
		require.NoError(t, g.Err())
		names := []string{parts[0].Name, parts[1].Name, a.Name, w.Name}
		for _, name := range names[1:] {
			require.NoError(t, g.Pin(name, last))
		}
		require.NoError(t, g.Infer())
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err, s.Name())
		for _, name := range names[:3] {
			readsPin(t, p, name, last)
		}
		conv := p.Graph.Value(a.Name)
		for conv.Node.Op.Identity {
			conv = conv.Node.In[0].Value
		}
		weight := conv.Node.In[1].Value
		assert.True(t, weight.Const != nil && weight.Packed == nil && last.Matches(weight.Meta),
			"%s: %v", s.Name(), weight.Meta)
		assert.Nil(t, p.Graph.Value(a.Name).ContainedIn, s.Name())
	}
}

// disobedient is a strategy whose assignment has none of the copies that pins demand.
type disobedient struct{}

func (disobedient) Name() string { return "disobedient" }

func (disobedient) Choose(p *layout.Problem) (*layout.Assignment, error) {
	a, err := layout.Solve(p, nil)
	if err != nil {
		return nil, err
	}
	a.Inputs = nil
	for i := range a.Nodes {
		a.Nodes[i].In, a.Nodes[i].ResultCopies = nil, nil
	}
	return a, nil
}

// A plan that does not meet a pin is an error under every strategy.
func TestDisobedientStrategy(t *testing.T) {
	for _, pinned := range []string{"x", "w"} {
		g := graph.New("g", kernels.Lookup)
		x, w := g.Input("x", f32, 2, 4, 5, 6), g.Input("w", f32, 4, 4, 3, 3)
		g.Output("y", op.Relu(x))
		g.Output("z", op.Relu(w))
		require.NoError(t, g.Err())
		require.NoError(t, g.Pin(pinned, graph.Pin{Format: tensor.ChannelsLast}))
		require.NoError(t, g.Infer())
		_, err := passes.Run(g, passes.Options{Strategy: disobedient{}})
		if assert.Error(t, err, pinned) {
			assert.Contains(t, err.Error(), "pin "+pinned+"=channels_last: not met: ")
		}
	}
}

// reversed is a strategy of somebody else's: everything that can be told is laid out in reverse order.
type reversed struct{}

func (reversed) Name() string { return "reversed" }

func (reversed) Choose(p *layout.Problem) (*layout.Assignment, error) {
	return layout.Solve(p, func(v *graph.Value) (tensor.Order, string) {
		dims := tensor.RowMajorOrder(v.Meta.Rank()).Dims()
		for i := range dims {
			dims[i] = len(dims) - 1 - i
		}
		o, err := tensor.NewOrder(dims...)
		if err != nil {
			return "", ""
		}
		return o, "it is read backwards"
	})
}

// undecided is a strategy that forgets its assignment.
type undecided struct{}

func (undecided) Name() string { return "undecided" }

func (undecided) Choose(*layout.Problem) (*layout.Assignment, error) { return nil, nil }

func TestStrategyWithoutAssignment(t *testing.T) {
	_, err := passes.Run(randomGraph(rand.New(rand.NewPCG(1, 2))), passes.Options{Strategy: undecided{}})
	assert.EqualError(t, err, "strategy undecided returned no assignment (nil)")
}

// Whatever order a strategy wishes for, values and the outputs' layouts stay.
func TestOwnStrategy(t *testing.T) {
	for seed := range uint64(40) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 2)))
		p, err := passes.Run(g, passes.Options{Strategy: reversed{}, Check: true})
		require.NoError(t, err, "seed %d", seed)
		assert.Equal(t, "reversed", p.Strategy)
		for i, o := range p.Graph.Outputs {
			if !o.Pin.SetsLayout() {
				assert.Equal(t, g.Outputs[i].Value.Meta.Strides, o.Value.Meta.Strides, "seed %d: %s", seed, o.Name)
			}
		}
	}
}
