// Package interrupttest has contexts that end at a number of checks, not at a time, for tests.
package interrupttest

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrLooked is the cause of contexts that [After] ended.
var ErrLooked = errors.New("the context was checked often enough")

// Context counts its checks: the calls of Err.
type Context struct {
	context.Context
	cancel context.CancelCauseFunc
	checks atomic.Int64
	most   int64
}

// After returns a context that ends at its n-th check; 0: never.
func After(n int) *Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Context{Context: ctx, cancel: cancel, most: int64(n)}
}

// Err counts.
func (c *Context) Err() error {
	if c.checks.Add(1) == c.most {
		c.cancel(ErrLooked)
	}
	return c.Context.Err()
}

// Checks returns the number of checks.
func (c *Context) Checks() int { return int(c.checks.Load()) }
