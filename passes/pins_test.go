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
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
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
	assert.True(t, order(t, "0,3,1,2").Holds(g.Value("x").Meta))
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
		assert.True(t, order(t, "3,1,0,2").Holds(p.Graph.Outputs[0].Value.Meta), s.Name())
		assert.True(t, order(t, "1,0,3,2").Holds(p.Graph.Value("mm").Meta), s.Name())
		if p.Solution == nil && !slices.Contains([]layout.Strategy{layout.Greedy, layout.Favourite, layout.Push}, s) {
			assert.Equal(t, "matmul", p.Graph.Value("mm").Kind(), "a product writes the order itself") // others weigh a copy
		}
		assert.True(t, order(t, "2,3,1,0").Holds(p.Graph.Outputs[1].Value.Meta), s.Name())
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
		`conv2d has no implementation "nwhc": want one of depthwise_nhwc, depthwise_planes, direct_nhwc, direct_planes, nhwc, nchw; did you mean nhwc?`: func(g *graph.Graph) error {
			return g.Pin("conv", graph.Pin{Impl: "nwhc"})
		},
		`order 1,0 is one of 2 dimensions, and there are 4`: func(g *graph.Graph) error {
			return g.Pin("conv", graph.Pin{Order: order(t, "1,0")})
		},
		`it is no node: only nodes have implementations`: func(g *graph.Graph) error {
			return g.Pin("x", graph.Pin{Impl: "nhwc"})
		},
		`it is pinned to implementation "depthwise_nhwc", which does not support these operands: want `: func(g *graph.Graph) error {
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
	assert.EqualError(t, err, "strategy undecided gives no assignment")
}

// Whatever order a strategy wishes for, values and the outputs' layouts stay.
func TestOwnStrategy(t *testing.T) {
	for seed := range uint64(40) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 2)))
		p, err := passes.Run(g, passes.Options{Strategy: reversed{}, Check: true})
		require.NoError(t, err, "seed %d", seed)
		assert.Equal(t, "reversed", p.Strategy)
		for i, o := range p.Graph.Outputs {
			if !o.Pin.Lays() {
				assert.Equal(t, g.Outputs[i].Value.Meta.Strides, o.Value.Meta.Strides, "seed %d: %s", seed, o.Name)
			}
		}
	}
}
