package jittest

import "github.com/graphrun/graphrun/internal/jit/alloc"

func init() { alloc.Verify = true }
