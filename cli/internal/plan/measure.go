package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// stepTimer is an [exec.Tracer] that collects the times of steps, for runs of one worker. In a group of steps that run
// as a pipeline, the worker alternates between steps. A step may then begin and end several times in a run.
type stepTimer struct {
	samples   map[string][]float64  // by name of a step: its time in each finished run, in nanoseconds
	runTimes  map[int]time.Duration // by index of a step: the sum of its times so far in the current run
	stepStart time.Time             // the last start of a step
	clockCost time.Duration         // the time of reading the clock, which is subtracted from each measured time
}

func newStepTimer() *stepTimer {
	return &stepTimer{samples: map[string][]float64{}, runTimes: map[int]time.Duration{}, clockCost: bench.ClockCost()}
}

// BeginRun traces all runs.
func (s *stepTimer) BeginRun(*exec.Run) bool { return true }

// EndRun does nothing.
func (s *stepTimer) EndRun(*exec.Run, error) {}

// BeginStep records the start of a step.
func (s *stepTimer) BeginStep(exec.Position) { s.stepStart = time.Now() }

// EndStep adds the time since BeginStep to the time of the step. done reports whether the step has finished.
func (s *stepTimer) EndStep(position exec.Position, done bool) {
	s.runTimes[position.Step] += max(time.Since(s.stepStart)-s.clockCost, 1)
	if done {
		s.samples[position.Node.Name] = append(s.samples[position.Node.Name], float64(s.runTimes[position.Step]))
		delete(s.runTimes, position.Step)
	}
}

// BeginChunk does nothing.
func (s *stepTimer) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (s *stepTimer) EndChunk(exec.Position, error) {}

// The minimum number and the minimum total time of the runs of --measure.
const (
	measureRuns = 10
	measureSpan = time.Second
)

// measurePlan runs a program on generated inputs with one worker, and sets the median time of each step in doc. timer
// is the tracer of the program. Minimum times would be too short, because a step is fastest before the clock rate falls
// under load. The sum of the minimum times would be less than the time of any run.
func measurePlan(job *progress.Job, compiled *graphrun.Program, g *graph.Graph, timer *stepTimer, doc *Document) error {
	generated := inputs.Sources{} // no files, so that all inputs are generated
	inputSet, err := generated.ReadValues(g, &inputs.Arrays{})
	var values map[string]*tensor.Tensor
	if err == nil {
		values, err = compiled.CachesOf(inputSet.Values)
	}
	if err != nil {
		return err
	}
	start, runs := time.Now(), 0
	err = job.Do(progress.Running, func() error {
		for ; runs < measureRuns || time.Since(start) < measureSpan; runs++ {
			if _, err := compiled.Run(job.Context, values); err != nil {
				return inputSet.HintAtGeneratedValues(err)
			}
		}
		return nil
	})
	job.End()
	if interruptErr := exit.InterruptError(job.Context); interruptErr != nil {
		return interruptErr
	}
	if err != nil {
		return err
	}
	doc.setMeasured(timer, compiled, runs)
	return nil
}

// setMeasured sets the measured times of the steps, the prices of their nodes, and the errors of the estimates.
func (doc *Document) setMeasured(timer *stepTimer, compiled *graphrun.Program, runs int) {
	profile, prices := compiled.Internal().Options().Costs, pricing.Prices{}
	if profile != nil {
		prices.Prices = slices.Clone(profile.Prices)
	}
	nodes := map[string]*graph.Node{}
	for _, n := range compiled.Internal().Planned().Nodes {
		nodes[n.Name] = n
	}
	doc.Measured = &MeasuredPlan{Runs: runs}
	var relativeErrors []float64
	for i := range doc.Steps {
		step := &doc.Steps[i]
		stepTimes := timer.samples[step.Name]
		if len(stepTimes) == 0 {
			continue
		}
		spread := experiment.SpreadOf(stepTimes)
		ns := *spread.Median
		if price, ok := priceOf(nodes[step.Name], profile, step.CostNS, &spread); ok {
			prices.AddPrice(price)
		}
		step.MeasuredNS = &ns
		doc.Measured.MeasuredNS += ns
		doc.Measured.PredictedNS += step.CostNS
		relativeErrors = append(relativeErrors, math.Abs(step.CostNS/ns-1))
	}
	doc.Prices = prices.Prices
	if len(relativeErrors) > 0 {
		spread := experiment.SpreadOf(relativeErrors)
		doc.Measured.MedianError, doc.Measured.P90Error = *spread.Median, *spread.P90
	}
}

// priceOf returns the measured price of a node. costNS is the estimate of its step at the prices of the profile.
func priceOf(n *graph.Node, profile *pricing.Profile, costNS float64, spread *experiment.Spread) (
	price pricing.LabelPrice, ok bool) {
	if price, ok = layout.LabelOf(n); !ok || costNS <= 0 {
		return price, false
	}
	ratio := profile.Ratio(price.Node, price.Op, price.Implementation, price.Order)
	price.PredictedNS = costNS // without measured prices
	if profile != nil && len(profile.Prices) > 0 {
		price.PredictedNS /= ratio.Price
	}
	price.MeasuredNS, price.Samples = *spread.Median, spread.Runs
	if spread.Low != nil {
		price.LowNS, price.HighNS = *spread.Low, *spread.High
	}
	return price, true
}

// measuredPlanText returns the sum of the measured times, the sum of the estimated times, and the errors of the
// estimates; "" without --measure.
func measuredPlanText(measured *MeasuredPlan) string {
	if measured == nil {
		return ""
	}
	return fmt.Sprintf("%s by one worker: measured time of all steps %s, estimated %s; "+
		"relative error of the estimates: median %s, 90th percentile %s", format.Count(measured.Runs, "run"),
		format.Nanoseconds(measured.MeasuredNS), format.Nanoseconds(measured.PredictedNS),
		format.Percent(measured.MedianError), format.Percent(measured.P90Error))
}
