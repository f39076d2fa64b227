package graph_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/graphtest"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

const all = graph.Sorted | graph.Typed | graph.LaidOut

// sound builds a graph for which all properties hold.
func sound(t testing.TB) *graph.Graph {
	g := graph.New("sound", graphtest.Lookup)
	x := g.Input("x", tensor.Float32, 2, 4, 5, 5)
	w := g.Constant("w", tensor.Zeros(tensor.Float32, 4, 4, 1, 1))
	y := g.Apply("conv2d", nil, x, w)[0].Named("y")
	y.Node.Impl, y.Node.Walk = &y.Node.Op.Impls[0], y.Node.Call().WalkInOrder(tensor.RowMajorOrder(4))
	s := op.Add(y, 1).Named("s").Pinned(tensor.ChannelsLast)
	s.Node.Impl = &s.Node.Op.Impls[0]
	p := g.Apply("permute", graph.Attrs{"dims": []int{0, 2, 3, 1}}, s)[0].Named("p")
	g.OutputFormat("out", p, tensor.Contiguous)
	must(t, g.Err())
	must(t, graph.Verify(g, all))
	return g
}

func TestVerifyFindsWhatIsBroken(t *testing.T) {
	strides := func(v *graph.Value, st ...int) { v.Meta = v.Meta.WithStrides(st) }
	for want, breakIt := range map[string]func(g *graph.Graph){
		`operand 0, "y", is not an input, a constant, or an output of an earlier node`: func(g *graph.Graph) {
			g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0]
		},
		`operand 0, "s", is not an input`: func(g *graph.Graph) {
			g.Nodes = append(g.Nodes[:1:1], g.Nodes[2])
		},
		`operand 0 is a tensor, but its value is nil`: func(g *graph.Graph) {
			g.Nodes[0].In[0].Value = nil
		},
		`takes at most 1 operand, got 2`: func(g *graph.Graph) {
			g.Nodes[2].In = append(g.Nodes[2].In, g.Nodes[2].In[0])
		},
		`output 0 has another producer`: func(g *graph.Graph) {
			g.Value("s").Node = g.Nodes[0]
		},
		`two values are named "x"`: func(g *graph.Graph) {
			g.Value("s").Name = "x"
		},
		`a look-up of the name "t" does not return the value`: func(g *graph.Graph) {
			g.Value("s").Name = "t"
		},
		`a look-up of its name does not return the node`: func(g *graph.Graph) {
			g.Nodes[1].Name = "t"
		},
		`it has no op`: func(g *graph.Graph) { g.Nodes[1].Op = nil },
		`"p" shares storage with "y", which is not an operand`: func(g *graph.Graph) {
			g.Value("p").Alias = g.Value("y")
		},
		`needs 804 bytes of the storage of "s", which has 800`: func(g *graph.Graph) {
			g.Value("p").Meta.Offset = 1
		},
		`value "s": it is float64`: func(g *graph.Graph) { g.Value("s").Meta.DType = tensor.Float64 },
		`value "p": it is float32[2,5,5,4]@(100,4,20,1) of "s", inferred is`: func(g *graph.Graph) {
			strides(g.Value("p"), 100, 4, 20, 1)
		},
		`value "s": its layout was chosen by a pass and must be dense`: func(g *graph.Graph) {
			strides(g.Value("s"), 0, 1, 20, 4)
		},
		`value "s", float32[2,4,5,5]@(100,25,5,1), is pinned to channels_last`: func(g *graph.Graph) {
			strides(g.Value("s"), 100, 25, 5, 1)
		},
		`no implementation is chosen`: func(g *graph.Graph) { g.Nodes[0].Impl = nil },
		`implementation nhwc cannot read the layout of operand 0: "x" is`: func(g *graph.Graph) {
			g.Nodes[0].Impl = &g.Nodes[0].Op.Impls[1]
		},
		`implementation nchw writes output 0 in order channels_last, but "y" is`: func(g *graph.Graph) {
			o, _ := tensor.ChannelsLast.Order(4)
			g.Nodes[0].Walk.ResultOrders[0] = o
		},
		`output "out": float32[2,5,5,4]@(100,20,4,1) is pinned to channels`: func(g *graph.Graph) {
			g.Outputs[0].Pin = graph.Pin{Format: tensor.ChannelsLast}
		},
		`output "out": value "p" is not of the graph`: func(g *graph.Graph) { g.Nodes = g.Nodes[:2] },
		`two outputs are named "out"`:                 func(g *graph.Graph) { g.Outputs = append(g.Outputs, g.Outputs[0]) },
		`output "out" has no value`:                   func(g *graph.Graph) { g.Outputs[0].Value = nil },
		`constant "w": its meta is`:                   func(g *graph.Graph) { g.Value("w").Meta.Strides = []int{4, 1, 4, 4} },
		`value "x" is in the wrong list`:              func(g *graph.Graph) { g.Value("x").Const = g.Value("w").Const },
		`value "y": negative stride`:                  func(g *graph.Graph) { strides(g.Value("y"), 100, 25, 5, -1) },
	} {
		g := sound(t)
		breakIt(g)
		if err := graph.Verify(g, all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestVerifyAsksOnlyForTheProperties(t *testing.T) {
	g := sound(t)
	g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0]
	g.Nodes[1].Impl = nil
	g.Value("s").Meta.DType = tensor.Int32
	must(t, graph.Verify(g, 0))
	for _, p := range []graph.Props{graph.Sorted, graph.Typed, graph.LaidOut} {
		if graph.Verify(g, p) == nil {
			t.Errorf("%v holds", p)
		}
	}
	if s := all.String(); s != "sorted, typed, laid out" {
		t.Errorf("the properties are %s", s)
	}
}

func TestVerifyLetsLayoutsBeChosen(t *testing.T) {
	g := sound(t)
	s := g.Value("s")
	s.Node.Pin = graph.Pin{}
	s.Meta = s.Meta.WithStrides([]int{1, 2, 8, 40})
	must(t, g.Nodes[2].Infer())
	must(t, graph.Verify(g, graph.Sorted|graph.Typed))
}
