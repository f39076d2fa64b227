package control

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op { return []*graph.Op{If, IfSizes, Loop, Scan, Raise} }
