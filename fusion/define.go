package fusion

import (
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Define makes an op as [graph.Define] does, and completes it for planning and execution. If the op has a Pointwise,
// but neither Compile nor Impls, it is compiled as the loop of its expression. The work of implementations without Work
// is estimated from the op's expression. Every op that runs, including users' own ops, must be made by Define.
func Define(op graph.Op) (*graph.Op, error) {
	if pointwise := op.Pointwise; pointwise != nil && op.Compile == nil && len(op.Impls) == 0 {
		op.Compile = func(call *graph.Call) (*graph.Kernel, error) { return CompileLoop(pointwise, call) }
		if op.Expression == nil {
			op.Expression = pointwise.Expression
		}
	}
	p := new(pricing)
	p.effort = sync.OnceValues(func() (OpCounts, bool) { return exampleEffort(p.op) })
	op.Pricing = p
	defined, err := graph.Define(op)
	p.op = defined
	return defined, err
}

// pricing estimates the work of the calls of an op. It counts the operations in the expression of the op's first
// example (Semantics.Examples). Other attributes and dtypes give expressions of similar length.
type pricing struct {
	op     *graph.Op
	effort func() (counts OpCounts, ok bool) // ok is false if there is no expression, or if it does not compile
}

// Work implements [graph.Pricing].
func (p *pricing) Work(call *graph.Call, walk graph.Walk) (work graph.Work, ok bool) {
	if p.op.Flops != nil || len(call.Out) == 0 { // with Flops, the op states the number of operations
		return work, false
	}
	counts, ok := p.effort()
	if !ok {
		return work, false
	}
	work.StartedSteps = 1
	call.AddStreamed(&work)
	if counts.Folds > 0 {
		fold := foldingOf(call)
		fold.addWork(&work, counts, call, walk)
		return work, true
	}
	const rows = 0 // AddRunStartWork adds the work of starting runs
	counts.AddTo(&work, call.Elements(), rows)
	call.AddRunStartWork(&work, walk.ResultLayout(0, call.Out[0]))
	return work, true
}

// Read implements [graph.Pricing]. It prices operands of ops with folds, whose layouts may determine the direction of
// the loops. The default [graph.ReadWork] assumes that the layout of the result determines it.
func (p *pricing) Read(call *graph.Call, walk graph.Walk, i int, meta tensor.Meta) (work graph.Work, ok bool) {
	if p.op.Flops != nil || len(call.Out) == 0 {
		return work, false
	}
	counts, ok := p.effort()
	if !ok || counts.Folds == 0 {
		return work, false
	}
	fold := foldingOf(call)
	return fold.read(counts, call, walk, i, meta), true
}
