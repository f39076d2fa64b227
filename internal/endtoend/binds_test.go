package endtoend_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// binding lists the ops whose inference binds a size to a number although other sizes are possible, and the reason.
var binding = map[string]string{
	"cov":                "the number of observations is a number operand of a division",
	"corrcoef":           "the number of observations is a number operand of a division",
	"logcumsumexp":       "the number of additions is the logarithm of the size",
	"linalg_matrix_rank": "the tolerance is the precision of the dtype times the greater size",
	"linalg_pinv":        "the tolerance is the precision of the dtype times the greater size",
	"pdist":              "the pairs of rows are listed",
	"gather_nd":          "the last size of indices tells how many dimensions the result has",
}

// bindsFreely reports whether inference of a graph binds N although another size greater than 1 is possible.
func bindsFreely(g *graph.Graph, n int) (bool, error) {
	s, err := g.Symbolic(map[string]int{"N": n})
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(s.Guards, func(g graph.Guard) bool { return g.Binds != nil }) {
		return false, nil
	}
	for other := 2; other < 2*n+4; other++ {
		if other != n && g.Clone().Bind(map[string]int{"N": other}) == nil {
			return true, nil
		}
	}
	return false, nil
}

// TestOpsStaySymbolic makes a symbol of each size of each example of all ops. Only the listed ops may bind it if other
// sizes are possible.
func TestOpsStaySymbolic(t *testing.T) {
	testsize.Long(t)
	asked := 0
	for _, op := range kernels.All() {
		binds := false
		for i, e := range op.Examples {
			done := map[int]bool{0: true, 1: true}
			for _, m := range e.In {
				for _, n := range m.Shape {
					if done[n] {
						continue
					}
					done[n] = true
					same := func(operand, dim int) bool { return e.In[operand].Shape[dim] == n }
					g, err := exampleGraph(op, e, n, graph.Bounds{Min: 2}, same)
					require.NoError(t, err, "%s, example %d, size %d", op.Name, i, n)
					free, err := bindsFreely(g, n)
					require.NoError(t, err, "%s, example %d, size %d", op.Name, i, n)
					binds, asked = binds || free, asked+1
				}
			}
		}
		if why := binding[op.Name]; why == "" {
			assert.False(t, binds, "%s binds sizes", op.Name)
		} else {
			assert.True(t, binds, "%s is listed since %s", op.Name, why)
		}
	}
	require.Greater(t, asked, 500)
}

// TestFillsOfSizes fills with numbers that are computed from sizes. One class serves all sizes, except for those whose
// number does not fit the dtype. A constant that is computed for one size is not used for another.
func TestFillsOfSizes(t *testing.T) {
	g := graphrun.New("fills")
	x := g.InputDims("x", f32, tensor.NoFormat, graph.Dim{Symbol: "N"})
	whole := g.Apply("full", graph.Attrs{"size": []int{1}, "fill_value": "N*N"})[0]
	small := g.Apply("full_like", graph.Attrs{"fill_value": "20*N", "dtype": tensor.Int8}, x)[0]
	g.Output("y", g.Apply("add", nil, g.Apply("add", nil, x, whole)[0], small)[0])
	require.NoError(t, g.Err())
	require.Equal(t, tensor.Int64, whole.Meta.DType)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	for _, n := range []int{1, 2, 3, 6, 0, 3} {
		out, err := p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(f32, n)})
		require.NoError(t, err)
		for _, y := range floats(out["y"]) {
			require.Equal(t, float32(n*n+20*n), y)
		}
	}
	_, err = p.Run(context.Background(), map[string]*tensor.Tensor{"x": tensor.Zeros(f32, 7)})
	require.ErrorContains(t, err, "value cannot be converted to type int8_t without overflow")
	classes, err := inspect.Specializations(p)
	require.NoError(t, err)
	require.Len(t, classes, 1)
	require.Contains(t, classes[0].Holds, "Le(20*N, 127)")
	for _, guard := range classes[0].Guards {
		require.Empty(t, guard.Binds)
	}
}
