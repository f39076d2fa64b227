package fusion_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Rows that do not fit a call are refused when it is compiled: their loops would leave its operands.
func TestRowsRefuse(t *testing.T) {
	code := func() *expr.Code {
		b := expr.NewBuilder(tensor.Float32, tensor.Float32)
		c, err := b.Build(expr.Output{DType: tensor.Float32,
			Re: b.Emit(expr.Mul, b.Emit(expr.Sub, b.Load(0), b.Reduce(expr.Max, b.Load(0))), b.Load(1)), Im: expr.None})
		require.NoError(t, err)
		return c
	}()
	split, plain, vector := []bool{false, false, true, true}, []bool{false, false, true}, []bool{false, true}
	for _, c := range []struct {
		rows   graph.Rows
		vector []int
		out    []int
		want   string
	}{
		{graph.Rows{Mask: split, ChannelGroups: 2, Channels: vector}, []int{4}, []int{2, 4, 3}, ""},
		{graph.Rows{Mask: split, ChannelGroups: 2}, []int{3}, []int{2, 4, 3}, ""},
		{graph.Rows{Mask: plain, Channels: vector}, []int{4}, []int{2, 4, 3}, ""},
		{graph.Rows{Mask: split, ChannelGroups: 3}, []int{3}, []int{2, 4, 3},
			"dimension 1 of shape [2, 4, 3] cannot be split into 3 parts"},
		{graph.Rows{Mask: split, ChannelGroups: -1}, []int{3}, []int{2, 4, 3},
			"dimension 1 of shape [2, 4, 3] cannot be split into -1 parts"},
		{graph.Rows{Mask: plain, ChannelGroups: 2}, []int{3}, []int{2, 4, 3},
			"a mask of 3 dimensions does not fit shape [2, 4, 3]"},
		{graph.Rows{Mask: split}, []int{3}, []int{2, 4, 3}, "a mask of 4 dimensions does not fit shape [2, 4, 3]"},
		{graph.Rows{Mask: split, ChannelGroups: 2}, []int{3}, []int{2, 4, 1},
			"result 0 has shape [2, 4, 1], not the shape of the operand"},
		{graph.Rows{Mask: plain, Channels: vector}, []int{4, 1}, []int{2, 4, 3},
			"operand 1 of shape [4, 1] is not a vector along dimension 1"},
		{graph.Rows{Mask: plain, Channels: vector}, []int{3}, []int{2, 4, 3},
			"The expanded size of the tensor (4) must match"},
	} {
		c.rows.In, c.rows.Code = []int{0, 1}, code
		call := &graph.Call{Out: []tensor.Meta{tensor.New(tensor.Float32, c.out...)}}
		for _, shape := range [][]int{{2, 4, 3}, c.vector} {
			m := tensor.New(tensor.Float32, shape...)
			call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: m}})
		}
		_, err := fusion.CompileRows(&c.rows, call)
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}

// Rows that are too long or too few are told from those that suit.
func TestUnsuitedRows(t *testing.T) {
	groups := &graph.Rows{Mask: []bool{false, false, true, true}, ChannelGroups: 2}
	assert.Empty(t, groups.UnsuitedReason([]int{2, 4, 3}))
	assert.Equal(t, "has rows of no elements", groups.UnsuitedReason([]int{2, 4, 0}))
	assert.Equal(t, "has rows of 80000 elements; the limit is 65536", groups.UnsuitedReason([]int{2, 4, 40000}))
	assert.Equal(t, "has 2 rows, too few for workers to share", groups.UnsuitedReason([]int{1, 4, 4000}))
	assert.Equal(t, "has no rows", groups.UnsuitedReason([]int{2}))
	assert.Equal(t, "has no rows", (*graph.Rows)(nil).UnsuitedReason([]int{2}))
	assert.False(t, (*graph.Rows)(nil).SplitsRows([]int{2}))
}

// Rows that are long or few suit where pieces of them tell all results: they are cut. Any other second sweep has to
// wait. Places are numbers of 31 bits at most.
func TestCutRows(t *testing.T) {
	b := expr.NewBuilder(tensor.Float32)
	x := b.Load(0)
	sum := b.Reduce(expr.Add, x)
	once, err := b.Build(expr.Output{DType: tensor.Float32, Re: sum, Im: expr.None})
	require.NoError(t, err)
	b = expr.NewBuilder(tensor.Float32)
	x = b.Load(0)
	again := b.Reduce(expr.Max, b.Emit(expr.Sub, x, b.Reduce(expr.Add, x)))
	twice, err := b.Build(expr.Output{DType: tensor.Float32, Re: again, Im: expr.None})
	require.NoError(t, err)
	b = expr.NewBuilder(tensor.Float32)
	x = b.Load(0)
	where := b.Emit(expr.Select, b.Emit(expr.Eq, x, b.Reduce(expr.Max, x)), b.Position(), b.Int(tensor.Int32, 1<<30))
	first, err := b.Build(b.Real(b.Reduce(expr.Min, where)))
	require.NoError(t, err)
	rows := func(c *expr.Code) *graph.Rows { return &graph.Rows{Mask: []bool{false, true}, In: []int{0}, Code: c} }
	assert.True(t, rows(first).SplitsRows([]int{1, expr.MaxCutLen}))
	assert.False(t, rows(first).SplitsRows([]int{1, expr.MaxCutLen + 1}))
	assert.True(t, rows(once).SplitsRows([]int{1, expr.MaxCutLen + 1}))
	for _, long := range [][]int{{8, 80000}, {2, 5000}} {
		assert.True(t, rows(first).SplitsRows(long))
		assert.Empty(t, rows(first).UnsuitedReason(long))
		assert.True(t, rows(once).SplitsRows(long))
		assert.Empty(t, rows(once).UnsuitedReason(long))
		assert.False(t, rows(twice).SplitsRows(long))
		assert.NotEmpty(t, rows(twice).UnsuitedReason(long))
	}
	assert.False(t, rows(once).SplitsRows([]int{8, 100}))
	assert.False(t, rows(once).SplitsRows([]int{8, 0}))
	assert.False(t, rows(once).SplitsRows([]int{80000}))
}
