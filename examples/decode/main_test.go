package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestDecode decodes with a model whose next token is 1 plus the sum of its cache, so that a token that is missing in
// the cache changes all later tokens.
func TestDecode(t *testing.T) {
	const positions = 9
	g := graphrun.New("sum")
	tokens, earlier := g.Input("tokens", tensor.Int64, 1, 1), g.Input("seqlens_k", tensor.Int32, 1)
	cache := g.Input("past_0_key", tensor.Int64, 1, 1, positions, 1)
	index := op.Reshape(op.To(earlier, op.ToAttrs{DType: tensor.Int64}), []int{1, 1, 1, 1})
	present := op.Scatter(cache, index, op.Reshape(tokens, []int{1, 1, 1, 1}), 2)
	g.Output("next", op.Add(op.Reshape(op.Sum(present), []int{1, 1}), 1))
	g.Output("present_0_key", present)
	require.NoError(t, g.Err())
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	text, times, err := decode(t.Context(), p, g.Inputs, positions, 6)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 4, 8, 16, 32}, text)
	assert.Len(t, times, 6)
}
