package passes_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// small is a graph with an input in no order that its op minds.
func small(t *testing.T) *graph.Graph {
	g := graph.New("g", kernels.Lookup)
	g.Output("y", op.Relu(g.Input("x", f32, 2, 3)).Named("r"))
	require.NoError(t, g.Err())
	return g
}

func nothingToDo(*passes.Plan) error { return nil }

// A pass of the user's own runs where it was inserted, and the plan shows what it did.
func TestOwnPassRunsInTheList(t *testing.T) {
	own := passes.Pass{Name: "negate", Doc: "puts neg before outputs", Needs: graph.Typed}
	own.Run = func(p *passes.Plan) error {
		for i, o := range p.Graph.Outputs {
			n, err := p.Graph.Insert("negated", "neg", []graph.Arg{{Kind: graph.TensorArg, Value: o.Value}}, nil, "")
			if err != nil {
				return err
			}
			p.Graph.Nodes = append(p.Graph.Nodes, n)
			p.Graph.Outputs[i].Value = n.Out[0]
		}
		p.Note("%d outputs negated", len(p.Graph.Outputs))
		return nil
	}
	list, err := passes.After(passes.Passes(), "infer", own)
	require.NoError(t, err)
	p, err := passes.Run(small(t), passes.Options{Passes: list})
	require.NoError(t, err)
	assert.Equal(t, []string{"fused"}, ops(p), "its node goes into the loop of the one before it")
	assert.Equal(t, "negate", p.Passes[1].Pass)
	assert.Equal(t, "1 outputs negated", p.Passes[1].Did)
	assert.Equal(t, 2, p.Passes[1].Nodes)
	_, err = passes.Run(small(t), passes.Options{Passes: list, Check: true})
	assert.ErrorContains(t, err, `after pass negate: output "y" changed its value`)
}

func TestPlaceInTheList(t *testing.T) {
	own := passes.Pass{Name: "own", Run: nothingToDo}
	names := func(list []passes.Pass, err error) (names []string) {
		require.NoError(t, err)
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names
	}
	list := []passes.Pass{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	assert.Equal(t, []string{"a", "own", "b", "c"}, names(passes.Before(list, "b", own)))
	assert.Equal(t, []string{"a", "b", "own", "c"}, names(passes.After(list, "b", own)))
	_, err := passes.After(passes.Passes(), "layuot", own)
	assert.EqualError(t, err, `the list has no pass "layuot"; did you mean layout?`)
}

// A list is refused in which a pass needs what does not hold, or that leaves a graph that cannot run.
func TestListsThatCannotDo(t *testing.T) {
	breaks := passes.Pass{Name: "mess", Breaks: graph.LaidOut | graph.Typed, Run: nothingToDo}
	needs := passes.Pass{Name: "needy", Needs: graph.LaidOut, Run: nothingToDo}
	after := func(name string, p ...passes.Pass) []passes.Pass {
		list := passes.Passes()
		for _, one := range p {
			var err error
			list, err = passes.After(list, name, one)
			require.NoError(t, err)
		}
		return list
	}
	const never, again = ": no earlier pass establishes it", ": pass mess broke it, and no later pass restores it"
	for want, list := range map[string][]passes.Pass{
		"pass needy needs a graph that is laid out" + never:         after("infer", needs),
		"pass needy needs a graph that is laid out" + again:         after("place", needs, breaks),
		"after all passes the graph is not typed, laid out" + again: after("place", breaks),
		"after all passes the graph is not typed, laid out" + never: {{Name: "own", Run: nothingToDo}},
		"pass 0 has no name":                     {{Run: nothingToDo}},
		"pass idle does nothing: its Run is nil": {{Name: "idle"}},
	} {
		_, err := passes.Run(small(t), passes.Options{Passes: list})
		assert.EqualError(t, err, want)
	}
	lose := passes.Pass{Name: "lose", Run: func(p *passes.Plan) error { p.Graph = nil; return nil }}
	_, err := passes.Run(small(t), passes.Options{Passes: after("infer", lose)})
	assert.EqualError(t, err, "pass lose set the graph to nil")
	errStop := errors.New("no more")
	stop := passes.Pass{Name: "stop", Run: func(*passes.Plan) error { return errStop }}
	_, err = passes.Run(small(t), passes.Options{Passes: after("infer", stop)})
	assert.ErrorIs(t, err, errStop)
	assert.EqualError(t, err, "pass stop: no more")
	cut := passes.Pass{Name: "cut", Run: func(p *passes.Plan) error { p.Graph.Nodes = nil; return nil }}
	_, err = passes.Run(small(t), passes.Options{Passes: after("infer", cut)})
	assert.ErrorContains(t, err, `after pass cut: output "`)
	odd := passes.Pass{Name: "odd", Makes: 1 << 7, Run: nothingToDo}
	_, err = passes.Run(small(t), passes.Options{Passes: append(passes.Passes(), odd)})
	require.EqualError(t, err, "pass odd names unknown properties: 0x80")
	broken := passes.Pass{Name: "broken", Run: func(*passes.Plan) error { panic("oh") }}
	_, err = passes.Run(small(t), passes.Options{Passes: append(passes.Passes(), broken)})
	require.ErrorContains(t, err, "pass broken: internal error: oh")
	broken.Name = "dead"
	_, err = passes.Run(small(t), passes.Options{Passes: append(passes.Passes(), broken)})
	require.EqualError(t, err, "two passes are named dead")
	_, err = passes.Run(small(t), passes.Options{Passes: append(passes.Passes(), passes.Pass{Name: "hole",
		Run: func(p *passes.Plan) error { p.Graph.Nodes = append(p.Graph.Nodes, nil); return nil }})})
	require.EqualError(t, err, "after pass hole: a node is nil")
	forget := passes.Pass{Name: "forget", Run: func(p *passes.Plan) error { p.Passes = nil; return nil }}
	_, err = passes.Run(small(t), passes.Options{Passes: append(passes.Passes(), forget)})
	require.EqualError(t, err, "pass forget changed the record of applied passes")
}

// Once layouts are chosen no pass adds or drops a copy of a value that is not constant.
func TestCopiesAreSettled(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.InputFormat("x", f32, tensor.ChannelsLast, 2, 3, 4, 5)
	g.Output("y", op.View(op.Contiguous(x).Named("c"), op.ViewAttrs{Size: []int{6, 20}}))
	require.NoError(t, g.Err())
	add := func(p *passes.Plan) error {
		n, err := p.Graph.Insert("again", "clone", []graph.Arg{graph.ArgOf(p.Graph.Outputs[0].Value)}, nil, "")
		if err != nil {
			return err
		}
		n.Impl = &n.Op.Impls[0]
		p.Graph.Nodes, p.Graph.Outputs[0].Value = append(p.Graph.Nodes, n), n.Out[0]
		return nil
	}
	drop := func(p *passes.Plan) error {
		n := p.Graph.Nodes[0]
		n.Op = p.Graph.Op("relu")
		n.Impl = &n.Op.Impls[0]
		return nil
	}
	for want, run := range map[string]func(*passes.Plan) error{
		`after pass own: copy "again" was added after layouts were chosen`: add,
		`after pass own: copy "c" was dropped after layouts were chosen`:   drop,
	} {
		list, err := passes.After(passes.Passes(), "layout", passes.Pass{Name: "own", Needs: graph.LaidOut, Run: run})
		require.NoError(t, err)
		_, err = passes.Run(g, passes.Options{Passes: list, Check: true})
		assert.EqualError(t, err, want)
	}
}
