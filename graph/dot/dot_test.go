package dot_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/dot"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMarshal(t *testing.T) {
	g := graph.New("two copies", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 2, 4, 5, 5)
	k := g.Constant("say \"k\"", tensor.Zeros(tensor.Float32, 5))
	twice := op.Add(x, x).Named("twice")
	half := g.Apply("mul", nil, twice, 0.5)[0].Named("half").Pinned(tensor.ChannelsLast)
	parts := g.Apply("chunk", graph.Attrs{"chunks": 2, "dim": 1}, half)
	joined := g.Apply("cat", nil, parts[1], parts[0], parts[1])[0]
	require.NoError(t, g.Err())
	n, err := g.Insert("joined.copy", "clone", []graph.Arg{{Kind: graph.TensorArg, Value: joined}}, nil,
		"conv2d wants channels_last")
	require.NoError(t, err)
	g.Nodes = append(g.Nodes, n)
	g.OutputFormat("y", n.Out[0], tensor.Contiguous).Output("k", k)
	require.NoError(t, g.Err())

	got, err := dot.Marshal(g)
	require.NoError(t, err)
	golden := filepath.Join("testdata", "copies.dot")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nrun with -update if that is right", got)
	}
	if again, _ := dot.Marshal(g); !bytes.Equal(again, got) {
		t.Error("the same graph gave two texts")
	}
}

// TestPlace: the box of a node says that its result is on a device.
func TestPlace(t *testing.T) {
	g := graph.New("places", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 2)
	y := g.Apply("add", nil, x, x)[0].Named("y")
	z := g.Apply("mul", nil, y, 0.5)[0].Named("z")
	g.Output("z", z)
	require.NoError(t, g.Err())
	y.Node.Impl = &graph.Impl{ResultPlace: tensor.Device}
	text, err := dot.Marshal(g)
	require.NoError(t, err)
	require.Contains(t, string(text), `"y\nadd\nfloat32[2]@(1) on the device"`)
	require.Contains(t, string(text), `"z\nmul other=0.5\nfloat32[2]@(1)"`)
}
