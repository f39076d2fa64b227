// Package inspect explains the plan of one program.
//
// [Report] is the whole plan as data: steps, copies, costs, memory, and the changes by passes. The other functions
// answer one question each:
//
//	e, err := inspect.Explain(p, "conv1")              // why a value has its layout, and what computes it
//	c, err := inspect.Code(p, "conv1")                 // the loops of a step, and their machine code
//	list, err := inspect.Specializations(p)            // plans for symbolic sizes: conditions, cost above the best
//	proof, err := inspect.ForAll(p, "no-copies")       // a property of plans at all sizes within bounds
//
// [ExplainLayout] and [FirstBreak] explain layouts of a graph before it is compiled. All results have JSON tags, and
// are parts of the documents of the command graphrun.
package inspect

import (
	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/report"
)

// Report returns p.Report(), the description of the whole plan. It returns nil if graphrun.Compile did not make the
// program.
func Report(p *graphrun.Program) *report.Plan { return p.Report() }

// mapSlice applies f to each element of a list. The result is not nil.
func mapSlice[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}
