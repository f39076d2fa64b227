package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// event is one call of a tracer's method.
type event struct {
	what string
	exec.Position
	done bool
	err  error
}

// recorder notes all calls, in the order in which they were made.
type recorder struct {
	mu     sync.Mutex
	events []event
	blind  bool // runs are not looked into
	see    func(event)
}

func (r *recorder) note(e event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	if r.see != nil {
		r.see(e)
	}
}

func (r *recorder) BeginRun(run *exec.Run) bool {
	r.note(event{what: "begin run", Position: exec.Position{Run: run}})
	return !r.blind
}
func (r *recorder) EndRun(run *exec.Run, err error) {
	r.note(event{what: "end run", Position: exec.Position{Run: run}, err: err})
}
func (r *recorder) BeginStep(w exec.Position) { r.note(event{what: "begin step", Position: w}) }
func (r *recorder) EndStep(w exec.Position, done bool) {
	r.note(event{what: "end step", Position: w, done: done})
}
func (r *recorder) BeginChunk(w exec.Position) { r.note(event{what: "begin chunk", Position: w}) }
func (r *recorder) EndChunk(w exec.Position, err error) {
	r.note(event{what: "end chunk", Position: w, err: err})
}
func (r *recorder) take() (e []event) { e, r.events = r.events, nil; return e }
func (r *recorder) options(threads int) exec.Options {
	return exec.Options{Threads: threads, Costs: anyWork(), Tracer: r}
}

// chunkOf is a chunk of a run.
type chunkOf struct{ step, phase, chunk int }

// traced is what a run's events come to.
type traced struct {
	run    *exec.Run
	over   bool
	err    error
	stacks map[int][]event // by worker
	begun  map[chunkOf]int
	ended  map[chunkOf]int
	joined map[int]int // by step
	done   map[int]int
	stepOf map[*graph.Node]int
	wrong  []string
}

// follow holds every event to what [exec.Tracer] says of its order, and returns the runs in
// the order in which they began.
func follow(t *testing.T, events []event) []*traced {
	t.Helper()
	var runs []*traced
	of := map[*exec.Run]*traced{}
	for i, e := range events {
		r := of[e.Run]
		if e.what == "begin run" {
			require.Nil(t, r, "a run begins twice")
			r = &traced{run: e.Run, stacks: map[int][]event{}, begun: map[chunkOf]int{}, ended: map[chunkOf]int{},
				joined: map[int]int{}, done: map[int]int{}, stepOf: map[*graph.Node]int{}}
			of[e.Run] = r
			runs = append(runs, r)
			require.True(t, e.Run.Parent == nil || of[e.Run.Parent] != nil && !of[e.Run.Parent].over)
			continue
		}
		require.NotNil(t, r, "event %d is of no run", i)
		require.False(t, r.over, "event %d (%s) comes after the end of its run", i, e.what)
		r.add(e)
		require.Empty(t, r.wrong, "event %d, %s of step %d by worker %d", i, e.what, e.Step, e.Worker)
	}
	for _, r := range runs {
		assert.True(t, r.over, "a run does not end")
	}
	return runs
}

func (r *traced) must(ok bool, what string) {
	if !ok {
		r.wrong = append(r.wrong, what)
	}
}

func (r *traced) add(e event) {
	if e.what == "end run" {
		for w, s := range r.stacks {
			r.must(len(s) == 0, fmt.Sprint("something is open at the end, of worker ", w))
		}
		r.over, r.err = true, e.err
		return
	}
	r.must(e.Worker >= 0 && e.Worker < r.run.Workers && e.Step >= 0 && e.Step < r.run.Steps, "a number out of bounds")
	stack, at := r.stacks[e.Worker], chunkOf{e.Step, e.Phase, e.Chunk}
	switch e.what {
	case "begin step":
		r.must(len(stack) == 0, "a step within another")
		r.stepOf[e.Node] = e.Step
		r.joined[e.Step]++
		for _, a := range e.Node.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			if from := a.Value.Root().Node; from != nil && slices.Contains(r.run.Graph.Nodes, from) {
				k, seen := r.stepOf[from]
				r.must(seen && r.done[k] == 1 || !seen && r.run.Graph.Dynamic(), "it reads what is not finished")
			}
		}
		r.stacks[e.Worker] = append(stack, e)
	case "begin chunk":
		r.must(len(stack) == 1 && stack[0].Step == e.Step, "a chunk outside of its step")
		for c, n := range r.begun {
			r.must(c.step != e.Step || c.phase >= e.Phase || r.ended[c] == n, "a phase before is not over")
		}
		r.must(r.begun[at] == 0, "a chunk twice")
		r.begun[at]++
		r.stacks[e.Worker] = append(stack, e)
	case "end chunk":
		r.must(len(stack) == 2 && stack[1].Position == e.Position, "the end of another chunk")
		r.ended[at]++
		r.stacks[e.Worker] = stack[:len(stack)-1]
	case "end step":
		r.must(len(stack) == 1 && stack[0].Position == e.Position, "the end of another step")
		if e.done {
			r.done[e.Step]++
		}
		r.must(r.done[e.Step] <= 1, "a step is finished twice")
		r.stacks[e.Worker] = stack[:len(stack)-1]
	}
}

