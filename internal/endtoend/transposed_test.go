package endtoend_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// upsampling returns a transposed convolution, sometimes with an epilogue, which tiles or strips apply. The result may
// be an operand of a concatenation.
func upsampling(r *rand.Rand) (*graph.Graph, map[string]*tensor.Tensor) {
	g := graph.New("g", kernels.Lookup)
	x := normals(r, 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN(9), 1+r.IntN(12))
	if r.IntN(2) == 0 {
		m, _ := tensor.NewFormat(tensor.Float32, x.Shape, tensor.ChannelsLast)
		x = x.CopyTo(m)
	}
	in := map[string]*tensor.Tensor{"x": x}
	o, k, stride := 1+r.IntN(40), 1+r.IntN(4), 1+r.IntN(3)
	y := op.ConvTranspose2d(g.InputMeta("x", x.Meta), g.Constant("w", normals(r, x.Shape[1], o, k, k)),
		g.Constant("b", normals(r, o)), op.ConvTranspose2dAttrs{Stride: []int{stride}}).Named("up")
	shape := y.Meta.Shape
	if r.IntN(2) == 0 {
		y = op.Add(op.Mul(y, g.Constant("scale", normals(r, o, 1, 1))), g.Constant("shift", normals(r, o, 1, 1)))
	}
	if r.IntN(3) == 0 {
		in["more"] = normals(r, shape...)
		y = op.Add(y, g.InputMeta("more", in["more"].Meta))
	}
	switch r.IntN(3) {
	case 0:
		y = op.Relu(y)
	case 1:
		y = op.Tanh(y)
	}
	if r.IntN(3) == 0 {
		in["skip"] = normals(r, shape[0], 5, shape[2], shape[3])
		skip := op.Neg(g.InputMeta("skip", in["skip"].Meta))
		y = op.Relu(op.Conv2d(op.Cat([]*graph.Value{skip, y}, op.CatAttrs{Dim: 1}),
			g.Constant("last", normals(r, 8, 5+o, 1, 1)), nil))
	}
	g.Output("y", y)
	return g, in
}

// All implementations of transposed convolutions apply epilogues, and write within larger values.
func TestUpsamplings(t *testing.T) {
	testsize.Long(t)
	r := rand.New(rand.NewPCG(17, 4))
	direct := 0
	for i := range testsize.Of(25, 1500) {
		g, in := upsampling(r)
		require.NoError(t, g.Err())
		want, err := graph.Evaluate(g, in)
		require.NoError(t, err)
		for _, impl := range []string{"", "spread", "direct_nhwc", "direct_planes"} {
			if strings.HasPrefix(impl, "direct") && !loops.CodeAvailable() {
				continue
			}
			pinned := g.Clone()
			if impl != "" && pinned.Pin("up", graph.Pin{Impl: impl}) != nil {
				continue
			}
			p, err := passes.Run(pinned, passes.Options{Strategy: layout.Optimal, Check: i%10 == 0})
			require.NoError(t, err)
			direct += len(slices.DeleteFunc(slices.Clone(p.Graph.Nodes), func(n *graph.Node) bool {
				return n.Impl == nil || n.Impl.Name != "direct_planes"
			}))
			program, err := exec.Compile(p.Graph, exec.Options{Threads: 2})
			require.NoError(t, err)
			got, err := program.Run(t.Context(), in)
			require.NoError(t, err)
			assert.InDeltaSlice(t, floats(want["y"]), floats(got["y"]), 1e-3, "%d: %s", i, impl)
		}
	}
	if loops.CodeAvailable() {
		assert.Positive(t, direct)
	}
}
