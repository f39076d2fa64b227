package graph_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func TestBuild(t *testing.T) {
	g := graph.New("small", graphtest.Lookup)
	a := g.InputFormat("a", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	b := g.Input("b", tensor.Float32, 4, 5)
	y := op.Add(a, b, op.AddAttrs{Alpha: op.Scalar(2)}).Named("sum").Pinned(tensor.Contiguous)
	z := g.Apply("relu", nil, y)[0]
	parts := g.Apply("chunk", graph.Attrs{"chunks": 3, "dim": 1}, z)
	g.Output("y", y).OutputFormat("part", parts[2], tensor.Contiguous)
	must(t, g.Err())
	must(t, graph.Verify(g, graph.Sorted|graph.Typed))
	if y.Meta.String() != "float32[2,3,4,5]@(60,20,5,1)" || g.Value("sum") != y || y.Node.Name != "sum" {
		t.Errorf("y is %v, named %s", y.Meta, y.Name)
	}
	if len(parts) != 3 || parts[1].Alias != z || parts[2].Meta.Offset != 40 {
		t.Errorf("parts are %v", parts)
	}
}

func TestLatePinReachesUsers(t *testing.T) {
	g := graph.New("late", graphtest.Lookup)
	a := g.Input("a", tensor.Float32, 2, 3, 4, 5)
	y := op.Add(a, a)
	z := op.Add(y, 1)
	y.Pinned(tensor.ChannelsLast)
	must(t, g.Err())
	if !z.Meta.IsChannelsLast() {
		t.Errorf("z is %v", z.Meta)
	}
	y.Pinned(tensor.ChannelsLast3d)
	if err := g.Err(); err == nil || !y.Meta.IsChannelsLast() {
		t.Errorf("refused pin: %v, y is %v", err, y.Meta)
	}
}

func TestSymbolicInputs(t *testing.T) {
	g := graph.New("symbolic", graphtest.Lookup)
	g.Symbols = map[string]graph.Bounds{"N": {Min: 4}}
	x := g.InputDims("x", tensor.Float32, tensor.NoFormat, graph.Dim{Symbol: "N"}, graph.Dim{Size: 3},
		graph.Dim{Symbol: "M"})
	y := g.Apply("expand", graph.Attrs{"size": []any{2, "N", 3, "M"}}, x)[0]
	must(t, g.Err())
	if got := y.Meta.String(); got != "float32[2,4,3,2]@(0,6,2,1)" {
		t.Errorf("y is %s", got)
	}
	must(t, g.Bind(map[string]int{"N": 5, "M": 7}))
	if got := y.Meta.String(); got != "float32[2,5,3,7]@(0,21,7,1)" {
		t.Errorf("bound, y is %s", got)
	}
}

func TestBuilderCollectsMistakes(t *testing.T) {
	for want, build := range map[string]func(g *graph.Graph, x *graph.Value){
		`node "nope" (nope): there is no op "nope"`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("nope", nil, x)
		},
		`node "add" (add): operand "other" is missing`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("add", nil, x, nil)
		},
		`node "add" (add): operand 1: want a value or a number, got string`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("add", nil, x, "x")
		},
		`node "add" (add): operand 1: value "x" belongs to another graph`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("add", nil, x, graph.New("", graphtest.Lookup).Input("x", tensor.Bool))
		},
		`node "add" (add): unknown attribute "beta": the op has alpha`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("add", graph.Attrs{"beta": 1}, x, x)
		},
		`node "add" (add): The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("add", nil, x, g.Input("y", tensor.Float32, 4))
		},
		`input "y": negative size -1 of dimension 0`: func(g *graph.Graph, x *graph.Value) {
			g.Input("y", tensor.Float32, -1)
		},
		`input "y": required rank 4 tensor to use channels_last format`: func(g *graph.Graph, x *graph.Value) {
			g.InputFormat("y", tensor.Float32, tensor.ChannelsLast, 1)
		},
		`two values are named "x"`: func(g *graph.Graph, x *graph.Value) {
			g.Input("x", tensor.Float32)
		},
		`a value needs a name`: func(g *graph.Graph, x *graph.Value) { op.Add(x, x).Named("") },
		`"x": required rank 4 tensor to use channels_last format`: func(g *graph.Graph, x *graph.Value) {
			x.Pinned(tensor.ChannelsLast)
		},
		`node "add" (add): a pin cannot demand the memory format preserve`: func(g *graph.Graph, x *graph.Value) {
			op.Add(x, 1).Pinned(tensor.Preserve)
		},
		`node "add" (add): required rank 4 tensor to use channels_last format`: func(g *graph.Graph, x *graph.Value) {
			op.Add(x, 1).Pinned(tensor.ChannelsLast)
		},
		`output "y" has no value`: func(g *graph.Graph, x *graph.Value) {
			g.Output("y", nil)
		},
		`two outputs are named "y"`: func(g *graph.Graph, x *graph.Value) {
			g.Output("y", x).Output("y", x)
		},
		`node "cat" (cat): expected a non-empty list of tensors`: func(g *graph.Graph, x *graph.Value) {
			g.Apply("cat", nil)
		},
		`node "var_mean" (var_mean): operand "self" must be a tensor, not a number`: func(g *graph.Graph, x *graph.Value) {
			_ = g.Apply("var_mean", nil, 2)[1]
		},
	} {
		g := graph.New("", graphtest.Lookup)
		build(g, g.Input("x", tensor.Float32, 2, 3))
		if err := g.Err(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestOneMistakeIsToldOnce(t *testing.T) {
	g := graph.New("", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	bad := g.Apply("relu", nil, 3)[0]
	y := op.Add(op.Add(bad, x).Named("more").Pinned(tensor.Contiguous), 1)
	g.Output("y", y)
	if err := g.Err(); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), `"relu" (relu)`) {
		t.Errorf("got %v", err)
	}
	if len(g.Nodes) != 0 || len(g.Outputs) != 0 || g.Value("more") != nil {
		t.Error("refused nodes are in the graph")
	}
	if err := graphfile.Save(&strings.Builder{}, g); err == nil {
		t.Error("a graph with mistakes was written")
	}
}

func TestOperandsLeftOutAtTheEndAreDropped(t *testing.T) {
	g := graph.New("", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 1, 2, 3, 3)
	y := g.Apply("conv2d", nil, x, x, nil)[0]
	var none *graph.Value
	z := g.Apply("conv2d", nil, x, x, none)[0]
	must(t, g.Err())
	if len(y.Node.In) != 2 || len(z.Node.In) != 2 {
		t.Errorf("operands are %v and %v", y.Node.In, z.Node.In)
	}
}

func TestInsertAndFresh(t *testing.T) {
	g := graph.New("", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 2, 3)
	n, err := g.Insert("x", "relu", []graph.Arg{{Kind: graph.TensorArg, Value: x}}, nil, "because")
	must(t, err)
	if n.Name != "x.1" || n.Out[0].Name != n.Name || n.Why != "because" || g.Value("x.1") != n.Out[0] {
		t.Errorf("inserted %+v", n)
	}
	g.Nodes = append(g.Nodes, n)
	must(t, graph.Verify(g, graph.Sorted|graph.Typed))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
