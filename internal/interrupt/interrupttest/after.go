// Package interrupttest has contexts for tests. Such a context ends after a number of checks instead of at a time.
package interrupttest

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrEnded is the cause of contexts that [EndAtCheck] ended.
var ErrEnded = errors.New("the context was checked often enough")

// Context counts its checks: the calls of Err.
type Context struct {
	context.Context
	cancel context.CancelCauseFunc
	checks atomic.Int64
	endAt  int64 // the number of the check at which the context ends; 0 means never
}

// EndAtCheck returns a context that ends at its n-th check. If n is 0, the context never ends.
func EndAtCheck(n int) *Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Context{Context: ctx, cancel: cancel, endAt: int64(n)}
}

// Err counts the call, and returns the error of the context.
func (c *Context) Err() error {
	if c.checks.Add(1) == c.endAt {
		c.cancel(ErrEnded)
	}
	return c.Context.Err()
}

// Checks returns the number of checks.
func (c *Context) Checks() int { return int(c.checks.Load()) }
