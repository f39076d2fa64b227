package graphrun_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Own passes plan the graph in their places, for every size that runs bring, and the report tells what they did.
func TestOwnPasses(t *testing.T) {
	runs := 0
	own := passes.Pass{Name: "negate", Doc: "negates outputs", Needs: graph.Typed, Run: func(p *passes.Plan) error {
		runs++
		for i, o := range p.Graph.Outputs {
			n, err := p.Graph.Insert("negated", "neg", []graph.Arg{graph.ArgOf(o.Value)}, nil, "")
			if err != nil {
				return err
			}
			p.Graph.Nodes = append(p.Graph.Nodes, n)
			p.Graph.Outputs[i].Value = n.Out[0]
		}
		p.Note("%d negated", len(p.Graph.Outputs))
		return nil
	}}
	list, err := passes.After(passes.Passes(), "infer", own)
	require.NoError(t, err)
	plain, err := graphrun.Compile(symbolic(), graphrun.Options{})
	require.NoError(t, err)
	p, err := graphrun.Compile(symbolic(), graphrun.Options{Passes: list})
	require.NoError(t, err)
	list[1] = passes.Pass{} // the program has the list as it was given
	var names []string
	for _, done := range p.Report().Passes {
		names = append(names, done.Pass)
		if done.Pass == "negate" {
			assert.Equal(t, report.Pass{Pass: "negate", Doc: "negates outputs", Did: "1 negated", Nodes: 3,
				MS: done.MS}, done)
		}
	}
	assert.Equal(t, []string{"infer", "negate", "rewrite", "decompose"}, names[:4])
	for _, n := range []int{3, 5} {
		in := map[string]*tensor.Tensor{"x": floats(n, 4), "b": floats(4)}
		want, err := plain.Run(ctx, in)
		require.NoError(t, err)
		got, err := p.Run(ctx, in)
		require.NoError(t, err)
		for i := range n {
			for k := range 4 {
				assert.Equal(t, -want["y"].At(i, k).Float(), got["y"].At(i, k).Float())
			}
		}
	}
	assert.Equal(t, 4, runs, "for each set of sizes, and for unknown ones")

	_, err = graphrun.Compile(symbolic(), graphrun.Options{Passes: []passes.Pass{own}})
	assert.ErrorContains(t, err, "pass negate needs a graph that is")
	_, err = graphrun.Compile(symbolic(), graphrun.Options{Passes: list})
	assert.ErrorContains(t, err, "pass 1 has no name")
}
