package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/inputs"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/steptimes"
	"github.com/graphrun/graphrun/tensor"
)

// The minimum number and the minimum total time of the runs of --measure.
const (
	measureRuns = 10
	measureSpan = time.Second
)

// measurePlan runs a program on generated inputs with one worker, and sets the median time of each step in doc. timer
// is the tracer of the program. Minimum times would be too short, because a step is fastest before the clock rate falls
// under load. The sum of the minimum times would be less than the time of any run.
func measurePlan(job *progress.Job, compiled *graphrun.Program, g *graph.Graph, timer *steptimes.Tracer, doc *Document) error {
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
func (doc *Document) setMeasured(timer *steptimes.Tracer, compiled *graphrun.Program, runs int) {
	doc.Measured = &MeasuredPlan{Runs: runs}
	var relativeErrors []float64
	for i := range doc.Steps {
		step := &doc.Steps[i]
		stepTimes := timer.Samples(step.Name)
		if len(stepTimes) == 0 {
			continue
		}
		spread := experiment.SpreadOf(stepTimes)
		ns := *spread.Median
		step.MeasuredNS = &ns
		doc.Measured.MeasuredNS += ns
		doc.Measured.PredictedNS += step.CostNS
		relativeErrors = append(relativeErrors, math.Abs(step.CostNS/ns-1))
	}
	doc.Prices = experiment.MeasuredPrices(compiled, timer).Prices
	if len(relativeErrors) > 0 {
		spread := experiment.SpreadOf(relativeErrors)
		doc.Measured.MedianError, doc.Measured.P90Error = *spread.Median, *spread.P90
	}
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
