package graphrun_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// TestPorts describes sizes that are fixed, open, computed from open ones, and dependent on data.
func TestPorts(t *testing.T) {
	const f = tensor.Float32
	g := graphrun.New("ports")
	past := g.InputDims("past", f, tensor.Contiguous, graph.Dim{Symbol: "N"}, graph.Dim{Symbol: "P"}, graph.Dim{Size: 4})
	x := g.InputDims("x", f, tensor.Contiguous, graph.Dim{Symbol: "N"}, graph.Dim{Size: 2}, graph.Dim{Size: 4})
	g.Output("present", op.Cat([]*graph.Value{past, x}, op.CatAttrs{Dim: 1})).Output("sums", op.Sum(x,
		op.SumAttrs{Dim: []int{1}}))
	b := g.Symbols["N"]
	b.NameInFile = "batch-size"
	g.Symbols["N"] = b
	ports := func(options graphrun.Options, g *graph.Graph) map[string][]string {
		p, err := graphrun.Compile(ctx, g, options)
		require.NoError(t, err)
		sizes := map[string][]string{}
		for _, port := range append(p.Inputs(), p.Outputs()...) {
			assert.Equal(t, len(port.Shape), len(port.Sizes), port.Name)
			for i, size := range port.Shape {
				assert.Equal(t, size >= 0, port.Sizes[i] >= "0" && port.Sizes[i] <= "9", "%s: %v %v", port.Name, port.Shape,
					port.Sizes)
			}
			sizes[port.Name] = port.Sizes
		}
		return sizes
	}
	assert.Equal(t, map[string][]string{"past": {"batch-size", "P", "4"}, "x": {"batch-size", "2", "4"},
		"present": {"batch-size", "P + 2", "4"}, "sums": {"batch-size", "4"}}, ports(graphrun.Options{}, g))
	assert.Equal(t, map[string][]string{"past": {"3", "P", "4"}, "x": {"3", "2", "4"}, "present": {"3", "P + 2", "4"},
		"sums": {"3", "4"}}, ports(graphrun.Options{Sizes: map[string]int{"N": 3}}, g))

	g = graphrun.New("data")
	x = g.InputDims("x", f, tensor.Contiguous, graph.Dim{Symbol: "N"}, graph.Dim{Size: 4})
	g.Output("places", op.Nonzero(x)).Output("same", op.Relu(x))
	assert.Equal(t, map[string][]string{"x": {"N", "4"}, "places": {"?", "2"}, "same": {"?", "4"}},
		ports(graphrun.Options{}, g))
	assert.Equal(t, map[string][]string{"x": {"2", "4"}, "places": {"?", "2"}, "same": {"2", "4"}},
		ports(graphrun.Options{Sizes: map[string]int{"N": 2}}, g))
}

// TestOneElementForAScalar: a scalar may be given as a tensor of one element; other shapes are errors.
func TestOneElementForAScalar(t *testing.T) {
	g := graphrun.New("scalar")
	x, s := g.Input("x", tensor.Float32, 3), g.Input("s", tensor.Float32)
	g.Output("y", op.Mul(x, s))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	run := func(shape ...int) ([]float32, error) {
		data := make([]float32, tensor.Numel(shape))
		for i := range data {
			data[i] = 5
		}
		in := map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{1, 2, 3}, 3)),
			"s": tensor.Must(tensor.FromSlice(data, shape...))}
		out, err := p.Run(t.Context(), in)
		if err != nil {
			return nil, err
		}
		assert.Equal(t, shape, in["s"].Shape, "the caller's map has the caller's tensor")
		return tensor.Data[float32](out["y"]), nil
	}
	for _, shape := range [][]int{{}, {1}, {1, 1}} {
		y, err := run(shape...)
		require.NoError(t, err)
		assert.Equal(t, []float32{5, 10, 15}, y)
	}
	_, err = run(2)
	require.EqualError(t, err, `input "s" has shape [2], the graph wants []`)
	_, err = run(0)
	require.Error(t, err)
}
