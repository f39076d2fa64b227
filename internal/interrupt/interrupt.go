// Package interrupt ends a long computation when its context ends. Loops call [Check], which panics after the context
// has ended. A function that returns an error defers [Catch], which converts the panic to an error.
package interrupt

import (
	"context"
	"sync"
)

// Ended is the panic value of [Check].
type Ended struct{ cause error }

// Error returns the text of the context's cause.
func (e *Ended) Error() string { return e.cause.Error() }

// Unwrap returns the context's cause.
func (e *Ended) Unwrap() error { return e.cause }

// Err returns the cause of a context that has ended, otherwise nil. A nil context never ends.
func Err(ctx context.Context) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// Check panics with an [*Ended] if the context has ended. A caller on the stack of the goroutine must have deferred
// [Catch]. Check is not inlined, because it has many callers, and no inner loop calls it.
//
//go:noinline
func Check(ctx context.Context) {
	if err := Err(ctx); err != nil {
		panic(&Ended{err})
	}
}

// Catch must be deferred. After a panic of [Check], it sets *err to the context's cause. It does not stop other panics.
func Catch(err *error) {
	switch panicValue := recover().(type) {
	case nil:
	case *Ended:
		*err = panicValue.cause
	default:
		panic(panicValue)
	}
}

// Mutex is a lock. A wait for the lock ends when the context of the wait ends. The zero Mutex is unlocked.
type Mutex struct {
	once   sync.Once
	locked chan struct{} // full while the lock is held
}

// Lock acquires the lock. It returns the cause of the context if the context ends first.
func (m *Mutex) Lock(ctx context.Context) error {
	if err := Err(ctx); err != nil {
		return err
	}
	m.once.Do(func() { m.locked = make(chan struct{}, 1) })
	select {
	case m.locked <- struct{}{}:
		return nil
	case <-done(ctx):
		return context.Cause(ctx)
	}
}

// Unlock releases the lock.
func (m *Mutex) Unlock() { <-m.locked }

// Wait waits until a channel is closed. It returns the cause of the context if the context ends first.
func Wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-done(ctx):
		return context.Cause(ctx)
	}
}

// done returns ctx.Done(), or nil for a nil context.
func done(ctx context.Context) <-chan struct{} {
	if ctx == nil {
		return nil
	}
	return ctx.Done()
}
