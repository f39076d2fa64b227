package batch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// sum adds a constant with a slice for each of two rows to an input, and to an input without rows.
func sum(c []float32) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	x, k := g.Input("x", tensor.Float32, 2, 3), g.Input("k", tensor.Float32, 3)
	y := op.Add(op.Add(x, g.Constant("c", tensor.Must(tensor.FromSlice(c, 2, 3)))), k).Named("y")
	g.Output("y", y).Output("z", op.Neg(k))
	return g
}

// TestResize repeats a constant whose rows are equal, and rejects one whose rows differ.
func TestResize(t *testing.T) {
	g := sum([]float32{1, 2, 3, 1, 2, 3})
	require.NoError(t, g.Infer())
	p, err := batch.Follow(g, map[string]int{"x": 0})
	require.NoError(t, err)
	assert.Equal(t, 2, p.Rows)
	assert.Equal(t, []int{0, graph.Whole}, p.Outputs())
	h, err := p.Resize(3)
	require.NoError(t, err)
	out, err := graph.Evaluate(h, map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 3, 3),
		"k": tensor.Zeros(tensor.Float32, 3)})
	require.NoError(t, err)
	for row := range 3 {
		for i := range 3 {
			assert.Equal(t, float64(i+1), out["y"].At(row, i).Float())
		}
	}
	assert.Equal(t, []int{2, 3}, g.Value("y").Meta.Shape, "the graph of the proof is unchanged")
	_, err = p.Resize(0)
	assert.Error(t, err)

	g = sum([]float32{1, 2, 3, 4, 5, 6})
	require.NoError(t, g.Infer())
	_, err = batch.Follow(g, map[string]int{"x": 0})
	assert.ErrorContains(t, err, `operand "c", which does not depend on the rows`)
}

// TestFollowRejects checks the errors of wrong inputs.
func TestFollowRejects(t *testing.T) {
	g := sum([]float32{1, 2, 3, 1, 2, 3})
	require.NoError(t, g.Infer())
	for _, inputs := range []map[string]int{nil, {"q": 0}, {"c": 0}, {"x": 2}, {"x": -1}, {"x": 0, "k": 0}} {
		_, err := batch.Follow(g, inputs)
		assert.Error(t, err, "%v", inputs)
	}
	_, err := batch.Follow(nil, map[string]int{"x": 0})
	assert.Error(t, err)
}

// TestFollowOpen checks a graph whose number of rows is open: a value that is repeated for each row has rows.
func TestFollowOpen(t *testing.T) {
	build := func(rows, end int) *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", tensor.Float32, rows, 3)
		token := op.Expand(op.Ones(g, []int{1, 3}), []int{rows, 3}).Named("token")
		y := op.Cat([]*graph.Value{op.Add(x, op.Zeros(g, []int{rows, 1})), token}, op.CatAttrs{Dim: 1})
		g.Output("y", y).Output("token", token).Output("k", op.Arange(g, end).Named("k"))
		require.NoError(t, g.Err())
		require.NoError(t, g.Infer())
		return g
	}
	inputs := map[string]int{"x": 0}
	p, err := batch.FollowOpen(build(2, 5), build(7, 5), inputs)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 0, graph.Whole}, p.Outputs())
	h, err := p.Resize(4)
	require.NoError(t, err)
	assert.Equal(t, []int{4, 6}, h.Outputs[0].Value.Meta.Shape)
	assert.Equal(t, []int{4, 3}, h.Outputs[1].Value.Meta.Shape)

	_, err = batch.Follow(build(2, 5), inputs)
	assert.ErrorContains(t, err, "which does not depend on the rows")
	_, err = batch.FollowOpen(sum([]float32{1, 2, 3, 1, 2, 3}), sum([]float32{1, 2, 3, 1, 2, 4}), inputs)
	assert.ErrorContains(t, err, "both graphs have 2 rows")
	_, err = batch.FollowOpen(build(2, 2), build(7, 7), inputs)
	assert.ErrorContains(t, err, `"k" (arange): an attribute depends on the number of rows`)
	scaled := func(rows int, factor float32) *graph.Graph {
		g := graph.New("g", kernels.Lookup)
		c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, factor, 1}, 3)))
		g.Output("y", op.Mul(g.Input("x", tensor.Float32, rows, 3), c))
		require.NoError(t, g.Infer())
		return g
	}
	_, err = batch.FollowOpen(scaled(2, 5), scaled(7, 5), inputs)
	assert.NoError(t, err)
	_, err = batch.FollowOpen(scaled(2, 5), scaled(7, 6), inputs)
	assert.ErrorContains(t, err, "an operand depends on the number of rows")
	for _, other := range []*graph.Graph{nil, sum([]float32{1, 2, 3, 1, 2, 3}), graph.New("g", kernels.Lookup)} {
		if other != nil {
			require.NoError(t, other.Infer())
		}
		_, err = batch.FollowOpen(build(2, 5), other, inputs)
		assert.Error(t, err)
	}
}
