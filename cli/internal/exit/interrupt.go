package exit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalled is why a context ended.
type signalled struct{ what syscall.Signal }

// Error says it in a word.
func (s signalled) Error() string {
	if s.what == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// UntilSignal returns a context that the first Ctrl-C ends, or a request to terminate. The
// second one ends the process as if there were none of this.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-first
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		what, ok := s.(syscall.Signal)
		if !ok {
			what = syscall.SIGINT
		}
		cancel(signalled{what})
	}()
	return ctx
}

// exitSignalled is the exit code after signal 0, by the convention of shells.
const exitSignalled = 128

// Stopped returns how a command ends whose context did; nil while it did not.
func Stopped(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	why := signalled{syscall.SIGINT}
	errors.As(context.Cause(ctx), &why)
	return &Error{exitSignalled + int(why.what), why}
}

// StoppedOr says that a run was interrupted, where it was.
func StoppedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return Stopped(ctx)
	}
	return err
}
