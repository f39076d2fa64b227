// Package progress runs the phases of a command, and shows their progress on a terminal.
package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/tensor"
)

// progressDelay is how long work may take without a word.
const progressDelay = time.Second

// The phases of a command's work.
const (
	Loading   = "loading"
	Planning  = "planning"
	Verifying = "verifying"
	compiling = "compiling"
	Running   = "running"
	Writing   = "writing"
	Printing  = "printing" // no longer shown
)

// Job is the work of a command, in phases. Where messages go to a terminal, work that takes
// longer than [progressDelay] shows there what it is at. An interruption ends it.
type Job struct {
	Context     context.Context
	name        string
	phase       atomic.Value // string
	done, total atomic.Int64
	run         atomic.Pointer[exec.Run] // that is counted
	finish      func()
}

// Begin starts a job; the caller must end it before results are printed.
func Begin(cmd *cobra.Command, name string) *Job {
	j := &Job{Context: cmd.Context(), name: name, finish: func() {}}
	j.Enter(Loading)
	if w := cmd.ErrOrStderr(); term.IsTerminal(w) {
		over, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			j.watch(w, over)
		}()
		j.finish = sync.OnceFunc(func() {
			close(over)
			<-gone
		})
	}
	return j
}

// End clears the line that shows progress. A second call does nothing.
func (j *Job) End() { j.finish() }

// Enter tells what the job is at. It may be called from any goroutine.
func (j *Job) Enter(phase string) {
	j.total.Store(0)
	j.phase.Store(phase)
}

// EnterUntilRun is enter that does nothing once runs are counted: some plan a part of the graph on their way.
func (j *Job) EnterUntilRun(phase string) {
	if j.phase.Load() != Running {
		j.Enter(phase)
	}
}

// BeginRun has the steps of a run counted from now on; of runs within others it is the last that
// counts.
func (j *Job) BeginRun(r *exec.Run) bool {
	j.run.Store(r)
	j.Report(0, r.Steps)
	return true
}

// EndStep counts a step that is finished.
func (j *Job) EndStep(w exec.Work, done bool) {
	if done && j.run.Load() == w.Run {
		j.done.Add(1)
	}
}

// What else a tracer is told is not shown.

// EndRun does nothing.
func (j *Job) EndRun(*exec.Run, error) {}

// BeginStep does nothing.
func (j *Job) BeginStep(exec.Work) {}

// BeginChunk does nothing.
func (j *Job) BeginChunk(exec.Work) {}

// EndChunk does nothing.
func (j *Job) EndChunk(exec.Work, error) {}

// Report counts what a phase of work has done.
func (j *Job) Report(done, total int) {
	j.phase.Store(Running)
	j.done.Store(int64(done))
	j.total.Store(int64(total))
}

// Do does a phase, which ends with the job's context.
func (j *Job) Do(phase string, f func() error) (err error) {
	j.Enter(phase)
	if err := exit.Stopped(j.Context); err != nil {
		return err
	}
	defer func() { err = exit.StoppedOr(j.Context, err) }()
	defer tensor.CatchMemory(&err)
	return f()
}

// watch shows the job on a terminal until it is over.
func (j *Job) watch(w io.Writer, over <-chan struct{}) {
	start := time.Now()
	select {
	case <-over:
		return
	case <-time.After(progressDelay):
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(20))
	style := mpb.BarStyle().Build()
	bar := p.MustAdd(0, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		if j.total.Load() == 0 {
			return nil // nobody knows how much there is to do
		}
		return style.Fill(w, s)
	}), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return fmt.Sprintf("%v %s ", j.phase.Load(), term.CutMiddle(format.Printable(j.name), 32))
		})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			counted := ""
			if n := j.total.Load(); n > 0 {
				counted = fmt.Sprintf("%d / %d ", j.done.Load(), n)
			}
			return counted + time.Since(start).Round(100*time.Millisecond).String()
		})))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			bar.Abort(true)
			p.Wait()
			return
		case <-tick.C:
			bar.SetTotal(j.total.Load(), false)
			bar.SetCurrent(j.done.Load())
		}
	}
}
