package passes

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// opaque copies and has no reference; fragile has one that refuses.
func withOwnOps(name string) *graph.Op {
	o := graph.Op{
		Semantics: graph.Semantics{
			Name: name, Params: []graph.Param{{Name: "self"}},
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return c.NewResult(tensor.New(c.Meta(0).DType, c.Meta(0).Shape...).Type()), nil
			},
		},
		Lowerings: graph.Lowerings{
			Compile: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil },
		},
	}
	switch name {
	case "opaque":
		o.NoRef = "it asks the hardware"
	case "fragile":
		o.Ref = func(*graph.Call, []*tensor.Tensor) ([]*tensor.Tensor, error) { return nil, errors.New("wants 3") }
	default:
		return kernels.Lookup(name)
	}
	d, err := fusion.Define(o)
	if err != nil {
		panic(err)
	}
	return d
}

func TestUnchecked(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(g *graph.Graph, x *graph.Value)
		want  []report.Unchecked
		says  string
	}{
		{"all is checked", func(g *graph.Graph, x *graph.Value) { g.Output("y", op.Relu(x)) }, nil, ""},
		{"an op without a reference", func(g *graph.Graph, x *graph.Value) {
			o := g.Apply("opaque", nil, x)[0].Named("o")
			g.Apply("opaque", nil, x) // no output needs it
			g.Output("y", op.Relu(o)).Output("z", op.Neg(x)).Output("o", o)
		}, []report.Unchecked{{Node: "o", Op: "opaque",
			Why: "the op has no reference: it asks the hardware", Outputs: []string{"y", "o"}}},
			`the values of outputs "y", "o" were not checked: node "o" (opaque): the op has no reference: it asks the hardware`},
		{"a reference that refuses what was made up", func(g *graph.Graph, x *graph.Value) {
			g.Output("y", g.Apply("fragile", nil, x)[0].Named("f"))
		}, []report.Unchecked{{Node: "f", Op: "fragile",
			Why: "the reference of its op rejects the generated data: wants 3", Outputs: []string{"y"}}},
			`the values of output "y" were not checked: node "f" (fragile): the reference of its op rejects`},
		{"a large graph", func(g *graph.Graph, x *graph.Value) {
			g.Output("y", op.Repeat(x, []int{1 << 20, 1}))
		}, []report.Unchecked{{Why: "the graph is too large, with more than 1048576 elements in all values together",
			Outputs: []string{"y"}}},
			`the values of output "y" were not checked: the graph is too large`},
		{"no outputs", func(*graph.Graph, *graph.Value) {}, []report.Unchecked{{Why: "the graph has no outputs", Outputs: []string{}}},
			"no values were checked: the graph has no outputs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph.New("g", withOwnOps)
			c.build(g, g.Input("x", tensor.Float32, 2, 3))
			require.NoError(t, g.Err())
			p, err := Run(g, Options{Check: true})
			require.NoError(t, err)
			assert.Equal(t, c.want, p.Unchecked)
			if len(c.want) > 0 {
				assert.True(t, strings.HasPrefix(c.want[0].String(), c.says), c.want[0].String())
			}
			p, err = Run(g, Options{})
			require.NoError(t, err)
			assert.Nil(t, p.Unchecked)
		})
	}
}

// A pass that changes a value, or makes the evaluation fail, is named, even where another
// output cannot be checked.
func TestBrokenPassIsNamed(t *testing.T) {
	whole := pipeline
	defer func() { pipeline = whole }()
	swap := func(name string) func(p *Plan) error {
		return func(p *Plan) error {
			for _, n := range p.Graph.Nodes {
				if n.Op.Name == "relu" {
					n.Op = withOwnOps(name)
				}
			}
			return nil
		}
	}
	for name, want := range map[string]string{
		"neg":     `after pass broken: output "z" changed its value: element 0 is`,
		"fragile": `after pass broken: node "r" (fragile): wants 3`,
		"opaque":  `after pass broken: output "z" can no longer be evaluated`,
	} {
		pipeline = append([]Pass{{Name: "broken", Run: swap(name)}}, whole...)
		g := graph.New("g", withOwnOps)
		x := g.Input("x", tensor.Float32, 2, 3)
		g.Output("y", g.Apply("opaque", nil, x)[0]).Output("z", op.Relu(x).Named("r"))
		require.NoError(t, g.Err())
		_, err := Run(g, Options{Check: true})
		assert.ErrorContains(t, err, want)
	}
}

func TestNoGraph(t *testing.T) {
	_, err := Run(nil, Options{})
	assert.EqualError(t, err, "the graph to plan is nil")
}