// complete holds a run of a program to every step and every chunk of its kernels.
func (r *traced) complete(t *testing.T) {
	t.Helper()
	want := map[chunkOf]int{}
	for n, step := range r.stepOf {
		k, err := n.Op.Compile(n.Call())
		require.NoError(t, err)
		for phase := range k.Phases {
			for c := range k.Phases[phase].Chunks {
				want[chunkOf{step, phase, c}] = 1
			}
		}
	}
	assert.Equal(t, want, r.begun)
	assert.Equal(t, want, r.ended)
	assert.Len(t, r.done, r.run.Steps)
	assert.Len(t, r.joined, r.run.Steps)
}

func TestTracerSeesEveryChunkOnce(t *testing.T) {
	for seed := range testsize.Of[uint64](3, 8) {
		g, in := randomGraph(rand.New(rand.NewPCG(seed, 11)), 40)
		require.NoError(t, g.Err())
		for _, threads := range []int{1, 2, 7} {
			rec := &recorder{}
			p, err := exec.Compile(g, rec.options(threads))
			require.NoError(t, err)
			for range 3 {
				_, err = p.Run(t.Context(), in)
				require.NoError(t, err)
				runs := follow(t, rec.take())
				require.Len(t, runs, 1)
				runs[0].complete(t)
				assert.NoError(t, runs[0].err)
				assert.Equal(t, len(p.Steps()), runs[0].run.Steps)
				assert.Equal(t, threads, runs[0].run.Workers)
			}
		}
	}
}

func TestTracerSeesConcurrentRunsApart(t *testing.T) {
	g, in := randomGraph(rand.New(rand.NewPCG(3, 11)), 40)
	rec := &recorder{}
	p, err := exec.Compile(g, rec.options(2))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _, err := p.Run(t.Context(), in); assert.NoError(t, err) })
	}
	wg.Wait()
	runs := follow(t, rec.take())
	require.Len(t, runs, 4)
	for _, r := range runs {
		r.complete(t)
	}
}

func TestTracerSeesFailures(t *testing.T) {
	for seed := range uint64(20) {
		g, in, _ := failingGraph(rand.New(rand.NewPCG(seed, 5)), 24, seed%2 == 0)
		for _, threads := range []int{1, 2, 7} {
			rec := &recorder{}
			o := rec.options(threads)
			o.KeepGoing = true
			p, err := exec.Compile(withKernels(g), o)
			require.NoError(t, err)
			_, err = p.Run(t.Context(), in)
			runs := follow(t, rec.take())
			require.Len(t, runs, 1)
			assert.Equal(t, err, runs[0].err)
			assert.Len(t, runs[0].done, len(p.Steps()), "steps that are lost are done with too")
		}
	}
	for _, threads := range []int{1, 2, 7} {
		g := graph.New("failing", lookup)
		x := g.Input("x", tensor.Float32, 4)
		g.Output("a", g.Apply("half", nil, g.Apply("fail", nil, x)[0])[0])
		rec := &recorder{}
		p, err := exec.Compile(g, rec.options(threads))
		require.NoError(t, err)
		_, err = p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
		events := rec.take()
		run := follow(t, events)[0]
		assert.Equal(t, err, run.err)
		assert.ErrorIs(t, err, errRefused)
		assert.Empty(t, run.done)
		bad := slices.IndexFunc(events, func(e event) bool { return e.what == "end chunk" && e.err != nil })
		assert.Equal(t, 5, events[bad].Chunk)
		assert.Equal(t, errRefused, events[bad].err)

		_, err = p.Run(t.Context(), nil) // refused before any step
		run = follow(t, rec.take())[0]
		assert.Equal(t, err, run.err)
		assert.Empty(t, run.joined)
	}
}

