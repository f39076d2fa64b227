package calibrate

import (
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
)

// stopWatch is a tracer that sums the times of the timed steps of each run.
type stopWatch struct {
	untimed     map[string]bool // indexed by name: nodes that are not timed
	runTimes    []float64       // for each finished run: the sum of the times of its timed steps, in nanoseconds
	runNS       float64         // sum of the times of the timed steps of the current run, in nanoseconds
	stepStart   time.Time       // start of the current step
	clockCostNS float64         // cost of reading the clock, in nanoseconds
}

// isTimed reports whether the step of a node is timed.
func (w *stopWatch) isTimed(n *graph.Node) bool { return !w.untimed[n.Name] }

// BeginRun resets the sum. It returns true, so that every run is traced.
func (w *stopWatch) BeginRun(*exec.Run) bool {
	w.runNS = 0
	return true
}

// EndRun stores the sum of the run's timed steps.
func (w *stopWatch) EndRun(*exec.Run, error) { w.runTimes = append(w.runTimes, w.runNS) }

// BeginStep starts the clock.
func (w *stopWatch) BeginStep(exec.Position) { w.stepStart = time.Now() }

// EndStep adds the time of the step, without the cost of reading the clock.
func (w *stopWatch) EndStep(position exec.Position, _ bool) {
	elapsedNS := float64(time.Since(w.stepStart)) - w.clockCostNS
	if w.isTimed(position.Node) {
		w.runNS += max(elapsedNS, 1)
	}
}

// BeginChunk does nothing: steps are timed, not chunks.
func (w *stopWatch) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (w *stopWatch) EndChunk(exec.Position, error) {}

// clockCost returns the cost of reading the clock, in nanoseconds.
func clockCost() float64 {
	least := time.Hour
	for range 100 {
		start := time.Now()
		least = min(least, time.Since(start))
	}
	return float64(least)
}
