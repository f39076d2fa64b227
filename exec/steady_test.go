package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// steady are chains of real ops, by what runs them: each is applied to what the one before gave.
var steady = []struct {
	name  string
	shape []int
	chain []link
}{
	{"pointwise", []int{64, 300}, []link{{"exp", nil, nil}, {"add", nil, [][]int{{300}}}, {"tanh", nil, nil}}},
	{"strided", []int{300, 200}, []link{{"permute", graph.Attrs{"dims": []int{1, 0}}, nil},
		{"add", nil, [][]int{{200, 300}}}, {"contiguous", nil, nil}}},
	{"rows", []int{200, 300}, []link{{"softmax", graph.Attrs{"dim": 1}, nil},
		{"layer_norm", graph.Attrs{"normalized_shape": 300}, nil}, {"relu", nil, nil}}},
	{"norms of samples", []int{2, 24, 10, 10}, []link{
		{"group_norm", graph.Attrs{"num_groups": 6}, [][]int{{24}, {24}}}, {"silu", nil, nil},
		{"instance_norm", nil, [][]int{{24}, {24}}}, {"relu", nil, nil}}},
	{"reductions", []int{40, 50, 60}, []link{{"sum", graph.Attrs{"dim": 1}, nil}, {"amax", graph.Attrs{"dim": 0}, nil},
		{"cumsum", graph.Attrs{"dim": 0}, nil}, {"var", graph.Attrs{"dim": 0}, nil}}},
	{"products", []int{96, 128}, []link{{"linear", nil, [][]int{{160, 128}, {160}}}, {"matmul", nil, [][]int{{160, 70}}},
		{"gelu", nil, nil}}},
	{"convolutions", []int{2, 16, 20, 20}, []link{
		{"conv2d", graph.Attrs{"padding": 1}, [][]int{{24, 16, 3, 3}, {24}}}, {"relu", nil, nil},
		{"conv2d", graph.Attrs{"groups": 24, "padding": 1}, [][]int{{24, 1, 3, 3}, {24}}},
		{"max_pool2d", graph.Attrs{"kernel_size": 2}, nil}, {"mean", graph.Attrs{"dim": []int{2, 3}}, nil}}},
	{"copies", []int{30, 40}, []link{{"cat", graph.Attrs{"dim": 0}, [][]int{{20, 40}}},
		{"pad", graph.Attrs{"pad": []int{1, 2, 3, 4}}, nil}, {"flip", graph.Attrs{"dims": []int{1}}, nil}}},
}

// link is an op, its attributes, and the shapes of the constants behind its first operand.
type link struct {
	op     string
	attrs  graph.Attrs
	consts [][]int
}

// TestNothingIsAllocatedByKernels runs real ops as they are planned: in the steady state a run takes no memory.
func TestNothingIsAllocatedByKernels(t *testing.T) {
	if testsize.Race {
		t.Skip("under the race detector a sync.Pool forgets what it is given now and then")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // and so it does when garbage is collected
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range steady {
		g := graph.New(tc.name, kernels.Lookup)
		x := g.Input("x", tensor.Float32, tc.shape...)
		v := x
		for i, l := range tc.chain {
			operands := []any{v}
			for k, shape := range l.consts {
				operands = append(operands, g.Constant(fmt.Sprint("c", i, k), random(rng, tensor.New(tensor.Float32, shape...))))
			}
			out := g.Apply(l.op, l.attrs, operands...)
			require.NoError(t, g.Err(), tc.name)
			v = out[0]
		}
		g.Output("y", v)
		for _, s := range layout.All() {
			for _, threads := range []int{1, 2} {
				p, err := passes.Run(g, passes.Options{Strategy: s})
				require.NoError(t, err, tc.name)
				program, err := exec.Compile(p.Graph, exec.Options{Threads: threads, Costs: anyWork()})
				require.NoError(t, err, tc.name)
				in := []*tensor.Tensor{random(rng, x.Meta)}
				out := []*tensor.Tensor{tensor.Empty(p.Graph.Outputs[0].Value.Meta)}
				run := func() { require.NoError(t, program.RunInto(context.Background(), in, out)) }
				for range 20 {
					run()
				}
				assert.Zero(t, testing.AllocsPerRun(30, run), "%s by %s, %d threads", tc.name, s.Name(), threads)
			}
		}
	}
}