func TestTracerSeesCancellation(t *testing.T) {
	for _, threads := range []int{1, 2, 7} {
		g := graph.New("slow", lookup)
		g.Output("a", g.Apply("half", nil, g.Apply("linger", nil, g.Input("x", tensor.Float32, 4))[0])[0])
		ctx, cancel := context.WithCancel(t.Context())
		linger = func(chunk int) {
			if chunk >= 20 {
				<-ctx.Done()
			}
		}
		rec := &recorder{see: func(e event) {
			if e.what == "begin chunk" && e.Chunk == 20 {
				cancel()
			}
		}}
		p, err := exec.Compile(g, rec.options(threads))
		require.NoError(t, err)
		_, err = p.Run(ctx, map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
		assert.ErrorIs(t, err, context.Canceled)
		run := follow(t, rec.take())[0]
		assert.Equal(t, err, run.err)
		assert.Empty(t, run.done)
		assert.LessOrEqual(t, len(run.begun), 20+threads)
		assert.Equal(t, run.begun, run.ended)
	}
}

// A run in pieces is a run of its own, and so are its segments and the graphs that its steps
// call, all within it.
func TestTracerSeesPieces(t *testing.T) {
	g := graph.New("g", lookupDynamic)
	x := g.Input("x", tensor.Float32, 6)
	p := g.Apply("positive", nil, g.Apply("half", nil, x)[0])[0]
	g.Output("y", g.Apply("half", nil, g.Apply("twice", nil, p)[0])[0])
	in := func(last float32) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": tensor.Must(tensor.FromSlice([]float32{-1, -2, -4, -8, -16, last}, 6))}
	}
	for _, threads := range []int{1, 2, 7} {
		rec := &recorder{}
		r, err := compileParts(g, nil, rec.options(threads))
		require.NoError(t, err)
		_, err = r.Run(t.Context(), in(4))
		require.NoError(t, err)
		runs := follow(t, rec.take())
		require.Len(t, runs, 5, "the whole, a segment, two calls of the graph within, a segment")
		assert.Nil(t, runs[0].run.Parent)
		assert.Same(t, r.FirstBinding().RunnableGraph, runs[0].run.Graph)
		assert.Equal(t, 2, runs[0].run.Steps)
		assert.Len(t, runs[0].done, 2)
		assert.Equal(t, map[chunkOf]int{{0, 0, 0}: 1, {1, 0, 0}: 1}, runs[0].ended)
		for _, part := range runs[1:] {
			assert.Same(t, runs[0].run, part.run.Parent)
			part.complete(t)
		}

		_, err = r.Run(t.Context(), in(-4))
		runs = follow(t, rec.take())
		require.Len(t, runs, 2)
		assert.Equal(t, err, runs[0].err)
		assert.ErrorContains(t, err, "nothing is positive")
		assert.Empty(t, runs[0].done)
	}
	for _, keep := range []bool{false, true} {
		rec := &recorder{}
		o := rec.options(2)
		o.KeepGoing = keep
		r, err := compileParts(g, nil, o)
		require.NoError(t, err)
		_, err = r.Run(t.Context(), in(-4))
		runs := follow(t, rec.take())
		assert.Equal(t, err, runs[0].err)
		assert.True(t, errors.As(err, new(*exec.Incomplete)) == keep)
		assert.Len(t, runs[0].done, map[bool]int{false: 0, true: 1}[keep], "what depends on it is not told")
	}
}

// A tracer that does not want to see a run's steps is told of its begin and end alone.
func TestTracerMayLookAway(t *testing.T) {
	g, in := randomGraph(rand.New(rand.NewPCG(3, 11)), 20)
	for _, threads := range []int{1, 2, 7} {
		rec := &recorder{blind: true}
		p, err := exec.Compile(g, rec.options(threads))
		require.NoError(t, err)
		_, err = p.Run(t.Context(), in)
		require.NoError(t, err)
		assert.Len(t, rec.take(), 2)
		rec.blind = false
		_, err = p.Run(t.Context(), in)
		require.NoError(t, err)
		follow(t, rec.take())[0].complete(t)
	}
}
