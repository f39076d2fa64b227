package program

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// unplannable returns ops that inference takes, and planning or compilation does not.
func unplannable(t *testing.T) graph.Lookup {
	type nothing struct{}
	lower := func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil }
	ops := map[string]*graph.Op{}
	for name, lowerings := range map[string]graph.Lowerings{
		"novariant": {Impls: []graph.Impl{{Name: "only", Lower: lower,
			Walks: func(*graph.Call, []tensor.Order) []graph.Walk { return nil }}}},
		"panics": {Impls: []graph.Impl{{Name: "only", Lower: lower,
			Walks: func(*graph.Call, []tensor.Order) []graph.Walk { panic("a mistake in the rule") }}}},
		"noparts": {Decompose: func(*graph.Parts, *graph.Call) ([]*graph.Value, error) {
			return nil, errors.New("there are no parts")
		}},
		"nokernel": {Compile: func(*graph.Call) (*graph.Kernel, error) { return nil, errors.New("there is no kernel") }},
	} {
		kind := graph.OwnLayout
		if lowerings.Impls != nil {
			kind = graph.RequiresLayout
		}
		defined, err := fusion.Define(graph.Op{
			Semantics: graph.Semantics{
				Name: name, Params: []graph.Param{{Name: "self"}}, Schema: graph.SchemaOf[nothing](), Kind: kind,
				Infer: func(c *graph.Call) ([]graph.Result, error) { return c.NewResult(c.Type(0)), nil },
				Ref:   func(_ *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) { return in, nil },
			},
			Lowerings: lowerings,
		})
		require.NoError(t, err)
		ops[name] = defined
	}
	return func(name string) *graph.Op {
		if o := ops[name]; o != nil {
			return o
		}
		return kernels.Lookup(name)
	}
}

// A program computes what does not depend on failed nodes, whatever the stage at which these fail.
func TestKeepGoingPastEveryStage(t *testing.T) {
	g := graph.New("g", unplannable(t))
	x, index := g.Input("x", tensor.Float32, 2, 3, 4, 5), g.Input("i", tensor.Int64, 2)
	c := g.Constant("c", tensor.Must(tensor.FromSlice([]float32{1, 2, 3}, 3)))
	nine := g.Constant("nine", tensor.Must(tensor.FromSlice([]int64{9}, 1)))
	fine := g.Apply("relu", nil, x)[0]
	bad := g.Apply("novariant", nil, fine)[0]
	g.Output("fine", g.Apply("neg", nil, fine)[0]).Output("after", g.Apply("neg", nil, bad)[0])
	for _, name := range []string{"panics", "noparts", "nokernel"} {
		g.Output(name, op.Exp(g.Apply(name, nil, x)[0]))
	}
	g.Output("folded", op.IndexSelect(c, nine, 0).Named("folded")).Output("bad", bad)
	// The operands of the concatenation are slices of its result. One of them fails in the run, another is read.
	selected, slice := op.IndexSelect(x, index, 1).Named("selected"), op.Abs(x)
	g.Output("concat", op.Cat([]*graph.Value{op.Exp(selected), slice}, op.CatAttrs{Dim: 1}))
	g.Output("read", op.Cumsum(slice, 1)).Output("last", g.Apply("abs", nil, x)[0])
	require.NoError(t, g.Err())
	_, err := Compile(t.Context(), g, Options{})
	require.Error(t, err)
	ones := tensor.Must(tensor.FromSlice(slices.Repeat([]float32{1}, 120), 2, 3, 4, 5))
	in := map[string]*tensor.Tensor{"x": ones, "i": tensor.Must(tensor.FromSlice([]int64{1, 7}, 2))}
	placed := 0
	for _, strategy := range layout.All() {
		for _, check := range []bool{true, false} {
			p, err := Compile(t.Context(), g, Options{Strategy: strategy, KeepGoing: true, Check: check})
			require.NoError(t, err)
			out, err := p.Run(t.Context(), in)
			var incomplete *exec.Incomplete
			require.ErrorAs(t, err, &incomplete)
			var failed []string
			for _, failure := range incomplete.Failed {
				failed = append(failed, failure.Node)
			}
			assert.ElementsMatch(t, []string{"novariant", "panics", "noparts", "nokernel", "folded", "selected"}, failed,
				strategy.Name())
			assert.ErrorContains(t, err, "a mistake in the rule")
			assert.Len(t, incomplete.MissingOutputs, 7)
			for _, missing := range incomplete.MissingOutputs {
				assert.Contains(t, failed, missing.Node, missing.Output)
			}
			for _, name := range []string{"fine", "read", "last"} {
				assert.NotNil(t, out[name], name)
			}
			assert.Len(t, out, 3)
			assert.EqualValues(t, 3, out["read"].At(1, 2, 3, 4).Float(), strategy.Name())
			placed += len(p.FirstBinding().Plan.Placed)
		}
	}
	assert.Positive(t, placed)
}
