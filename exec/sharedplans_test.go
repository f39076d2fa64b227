package exec_test

import (
	"math/rand/v2"
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

// grown has values whose sizes grow with n at different rates, results that may overwrite operands, and values within
// others.
func grown(n int) *graph.Graph {
	g := graph.New("grown", kernels.Lookup)
	x := g.Input("x", tensor.Float32, n, 24)
	scores := op.Softmax(op.Matmul(x, op.Transpose(x, 0, 1)), 1)
	rows := op.Matmul(scores, op.Neg(x))
	columns := op.Matmul(op.Transpose(rows, 0, 1), op.Exp(scores))
	joined := op.Cat([]*graph.Value{op.Relu(rows), op.Transpose(columns, 0, 1), op.Abs(x)}, op.CatAttrs{Dim: 0})
	g.Output("y", op.Sum(op.Mul(joined, joined), op.SumAttrs{Dim: []int{1}}))
	return g.Output("rows", rows)
}

// Programs of one graph at several sizes share memory plans: a plan is the one that a program of its own would have,
// and steps that use the same memory wait for one another.
func TestMemoryPlansAreShared(t *testing.T) {
	for threads := 1; threads <= 3; threads++ {
		shared := new(exec.MemoryPlans)
		random := rand.New(rand.NewPCG(5, uint64(threads)))
		plans := map[int]bool{} // by size of the arena
		for _, n := range random.Perm(90) {
			g := grown(n)
			require.NoError(t, g.Err())
			plan, err := passes.Run(g, passes.Options{})
			require.NoError(t, err)
			compileWith := func(plans *exec.MemoryPlans) *exec.Program {
				p, err := exec.Compile(plan.Graph, exec.Options{Threads: threads, MemoryPlans: plans})
				require.NoError(t, err)
				return p
			}
			p, own, exact := compileWith(shared), compileWith(new(exec.MemoryPlans)), compileWith(nil)
			assert.Empty(t, p.Unordered(), "n=%d", n)
			assert.Equal(t, own.ArenaBytes(), p.ArenaBytes(), "n=%d", n)
			assert.Equal(t, own.Lifetimes(), p.Lifetimes(), "n=%d", n)
			assert.LessOrEqual(t, p.ArenaBytes(), 2*max(exact.ArenaBytes(), 1024), "n=%d", n)
			plans[p.ArenaBytes()] = true
			elements := make([]float32, n*24)
			for i := range elements {
				elements[i] = random.Float32() - 0.5
			}
			in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice(elements, n, 24))}
			got, err := p.Run(t.Context(), in)
			require.NoError(t, err)
			want, err := exact.Run(t.Context(), in)
			require.NoError(t, err)
			for name := range want {
				assert.Equal(t, want[name].Meta, got[name].Meta)
				a, err := tensor.ToSlice[float32](want[name])
				require.NoError(t, err)
				b, err := tensor.ToSlice[float32](got[name])
				require.NoError(t, err)
				assert.Equal(t, a, b, "n=%d", n)
			}
		}
		assert.Less(t, len(plans), 60, "arenas have few sizes")
	}
}
