package program

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
	p, err := Compile(t.Context(), g, Options{})
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
		{[]int{6, 5}, `input "x": size 0 is 6, which does not fit: it is 2*N + 1, but no N gives this size`},
		{[]int{7, 2}, `input "x": size 1 is 2, which does not fit: it is M + N, but no M gives this size at N=3`},
	} {
		_, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, c.shape...)})
		require.ErrorContains(t, err, c.says)
	}
}

func TestSolveComparesWhatIsKnown(t *testing.T) {
	in := []*graph.Value{{Name: "x", Dims: []graph.Dim{{Symbol: "H"}, {Expr: "H//2 + 1"}, {Expr: "K*K"}}}}
	shapeOf := func(last ...int) func(string) ([]int, bool) { return func(string) ([]int, bool) { return last, true } }
	sizes, err := SizesOf(in, shapeOf(7, 4, 9), nil, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"H": 7, "K": 3}, sizes)
	_, err = SizesOf(in, shapeOf(7, 5, 9), nil, nil)
	require.EqualError(t, err, `input "x": size 1 is 5, which does not fit: H//2 + 1 is 4 at H=7`)
}

// sizedBy returns a graph with one input, whose sizes are expressions over H and W.
func sizedBy(dims ...string) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	g.Symbols = map[string]graph.Bounds{"H": {}, "W": {Min: 1, Max: 40}}
	list := make([]graph.Dim, len(dims))
	for i, text := range dims {
		list[i] = graph.Dim{Expr: text}
	}
	g.Output("y", g.Apply("neg", nil, g.InputDims("x", tensor.Float32, tensor.NoFormat, list...))[0])
	return g
}

// TestSizesWithinFunctionsComeFromShapes solves expressions that are not sums of symbols. It is an error if several
// sizes satisfy them.
func TestSizesWithinFunctionsComeFromShapes(t *testing.T) {
	for _, c := range []struct {
		dims  []string
		shape []int
		says  string
	}{
		{[]string{"H//2 + 1", "H//3"}, []int{9, 5}, `H//2 + 1 = 9 (size 0 of input "x") holds for H from 16 to 17`},
		{[]string{"H//2 + 1", "H//3"}, []int{9, 6}, "no H from 16 to 17 gives this size"},
		{[]string{"H//2 + 1", "(H + 1)//3"}, []int{9, 6}, ""}, // 17
		{[]string{"H*H + H"}, []int{56}, ""},
		{[]string{"H*H + H"}, []int{57}, "no H gives this size"},
		{[]string{"W//8"}, []int{5}, ""}, // at most 40
		{[]string{"W//8"}, []int{6}, "no W gives this size"},
		{[]string{"100 - Min(W, 30)"}, []int{75}, ""},
		{[]string{"100 - Min(W, 30)"}, []int{70}, "holds for W from 30 to 40"},
		{[]string{"H//2", "H - 1"}, []int{4, 7}, ""},
		{[]string{"H//2", "H - 1"}, []int{4, 6}, `no H from 8 to 9 gives this size, and H//2 = 4 (size 0 of input "x") holds for these H only`},
	} {
		p, err := Compile(t.Context(), sizedBy(c.dims...), Options{})
		require.NoError(t, err, "%v", c.dims)
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, c.shape...)})
		if c.says != "" {
			require.ErrorContains(t, err, c.says, "%v", c.dims)
			continue
		}
		require.NoError(t, err, "%v", c.dims)
		require.Equal(t, c.shape, out["y"].Shape)
	}
}

// TestGivenSizesSettleWhatShapesLeaveOpen: a given size is accepted although the shape permits several sizes.
func TestGivenSizesSettleWhatShapesLeaveOpen(t *testing.T) {
	p, err := Compile(t.Context(), sizedBy("H//2 + 1"), Options{Sizes: map[string]int{"H": 17}})
	require.NoError(t, err)
	_, err = p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 9)})
	require.NoError(t, err)
}
