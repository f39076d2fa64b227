package experiment_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// rowsGraph is a product of n rows and a transposed branch: with more rows, other implementations are the cheapest.
func rowsGraph(n int) *graph.Graph {
	g := graph.New("rows", kernels.Lookup)
	x, w := g.Input("x", tensor.Float32, n, 96), g.Input("w", tensor.Float32, 96, 64)
	y := op.Relu(op.Mm(x, w).Named("product"))
	g.Output("y", y)
	return g
}

// TestPlansBySize compares the ranges with the plans of all sizes.
func TestPlansBySize(t *testing.T) {
	const most = 40
	calls := 0
	plan := func(_ context.Context, n int) (*graphrun.Program, error) {
		calls++
		if n%16 == 7 {
			return nil, errors.New("seven of sixteen")
		}
		return graphrun.Compile(ctx, rowsGraph(n), graphrun.Options{})
	}
	all, err := experiment.PlansBySize(t.Context(), 1, most, 2*most, plan)
	require.NoError(t, err)
	assert.True(t, all.Complete)
	assert.Equal(t, calls, all.Plans)
	assert.Greater(t, len(all.Ranges), 1)
	next, planned := 1, 0
	for _, r := range all.Ranges {
		assert.Equal(t, next, r.From)
		next = r.To + 1
		planned += len(r.Planned)
		if r.Rejected != "" {
			assert.Equal(t, "seven of sixteen", r.Rejected)
			continue
		}
		assert.Equal(t, r.From > 1, len(r.Changes) > 0 || r.From%16 == 8, "%+v", r)
		first := compiledBy(t, rowsGraph(r.From), graphrun.Options{})
		assert.Equal(t, first.Report().CostNS, r.CostNS)
		for _, n := range r.Planned {
			d, err := experiment.DiffSizes(first, compiledBy(t, rowsGraph(n), graphrun.Options{}))
			require.NoError(t, err)
			assert.True(t, d.Same, "%d and %d: %+v", r.From, n, d)
		}
	}
	assert.Equal(t, most+1, next)
	assert.Equal(t, all.Plans, planned)

	few, err := experiment.PlansBySize(t.Context(), 1, most, 3, plan)
	require.NoError(t, err)
	assert.Equal(t, 3, few.Plans)
	assert.False(t, few.Complete)
}

// TestPlansBySizeRejects checks wrong arguments, and that a canceled context ends the search.
func TestPlansBySizeRejects(t *testing.T) {
	none := func(context.Context, int) (*graphrun.Program, error) { return nil, errors.New("none") }
	for _, c := range [][3]int{{-1, 4, 8}, {4, 3, 8}, {1, 4, 1}, {1, min(1<<48, math.MaxInt), 8}} {
		_, err := experiment.PlansBySize(t.Context(), c[0], c[1], c[2], none)
		assert.Error(t, err, "%v", c)
	}
	_, err := experiment.PlansBySize(t.Context(), 1, 4, 8, nil)
	assert.Error(t, err)
	one, err := experiment.PlansBySize(t.Context(), 5, 5, 8, none)
	require.NoError(t, err)
	assert.Equal(t, []experiment.SizeRange{{From: 5, To: 5, Planned: []int{5}, Rejected: "none",
		Changes: []experiment.PlanChange{}}}, one.Ranges)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = experiment.PlansBySize(ctx, 1, 64, 8, func(context.Context, int) (*graphrun.Program, error) {
		cancel()
		return nil, ctx.Err()
	})
	assert.ErrorIs(t, err, context.Canceled)
}

// TestDiffSizes compares a pinned graph at two sizes: layouts and copies do not differ because of sizes, also where a
// dimension has one element, and a node of one plan only is listed.
func TestDiffSizes(t *testing.T) {
	image := func(n int, o graphrun.Options) *graphrun.Program {
		g := graph.New("image", kernels.Lookup)
		x := g.Input("x", tensor.Float32, n, 8, 6, 6)
		g.Output("y", op.Relu(op.Add(x, op.Permute(x, []int{0, 1, 3, 2}))))
		return compiledBy(t, g, o)
	}
	pinned := graphrun.Options{Pins: map[string]graph.Pin{"x": {Format: tensor.ChannelsLast}}}
	d, err := experiment.DiffSizes(image(1, pinned), image(5, pinned))
	require.NoError(t, err)
	assert.True(t, d.Same, "%+v", d)
	assert.Greater(t, d.DeltaNS, 0.0)
	d, err = experiment.Diff(image(1, pinned), image(5, pinned))
	require.NoError(t, err)
	assert.False(t, d.Same, "costs differ")
	d, err = experiment.DiffSizes(image(1, graphrun.Options{}), image(5, pinned))
	require.NoError(t, err)
	assert.False(t, d.Same)
	require.NotEmpty(t, d.OnlySecond)
	assert.Equal(t, "x", d.OnlySecond[0].Value)
}
