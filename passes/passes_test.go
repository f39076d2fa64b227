package passes_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// run plans under a strategy by its name; under propagate, which chooses nothing, where that is "".
func run(t testing.TB, g *graph.Graph, strategy string) *passes.Plan {
	require.NoError(t, g.Err())
	s, err := layout.Named(cmp.Or(strategy, layout.Propagate.Name()))
	require.NoError(t, err)
	p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
	require.NoError(t, err)
	return p
}

func ops(p *passes.Plan) (names []string) {
	for _, n := range p.Graph.Nodes {
		names = append(names, n.Op.Name)
	}
	return names
}

func why(p *passes.Plan, node string) string {
	for _, e := range p.Elided {
		if e.Node == node {
			return e.Why
		}
	}
	return ""
}

const f32 = tensor.Float32

// A convolution makes what its operands suggest; a contiguous image under channels-last
// weights is copied, once for both who need it.
func TestCopiesForContracts(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 4, 6, 6)
	w := g.InputFormat("w", f32, tensor.ChannelsLast, 3, 4, 3, 3)
	g.Output("a", op.Conv2d(x, w, nil).Named("a"))
	g.Output("b", op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}}).Named("b"))
	for _, name := range []string{"a", "b"} { // others read planes
		require.NoError(t, g.Pin(name, graph.Pin{Impl: "nhwc"}))
	}
	p := run(t, g, "")
	require.Len(t, p.Copies, 1)
	i := slices.IndexFunc(p.Passes, func(d report.Pass) bool { return d.Pass == "layout" })
	assert.Equal(t, "3 layouts and 3 implementations chosen, 1 copy inserted", p.Passes[i].Did)
	c := p.Copies[0]
	assert.Equal(t, "x", c.Value)
	assert.Equal(t, []int{144, 36, 6, 1}, c.From)
	assert.Equal(t, []int{144, 1, 24, 4}, c.To)
	assert.Equal(t, 2*4*36*4, c.Bytes)
	assert.Equal(t, layout.ReaderNeeds, c.Why)
	assert.True(t, p.Graph.Outputs[0].Value.Meta.IsChannelsLast())
}

func TestPins(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3, 4, 5)
	a := op.Relu(x).Named("a").Pinned(tensor.ChannelsLast)
	b := op.Sum(x, op.SumAttrs{Dim: []int{1}, Keepdim: true}).Named("b").Pinned(tensor.ChannelsLast)
	c := op.Permute(x, []int{0, 1, 3, 2}).Named("c").Pinned(tensor.Contiguous)
	g.Output("a", a).Output("b", b).Output("c", c).OutputFormat("x", x, tensor.ChannelsLast)
	p := run(t, g, "")
	for i, f := range []tensor.MemoryFormat{tensor.ChannelsLast, tensor.ChannelsLast, tensor.Contiguous,
		tensor.ChannelsLast} {
		o := p.Graph.Outputs[i]
		assert.True(t, o.Value.Meta.Is(f), "%s is %v", o.Name, o.Value.Meta)
	}
	assert.Equal(t, "a", p.Graph.Outputs[0].Value.Name, "a pointwise op writes the pinned layout itself")
	assert.Equal(t, "c", p.Graph.Outputs[2].Value.Name, "the copy takes the pinned name over")
}

// Images are what convolutions and the like read and make, and what follows them; nothing else of
// four dimensions is laid out channels-last.
func TestStrategies(t *testing.T) {
	build := func() *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", f32, 2, 3, 4, 5)
		c := op.Conv2d(x, g.Input("w", f32, 6, 3, 1, 1), nil).Named("conv")
		r := op.Relu(op.Add(c, g.Input("b", f32, 6, 1, 1)).Named("sum")).Named("image")
		h := op.Permute(r, []int{0, 2, 3, 1})
		a := op.Mul(op.Softmax(h, -1), 2).Named("attention")
		g.Output("mean", op.Mean(op.Relu(r), op.MeanAttrs{Dim: []int{2, 3}})).Output("a", a).Output("r", r)
		return g
	}
	p := run(t, build(), "channels_last")
	value := func(name string) tensor.Meta { return p.Graph.Value(name).Meta }
	assert.True(t, value("image").IsChannelsLast(), "%v", value("image"))
	assert.Equal(t, []int{120, 30, 6, 1}, value("attention").Strides, "as it comes")
	require.Len(t, p.Copies, 2)
	assert.Equal(t, "x", p.Copies[0].Value, "once, for all that read it")
	assert.Equal(t, []int{120, 20, 5, 1}, p.Copies[1].To, "the output keeps the layout of the graph as written")
	p = run(t, build(), "contiguous")
	for _, n := range p.Graph.Nodes {
		for _, v := range n.Out {
			assert.True(t, v.Meta.IsContiguous() || v.Alias != nil || v.Name == "attention", "%s is %v", v.Name, v.Meta)
		}
	}
	_, err := layout.Named("quickest")
	var names []string
	for _, s := range layout.All() {
		names = append(names, s.Name())
	}
	assert.EqualError(t, err, `strategy "quickest" is unknown: want one of `+strings.Join(names, ", "))
}

