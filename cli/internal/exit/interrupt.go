package exit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

// Error returns "terminated" or "interrupted".
func (s signalError) Error() string {
	if s.signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

// UntilSignal returns a context that ends at the first SIGINT or SIGTERM. A second signal has its default effect: it
// ends the process.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-first
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		received, ok := s.(syscall.Signal)
		if !ok { // os.Interrupt on a system without signals
			received = syscall.SIGINT
		}
		cancel(signalError{received})
	}()
	return ctx
}

// signalExitBase plus the number of a signal is the exit code after the signal, as in shells.
const signalExitBase = 128

// InterruptError returns nil until the context has ended. Then it returns an [Error] with the exit code of the signal.
func InterruptError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := signalError{syscall.SIGINT}
	errors.As(context.Cause(ctx), &cause)
	return &Error{signalExitBase + int(cause.signal), cause}
}

// InterruptErrorOr returns err. If err is not nil and the context has ended, it returns [InterruptError] instead,
// because err is then a consequence of the end.
func InterruptErrorOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return InterruptError(ctx)
	}
	return err
}
