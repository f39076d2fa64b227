package graph_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// TestPinShortNames: a node is pinned by the path of its module, and by a name with an ellipsis.
func TestPinShortNames(t *testing.T) {
	g := graphrun.New("net")
	x, w := g.Input("x", tensor.Float32, 1, 4, 8, 8), g.Input("w", tensor.Float32, 4, 4, 3, 3)
	y := g.Apply("conv2d", graph.Attrs{"padding": 1}, x, w)[0].Named("/d.0/d.0.3/Conv_output_0")
	y = g.Apply("relu", nil, y)[0].Named("/d.0/d.0.5/Relu_output_0")
	y = g.Apply("conv2d", nil, y, w)[0].Named("/d.1/a/Conv_output_0")
	y = g.Apply("relu", nil, y)[0].Named("/d.1/b/Relu_output_0")
	g.Output("y", y)
	require.NoError(t, g.Err())
	first, second := g.Nodes[0], g.Nodes[2]
	for name, pinned := range map[string]*graph.Node{
		"/d.0/d.0.3": first, "/d.0/d.0.5": first, "/d.0…Conv_output_0": first, "/d.0/d.0.3+/d.0/d.0.5": first,
		"/d.1/a": second, "/d.1/b": second, "/d.1/b/Relu_output_0": second,
	} {
		first.Pin, second.Pin = graph.Pin{}, graph.Pin{}
		assert.NoError(t, g.Pin(name, graph.Pin{Impl: "nchw"}), name)
		assert.Equal(t, "nchw", pinned.Pin.Impl, name)
		assert.Equal(t, 1, len(first.Pin.Impl+second.Pin.Impl)/len("nchw"), name)
	}
	for name, want := range map[string]string{
		"/d.0":              `"/d.0" may be any of "/d.0/d.0.3/Conv_output_0", "/d.0/d.0.5/Relu_output_0"`,
		"…Conv_output_0":    `may be any of "/d.0/d.0.3/Conv_output_0", "/d.1/a/Conv_output_0"`,
		"/d":                `there is no value or node "/d"`,
		"":                  `there is no value or node ""`,
		"/d.0/d.0.3+/d.1/a": `name one of "/d.0/d.0.3/Conv_output_0", "/d.1/a/Conv_output_0"`,
		"/d.0/d.0.3+":       `there is no value or node "/d.0/d.0.3+"`,
	} {
		assert.ErrorContains(t, g.Pin(name, graph.Pin{Impl: "nchw"}), want, name)
	}
	assert.ErrorContains(t, g.Pin("…x", graph.Pin{Impl: "nchw"}), "can be pinned only to a layout")
}
