package main

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long work may take without a word.
const progressDelay = time.Second

// meter counts the steps of a run for those who watch it.
type meter struct{ done, total atomic.Int64 }

func (m *meter) report(done, total int) {
	m.done.Store(int64(done))
	m.total.Store(int64(total))
}

// withProgress runs f and, if w is a terminal and f takes longer than [progressDelay],
// shows there how far the meter is.
func withProgress[T any](w io.Writer, name string, m *meter, f func() (T, error)) (T, error) {
	if !isTerminal(w) {
		return f()
	}
	if name == "" {
		name = "graph"
	}
	done := make(chan struct{})
	gone := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(gone)
		select {
		case <-done:
			return
		case <-time.After(progressDelay):
		}
		p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(20))
		bar := p.AddBar(0, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("running "+name+" ")),
			mpb.AppendDecorators(decor.CountersNoUnit("%d / %d "), decor.Any(func(decor.Statistics) string {
				return time.Since(start).Round(100 * time.Millisecond).String()
			})))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-tick.C:
				bar.SetTotal(m.total.Load(), false)
				bar.SetCurrent(m.done.Load())
			}
		}
		bar.Abort(true)
		p.Wait()
	}()
	v, err := f()
	close(done)
	<-gone
	return v, err
}
