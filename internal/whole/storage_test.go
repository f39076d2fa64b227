package whole_test

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

// A copy whose storage is read can be stood for by what it copies where that begins where its memory does, also by a
// view; not by a part that begins elsewhere.
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
			made := 0
			for _, n := range p.Graph.Nodes {
				if n.Op.Identity && !n.IsView() {
					made++
				}
			}
			if s == layout.Optimal {
				require.Equal(t, copies, made, "from %d", start)
			}
			program, err := exec.Compile(p.Graph, exec.Options{Threads: 1})
			require.NoError(t, err, s.Name())
			got, err := program.Run(t.Context(), in)
			require.NoError(t, err, s.Name())
			require.Equal(t, floats(want["y"]), floats(got["y"]), "%s, from %d", s.Name(), start)
		}
	}
}
