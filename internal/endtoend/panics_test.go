package endtoend_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// panicking is a strategy that panics.
type panicking struct{}

func (panicking) Name() string                                       { return "panicking" }
func (panicking) Choose(*layout.Problem) (*layout.Assignment, error) { panic("of the strategy") }

// panicker is a tracer with one method that panics.
type panicker struct {
	method string
}

func (p panicker) does(method string) {
	if method == p.method {
		panic("of the tracer")
	}
}

func (p panicker) BeginRun(*exec.Run) bool             { p.does("BeginRun"); return true }
func (p panicker) EndRun(*exec.Run, error)             { p.does("EndRun") }
func (p panicker) BeginStep(exec.Position)             { p.does("BeginStep") }
func (p panicker) EndStep(exec.Position, bool)         { p.does("EndStep") }
func (p panicker) BeginChunk(exec.Position)            { p.does("BeginChunk") }
func (p panicker) EndChunk(w exec.Position, err error) { p.does("EndChunk") }

// TestPanicsOfOthers checks that a panic in a strategy, a pass, an op or a tracer of the caller is an error that names
// it and has the stack.
func TestPanicsOfOthers(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x := g.Input("x", tensor.Float32, 64, 64)
	g.Output("y", op.Softmax(x, 1))
	require.NoError(t, g.Err())
	says := func(err error, name, what string) {
		t.Helper()
		require.Error(t, err)
		for _, part := range []string{name, what, "panics_test.go"} {
			assert.Contains(t, err.Error(), part)
		}
	}
	_, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: panicking{}})
	says(err, "strategy panicking", "of the strategy")

	list, err := passes.Before(passes.Passes(), "layout", passes.Pass{Name: "mine", Run: func(*passes.Plan) error {
		panic("of the pass")
	}})
	require.NoError(t, err)
	_, err = graphrun.Compile(ctx, g, graphrun.Options{Passes: list})
	says(err, "pass mine", "of the pass")

	for _, method := range []string{"BeginRun", "EndRun", "BeginStep", "EndStep", "BeginChunk", "EndChunk"} {
		for _, threads := range []int{1, 2} {
			p, err := graphrun.Compile(ctx, g, graphrun.Options{Tracer: panicker{method}, Threads: threads})
			require.NoError(t, err)
			_, err = p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 64, 64)})
			says(err, "tracer: "+method, "of the tracer")
		}
	}
}

// TestPanicOfAnOp holds it for the inference of an op.
func TestPanicOfAnOp(t *testing.T) {
	sick, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "sick", Doc: "Panics.", Params: []graph.Param{{Name: "self"}},
			Infer: func(*graph.Call) ([]graph.Result, error) { panic("of the op") }, NoRef: "it is sick",
		},
		Lowerings: graph.Lowerings{Compile: func(*graph.Call) (*graph.Kernel, error) { return nil, nil }},
	})
	require.NoError(t, err)
	g := graph.New("g", func(name string) *graph.Op {
		if name == "sick" {
			return sick
		}
		return kernels.Lookup(name)
	})
	g.Output("y", g.Apply("sick", nil, g.Input("x", tensor.Float32, 2))[0])
	err = g.Err()
	require.Error(t, err)
	for _, part := range []string{"sick", "of the op", "panics_test.go"} {
		assert.Contains(t, err.Error(), part)
	}
}

// TestNoOutputs checks that a graph without outputs has a warning, from a file or from Go.
func TestNoOutputs(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	op.Relu(g.Input("x", tensor.Float32, 2))
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
	require.Len(t, p.Report().Warnings, 1)
	require.Equal(t, graph.ErrNoOutputs.Error(), p.Report().Warnings[0].Message)
}

// TestThreads checks that a negative number of workers is refused.
func TestThreads(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	g.Output("y", op.Relu(g.Input("x", tensor.Float32, 2)))
	_, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: -3})
	require.ErrorContains(t, err, "Options.Threads is -3")
	_, err = graphrun.Compile(ctx, g, graphrun.Options{})
	require.NoError(t, err)
}
