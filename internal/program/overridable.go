package program

import (
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// overridable is the program for runs that override defaults of inputs ([graph.Value.Default]). The program of all
// other runs has the defaults as constants, which are folded and packed.
type overridable struct {
	graph   *graph.Graph // with the defaults as inputs
	options Options
	program func() (*Program, error) // makes the program at the first call
}

// newOverridable returns the overridable of a graph. The options are those of the caller.
func newOverridable(g *graph.Graph, options Options) *overridable {
	o := &overridable{graph: g.Clone(), options: options} // the caller may change g
	o.program = sync.OnceValues(func() (*Program, error) { return newProgram(o.graph, o.options) })
	return o
}

// forInputs returns the program for a run with the given inputs, and the inputs completed by defaults.
func (p *Program) forInputs(in map[string]*tensor.Tensor) (*Program, map[string]*tensor.Tensor, error) {
	if p.Overrides(in) {
		var err error
		if p, err = p.overridable.program(); err != nil {
			return nil, nil, err
		}
	}
	if p == nil || len(p.defaults) == 0 {
		return p, in, nil
	}
	return p, graph.FillDefaults(p.defaults, in), nil
}

// Overrides reports whether a run with the given inputs overrides a default that the program has as a constant.
func (p *Program) Overrides(in map[string]*tensor.Tensor) bool {
	return p != nil && p.overridable != nil && slices.ContainsFunc(p.overridable.graph.Inputs, func(v *graph.Value) bool {
		return v.HasConstantDefault() && in[v.Name] != nil
	})
}
