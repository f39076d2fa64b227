// Package experiment compares programs: by measured times, by the differences of their plans, and by proofs about the
// costs of plans.
//
// [Compare] measures candidates side by side and tests whether they differ. A candidate is any compiled program, for
// example with a caller's strategy:
//
//	c, err := experiment.Compare(ctx, []experiment.Candidate{{Program: p}, {Program: q}}, in, experiment.Options{})
//	fmt.Print(c.Table())
//	fmt.Println(c.Verdict.Text)
//	d, err := experiment.Diff(p, q) // the values, copies and steps that differ, and their costs
//
// The other functions concern the layout problem of a graph, which strategy Optimal solves. [LowerBound] bounds the
// cost of any plan. [Best] returns the cheapest plans. [Sensitivity] varies the price of copies. [Advise] suggests
// other layouts of inputs and outputs. [Problem] returns the problem for other solvers. [Certify] returns a certificate
// of the cost of a plan, and [Verify] checks one; package passes/layout/wcsp/verify checks only the proof.
package experiment

import (
	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/internal/program"
)

// Together returns the memory of simultaneous runs of programs of one graph, which share inputs and constants.
func Together(programs ...*graphrun.Program) graphrun.Need {
	list := make([]*program.Program, len(programs))
	for i, p := range programs {
		list[i] = (*program.Program)(p)
	}
	return program.CombinedNeed(list...)
}
