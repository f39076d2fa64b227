package main

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long work may take without a word.
const progressDelay = time.Second

// withProgress runs f and, if w is a terminal and f takes longer than [progressDelay],
// shows there that time goes by.
func withProgress[T any](w io.Writer, name string, f func() (T, error)) (T, error) {
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
		bar := p.New(0, mpb.SpinnerStyle(), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("running "+name+" ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				return time.Since(start).Round(100 * time.Millisecond).String()
			})))
		<-done
		bar.Abort(true)
		p.Wait()
	}()
	v, err := f()
	close(done)
	<-gone
	return v, err
}
