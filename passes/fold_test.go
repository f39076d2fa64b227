package passes_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// What depends on constants alone is computed when the graph is planned, and listed.
func TestConstantsAreFolded(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := strided(g, []int{2, 3}, []int{1, 2}) // as h, which is therefore not converted
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)))
	h := op.Mul(op.T(c).Named("t"), 0.5).Named("h")
	g.Output("y", op.Add(x, h).Named("sum")).Output("h", h)
	p := run(t, g, "")
	assert.Equal(t, []string{"add"}, ops(p))
	assert.Equal(t, []report.Folding{{Node: "t", Op: "t"}, {Node: "h", Op: "mul", Bytes: 24}}, p.Folded)
	assert.NotNil(t, h.Node, "the graph given is not changed")
	require.Len(t, p.Graph.Constants, 1, "what nobody reads is dropped")
	folded := p.Graph.Constants[0]
	assert.Equal(t, "h", folded.Name)
	for i, want := range []float64{0.5, 1.5, 2.5, 1, 2, 3} {
		assert.Equal(t, want, folded.Const.At(i/3, i%3).Float())
	}
	assert.InDelta(t, p.Cost(p.Graph.Nodes[0]), p.CostNS, 1e-9, "what is computed ahead costs a run nothing")
}

// A result that no kernel can make, or much larger than what it is made of, is left to the run.
func TestFoldingLeavesWhatIsLarge(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4)))
	wide := op.Expand(c, []int{4096, 4})
	g.Output("y", op.Neg(wide).Named("big")).Output("z", op.Neg(c).Named("small"))
	p := run(t, g, "")
	assert.Equal(t, []string{"neg"}, ops(p))
	assert.Equal(t, "big", p.Graph.Nodes[0].Name)
}

// A result is small, but its operand repeats the elements of a constant so often that it is not read ahead.
func TestFoldingLeavesExpandedOperands(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4)))
	g.Output("y", op.Sum(op.Expand(c, []int{min(1<<40, math.MaxInt), 4})).Named("huge"))
	g.Output("z", op.Sum(op.Expand(c, []int{8, 4})).Named("little"))
	p := run(t, g, "")
	assert.Equal(t, []string{"huge"}, []string{p.Graph.Nodes[len(p.Graph.Nodes)-1].Name})
	assert.NotContains(t, ops(p)[:len(ops(p))-1], "sum")
}

// What cannot be computed is refused with its node, and left to the run where planning keeps going.
func TestFoldingThatFails(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 4)))
	i := g.Constant("i", tensor.Must(tensor.FromSlice([]int64{9}, 1)))
	g.Output("y", op.IndexSelect(c, i, 0).Named("pick"))
	require.NoError(t, g.Err())
	_, err := passes.Run(g, passes.Options{})
	assert.ErrorContains(t, err, `node "pick" (index_select)`)
}

// The room for what is computed ahead is that of the run: where it is too small, the run computes.
func TestFoldingKeepsToTheMemoryLimit(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	c := g.Constant("c", tensor.Zeros(f32, 100, 100))
	g.Output("y", op.Neg(c))
	for limit, want := range map[int]int{0: 0, -1: 0, 200_000: 0, 50_000: 1} {
		p, err := passes.Run(g, passes.Options{MemoryLimit: limit})
		require.NoError(t, err)
		assert.Len(t, p.Graph.Nodes, want, "limit %d", limit)
	}
}