// Whatever a strategy does inside, outputs are handed over with the strides of the graph as written.
func TestOutputsLieAsWritten(t *testing.T) {
	for seed := range uint64(60) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 1)))
		for _, s := range layout.All() {
			p, err := passes.Run(g, passes.Options{Strategy: s})
			require.NoError(t, err)
			for i, o := range p.Graph.Outputs {
				if !o.Pin.SetsLayout() {
					assert.Equal(t, g.Outputs[i].Value.Meta.Strides, o.Value.Meta.Strides, "seed %d, %s: %s", seed, s.Name(), o.Name)
				}
			}
		}
	}
}

// as_strided reads storage: what is under it keeps its layout, or its values would
// change. Views that a chosen layout makes impossible get a copy.
func TestStorageIsRigid(t *testing.T) {
	for _, strategy := range layout.All() {
		g := graph.New("g", kernels.Lookup)
		x := g.InputFormat("x", f32, tensor.ChannelsLast, 2, 3, 4, 5)
		y := op.Relu(op.Permute(x, []int{0, 2, 3, 1}))
		g.Output("a", op.AsStrided(y, []int{5, 4}, []int{3, 2}, op.AsStridedAttrs{StorageOffset: new(1)}))
		g.Output("v", op.View(op.Neg(g.Input("z", f32, 2, 3, 4, 5)), op.ViewAttrs{Size: []int{6, 20}}))
		run(t, g, strategy.Name())
	}
}

// All strategies give the same values: checked by reference after every pass.
func TestRandomGraphsKeepTheirMeaning(t *testing.T) {
	for seed := range testsize.Of[uint64](20, 60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		g := randomGraph(rng)
		for _, s := range layout.All() {
			_, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
			var dump bytes.Buffer
			if err != nil {
				_, _ = passes.Run(g, passes.Options{Strategy: s, Dump: &dump})
			}
			require.NoError(t, err, "seed %d, %s:\n%s", seed, s.Name(), &dump)
		}
	}
}

func randomGraph(rng *rand.Rand) *graph.Graph {
	g := graph.New(fmt.Sprint("random", rng.IntN(100)), kernels.Lookup)
	vals := []*graph.Value{
		g.Input("a", f32, 2, 3, 4, 4), g.InputFormat("b", f32, tensor.ChannelsLast, 2, 3, 4, 4), g.Input("c", f32, 3, 1, 1),
		g.InputMeta("d", tensor.Meta{DType: f32, Shape: []int{2, 3, 4, 4}, Strides: []int{1, 2, 6, 24}}),
	}
	pick := func() *graph.Value { return vals[rng.IntN(len(vals))] }
	full := func() *graph.Value {
		for {
			if v := pick(); v.Meta.Rank() == 4 && v.Meta.Numel() == 96 && v.Meta.Shape[1] == 3 {
				return v
			}
		}
	}
	for range 12 {
		var v *graph.Value
		switch rng.IntN(10) {
		case 0:
			v = g.Apply("contiguous", graph.Attrs{"memory_format": []string{"contiguous", "channels_last"}[rng.IntN(2)]},
				full())[0]
		case 1:
			v = op.Clone(full()).Named(fmt.Sprint("clone", len(vals)))
		case 2:
			v = op.Permute(full(), []int{0, 1, 3, 2})
		case 3:
			v = op.Reshape(full(), []int{2, 3, 4, 4})
		case 4:
			v = op.Transpose(full(), 2, 3)
		case 5:
			v = op.Relu(full()).Named(fmt.Sprint("pinned", len(vals))).Pinned([]tensor.MemoryFormat{tensor.Contiguous,
				tensor.ChannelsLast}[rng.IntN(2)])
		case 6:
			v = op.Softmax(full(), rng.IntN(4))
		default:
			v = op.Add(full(), full())
		}
		vals = append(vals, v)
	}
	for i := range 3 {
		v := vals[len(vals)-1-i*2]
		g.OutputFormat(fmt.Sprint("y", i), v, []tensor.MemoryFormat{tensor.NoFormat, tensor.Contiguous}[rng.IntN(2)])
	}
	return g
}

func TestDumpShowsEveryPass(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", f32, 2, 3)
	g.Output("y", op.Add(op.Contiguous(x), 1))
	var b bytes.Buffer
	_, err := passes.Run(g, passes.Options{Dump: &b})
	require.NoError(t, err)
	for _, p := range passes.Passes() {
		assert.Contains(t, b.String(), "after "+p.Name)
	}
	before := slices.IndexFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "layout" })
	assert.Equal(t, before, strings.Count(b.String(), "= contiguous(x) view of x"), "until layout elides it")
}
