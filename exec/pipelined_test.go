package exec_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

const (
	flowN     = 1 << 19 // elements: twice what a value between steps of a band has
	flowChunk = 1 << 13
	flowBack  = flowN / 5 // how far behind it an element is read
	flowAhead = 100
)

// windowSums returns an op whose chunks process memory in order: an element of the result is the sum of three of the
// operand, one of them far behind it and one a little ahead.
func windowSums(name string, failing int) *graph.Op {
	return defined(graph.Op{
		Semantics: graph.Semantics{
			Name: name, Params: []graph.Param{one}, Schema: graph.SchemaOf[noAttrs](),
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return c.NewResult(tensor.New(tensor.Float32, flowN).Type()), nil
			},
		},
		Lowerings: graph.Lowerings{
			Compile: func(*graph.Call) (*graph.Kernel, error) {
				flow := &graph.Flow{FinalElements: func(chunk int) int { return (chunk + 1) * flowChunk },
					NeededElements: func(chunk int) int { return min(flowN, (chunk+1)*flowChunk+flowAhead) }}
				run := func(m *graph.Mem, chunk int) error {
					if chunk == failing {
						return errRefused
					}
					out, x := unsafe.Slice((*float32)(m.Ptrs[0]), flowN), unsafe.Slice((*float32)(m.Ptrs[1]), flowN)
					for i := chunk * flowChunk; i < (chunk+1)*flowChunk; i++ {
						out[i] = x[i] + x[max(0, i-flowBack)] - 3*x[min(flowN-1, i+flowAhead)]
					}
					return nil
				}
				return &graph.Kernel{Phases: []graph.Phase{{Chunks: flowN / flowChunk, Run: run, Flow: flow}}}, nil
			},
		},
	})
}

// flowGraph is a chain of ops.
func flowGraph(ops ...*graph.Op) *graph.Graph {
	by := map[string]*graph.Op{"half": catalogue["half"]}
	for _, o := range ops {
		by[o.Name] = o
	}
	g := graph.New("g", func(name string) *graph.Op { return by[name] })
	v := g.Apply("half", nil, g.Input("x", tensor.Float32, flowN))[0]
	for _, o := range ops {
		v = g.Apply(o.Name, nil, v)[0]
	}
	g.Output("y", g.Apply("half", nil, v)[0])
	return g
}

// turns counts how often chunks of another step than before begin.
func turns(events []event) (n int) {
	step := -1
	for _, e := range events {
		if e.what == "begin chunk" && e.Step != step {
			n, step = n+1, e.Step
		}
	}
	return n
}

func flowInput(seed uint64) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"x": random(rand.New(rand.NewPCG(seed, 1)), tensor.New(tensor.Float32, flowN))}
}

// Steps whose chunks say what they need run by turns where one worker runs them, and make the same as one after the
// other; what a step reads is kept until the last of them is done.
func TestBands(t *testing.T) {
	op := windowSums("flow", -1)
	g := flowGraph(op, op, op, op, op)
	rec := &recorder{}
	p, whole := compileAs(t, g, exec.Options{Threads: 1, Tracer: rec}), compileAs(t, g, exec.Options{Threads: 2})
	for seed := range testsize.Of[uint64](1, 3) {
		in := flowInput(seed)
		got, err := p.Run(t.Context(), in)
		require.NoError(t, err)
		events := rec.take()
		assert.Greater(t, turns(events), 2*flowN/flowChunk, "the steps run one after the other")
		seen, done := map[chunkOf]int{}, map[int]int{}
		for _, e := range events {
			switch {
			case e.what == "end chunk":
				seen[chunkOf{e.Step, e.Phase, e.Chunk}]++
			case e.what == "end step" && e.done:
				done[e.Step]++
			}
		}
		for c, n := range seen {
			assert.Equal(t, 1, n, "%+v", c)
		}
		for step := range p.Steps() {
			assert.Equal(t, 1, done[step], "step %d", step)
		}
		want, err := whole.Run(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, want["y"].Storage().Bytes(), got["y"].Storage().Bytes())
	}
}

// Where memory is short steps run one after the other, and need less of it.
func TestBandsNeedMemory(t *testing.T) {
	testsize.Long(t)
	op := windowSums("flow", -1)
	g := flowGraph(op, op, op, op, op)
	band := compileAs(t, g, exec.Options{Threads: 1})
	rec := &recorder{}
	short := compileAs(t, g, exec.Options{Threads: 1, MemoryLimit: band.Need().Total() - 1, Tracer: rec})
	assert.Less(t, short.ArenaBytes(), band.ArenaBytes())
	in := flowInput(1)
	want, err := band.Run(t.Context(), in)
	require.NoError(t, err)
	got, err := short.Run(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, want["y"].Storage().Bytes(), got["y"].Storage().Bytes())
	assert.LessOrEqual(t, turns(rec.take()), len(short.Steps()))
}

// A chunk that fails ends the run in the name of its step, with everything that was begun ended.
func TestBandsFail(t *testing.T) {
	testsize.Long(t)
	op := windowSums("flow", -1)
	rec := &recorder{}
	g := flowGraph(op, windowSums("broken", 5), op)
	p := compileAs(t, g, exec.Options{Threads: 1, Tracer: rec})
	_, err := p.Run(t.Context(), flowInput(1))
	require.ErrorIs(t, err, errRefused)
	assert.Contains(t, err.Error(), "broken")
	open := 0
	for _, e := range rec.take() {
		switch e.what {
		case "begin step", "begin chunk":
			open++
		case "end step", "end chunk":
			open--
		}
	}
	assert.Zero(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = compileAs(t, flowGraph(op, op), exec.Options{Threads: 1}).Run(ctx, flowInput(1))
	assert.ErrorIs(t, err, context.Canceled)
}
