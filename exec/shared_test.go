package exec_test

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// anyWork are prices under which whatever can be shared is worth it, so that little graphs test how workers share.
func anyWork() *pricing.Profile {
	p := pricing.DefaultProfile()
	p.ShareNS, p.WakeNS = 1e-9, 1e-9
	return p
}

// What is shared goes by what it costs, and by what may run side by side.
func TestSections(t *testing.T) {
	const large = 8000 // one chunk, and worth a worker under these prices
	costs := pricing.DefaultProfile()
	costs.ShareNS = 400
	for _, c := range []struct {
		name   string
		g      *graph.Graph
		shared int // steps
	}{
		{"little steps in a chain", adds(1000, 10), 0},
		{"little steps side by side", branches(4, 25, 10), 0},
		{"large steps in a chain", adds(20, large), 0},
		{"large steps side by side", branches(2, 10, large), 20}, // all but the sum
		{"one step of many chunks", adds(1, 1<<20), 1},
	} {
		steps := func(o exec.Options) (all, shared int) {
			require.NoError(t, c.g.Err())
			p, err := exec.Compile(c.g, o)
			require.NoError(t, err)
			bounds, are := p.Sections()
			at := 0
			for i, b := range bounds {
				assert.Equal(t, at, b[0], "%s: sections follow one another", c.name)
				if at = b[1]; are[i] {
					shared += b[1] - b[0]
				}
			}
			assert.Len(t, p.Steps(), at, c.name)
			return at, shared
		}
		_, shared := steps(exec.Options{Threads: 2, Costs: costs})
		assert.Equal(t, c.shared, shared, c.name)
		_, shared = steps(exec.Options{Threads: 1, Costs: costs})
		assert.Zero(t, shared, "%s with one worker", c.name)
	}
}

// A long row of steps that cannot be shared is not part of a section that is.
func TestLittleStepsBetweenLargeOnes(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 1<<20)
	v := g.Apply("half", nil, x)[0]
	little := g.Input("little", tensor.Float32, 4)
	w := little
	for range 50 {
		w = g.Apply("half", nil, w)[0]
	}
	g.Output("w", w).Output("v", g.Apply("half", nil, g.Apply("half", nil, v)[0])[0])
	p := compileAs(t, g, exec.Options{Threads: 2})
	bounds, shared := p.Sections()
	assert.Equal(t, [][2]int{{0, 1}, {1, 51}, {51, 53}}, bounds)
	assert.Equal(t, []bool{true, false, true}, shared)
}

// In the steady state a run takes no memory but for what it returns.
func TestNothingIsAllocated(t *testing.T) {
	if testsize.Race {
		t.Skip("under the race detector a sync.Pool forgets what it is given now and then")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // and so it does when garbage is collected
	for _, g := range []*graph.Graph{adds(100, 10), adds(4, 1<<17), branches(4, 4, 16<<10)} {
		shape := g.Inputs[0].Meta.Shape
		for _, threads := range []int{1, 2, 3} {
			p := compileAs(t, g, exec.Options{Threads: threads})
			x, y := tensor.Zeros(tensor.Float32, shape...), tensor.Zeros(tensor.Float32, shape...)
			in, out := []*tensor.Tensor{x}, []*tensor.Tensor{y}
			ctx := context.Background()
			run := func() { require.NoError(t, p.RunInto(ctx, in, out)) }
			for range 20 {
				run()
			}
			assert.Zero(t, testing.AllocsPerRun(50, run), "%d threads, outputs given", threads)
			named := map[string]*tensor.Tensor{"x": x}
			// The map and its table, the tensor, its storage and the bytes of that. Now and then, a run also reads from files
			// how much memory is left.
			least := math.Inf(1)
			for range 10 {
				least = min(least, testing.AllocsPerRun(10, func() {
					_, err := p.Run(ctx, named)
					require.NoError(t, err)
				}))
			}
			assert.LessOrEqual(t, least, 5.0, "%d threads, outputs made", threads)
		}
	}
}

// Nobody is left of a program that nobody runs.
func TestWorkersLeave(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 { // workers of tests before may be about to leave
		time.Sleep(time.Millisecond)
		before = min(before, runtime.NumGoroutine())
	}
	p := compileAs(t, adds(4, 1<<20), exec.Options{Threads: 4, Costs: anyWork()})
	in := []*tensor.Tensor{tensor.Zeros(tensor.Float32, 1<<20)}
	most := 0
	for end := time.Now().Add(10 * time.Second); most <= before && time.Now().Before(end); {
		require.NoError(t, p.RunInto(t.Context(), in, make([]*tensor.Tensor, 1)))
		most = max(most, runtime.NumGoroutine())
	}
	assert.Greater(t, most, before, "nobody helped")
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, // Eventually has one of its own
		10*time.Second, time.Millisecond)
}

// Two steps that wait for one another end soon only if they run side by side.
func TestStepsRunSideBySide(t *testing.T) {
	g := graph.New("g", lookup)
	x := g.Input("x", tensor.Float32, 4)
	g.Output("a", g.Apply("linger", nil, x)[0]).Output("b", g.Apply("linger", nil, x)[0])
	var here, met atomic.Int32
	linger = func(chunk int) {
		if chunk > 0 {
			return
		}
		here.Add(1)
		for end := time.Now().Add(10 * time.Second); here.Load() < 2 && time.Now().Before(end); {
			runtime.Gosched()
		}
		met.Store(here.Load())
	}
	_, err := compile(t, g, 2).Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
	require.NoError(t, err)
	assert.EqualValues(t, 2, met.Load())
}

// A kernel that ends its goroutine, which was not the caller's, ends the run with an error.
func TestKernelThatEndsItsGoroutine(t *testing.T) {
	g := graph.New("g", lookup)
	g.Output("y", g.Apply("linger", nil, g.Input("x", tensor.Float32, 4))[0])
	p := compile(t, g, 2)
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)}
	ended := make(chan struct{})
	var once atomic.Bool
	linger = func(chunk int) {
		switch {
		case chunk == 0: // the caller's: it is there first
			<-ended
		case once.CompareAndSwap(false, true):
			defer close(ended)
			runtime.Goexit()
		}
	}
	_, err := p.Run(t.Context(), in)
	assert.ErrorContains(t, err, "a kernel called runtime.Goexit")
	linger = func(int) {}
	_, err = p.Run(t.Context(), in)
	assert.NoError(t, err, "the program runs again")
}
