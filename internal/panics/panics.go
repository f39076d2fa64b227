// Package panics converts a panic in an op to an error. Such a panic must not end other work of the process.
package panics

import (
	"fmt"
	"runtime/debug"

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
func Error(panicked any) error {
	switch panicked := panicked.(type) {
	case *tensor.MemoryError:
		return panicked
	case *interrupt.Ended:
		return panicked
	}
	return fmt.Errorf("internal error: %v\n%s", panicked, debug.Stack())
}
