package experiment

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// StepTimes is a [graphrun.Tracer] that collects the time of each step: the sum over all workers of the time that they
// spend in the step, including runs that the step makes. It serves concurrent runs.
type StepTimes struct {
	paused    atomic.Bool
	clockCost time.Duration // the time of reading the clock, which is subtracted

	mu      sync.Mutex
	samples map[string][]float64 // by name of a step: its time in each finished run, in nanoseconds
	totals  []float64            // of each finished run
}

// NewStepTimes returns a tracer without times.
func NewStepTimes() *StepTimes {
	return &StepTimes{clockCost: environment.ClockCost(), samples: map[string][]float64{}}
}

// Pause makes the tracer ignore the runs that begin later, or count them again.
func (s *StepTimes) Pause(paused bool) {
	if s != nil {
		s.paused.Store(paused)
	}
}

// Samples returns the times of a step in nanoseconds, in the order of the runs.
func (s *StepTimes) Samples(step string) []float64 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.samples[step])
}

// take returns the times of all steps and of all runs, and forgets them.
func (s *StepTimes) take() (samples map[string][]float64, totals []float64) {
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
func (s *StepTimes) BeginRun(run *exec.Run) bool {
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
func (s *StepTimes) EndRun(run *exec.Run, err error) {
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
func (s *StepTimes) BeginStep(p exec.Position) {
	p.Run.Data.([]workerTimes)[p.Worker].start = time.Now()
}

// EndStep adds the time since BeginStep. In a group of steps that run as a pipeline, a step may begin and end several
// times in a run.
func (s *StepTimes) EndStep(p exec.Position, _ bool) {
	worker := &p.Run.Data.([]workerTimes)[p.Worker]
	worker.steps[p.Step] += max(time.Since(worker.start)-s.clockCost, 1)
}

// BeginChunk does nothing.
func (s *StepTimes) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (s *StepTimes) EndChunk(exec.Position, error) {}

// stepLabel is the label of a step in a list of prices, with its predicted price, without times.
type stepLabel struct {
	step  string
	label pricing.LabelPrice
}

// stepLabels returns the labels of the steps of a program, for the sizes that Compile planned. It omits steps whose
// nodes no price concerns.
func stepLabels(p *graphrun.Program) (list []stepLabel) {
	internal := p.Internal()
	nodes := map[string]*graph.Node{}
	for _, n := range internal.Planned().Nodes {
		nodes[n.Name] = n
	}
	profile := internal.Options().Costs
	for _, step := range p.Report().Steps {
		label, ok := layout.LabelOf(nodes[step.Name])
		if !ok || step.CostNS <= 0 {
			continue
		}
		label.PredictedNS = step.CostNS
		if profile != nil && len(profile.Prices) > 0 { // without measured prices
			label.PredictedNS /= profile.Ratio(label.Node, label.Op, label.Implementation, label.Order).Price
		}
		list = append(list, stepLabel{step.Name, label})
	}
	return list
}

// priced returns a label with the measured price of its times, in nanoseconds.
func priced(label pricing.LabelPrice, times []float64) pricing.LabelPrice {
	spread := SpreadOf(times)
	label.MeasuredNS, label.Samples = *spread.Median, spread.Runs
	if spread.Low != nil {
		label.LowNS, label.HighNS = *spread.Low, *spread.High
	}
	return label
}

// MeasuredPrices returns the measured prices of the steps of a program, and the other prices of its profile. times are
// of runs of the program at the sizes that Compile planned.
func MeasuredPrices(p *graphrun.Program, times *StepTimes) *pricing.Prices {
	prices := &pricing.Prices{Version: pricing.PricesVersion}
	if p.Report() == nil || times == nil {
		return prices
	}
	if profile := p.Internal().Options().Costs; profile != nil {
		prices.Prices = slices.Clone(profile.Prices)
	}
	for _, step := range stepLabels(p) {
		if samples := times.Samples(step.step); len(samples) > 0 {
			prices.AddPrice(priced(step.label, samples))
		}
	}
	return prices
}
