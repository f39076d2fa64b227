package endtoend_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// The work of a step for an operand does not depend on the layouts of the other operands, also for steps of several
// nodes. Costs are sums over operands, so this is required.
func TestStepsArePricedByOperand(t *testing.T) {
	testsize.Long(t)
	rng := rand.New(rand.NewPCG(2026, 23))
	files, err := filepath.Glob("../../examples/models/*.json")
	require.NoError(t, err)
	var graphs []*graph.Graph
	for _, f := range files {
		g, err := graphrun.Load(ctx, f)
		require.NoError(t, err)
		require.NoError(t, g.Bind(nil))
		graphs = append(graphs, g)
	}
	for seed := range uint64(100) {
		g, _ := optimumGraph(seed)
		graphs = append(graphs, g)
	}
	for _, form := range attentionForms {
		g := graph.New(form.name, kernels.Lookup)
		g.Output("y", form.build(g, f32, formSizes{b: 2, groups: 3, n: 4, l: 5, s: 6, e: 7, v: 8}))
		graphs = append(graphs, g)
	}
	compared := 0
	for _, g := range graphs {
		p, err := passes.Run(g, passes.Options{Strategy: layout.Optimal})
		if err != nil {
			continue // pins may be impossible
		}
		for _, n := range p.Graph.Nodes {
			if !n.IsView() && n.Impl != nil && n.Op.RunDynamic == nil {
				compared += pricedApart(t, n, rng)
			}
		}
	}
	require.Greater(t, compared, 1000)
}

// pricedApart compares the work of a node with its work when other operands have other layouts. It returns the number
// of comparisons.
func pricedApart(t *testing.T, n *graph.Node, rng *rand.Rand) (compared int) {
	work, read := n.Impl.Work(n.Call(), n.Walk), n.Impl.OperandWorkFunc(n.Call(), n.Walk)
	for range 8 {
		c := n.Call()
		for k, a := range c.In {
			if a.Kind != graph.TensorArg || a.Value.Const != nil || rng.IntN(2) == 0 {
				continue
			}
			o, err := tensor.NewOrder(rng.Perm(a.Meta().Rank())...)
			require.NoError(t, err)
			m := a.Meta().WithStrides(o.Strides(a.Meta().Shape))
			if _, ok := read(k, m); ok {
				c.In = slices.Clone(c.In)
				c.In[k] = graph.ArgOf(&graph.Value{Name: a.Value.Name, Meta: m, Type: m.Type()})
			}
		}
		require.Equal(t, work, n.Impl.Work(c, n.Walk), "%s by %s", n.Name, n.Impl.Name)
		for k, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			for _, m := range []tensor.Meta{a.Meta(), c.In[k].Meta()} {
				want, does := read(k, m)
				got, still := n.Impl.Read(c, n.Walk, k, m)
				require.Equal(t, does, still, "%s by %s reads operand %d, %v", n.Name, n.Impl.Name, k, m)
				require.Equal(t, want, got, "%s by %s reads operand %d, %v", n.Name, n.Impl.Name, k, m)
				compared++
			}
		}
	}
	return compared
}
