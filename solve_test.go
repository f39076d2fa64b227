package graphrun

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

func TestSizesWithinExpressionsComeFromShapes(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	g.Symbols = map[string]graph.Bounds{"N": {}, "M": {}}
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Expr: "2*N + 1"}, graph.Dim{Expr: "M + N"})
	g.Output("y", g.Apply("neg", nil, x)[0])
	require.NoError(t, g.Err())
	p, err := Compile(g, Options{})
	require.NoError(t, err)
	for _, shape := range [][]int{{7, 5}, {1, 0}, {3, 9}, {7, 5}} {
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, shape...)})
		require.NoError(t, err)
		require.Equal(t, shape, out["y"].Shape)
	}
	for _, c := range []struct {
		shape []int
		says  string
	}{
		{[]int{6, 5}, `input "x": size 0 is 6, which does not fit: it is 2*N + 1, and no size N gives that`},
		{[]int{7, 2}, `input "x": size 1 is 2, which does not fit: it is M + N, and no size M gives that at N=3`},
	} {
		_, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, c.shape...)})
		require.ErrorContains(t, err, c.says)
	}
}

func TestSolveComparesWhatIsKnown(t *testing.T) {
	in := []*graph.Value{{Name: "x", Dims: []graph.Dim{{Symbol: "H"}, {Expr: "H//2 + 1"}, {Expr: "K*K"}}}}
	shapeOf := func(last ...int) func(string) ([]int, bool) { return func(string) ([]int, bool) { return last, true } }
	sizes, err := sizesOf(in, shapeOf(7, 4, 9), nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"H": 7}, sizes)
	_, err = sizesOf(in, shapeOf(7, 5, 9), nil)
	require.EqualError(t, err, `input "x": size 1 is 5, which does not fit: H//2 + 1 is 4 at H=7`)
}
