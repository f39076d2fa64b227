//go:build linux || darwin

package vector

import "github.com/graphrun/graphrun/internal/jit"

// RandomLoop is exported for tests that import packages which import this package.
var RandomLoop = randomLoop

// Operations returns the operations that a dtype has, except for conversions and functions.
var Operations = operations

// FuncOf returns the code of a loop.
func FuncOf(c *Loop) *jit.Func { return c.fn }
