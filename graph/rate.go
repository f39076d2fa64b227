package graph

import "github.com/graphrun/graphrun/tensor"

// Rate is an inner kernel whose work profiles of machines price, and by which calls a machine is measured: its
// calibration point. Families list theirs; what a machine takes for a unit follows from the times of the calls,
// less what else is in them.
type Rate struct {
	Name  string // as works and profiles have it: "gemm.f32"
	Unit  string // what it is the price of: "a multiplication and an addition"
	Calls []RateCall
}

// RateCall is a call that exercises an inner kernel.
type RateCall struct {
	Op    string
	Attrs Attrs
	In    []tensor.Meta // laid out so; of dtype Invalid for one that is left out
	// Constant lists the operands that are known before the run, and packed.
	Constant []int
	Impl     string // the implementation; empty: the one that costs least
	// Make, where it is set, adds several nodes in the place of one of Op, which are run as steps are within a network:
	// in one loop, where they can be.
	Make func(g *Graph, in []any) []*Value
}
