package passes_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// A composite op runs as others; the values keep their names and pins, and so do errors.
func TestDecompose(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, y := g.Input("x", f32, 3), g.Input("y", f32, 4)
	o := op.Outer(x, y).Named("o")
	g.Output("t", op.Trace(o).Named("t")).Output("o", o)
	for _, s := range layout.All() {
		p, err := passes.Run(g, passes.Options{Strategy: s, Check: true})
		require.NoError(t, err)
		assert.Equal(t, []string{"reshape", "mul", "diagonal", "sum"}, ops(p))
		assert.Equal(t, []report.Decomposition{{Node: "o", Op: "outer", Into: []string{"o.reshape", "o"}},
			{Node: "t", Op: "trace", Into: []string{"t.diagonal", "t"}}}, p.Decomposed)
		part := p.Graph.Nodes[2]
		assert.ErrorContains(t, p.Graph.NodeError(part, errors.New("no luck")), `node "t" (trace): no luck`)
		for _, v := range []string{"o", "t"} {
			assert.Equal(t, v, p.Graph.Value(v).Node.Name)
		}
	}
	assert.Equal(t, "outer", o.Node.Op.Name, "the graph given is not changed")
	pin, err := graph.ParsePin("order:1,0")
	require.NoError(t, err)
	o.PinnedTo(pin)
	p := run(t, g, "")
	assert.Equal(t, []int{1, 3}, p.Graph.Value("o").Meta.Strides)
}

type nothing struct{}

// double is y = x + x as a composite op whose Decompose is the test's.
func double(t *testing.T, parts func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error)) *graph.Graph {
	o, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "double", Params: []graph.Param{{Name: "self"}},
			Schema: graph.SchemaOf[nothing](),
			Infer:  func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Type(0)), nil },
			Ref: func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				y := tensor.Zeros(f32, 3, 4)
				for i := range 12 {
					y.Set(tensor.FloatScalar(2*in[0].At(i/4, i%4).Float()), i/4, i%4)
				}
				return []*tensor.Tensor{y}, nil
			},
		},
		Lowerings: graph.Lowerings{Decompose: parts},
	})
	require.NoError(t, err)
	g := graph.New("g", func(name string) *graph.Op {
		if name == "double" {
			return o
		}
		return kernels.Lookup(name)
	})
	x := g.Input("x", f32, 3, 4)
	g.Output("y", g.Apply("double", nil, x)[0].Named("d")).Output("z", op.Neg(x))
	require.NoError(t, g.Err())
	return g
}

// Parts that do not make what the node makes are refused at the node; where planning keeps going, it is
// left out.
func TestWrongParts(t *testing.T) {
	add := func(p *graph.Parts, name string, a graph.Attrs, in ...graph.Arg) ([]*graph.Value, error) {
		return p.Add(kernels.Lookup(name), a, in...)
	}
	for want, parts := range map[string]func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error){
		"its parts return 0 results, want 1": func(*graph.Parts, *graph.Call) ([]*graph.Value, error) {
			return nil, nil
		},
		"no part computes result 0": func(_ *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			return []*graph.Value{c.In[0].Value}, nil
		},
		"result 0 of its parts is float32[3]": func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			return add(p, "sum", graph.Attrs{"dim": 1}, c.In[0])
		},
		"result 0 of its parts has layout float32[3,4]@(1,3)": func(p *graph.Parts,
			c *graph.Call) ([]*graph.Value, error) {
			v, err := add(p, "t", nil, c.In[0])
			require.NoError(t, err)
			if v, err = add(p, "contiguous", nil, graph.ArgOf(v[0])); err != nil {
				return nil, err
			}
			return add(p, "t", nil, graph.ArgOf(v[0]))
		},
		"sum: ": func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			return add(p, "sum", graph.Attrs{"dim": 7}, c.In[0])
		},
		"nil: the op was not made by graph.Define": func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
			return p.Add(nil, nil, c.In...)
		},
	} {
		g := double(t, parts)
		_, err := passes.Run(g, passes.Options{})
		assert.ErrorContains(t, err, `node "d" (double): `+want)
	}
	// The names that refused parts had are free again.
	g := double(t, func(p *graph.Parts, c *graph.Call) ([]*graph.Value, error) {
		v, err := add(p, "add", nil, c.In[0], c.In[0])
		require.NoError(t, err)
		return []*graph.Value{v[0], v[0]}, nil
	})
	n := g.Nodes[0]
	for range 2 {
		_, err := g.Decompose(n)
		assert.ErrorContains(t, err, "its parts return 2 results")
		assert.Nil(t, g.Value("d.add"))
	}
	_, err := g.Decompose(g.Nodes[1])
	assert.ErrorContains(t, err, "its op has no Decompose")
}
