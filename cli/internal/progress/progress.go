// Package progress runs the phases of a command, and shows their progress on a terminal.
package progress

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

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

// Job is the work of a command, a sequence of phases. On a terminal it shows its progress after [progressDelay]. As the
// tracer of a program, it counts the finished steps of a run.
type Job struct {
	Context     context.Context          // the context of the command
	name        string                   // the name that is shown, such as the name of the graph file
	phase       atomic.Value             // string
	done, total atomic.Int64             // numbers of finished parts and of all parts of the phase; total is 0 if unknown
	countStart  atomic.Int64             // start of counting, as time.Time.UnixNano
	run         atomic.Pointer[exec.Run] // the run whose steps are counted
	finish      func()                   // clears the progress line
	lastNote    time.Time                // the time of the last note, see ReportWithNotes
}

// Begin starts a job. The caller must end the job before it prints results.
func Begin(cmd *cobra.Command, name string) *Job {
	j := &Job{Context: cmd.Context(), name: name, finish: func() {}, lastNote: time.Now()}
	j.Enter(Loading)
	if w := cmd.ErrOrStderr(); term.IsTerminal(w) {
		jobEnded, lineCleared := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(lineCleared)
			j.showProgress(cmd, w, jobEnded)
		}()
		j.finish = sync.OnceFunc(func() {
			close(jobEnded)
			<-lineCleared
		})
	}
	return j
}

// End clears the progress line. A second call has no effect.
//
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func (j *Job) End() { j.finish() }

// Enter starts a phase. It may be called from any goroutine.
func (j *Job) Enter(phase string) {
	j.total.Store(0)
	j.phase.Store(phase)
}

// EnterPhaseBeforeRun is [Job.Enter], but has no effect in the phase [Running]. A run may plan parts of the graph, and
// the shown phase must then remain "running".
func (j *Job) EnterPhaseBeforeRun(phase string) {
	if j.phase.Load() != Running {
		j.Enter(phase)
	}
}

// BeginRun starts to count the steps of a run. A nested run replaces the outer run.
func (j *Job) BeginRun(r *exec.Run) bool {
	j.run.Store(r)
	j.Report(0, r.Steps)
	return true
}

// EndStep counts a finished step.
func (j *Job) EndStep(position exec.Position, done bool) {
	if done && j.run.Load() == position.Run {
		j.done.Add(1)
	}
}

// EndRun does nothing.
func (j *Job) EndRun(*exec.Run, error) {}

// BeginStep does nothing.
func (j *Job) BeginStep(exec.Position) {}

// BeginChunk does nothing.
func (j *Job) BeginChunk(exec.Position) {}

// EndChunk does nothing.
func (j *Job) EndChunk(exec.Position, error) {}

// Report enters the phase [Running], and sets its numbers of finished parts (done) and of all parts. If done is 0, the
// time for [Job.RemainingTime] begins.
func (j *Job) Report(done, total int) {
	j.phase.Store(Running)
	if done == 0 {
		j.countStart.Store(time.Now().UnixNano())
	}
	j.done.Store(int64(done))
	j.total.Store(int64(total))
}

// noteInterval is the time between notes about progress if standard error is not a terminal.
const noteInterval = 30 * time.Second

// ReportWithNotes is [Job.Report]. If standard error is not a terminal, it also prints a note every half minute. unit
// is the singular noun for a part, such as "input". ReportWithNotes must not be called from several goroutines at once.
func (j *Job) ReportWithNotes(cmd *cobra.Command, done, total int, unit string) {
	j.Report(done, total)
	if done > 0 && !term.IsTerminal(cmd.ErrOrStderr()) && time.Since(j.lastNote) > noteInterval {
		j.lastNote = time.Now()
		term.PrintNote(cmd, "%d of %s, %s", done, format.Count(total, unit), j.RemainingTime())
	}
}

// RemainingTime returns the estimated remaining time, such as "about 5s left". It assumes that the remaining parts take
// the mean time of the finished parts. It returns "" if no part or all parts are finished.
func (j *Job) RemainingTime() string {
	done, total := j.done.Load(), j.total.Load()
	if done <= 0 || done >= total {
		return ""
	}
	took := time.Since(time.Unix(0, j.countStart.Load()))
	return fmt.Sprintf("about %v left", (took / time.Duration(done) * time.Duration(total-done)).Round(time.Second))
}

// Do runs f as a phase. After the context has ended, Do returns the error of [exit.InterruptError].
func (j *Job) Do(phase string, f func() error) (err error) {
	j.Enter(phase)
	if err := exit.InterruptError(j.Context); err != nil {
		return err
	}
	defer func() { err = exit.InterruptErrorOr(j.Context, err) }()
	defer tensor.CatchMemory(&err) // a panic for lack of memory becomes the returned error
	return f()
}

// showProgress shows the progress on a terminal until ended is closed.
func (j *Job) showProgress(cmd *cobra.Command, w io.Writer, ended <-chan struct{}) {
	start := time.Now()
	select {
	case <-ended:
		return
	case <-time.After(progressDelay):
	}
	shown := 0 // the width of the line on the terminal
	replaceLine := func(line string) {
		width := term.Width(line)
		fmt.Fprint(term.Unescaped(w), "\r", line, strings.Repeat(" ", max(0, shown-width)))
		shown = width
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		replaceLine(term.DisplayOf(cmd, w).CutLine(j.line(time.Since(start)))) // the width of a terminal may change
		select {
		case <-ended:
			replaceLine("")
			fmt.Fprint(term.Unescaped(w), "\r")
			return
		case <-tick.C:
		}
	}
}

// line returns the progress, such as "running a.json [=====>              ] 3 / 12 about 5s left, after 1.7s".
func (j *Job) line(elapsed time.Duration) string {
	const nameWidth = 32 // in columns
	text := fmt.Sprintf("%v %s ", j.phase.Load(), term.CutMiddle(format.Printable(j.name), nameWidth))
	if done, total := j.done.Load(), j.total.Load(); total > 0 {
		text += fmt.Sprintf("%s %d / %d ", bar(done, total), done, total)
	}
	if remaining := j.RemainingTime(); remaining != "" {
		text += remaining + ", after "
	}
	return text + elapsed.Round(100*time.Millisecond).String()
}

// bar draws the finished share of a phase.
func bar(done, total int64) string {
	const width = 20
	finished := strings.Repeat("=", int(width*min(done, total)/total))
	return fmt.Sprintf("[%-*.*s]", width, width, finished+">") // padded and cut to width
}
