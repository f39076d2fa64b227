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

// progressDelay is the time after which a job shows its progress.
const progressDelay = time.Second

// The phases of a command's work.
const (
	Loading   = "loading"
	Planning  = "planning"
	Verifying = "verifying"
	compiling = "compiling"
	Running   = "running"
	Writing   = "writing"
	Printing  = "printing" // not shown
)

// Job is the work of a command, in phases. On a terminal it shows its progress after [progressDelay]. It ends with the
// command's context.
type Job struct {
	Context     context.Context
	name        string
	phase       atomic.Value // string
	done, total atomic.Int64
	since       atomic.Int64             // when counting began, in nanoseconds of [time.Time.UnixNano]
	run         atomic.Pointer[exec.Run] // the run whose steps are counted
	finish      func()
}

// Begin starts a job. The caller must end it before it prints results.
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

// End clears the progress line. A second call has no effect.
func (j *Job) End() { j.finish() }

// Enter starts a phase. It may be called from any goroutine.
func (j *Job) Enter(phase string) {
	j.total.Store(0)
	j.phase.Store(phase)
}

// EnterUntilRun is [Job.Enter], but has no effect while steps of a run are counted. Some runs plan parts of the graph,
// and the progress of such a run would otherwise show the phase of planning.
func (j *Job) EnterUntilRun(phase string) {
	if j.phase.Load() != Running {
		j.Enter(phase)
	}
}

// BeginRun counts the steps of a run. A nested run replaces the outer run.
func (j *Job) BeginRun(r *exec.Run) bool {
	j.run.Store(r)
	j.Report(0, r.Steps)
	return true
}

// EndStep counts a finished step.
func (j *Job) EndStep(w exec.Work, done bool) {
	if done && j.run.Load() == w.Run {
		j.done.Add(1)
	}
}

// The other events of a tracer are not shown.

// EndRun does nothing.
func (j *Job) EndRun(*exec.Run, error) {}

// BeginStep does nothing.
func (j *Job) BeginStep(exec.Work) {}

// BeginChunk does nothing.
func (j *Job) BeginChunk(exec.Work) {}

// EndChunk does nothing.
func (j *Job) EndChunk(exec.Work, error) {}

// Report sets the progress of the phase.
func (j *Job) Report(done, total int) {
	j.phase.Store(Running)
	if done == 0 {
		j.since.Store(time.Now().UnixNano())
	}
	j.done.Store(int64(done))
	j.total.Store(int64(total))
}

// Left estimates the time that remains, in words: each remaining part takes as long as the mean of the finished parts.
// It returns "" if no part is finished.
func (j *Job) Left() string {
	done, total := j.done.Load(), j.total.Load()
	if done <= 0 || done >= total {
		return ""
	}
	took := time.Since(time.Unix(0, j.since.Load()))
	return fmt.Sprintf("about %v left", (took / time.Duration(done) * time.Duration(total-done)).Round(time.Second))
}

// Do runs a phase, which ends with the context.
func (j *Job) Do(phase string, f func() error) (err error) {
	j.Enter(phase)
	if err := exit.Stopped(j.Context); err != nil {
		return err
	}
	defer func() { err = exit.StoppedOr(j.Context, err) }()
	defer tensor.CatchMemory(&err)
	return f()
}

// watch shows the progress on a terminal until the job ends.
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
			return nil // the total is unknown
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
			if left := j.Left(); left != "" {
				counted += left + ", after "
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
