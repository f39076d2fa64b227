package passes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// reasonsOf returns the reasons for the copies of a plan, without the cost.
func reasonsOf(p *passes.Plan) (text []string) {
	e := p.Explainer()
	for i := range p.Copies {
		kept := strings.Split(e.Explain(&p.Copies[i]).Why, "; ")
		for k, part := range kept {
			if strings.HasPrefix(part, "the copy costs ") {
				kept = append(kept[:k:k], kept[k+1:]...)
				break
			}
		}
		text = append(text, strings.Join(kept, "; "))
	}
	return text
}

// conv adds an output that a 1 by 1 convolution for channels-last images computes from x.
func conv(t *testing.T, g *graph.Graph, x *graph.Value) {
	w := g.InputFormat("w", f32, tensor.ChannelsLast, 4, x.Meta.Shape[1], 1, 1)
	g.Output("y", op.Conv2d(x, w, nil).Named("conv"))
	require.NoError(t, g.Pin("conv", graph.Pin{Impl: "nhwc"}))
}

// strided adds an input with strides.
func strided(g *graph.Graph, shape, strides []int) *graph.Value {
	return g.InputMeta("x", tensor.New(f32, shape...).WithStrides(strides))
}

// pinnedInput returns a graph in which an input with strides is pinned.
func pinnedInput(shape, strides []int, pin graph.Pin) func(t *testing.T, g *graph.Graph) {
	return func(t *testing.T, g *graph.Graph) {
		g.Output("y", op.Exp(op.Relu(strided(g, shape, strides))))
		require.NoError(t, g.Pin("x", pin))
	}
}

// The sentence names the layouts on both sides by dimensions, and a change by the caller that avoids the copy.
func TestExplain(t *testing.T) {
	end := 3
	cases := []struct {
		name, strategy, want string
		build                func(t *testing.T, g *graph.Graph)
	}{
		{"image", "propagate",
			"input `x` is stored in (N,C,H,W); `conv` (nhwc) needs (N,H,W,C); to avoid it, pass `x` in (N,H,W,C)",
			func(t *testing.T, g *graph.Graph) { conv(t, g, g.Input("x", f32, 2, 4, 6, 6)) }},
		{"view", "propagate",
			"`part` views `x` in (N,C,H,W) with stride 180 along N (padded); `conv` (nhwc) needs (N,H,W,C)",
			func(t *testing.T, g *graph.Graph) {
				conv(t, g, op.Slice(g.Input("x", f32, 2, 5, 6, 6), op.SliceAttrs{Dim: 1, End: &end}).Named("part"))
			}},
		{"padded image", "channels_last",
			"input `x` is stored in (N,H,W,C) with stride 32 along H (padded); `conv` (nhwc) needs it dense; " +
				"to avoid it, pass `x` dense. Strategy channels_last prefers channels_last for this value",
			func(t *testing.T, g *graph.Graph) { conv(t, g, strided(g, []int{2, 4, 6, 6}, []int{192, 1, 32, 4})) }},
		{"padded matrix", "propagate", "input `x` is stored in row-major order with stride 8 along dimension 0 (padded); " +
			"`x` is pinned to row-major order; to avoid it, pass `x` in row-major order, or remove the pin",
			pinnedInput([]int{6, 6}, []int{8, 1}, graph.Pin{Format: tensor.Contiguous})},
		{"transposed matrix", "propagate", "input `x` is stored in row-major order; `x` is pinned to column-major order; " +
			"to avoid it, pass `x` in column-major order, or remove the pin",
			pinnedInput([]int{6, 4}, []int{4, 1}, graph.Pin{Order: order(t, "1,0")})},
		{"transposed orders", "propagate", "input `x` is stored in dimension order (0,2,1); `x` is pinned to " +
			"dimension order (1,0,2); to avoid it, pass `x` in dimension order (1,0,2), or remove the pin",
			pinnedInput([]int{2, 3, 4}, []int{12, 1, 3}, graph.Pin{Order: order(t, "1,0,2")})},
		{"repeated elements", "propagate", "input `x` is stored in strides [0, 1] (padded); `x` is pinned to " +
			"row-major order; to avoid it, pass `x` in row-major order, or remove the pin",
			pinnedInput([]int{6, 4}, []int{0, 1}, graph.Pin{Format: tensor.Contiguous})},
		{"pinned value", "propagate",
			"`conv` before its pin (nhwc) writes (N,C,H,W); `conv` is pinned to (W,H,C,N); " +
				"to avoid it, remove the pin of `conv`",
			func(t *testing.T, g *graph.Graph) {
				conv(t, g, g.InputFormat("x", f32, tensor.ChannelsLast, 2, 4, 6, 6))
				require.NoError(t, g.Pin("conv", graph.Pin{Impl: "nhwc", Order: order(t, "3,2,1,0")}))
			}},
		{"output", "channels_last",
			"`conv` (nhwc) writes (N,H,W,C); output `y` keeps the layout of the graph as written, (N,C,H,W); " +
				"to avoid it, accept `y` in (N,H,W,C): --pin y=channels_last",
			func(t *testing.T, g *graph.Graph) {
				r := op.Conv2d(g.Input("x", f32, 2, 4, 6, 6), g.Input("w", f32, 4, 4, 1, 1), nil).Named("conv")
				g.Output("y", r).Output("mean", op.Mean(r))
				require.NoError(t, g.Pin("conv", graph.Pin{Impl: "nhwc"}))
			}},
		{"view as reader", "channels_last", "`pool` (pixels) writes (N,H,W,C); `flat` needs (N,C,H,W) for `y`",
			func(t *testing.T, g *graph.Graph) {
				if jit.Available() != nil {
					t.Skip("without machine code the pool writes the layout of the view")
				}
				r := op.Relu(op.Conv2d(g.Input("x", f32, 2, 4, 6, 6), g.Input("w", f32, 4, 4, 1, 1), nil))
				g.Output("y", op.Flatten(op.MaxPool2d(r, []int{2}).Named("pool"), op.FlattenAttrs{StartDim: 1}).Named("flat"))
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New("g", kernels.Lookup)
			c.build(t, g)
			text := reasonsOf(run(t, g, c.strategy))
			require.NotEmpty(t, text)
			assert.Contains(t, text, c.want)
		})
	}
}
