//go:build (linux || darwin) && !386 && !arm

package extreme_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The data of a call are few, so that a long call works in proportion to its attributes. Time is measured as processor
// time, which does not depend on other processes.
const (
	longest = 4 * time.Second
	stuck   = 5 * time.Minute // of wall time without processor time
)

// watch ends the process where a call takes too long, and names it.
type watch struct {
	sync.Mutex
	started bool
	call    *call
	what    string
	spent   time.Duration
	since   time.Time
}

var now watch

// begin records the next stage of a call.
func (w *watch) begin(c *call, what string) {
	w.Lock()
	defer w.Unlock()
	if !w.started {
		w.started = true
		go w.look()
	}
	if w.call != c {
		w.spent, w.since = spent(), time.Now()
	}
	w.call, w.what = c, what
}

func (w *watch) end() {
	w.Lock()
	defer w.Unlock()
	w.call = nil
}

func (w *watch) stage() string {
	w.Lock()
	defer w.Unlock()
	return w.what
}

func (w *watch) look() {
	for {
		time.Sleep(time.Second / 4)
		w.Lock()
		if w.call != nil && (spent()-w.spent > longest || time.Since(w.since) > stuck) {
			stacks := make([]byte, 1<<16)
			stacks = stacks[:runtime.Stack(stacks, true)]
			_, _ = fmt.Fprintf(os.Stderr, "%s does not end: %v\n%s\n", w.what, w.call, stacks)
			os.Exit(3)
		}
		w.Unlock()
	}
}

// spent returns the processor time of the process.
func spent() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
