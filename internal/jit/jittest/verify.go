package jittest

import "github.com/graphrun/graphrun/internal/jit/alloc"

// Tests that import this package check each register allocation.
func init() { alloc.Verify = true }
