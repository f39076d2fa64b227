package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestEmbeddings converts an encoder that looks up a vector for each token.
func TestEmbeddings(t *testing.T) {
	dir := t.TempDir()
	g := graphrun.New("encoder")
	sizes := []graph.Dim{{Symbol: "N"}, {Symbol: "L"}}
	ids := g.InputDims("input_ids", tensor.Int64, tensor.NoFormat, sizes...)
	mask := g.InputDims("attention_mask", tensor.Int64, tensor.NoFormat, sizes...)
	rows := make([]float32, 2*(maxInline+1)) // too large for the graph file
	copy(rows, []float32{3, 0, 0, 4, 9, 9})
	table := g.Constant("table", tensor.Must(tensor.FromSlice(rows, maxInline+1, 2)))
	g.Output("last_hidden_state", op.Embedding(table, ids)).Output("mask", op.Neg(mask))
	require.NoError(t, g.Err())
	require.NoError(t, graphfile.SaveFile(filepath.Join(dir, "encoder.json"), g))
	path := filepath.Join(dir, "embedder.json")
	require.NoError(t, convert(filepath.Join(dir, "encoder.json"), path))

	g, err := graphrun.Load(t.Context(), path)
	require.NoError(t, err)
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	tokens := func(rows ...int64) *tensor.Tensor { return tensor.Must(tensor.FromSlice(rows, len(rows)/3, 3)) }
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{
		"input_ids":      tokens(0, 1, 2, 0, 0, 1, 2, 2, 2),
		"attention_mask": tokens(1, 1, 0, 1, 1, 0, 0, 0, 0)})
	require.NoError(t, err)
	assert.Len(t, out, 1)
	want := [][]float64{{0.6, 0.8}, {1, 0}, {0, 0}}
	for i, row := range want {
		for k, x := range row {
			assert.InDelta(t, x, out["embedding"].At(i, k).Float(), 1e-6)
		}
	}
}

func TestOtherModels(t *testing.T) {
	g := graphrun.New("other")
	g.Output("y", g.Input("x", tensor.Float32, 2))
	assert.ErrorContains(t, pool(g), "want an encoder")
}
