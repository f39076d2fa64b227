// Package panics converts a panic in an op to an error. Such a panic must not end other work of the process.
package panics

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// Recover must be deferred. It converts a panic to *err: see [Error].
func Recover(err *error) {
	if panicked := recover(); panicked != nil {
		*err = Error(panicked)
	}
}

// Error returns the error for a recovered panic: a failed allocation, a context that has ended, or an internal error.
// An internal error has the functions that panicked, or the whole stack if GOTRACEBACK is all, system or crash.
func Error(panicked any) error {
	switch panicked := panicked.(type) {
	case *tensor.MemoryError:
		return panicked
	case *interrupt.Ended:
		return panicked
	case Stated:
		return panicked.Err
	}
	if slices.Contains([]string{"all", "system", "crash"}, os.Getenv("GOTRACEBACK")) {
		return fmt.Errorf("internal error: %v\n%s", panicked, debug.Stack())
	}
	return fmt.Errorf("internal error: %v%s", panicked, trace())
}

// Stated is a panic of a function that has no error as result, in a caller's part. Err names the part.
type Stated struct{ Err error }

// maxFrames is the maximum number of functions in an error.
const maxFrames = 5

// trace lists the innermost functions that were running at the panic, each on a line with its place.
func trace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var lines []string
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic": // what follows panicked, what precedes recovers
			lines = nil
		case !strings.HasPrefix(frame.Function, "runtime."):
			lines = append(lines, fmt.Sprintf("\n\tat %s (%s:%d)", frame.Function, frame.File, frame.Line))
		}
		if !more {
			return strings.Join(lines[:min(len(lines), maxFrames)], "")
		}
	}
}
