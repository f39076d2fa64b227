package exec_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// chunksSeen lists the chunks that each worker took, in order.
type chunksSeen struct {
	exec.Tracer // nil: whatever else is asked panics
	mu          sync.Mutex
	by          map[int][]int
}

func (*chunksSeen) BeginRun(*exec.Run) bool       { return true }
func (*chunksSeen) EndRun(*exec.Run, error)       {}
func (*chunksSeen) BeginStep(exec.Position)       {}
func (*chunksSeen) EndStep(exec.Position, bool)   {}
func (*chunksSeen) EndChunk(exec.Position, error) {}
func (s *chunksSeen) BeginChunk(w exec.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[w.Worker] = append(s.by[w.Worker], w.Chunk)
}

// Each of two workers has a half of the chunks of a step, goes through it in order, and has the same in the next step;
// one who waits for the other does not keep that one from the rest.
func TestWorkersHaveParts(t *testing.T) {
	g := graph.New("g", lookup)
	v := g.Input("x", tensor.Float32, 4)
	for range 2 {
		v = g.Apply("linger", nil, v)[0]
	}
	g.Output("y", v)
	seen := &chunksSeen{by: map[int][]int{}}
	p := compileAs(t, g, exec.Options{Threads: 2, Costs: anyWork(), Tracer: seen})
	workers := func() int {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return len(seen.by)
	}
	linger = func(int) { // until the other comes
		for end := time.Now().Add(10 * time.Second); workers() < 2 && time.Now().Before(end); {
			runtime.Gosched()
		}
	}
	_, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 4)})
	require.NoError(t, err)
	require.Len(t, seen.by, 2, "nobody helped")
	all := make([]int, 1000)
	for w, chunks := range seen.by {
		for _, c := range chunks {
			all[c]++
		}
		if first := chunks[0]; first != w*500 {
			t.Errorf("worker %d begins with chunk %d", w, first)
		}
		falls := 0
		for i := range chunks[1:] {
			if chunks[i+1] < chunks[i] {
				falls++
			}
		}
		// The second step begins anew, and what is stolen lies before what was a worker's own at times: of a part of
		// 500 chunks a half at most ten times.
		assert.LessOrEqual(t, falls, 40, "worker %d goes back and forth", w)
	}
	assert.False(t, slices.ContainsFunc(all, func(n int) bool { return n != 2 }), "every chunk runs once in a step")
}

// What machine code computes in less than it takes to share is not shared, whatever a function takes in Go.
func TestPricesOfMachineCode(t *testing.T) {
	compiles := loops.CodeAvailable
	if !compiles() {
		t.Skip("no machine code here")
	}
	defer func() { loops.CodeAvailable = compiles }()
	shared := func() bool {
		g := graph.New("g", kernels.Lookup)
		x := g.Input("x", tensor.Float32, 2048)
		g.Output("y", g.Apply("exp", nil, x)[0]).Output("z", g.Apply("tanh", nil, x)[0])
		_, shared := compileAs(t, g, exec.Options{Threads: 2}).Sections()
		return slices.Contains(shared, true)
	}
	assert.False(t, shared(), "as machine code")
	loops.CodeAvailable = func() bool { return false }
	assert.True(t, shared(), "in Go")
}
