package program

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// weighted returns a graph of convolutions and a product whose weights are packed, and the values of the weights.
func weighted(t *testing.T) (*graph.Graph, map[string][]float32) {
	r, values := rand.New(rand.NewPCG(3, 4)), map[string][]float32{}
	g := graph.New("weighted", kernels.Lookup)
	weight := func(name string, shape ...int) *graph.Value {
		w := tensor.Zeros(tensor.Float32, shape...)
		for i := range w.Numel() {
			w.SetFlat(i, tensor.FloatScalar(r.Float64()-0.5))
		}
		var err error
		values[name], err = tensor.ToSlice[float32](w)
		require.NoError(t, err)
		return g.Constant(name, w)
	}
	x := g.Input("x", tensor.Float32, 1, 32, 14, 14)
	v := op.Conv2d(x, weight("near", 64, 32, 3, 3), nil, op.Conv2dAttrs{Padding: []int{1, 1}})
	v = op.Conv2d(v, weight("far", 64, 64, 1, 1), nil, op.Conv2dAttrs{})
	v = op.Linear(op.Flatten(op.Mean(v, op.MeanAttrs{Dim: []int{2, 3}}), op.FlattenAttrs{}), weight("last", 96, 64), nil)
	g.Output("y", v)
	require.NoError(t, g.Err())
	require.NoError(t, Infer(t.Context(), g))
	return g, values
}

// gone reports whether the storage was freed.
func gone(p weak.Pointer[tensor.Storage]) bool {
	for range 3 {
		runtime.GC()
	}
	return p.Value() == nil
}

// A program keeps each weight once, packed or as given. Callers can still read the given values.
func TestWeightsAreKeptOnce(t *testing.T) {
	for _, s := range []layout.Strategy{layout.Propagate, layout.ChannelsLast, layout.Optimal} {
		g, values := weighted(t)
		in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 1, 32, 14, 14)}
		for i := range in["x"].Numel() {
			in["x"].SetFlat(i, tensor.IntScalar(int64(i%7)))
		}
		given := map[string]weak.Pointer[tensor.Storage]{}
		for _, v := range g.Constants {
			given[v.Name] = weak.Make(v.Const.Storage())
		}
		p, err := Compile(t.Context(), g, Options{Strategy: s})
		require.NoError(t, err)
		other, err := Compile(t.Context(), g, Options{Strategy: s, Threads: 1})
		require.NoError(t, err)
		runtime.KeepAlive(g)
		packed := map[string]weak.Pointer[tensor.Storage]{}
		for _, v := range p.Planned().Constants {
			if v.Packed == nil {
				continue
			}
			assert.Same(t, v.Const.Storage(), other.Planned().Value(v.Name).Const.Storage(), "both read the same")
			packed[v.Packed.Of] = weak.Make(v.Const.Storage())
			assert.Equal(t, v.Packed.Kept() == nil, gone(given[v.Packed.Of]), "%s, %v", v.Packed.Of, s.Name())
		}
		require.NotEmpty(t, packed)
		for _, v := range p.FirstBinding().WithAllConstants().Constants {
			got, err := tensor.ToSlice[float32](v.Data())
			require.NoError(t, err)
			assert.Equal(t, values[v.Name], got, v.Name)
		}
		_, err = p.Problem()
		require.NoError(t, err)
		want, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		got, err := other.Run(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, want["y"].Storage().Bytes(), got["y"].Storage().Bytes())
		for name, storage := range packed {
			assert.True(t, gone(storage), "the packed weight %s is freed with the programs", name)
		}
	}
}
