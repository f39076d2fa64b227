package endtoend_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// Programs of one planned graph share its packed constants. The original constants take no memory in a run. Without the
// pass that packs, kernels pack in each run, with the same bits.
func TestProgramsSharePackedConstants(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 2, 8, 10, 10)
	w := g.Constant("w", ramp(16, 8, 3, 3))
	h := op.Conv2d(op.Conv2d(x, w, nil), g.Constant("v", ramp(16, 1, 3, 3)), nil, op.Conv2dAttrs{Groups: new(16)})
	g.Output("y", op.Linear(op.Flatten(h, op.FlattenAttrs{StartDim: 1}), g.Constant("l", ramp(40, 16*36)), nil))
	require.NoError(t, g.Err())
	require.NoError(t, g.Pin(g.Outputs[0].Value.Name, graph.Pin{Impl: "thin"})) // regardless of the prices
	packed, err := passes.Run(g, passes.Options{Check: true})
	require.NoError(t, err)
	require.Len(t, packed.Packed, 1, "the product is thin, and planes are read in their own layouts")
	list := slices.DeleteFunc(passes.Passes(), func(p passes.Pass) bool { return p.Name == "lower" })
	plain, err := passes.Run(g, passes.Options{Passes: list})
	require.NoError(t, err)
	in := map[string]*tensor.Tensor{"x": ramp(2, 8, 10, 10)}
	var first []float32
	for i, p := range []*passes.Plan{packed, packed, plain} {
		program, err := exec.Compile(p.Graph, exec.Options{Threads: 1 + i})
		require.NoError(t, err)
		out, err := program.Run(context.Background(), in)
		require.NoError(t, err)
		if i == 0 {
			first = floats(out["y"])
		}
		assert.Equal(t, first, floats(out["y"]))
		need, bytes := program.Need(), 4*(16*9+40*16*36)
		if i < 2 {
			assert.Equal(t, bytes, need.Constants, "those that nobody packed")
			assert.Equal(t, packed.Packed[0].Bytes, need.Packed)
		} else {
			assert.Equal(t, bytes+4*16*8*9, need.Constants)
			assert.Zero(t, need.Packed)
		}
	}
}

// If passes pack without folding afterwards, each run packs, with the same bits.
func TestPackingRuns(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 30, 40)
	g.Output("y", op.Matmul(x, g.Constant("w", ramp(40, 50))))
	g.Output("z", op.Softmax(op.Matmul(x, g.Constant("v", ramp(40, 70))), -1))
	require.NoError(t, g.Err())
	list := passes.Passes()
	last := len(list) - 1
	for list[last].Name != "pack" {
		last--
	}
	var want []float32
	for i, list := range [][]passes.Pass{list, slices.Delete(slices.Clone(list), last, last+1)} {
		p, err := passes.Run(g, passes.Options{Passes: list, Check: true})
		require.NoError(t, err)
		require.Len(t, p.Graph.Nodes, 3+2*i)
		program, err := exec.Compile(p.Graph, exec.Options{Threads: 2})
		require.NoError(t, err)
		for range 2 {
			out, err := program.Run(context.Background(), map[string]*tensor.Tensor{"x": ramp(30, 40)})
			require.NoError(t, err)
			got := append(floats(out["y"]), floats(out["z"])...)
			if want == nil {
				want = got
			}
			assert.Equal(t, want, got)
		}
	}
}

// ramp returns a tensor of small positive and negative numbers.
func ramp(shape ...int) *tensor.Tensor {
	x := tensor.Zeros(tensor.Float32, shape...)
	for i := range x.Numel() {
		x.SetFlat(i, tensor.FloatScalar(float64(i%11-5)/4))
	}
	return x
}
