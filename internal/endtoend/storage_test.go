package endtoend_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// If an op reads the storage of a copy, the original can replace the copy only if it starts at the start of its memory.
// This applies also to views.
func TestStorageOfCopies(t *testing.T) {
	for start, copies := range []int{0, 1} {
		for _, s := range layout.All() {
			g := graph.New("storage", kernels.Lookup)
			x := g.Input("x", f32, 3, 4, 5)
			part := g.Apply("slice", graph.Attrs{"dim": 0, "start": start, "end": start + 2}, x)[0]
			turned := g.Apply("permute", graph.Attrs{"dims": []int{0, 2, 1}}, part)[0]
			own := g.Apply("clone", nil, turned)[0]
			g.Output("y", g.Apply("as_strided", graph.Attrs{"size": []int{3, 2}, "stride": []int{2, 1},
				"storage_offset": 1}, own)[0])
			require.NoError(t, g.Err())
			in := map[string]*tensor.Tensor{"x": (&joiner{rng: rand.New(rand.NewPCG(1, 2))}).fill(tensor.New(f32, 3, 4, 5))}
			want, err := graph.Evaluate(g, in)
			require.NoError(t, err)
			p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
			require.NoError(t, err, s.Name())
			if s == layout.Optimal {
				require.Equal(t, copies, copiesOf(p), "from %d", start)
			}
			program, err := exec.Compile(p.Graph, exec.Options{Threads: 1})
			require.NoError(t, err, s.Name())
			got, err := program.Run(t.Context(), in)
			require.NoError(t, err, s.Name())
			require.Equal(t, floats(want["y"]), floats(got["y"]), "%s, from %d", s.Name(), start)
		}
	}
}

// copiesOf counts the copies of a plan.
func copiesOf(p *passes.Plan) (made int) {
	for _, n := range p.Graph.Nodes {
		if n.Op.Identity && !n.IsView() {
			made++
		}
	}
	return made
}

// Outputs with the same elements in the same order, but different strides of dimensions of size 1, each have the
// inferred strides.
func TestStridesOfSizeOne(t *testing.T) {
	for _, s := range layout.All() {
		g := graph.New("one", kernels.Lookup)
		x := g.Input("x", f32, 7, 64, 1, 1)
		part := g.Apply("slice", graph.Attrs{"dim": 1, "start": 32}, x)[0]
		g.Output("last", g.Apply("contiguous", graph.Attrs{"memory_format": "channels_last"}, part)[0])
		g.Output("copy", g.Apply("clone", nil, part)[0])
		require.NoError(t, g.Err())
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err, s.Name())
		for i, want := range [][]int{{32, 1, 32, 32}, {32, 1, 1, 1}} {
			require.Equal(t, want, p.Graph.Outputs[i].Value.Meta.Strides, "%s, %s", s.Name(), p.Graph.Outputs[i].Name)
		}
	}
}

// The strides of dimensions of size 1 do not prevent a view that has the inferred addresses.
func TestStridesOfSizeOneInViews(t *testing.T) {
	for _, s := range layout.All() {
		g := graph.New("one", kernels.Lookup)
		x := g.Apply("relu", nil, g.Input("x", f32, 1, 4, 6))[0]
		turned := g.Apply("permute", graph.Attrs{"dims": []int{2, 0, 1}}, x)[0]
		g.Output("y", g.Apply("contiguous", nil, turned)[0])
		image := g.Input("image", f32, 3, 4, 3, 3)
		lies, err := tensor.NewOrder(0, 4, 2, 1, 3)
		require.NoError(t, err)
		one := g.Apply("unsqueeze", graph.Attrs{"dim": 1}, image)[0].PinnedTo(graph.Pin{Order: lies})
		g.Output("part", g.Apply("slice", graph.Attrs{"dim": 4, "step": 2}, one)[0])
		odd := g.InputMeta("odd", tensor.New(f32, 4, 1, 6).WithStrides([]int{6, 1, 1}))
		own := g.Apply("clone", graph.Attrs{"memory_format": "contiguous"}, odd)[0]
		g.Output("same", g.Apply("contiguous", nil, own)[0])
		require.NoError(t, g.Err())
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err, s.Name())
		for i, o := range g.Outputs {
			require.Equal(t, o.Value.Meta.Strides, p.Graph.Outputs[i].Value.Meta.Strides, "%s, %s", s.Name(), o.Name)
		}
		if s == layout.Optimal {
			require.Equal(t, 1, copiesOf(p), "the image is copied, and viewed as it is pinned")
		}
	}
}
