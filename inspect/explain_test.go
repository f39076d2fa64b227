package inspect_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// A channels-last image is added to a row-major plane: the first operand decides.
func ExampleExplain() {
	g := graph.New("g", kernels.Lookup)
	image := g.InputFormat("image", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	plane := g.Input("plane", tensor.Float32, 2, 3, 4, 5)
	g.Output("out", op.Add(image, plane).Named("sum"))
	p, err := graphrun.Compile(context.Background(), g, graphrun.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := inspect.Explain(p, "sum")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range e.Layout.Sort {
		fmt.Printf("dimensions %d and %d: %s, %s, exchanged: %t\n", c.Faster, c.Slower, c.By, c.Why, c.Exchanged)
	}
	fmt.Println("slowest first:", e.Layout.Order)
	fmt.Println(e.Outcome.What)
	// Output:
	// dimensions 3 and 2: image, strides 3 and 15, exchanged: false
	// dimensions 2 and 1: image, strides 15 and 1, exchanged: true
	// dimensions 3 and 1: image, strides 3 and 1, exchanged: true
	// dimensions 2 and 0: image, strides 15 and 60, exchanged: false
	// slowest first: [0 2 3 1]
	// a separate step computes it
}

// For equal or repeated dimensions the sort names the operand that decides, or none.
func TestExplainTies(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	row, column := g.Input("row", tensor.Float32, 1, 4), g.Input("column", tensor.Float32, 3, 1)
	g.Output("out", op.Add(row, column).Named("outer"))
	alike := g.InputMeta("alike", tensor.New(tensor.Float32, 3, 2, 2).WithStrides([]int{4, 2, 2}))
	g.Output("tied", op.Add(alike, g.Input("other", tensor.Float32, 3, 2, 2)).Named("tie"))
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	e, err := inspect.Explain(p, "outer")
	require.NoError(t, err)
	require.Len(t, e.Layout.Sort, 1)
	assert.Equal(t, "", e.Layout.Sort[0].By, "each operand repeats one of the two")
	want := []inspect.Operand{{Name: "row", Strides: report.Sizes{{}, {N: 1}}},
		{Name: "column", Strides: report.Sizes{{N: 1}, {}}}}
	assert.Equal(t, want, e.Layout.Operands)
	e, err = inspect.Explain(p, "tie")
	require.NoError(t, err)
	assert.Equal(t, "other", e.Layout.Sort[0].By, "equal strides and sizes decide nothing")
	_, err = inspect.Explain(p, "tye")
	assert.EqualError(t, err, `there is no value "tye"; did you mean tie?`)
	_, err = inspect.Explain(new(graphrun.Program), "tie")
	assert.Error(t, err)
}

// An image of one channel is in both formats: no format is lost where it is read.
func TestFirstBreakOfAmbiguousImages(t *testing.T) {
	for channels, want := range map[int]string{1: "", 3: "turned"} {
		g := graph.New("g", kernels.Lookup)
		image := g.InputFormat("image", tensor.Float32, tensor.ChannelsLast, 2, channels, 4, 5)
		g.Output("out", op.Transpose(image, 2, 3).Named("turned"))
		require.NoError(t, g.Infer())
		v, err := inspect.FirstBreak(g, tensor.ChannelsLast)
		require.NoError(t, err)
		if want == "" {
			assert.Nil(t, v)
		} else {
			assert.Equal(t, want, v.Name)
		}
	}
	_, err := inspect.FirstBreak(graph.New("g", kernels.Lookup), tensor.Preserve)
	assert.ErrorContains(t, err, "no value has memory format preserve")
	_, err = inspect.FirstBreak(nil, tensor.Contiguous)
	assert.Error(t, err)
}

// The reason for the op's rule follows in the same sentence.
func TestExplainOwnRule(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	image := g.InputFormat("image", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	indices := g.Input("indices", tensor.Int64, 2, 3, 4, 5)
	g.Output("out", op.MaxUnpool2d(image, indices, []int{8, 10}).Named("wide"))
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	e, err := inspect.Explain(p, "wide")
	require.NoError(t, err)
	assert.Equal(t, "max_unpool2d has its own layout rule; image is channels-last, indices is row-major; "+
		"the result is channels-last; indices are positions in planes", e.Layout.Why)
}
