package symbolic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// symbols returns Symbols with inputs N and M, and the expressions of the two.
func symbols(t *testing.T) (s *Symbols, n, m sym.Int) {
	t.Helper()
	s = NewSymbols()
	require.NoError(t, s.AddInput("N", 2))
	require.NoError(t, s.AddInput("M", 3))
	return s, s.Inputs()["N"], s.Inputs()["M"]
}

// evaluate applies an op to tensors.
func evaluate(t *testing.T, s *Symbols, name string, attrs graph.Attrs, operands ...*Tensor) *Tensor {
	t.Helper()
	op := kernels.Lookup(name)
	decoded, err := op.Schema.Decode(attrs, nil)
	require.NoError(t, err)
	call := &graph.Call{Attrs: decoded}
	for _, x := range operands {
		meta := tensor.New(x.DType, x.Shape...)
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: meta, Type: meta.Type()}})
	}
	results, err := op.Infer(call)
	require.NoError(t, err)
	lists := s.Evaluate(op, call, operands, results)
	if lists == nil {
		return nil
	}
	return &Tensor{DType: results[0].Meta().DType, Shape: results[0].Meta().Shape, Elements: lists[0]}
}

func TestEvaluate(t *testing.T) {
	s, n, m := symbols(t)
	sizes := Ints([]int{2}, n, m)
	sum := evaluate(t, s, "add", nil, sizes, Ints([]int{1}, sym.Of(1)))
	require.Equal(t, "N + 1", sum.Integers()[0].String())
	require.Equal(t, "M + 1", sum.Integers()[1].String())
	product, ok := evaluate(t, s, "prod", nil, sizes).Int()
	require.True(t, ok)
	require.True(t, product.Same(n.Mul(m)))
	equal, ok := evaluate(t, s, "eq", nil, Ints(nil, n), Ints(nil, m)).Bool()
	require.True(t, ok)
	require.Equal(t, "Eq(N, M)", equal.String())
	require.Nil(t, evaluate(t, s, "sin", nil, FromData(tensor.FloatScalar(1).Tensor(tensor.Float32))))
	require.Nil(t, FromData(tensor.Zeros(tensor.Int64, MaxElements+1)))
}

// TestScaledSizes scales a size in float32, as exporters write it. The bound of the symbol is the greatest size that
// float32 represents exactly.
func TestScaledSizes(t *testing.T) {
	s, n, _ := symbols(t)
	float := evaluate(t, s, "to", graph.Attrs{"dtype": tensor.Float32}, Ints(nil, n))
	half := FromData(tensor.FloatScalar(0.5).Tensor(tensor.Float32))
	scaled := evaluate(t, s, "floor", nil, evaluate(t, s, "mul", nil, float, half))
	require.Empty(t, s.Limits())
	size, ok := evaluate(t, s, "to", graph.Attrs{"dtype": tensor.Int64}, scaled).Int()
	require.True(t, ok)
	require.Equal(t, "N//2", size.String())
	require.Equal(t, map[string]int{"N": 1 << 24}, s.Limits())

	third := FromData(tensor.FloatScalar(1.0 / 3).Tensor(tensor.Float32))
	require.Nil(t, evaluate(t, s, "mul", nil, float, third), "the product is rounded before it is rounded down")
}

func TestSymbolsOfData(t *testing.T) {
	s, n, _ := symbols(t)
	unknown := s.NewUnknown(0)
	require.False(t, unknown.Same(s.NewUnknown(0)))
	names, ok := s.NamesIn(n.Add(sym.Of(1)).String())
	require.True(t, ok)
	require.Equal(t, []string{"N"}, names)
	_, ok = s.NamesIn(n.Add(unknown).String())
	require.False(t, ok, "the size depends on data")
	attr := s.Attr(n.Mul(sym.Of(2)))
	require.Equal(t, "2*N", attr)
	require.True(t, s.HasExpressions(graph.Attrs{"size": []any{1, attr}}))
	require.False(t, s.HasExpressions(graph.Attrs{"size": []any{1, "M"}, "mode": "N"}))
	require.Equal(t, 7, s.Attr(sym.Of(7)))
	require.Equal(t, []int{4, -1}, sym.KnownOrMinusOne([]sym.Int{sym.Of(4), n}))
}

// TestResultShapes infers a broadcast of two symbolic sizes, which has a case for each equality with 1.
func TestResultShapes(t *testing.T) {
	s, n, m := symbols(t)
	g := graph.New("g", kernels.Lookup)
	x, y := g.Input("x", tensor.Float32, 2, 5), g.Input("y", tensor.Float32, 2, 5)
	z := g.Apply("add", nil, x, y)[0]
	require.NoError(t, g.Err())
	types := []tensor.Type{tensor.NewType(tensor.Float32, n, sym.Of(5)), tensor.NewType(tensor.Float32, m, sym.Of(5))}
	shapes := s.ResultShapes(z.Node, types, []*graph.Value{z})
	require.Len(t, shapes, 1)
	require.Equal(t, []int{-1, 5}, sym.KnownOrMinusOne(shapes[0]))
	for _, c := range [][3]int{{1, 4, 4}, {4, 1, 4}, {4, 4, 4}} {
		size, err := shapes[0][0].At(map[string]int{"N": c[0], "M": c[1]})
		require.NoError(t, err)
		require.Equal(t, c[2], size)
	}
}
