package passes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// convolved is a graph with one convolution, of an image with its channels last, that has inexact implementations where
// machine code can be made.
func convolved(t *testing.T) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, 64, 28, 28)
	w := g.Constant("w", tensor.Zeros(tensor.Float32, 64, 64, 3, 3))
	g.Output("y", op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}}).Named("conv"))
	require.NoError(t, g.Err())
	return g
}

// inexact reports whether the node has an implementation by another formula.
func inexact(g *graph.Graph) bool {
	n := g.Value("conv").Node
	for i := range n.Op.Impls {
		if m := &n.Op.Impls[i]; m.Inexact && len(m.Walks(n.Call(), nil)) > 0 {
			return true
		}
	}
	return false
}

// TestExact: plans take implementations by other formulas where these are faster, exact ones never, whatever the
// strategy, and say so.
func TestExact(t *testing.T) {
	if !inexact(convolved(t)) {
		t.Skip("there is no machine code, and so no implementation by another formula")
	}
	for _, s := range layout.All() {
		for _, exact := range []bool{false, true} {
			p, err := passes.Run(convolved(t), passes.Options{Strategy: s, Options: layout.Options{Exact: exact}})
			require.NoError(t, err)
			n := p.Graph.Value("conv").Node
			if s.Name() != "contiguous" { // which wants images otherwise
				require.Equal(t, !exact, n.Impl.Inexact, "%s, exact %v: %s", s.Name(), exact, n.Impl.Name)
			}
			require.False(t, exact && n.Impl.Inexact)
			said := ""
			for _, pass := range p.Passes {
				if pass.Pass == "layout" {
					said = pass.Did
				}
			}
			if exact {
				require.Contains(t, said, "inexact implementations of 1 node are excluded")
			} else {
				require.NotContains(t, said, "inexact")
			}
		}
	}
}

// TestExactPin refuses a pin to what an exact plan leaves out, and takes it otherwise.
func TestExactPin(t *testing.T) {
	if !inexact(convolved(t)) {
		t.Skip("there is no machine code, and so no implementation by another formula")
	}
	for _, s := range []layout.Strategy{layout.Propagate, layout.Optimal} {
		g := convolved(t)
		require.NoError(t, g.Pin("conv", graph.Pin{Impl: "winograd2"}))
		p, err := passes.Run(g, passes.Options{Strategy: s})
		require.NoError(t, err)
		require.Equal(t, "winograd2", p.Graph.Value("conv").Node.Impl.Name)
		_, err = passes.Run(g, passes.Options{Strategy: s, Options: layout.Options{Exact: true}})
		require.ErrorContains(t, err, `=impl:winograd2: the implementation is inexact, and `+
			`the plan must be exact: use `)
	}
}

// TestPropagateStaysContiguous: images that come row-major are not turned for the sake of a faster formula.
func TestPropagateStaysContiguous(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 1, 64, 28, 28)
	w := g.Constant("w", tensor.Zeros(tensor.Float32, 64, 64, 3, 3))
	g.Output("y", op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}}).Named("conv"))
	p, err := passes.Run(g, passes.Options{})
	require.NoError(t, err)
	require.False(t, p.Graph.Value("conv").Node.Impl.Inexact)
}

// TestExactChain: what runs in one step with ops behind it is exact, too.
func TestExactChain(t *testing.T) {
	if !inexact(convolved(t)) {
		t.Skip("there is no machine code, and so no implementation by another formula")
	}
	for _, exact := range []bool{false, true} {
		g := graph.New("g", kernels.Lookup)
		x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 1, 64, 28, 28)
		w := g.Constant("w", tensor.Zeros(tensor.Float32, 64, 64, 3, 3))
		g.Output("y", op.Relu(op.Conv2d(x, w, nil, op.Conv2dAttrs{Padding: []int{1, 1}})))
		p, err := passes.Run(g, passes.Options{Strategy: layout.Optimal, Options: layout.Options{Exact: exact}})
		require.NoError(t, err)
		is := slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool {
			return n.Impl != nil && strings.HasPrefix(n.Impl.Name, "winograd")
		})
		require.Equal(t, !exact, is)
	}
}
