package calibrate

import (
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
)

// watch is a tracer that keeps what steps take, but for some, by the names of their nodes: of each run the sum.
type watch struct {
	own   map[string]bool // those that are not timed
	took  []float64       // by run, in nanoseconds
	sum   float64
	began time.Time
	clock float64 // what it takes to look at the clock, in nanoseconds
}

// times reports whether a node is among those that are timed.
func (w *watch) times(n *graph.Node) bool { return !w.own[n.Name] }

// BeginRun wants to be told of all runs.
func (w *watch) BeginRun(*exec.Run) bool {
	w.sum = 0
	return true
}

// EndRun keeps the sum.
func (w *watch) EndRun(*exec.Run, error) { w.took = append(w.took, w.sum) }

// BeginStep notes when.
func (w *watch) BeginStep(exec.Work) { w.began = time.Now() }

// EndStep adds up.
func (w *watch) EndStep(at exec.Work, _ bool) {
	took := float64(time.Since(w.began)) - w.clock
	if w.times(at.Node) {
		w.sum += max(took, 1)
	}
}

// BeginChunk does nothing: steps are what is timed.
func (w *watch) BeginChunk(exec.Work) {}

// EndChunk does nothing.
func (w *watch) EndChunk(exec.Work, error) {}

// clockNS is what it takes to look at the clock, in nanoseconds.
func clockNS() float64 {
	least := time.Hour
	for range 100 {
		start := time.Now()
		least = min(least, time.Since(start))
	}
	return float64(least)
}
