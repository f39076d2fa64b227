package plan

import (
	"fmt"
	"io"
	"math"
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
)

// stepWatch is a tracer that keeps the times of each step, by the name of its node. It is for runs of one worker.
type stepWatch struct {
	took  map[string][]float64  // in nanoseconds
	turns map[int]time.Duration // of a step that is not done yet, in all
	began time.Time
	clock time.Duration // what it takes to look at the clock
}

func newStepWatch() *stepWatch {
	return &stepWatch{took: map[string][]float64{}, turns: map[int]time.Duration{}, clock: bench.ClockCost()}
}

// BeginRun wants to be told of all runs.
func (s *stepWatch) BeginRun(*exec.Run) bool { return true }

// EndRun does nothing.
func (s *stepWatch) EndRun(*exec.Run, error) {}

// BeginStep notes when.
func (s *stepWatch) BeginStep(exec.Work) { s.began = time.Now() }

// EndStep keeps the time.
func (s *stepWatch) EndStep(w exec.Work, done bool) {
	s.turns[w.Step] += max(time.Since(s.began)-s.clock, 1)
	if done {
		s.took[w.Node.Name] = append(s.took[w.Node.Name], float64(s.turns[w.Step]))
		delete(s.turns, w.Step)
	}
}

// BeginChunk does nothing: steps are what is told.
func (s *stepWatch) BeginChunk(exec.Work) {}

// EndChunk does nothing.
func (s *stepWatch) EndChunk(exec.Work, error) {}

// How long plan --measure runs: so many runs at least, and so long.
const (
	measureRuns = 10
	measureSpan = time.Second
)

// measurePlan runs a program on inputs that are made up, with one worker, and puts the median time of each step beside
// what it was estimated to cost: the least is that of a processor that had rested, and no run has it for all steps.
// Watch is the program's tracer.
func measurePlan(j *progress.Job, p *graphrun.Program, g *graph.Graph, watch *stepWatch, r *Document) error {
	in, err := inputs.Sources{}.ReadValues(g, &inputs.Given{})
	if err != nil {
		return err
	}
	start, runs := time.Now(), 0
	err = j.Do(progress.Running, func() error {
		for ; runs < measureRuns || time.Since(start) < measureSpan; runs++ {
			if _, err := p.Run(j.Context, in.Values); err != nil {
				return in.Blame(err)
			}
		}
		return nil
	})
	j.End()
	if cut := exit.Stopped(j.Context); cut != nil {
		return cut
	}
	if err != nil {
		return err
	}
	r.Measured = &MeasuredPlan{Runs: runs}
	var errors []float64
	for i := range r.Steps {
		s := &r.Steps[i]
		took := watch.took[s.Name]
		if len(took) == 0 {
			continue
		}
		ns := *experiment.SpreadOf(took).Median
		s.MeasuredNS = &ns
		r.Measured.MeasuredNS += ns
		r.Measured.PredictedNS += s.CostNS
		errors = append(errors, math.Abs(s.CostNS/ns-1))
	}
	if len(errors) > 0 {
		spread := experiment.SpreadOf(errors)
		r.Measured.MedianError, r.Measured.P90Error = *spread.Median, *spread.P90
	}
	return nil
}

// writeMeasured prints what was predicted beside what was measured.
func writeMeasured(w io.Writer, m *MeasuredPlan) {
	if m != nil {
		fmt.Fprintf(w, "%s by one worker: steps take %s in all, and %s were estimated\n"+
			"a step's estimate is off by %s in the median, and by %s in the worst tenth\n", format.Count(m.Runs, "run"),
			format.Nanoseconds(m.MeasuredNS), format.Nanoseconds(m.PredictedNS), format.Percent(m.MedianError),
			format.Percent(m.P90Error))
	}
}
