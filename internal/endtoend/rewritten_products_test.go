package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// drawEquation adds a random equation of two operands. Their labels are in any order, and the result has some of them.
func drawEquation(r *rand.Rand, g *graph.Graph) *graph.Value {
	names, sizes := "abcdef"[:2+r.IntN(5)], [6]int{}
	for i := range sizes {
		sizes[i] = 1 + r.IntN(7)
	}
	var shapes [2][]int
	var labels [3]string
	for _, l := range r.Perm(len(names)) {
		in := [][2]bool{{true, true}, {true, true}, {true, false}, {false, true}}[r.IntN(4)]
		for i, has := range in {
			if has {
				at := r.IntN(len(labels[i]) + 1)
				labels[i] = labels[i][:at] + names[l:l+1] + labels[i][at:]
			}
		}
		if in[0] != in[1] && r.IntN(20) > 0 || in[0] == in[1] && r.IntN(2) == 0 {
			at := r.IntN(len(labels[2]) + 1)
			labels[2] = labels[2][:at] + names[l:l+1] + labels[2][at:]
		}
	}
	for i, s := range labels[:2] {
		for _, l := range s {
			shapes[i] = append(shapes[i], sizes[l-'a'])
		}
	}
	x, y := g.Input("x", tensor.Float32, shapes[0]...), g.Input("z", tensor.Float32, shapes[1]...)
	return op.Einsum([]*graph.Value{x, y}, fmt.Sprintf("%s,%s->%s", labels[0], labels[1], labels[2]))
}

// drawShared adds a random product of batches of matrices that broadcast, often with one row each and a matrix that
// several share.
func drawShared(r *rand.Rand, g *graph.Graph) *graph.Value {
	rank, rows, k := 3+r.IntN(2), 1+r.IntN(2)*r.IntN(5), 1+r.IntN(20)
	x, y := []int{1 + r.IntN(6), rows, k}, []int{1, k, 1 + r.IntN(20)}
	if rank == 4 {
		n := 1 + r.IntN(4)
		x = append([]int{[]int{1, n}[r.IntN(2)]}, x...)
		y = append([]int{[]int{1, n}[r.IntN(2)]}, y...)
	}
	return op.Matmul(g.Input("x", tensor.Float32, x...), g.Input("z", tensor.Float32, y...))
}

// Equations, and products by a shared matrix, have the same results before and after they are rewritten, for any number
// of workers.
func TestRewrittenProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(2026, 12))
	times, rewritten := 300, map[bool]int{}
	if testing.Short() {
		times = 30
	}
	for i := range times {
		g := graph.New("g", kernels.Lookup)
		draw := []func(*rand.Rand, *graph.Graph) *graph.Value{drawEquation, drawEquation, drawShared}[i%3]
		g.Output("y", draw(r, g))
		require.NoError(t, g.Infer())
		in := map[string]*tensor.Tensor{}
		for _, v := range g.Inputs {
			in[v.Name] = operand(r, "", v.Meta)
		}
		run := func(o passes.Options, workers ...int) (results []*tensor.Tensor, n int) {
			o.Check = true
			p, err := passes.Run(g, o)
			require.NoError(t, err)
			for _, w := range workers {
				program, err := exec.Compile(p.Graph, exec.Options{Threads: w})
				require.NoError(t, err)
				out, err := program.Run(t.Context(), in)
				require.NoError(t, err)
				results = append(results, out["y"])
			}
			return results, len(p.Decomposed)
		}
		want, _ := run(passes.Options{Strategy: layout.Propagate, Passes: asWritten()}, 1)
		got, n := run(passes.Options{Strategy: layout.Optimal}, 1, 3)
		agrees(t, want[0], got[0])
		assert.Equal(t, got[0].Storage().Bytes(), got[1].Storage().Bytes(), "by several workers")
		if n > 0 {
			rewritten[i%3 == 2]++
		}
	}
	for shared, n := range rewritten {
		t.Logf("%d rewritten, shared %v", n, shared)
	}
	assert.Greater(t, min(rewritten[false], rewritten[true]), times/30, "%v are rewritten", rewritten)
}
