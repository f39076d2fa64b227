// Package steptimes measures the steps of programs.
package steptimes

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/internal/environment"
)

// Tracer is an [exec.Tracer] that collects the time of each step: the sum over all workers of the time that they
// spend in the step, including runs that the step makes. It serves concurrent runs.
type Tracer struct {
	paused    atomic.Bool
	clockCost time.Duration // the time of reading the clock, which is subtracted

	mu      sync.Mutex
	samples map[string][]float64 // by name of a step: its time in each finished run, in nanoseconds
	totals  []float64            // of each finished run
}

// New returns a tracer without times.
func New() *Tracer {
	return &Tracer{clockCost: environment.ClockCost(), samples: map[string][]float64{}}
}

// Pause makes the tracer ignore the runs that begin later, or count them again.
func (s *Tracer) Pause(paused bool) { s.paused.Store(paused) }

// Samples returns the times of a step in nanoseconds, in the order of the runs.
func (s *Tracer) Samples(step string) []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.samples[step])
}

// Take returns the times of all steps and the sums of each run, and forgets them.
func (s *Tracer) Take() (samples map[string][]float64, totals []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	samples, totals = s.samples, s.totals
	s.samples, s.totals = map[string][]float64{}, nil
	return samples, totals
}

// workerTimes has the times of one worker in a run.
type workerTimes struct {
	start time.Time       // of the current step
	steps []time.Duration // by index of the step
	_     [64]byte        // padding: workers write to different cache lines
}

// BeginRun traces the runs of a program that are no parts of other runs.
func (s *Tracer) BeginRun(run *exec.Run) bool {
	if s.paused.Load() || run.Parent != nil || run.Program == nil {
		return false
	}
	workers := make([]workerTimes, run.Workers)
	for i := range workers {
		workers[i].steps = make([]time.Duration, run.Steps)
	}
	run.Data = workers
	return true
}

// EndRun adds the times of a run, unless it failed.
func (s *Tracer) EndRun(run *exec.Run, err error) {
	workers, traced := run.Data.([]workerTimes)
	if !traced || err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0.0
	for i, step := range run.Program.Steps() {
		var sum time.Duration
		for w := range workers {
			sum += workers[w].steps[i]
		}
		s.samples[step.Name] = append(s.samples[step.Name], float64(sum))
		total += float64(sum)
	}
	s.totals = append(s.totals, total)
}

// BeginStep records the start of a step.
func (s *Tracer) BeginStep(p exec.Position) {
	p.Run.Data.([]workerTimes)[p.Worker].start = time.Now()
}

// EndStep adds the time since BeginStep. In a group of steps that run as a pipeline, a step may begin and end several
// times in a run.
func (s *Tracer) EndStep(p exec.Position, _ bool) {
	worker := &p.Run.Data.([]workerTimes)[p.Worker]
	worker.steps[p.Step] += max(time.Since(worker.start)-s.clockCost, 1)
}

// BeginChunk does nothing.
func (s *Tracer) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (s *Tracer) EndChunk(exec.Position, error) {}
