package fusion

import (
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Define makes an op as [graph.Define] does, and completes it for planning and execution. A Pointwise part without
// Compile and Impls is compiled as the loop of its expression. Implementations without Work are priced by the op's
// expression. Every op that runs must be made by Define, users' own ops included.
func Define(o graph.Op) (*graph.Op, error) {
	if p := o.Pointwise; p != nil && o.Compile == nil && len(o.Impls) == 0 {
		o.Compile = func(c *graph.Call) (*graph.Kernel, error) { return CompileLoop(p, c) }
		if o.Expression == nil {
			o.Expression = p.Expression
		}
	}
	p := new(pricing)
	p.effort = sync.OnceValues(func() (Effort, bool) { return exampleEffort(p.op) })
	o.Pricing = p
	defined, err := graph.Define(o)
	p.op = defined
	return defined, err
}

// pricing prices the calls of an op by the expression of the op's first example. Expressions for other attributes and
// dtypes have similar length.
type pricing struct {
	op     *graph.Op
	effort func() (e Effort, ok bool) // ok is false if there is no expression, or if it does not compile
}

// Work implements [graph.Pricing].
func (p *pricing) Work(c *graph.Call, walk graph.Walk) (w graph.Work, ok bool) {
	if p.op.Flops != nil || len(c.Out) == 0 {
		return w, false
	}
	e, ok := p.effort()
	if !ok {
		return w, false
	}
	w.Steps = 1
	c.AddStreamed(&w)
	if e.Folds > 0 {
		x := exampleFolding(c)
		x.work(&w, e, c, walk)
		return w, true
	}
	e.Do(&w, c.Elements(), 0)
	c.AddRuns(&w, walk.ResultLayout(0, c.Out[0]))
	return w, true
}

// Read implements [graph.Pricing].
func (p *pricing) Read(c *graph.Call, walk graph.Walk, i int, m tensor.Meta) (w graph.Work, ok bool) {
	if p.op.Flops != nil || len(c.Out) == 0 {
		return w, false
	}
	e, ok := p.effort()
	if !ok || e.Folds == 0 {
		return w, false
	}
	x := exampleFolding(c)
	return x.read(e, c, walk, i, m), true
}
