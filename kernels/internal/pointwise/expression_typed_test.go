package pointwise_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestExpressionsOfOneText checks that typings of one text with other numbers, names and operands are not confused.
func TestExpressionsOfOneText(t *testing.T) {
	for range 3 { // the first iteration fills the cache
		g := graphrun.New("g")
		x, i := g.Input("x", tensor.Float32, 2), g.Input("i", tensor.Int32, 2)
		apply := func(attrs graph.Attrs, in ...any) *graph.Value {
			attrs["expr"] = "a / b"
			return g.Apply("pointwise", attrs, in...)[0]
		}
		ab, ba := []string{"a", "b"}, []string{"b", "a"}
		named := map[string]struct {
			v    *graph.Value
			want float64
		}{
			"ab":      {apply(graph.Attrs{"params": ab}, x, 4), 0.5},
			"ba":      {apply(graph.Attrs{"params": ba}, x, 4), 2},
			"number":  {apply(graph.Attrs{"params": ab}, x, 8), 0.25},
			"zero":    {apply(graph.Attrs{"params": ab}, x, 0.0), math.Inf(1)},
			"minus":   {apply(graph.Attrs{"params": ab}, x, math.Copysign(0, -1)), math.Inf(-1)},
			"tensor":  {apply(graph.Attrs{"params": ab}, x, i), 0.4},
			"integer": {apply(graph.Attrs{"params": ab}, i, i), 1},
			"attr":    {apply(graph.Attrs{"params": ab[:1], "b": 2}, x), 1},
			"attr0":   {apply(graph.Attrs{"params": ab[:1], "b": 0.0}, x), math.Inf(1)},
			"attr-0":  {apply(graph.Attrs{"params": ab[:1], "b": math.Copysign(0, -1)}, x), math.Inf(-1)},
		}
		for name, c := range named {
			g.Output(name, c.v)
		}
		require.NoError(t, g.Err())
		p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
		require.NoError(t, err)
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{
			"x": tensor.Must(tensor.FromSlice([]float32{2, 2}, 2)), "i": tensor.Must(tensor.FromSlice([]int32{5, 5}, 2))})
		require.NoError(t, err)
		for name, c := range named {
			assert.InDelta(t, c.want, out[name].At(1).Float(), 1e-6, name)
		}
	}
}

// TestManyExpressions checks that the cache is bounded and usable after evictions.
func TestManyExpressions(t *testing.T) {
	g := graphrun.New("g")
	x := g.Input("x", tensor.Float32, 2)
	for k := range 1000 {
		v := g.Apply("pointwise", graph.Attrs{"expr": fmt.Sprintf("x + %d", k)}, x)[0]
		w := g.Apply("pointwise", graph.Attrs{"expr": "x * k", "k": k}, v)[0]
		require.NoError(t, g.Err())
		require.Equal(t, tensor.Float32, w.Meta.DType)
	}
}

// TestExpressionInferenceAllocates checks that inference with a cached typing allocates no more than for other ops.
func TestExpressionInferenceAllocates(t *testing.T) {
	n := expressionNode(t)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { require.NoError(t, n.Infer()) }), 20.0)
}

func expressionNode(t testing.TB) *graph.Node {
	g := graphrun.New("g")
	x, y := g.Input("x", tensor.Float32, 8, 8), g.Input("y", tensor.Float32, 8)
	v := g.Apply("pointwise", graph.Attrs{"expr": "where(x > 0, x * sigmoid(x), alpha * y)", "alpha": 0.5}, x, y)[0]
	require.NoError(t, g.Err())
	return v.Node
}

func BenchmarkExpressionInference(b *testing.B) {
	n := expressionNode(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := n.Infer(); err != nil {
			b.Fatal(err)
		}
	}
}
