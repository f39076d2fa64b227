package graphrun

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// CopyWhy is a copy with why its two sides disagree, and what it would cost to do without.
type CopyWhy struct {
	CopyReport
	Written []string `json:"written" doc:"How the value came to lie as it does, from the copy back to what decided it."`
	Wanted  []string `json:"wanted" doc:"Who wants it as the copy lies, from the copy on to what decided it."`
	// WithoutNS is nil where no plan does without, and where nothing can be said.
	WithoutNS *float64 `json:"without_ns" doc:"What the cheapest plan without such a copy costs more than the cheapest of all, in nanoseconds; null if unknown."`
	Instead   []string `json:"instead" doc:"What that plan does otherwise; empty if unknown."`
}

// maxInstead bounds what is told of another plan.
const maxInstead = 6

// explainCopies tells of the copies of a value, and of those that the step that computes it reads, why they are there.
func (p *Program) explainCopies(v *graph.Value, r *FateReport, plan *passes.Plan) []CopyWhy {
	list := []CopyWhy{}
	var w *without
	for i := range plan.Copies {
		c := &plan.Copies[i]
		if !concerns(c, v, r) {
			continue
		}
		sides := plan.Sides(c)
		why := CopyWhy{CopyReport: copyOf(*c), Written: filled(sides.Written), Wanted: filled(sides.Wanted),
			Instead: []string{}}
		if w == nil {
			w = p.without()
		}
		if ps, instead, ok := w.copy(c); ok {
			ns := float64(ps) / 1000
			why.WithoutNS, why.Instead = &ns, filled(instead)
		}
		list = append(list, why)
	}
	return list
}

// without is the exact problem of a program and its solution.
type without struct {
	model *layout.Model
	best  *wcsp.Solution
}

// without states and solves the problem; of one that cannot be stated nothing is told.
func (p *Program) without() *without {
	m, err := p.stated()
	if err != nil {
		return &without{}
	}
	s, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{TimeLimit: layout.SolveLimit})
	if err != nil || !s.Optimal() {
		return &without{}
	}
	return &without{m, s}
}

// copy tells what the cheapest plan without a copy costs more, and what it does otherwise.
func (w *without) copy(c *passes.Copy) (int64, []string, bool) {
	if w.model == nil || c.Node == nil {
		return 0, nil, false
	}
	v := w.model.Problem.Graph.Value(c.Value)
	if v == nil {
		return 0, nil, false
	}
	to := tensor.Meta{DType: v.Meta.DType, Shape: v.Meta.Shape, Strides: c.To}
	m, err := w.model.Without(v, to)
	if err != nil {
		return 0, nil, false
	}
	s, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{TimeLimit: layout.SolveLimit})
	if err != nil || !s.Optimal() {
		return 0, nil, false
	}
	return s.Cost - w.best.Cost, differences(m.WCSP, w.best.Labels, s.Labels), true
}

// differences tells which labels differ, of nodes before those of values.
func differences(p *wcsp.Problem, a, b []int) []string {
	var nodes, values []string
	for i, v := range p.Variables {
		if a[i] == b[i] {
			continue
		}
		text := fmt.Sprintf("%s: %s instead of %s", v.Name, v.Labels[b[i]], v.Labels[a[i]])
		if len(v.Name) > 5 && v.Name[:5] == "node " {
			nodes = append(nodes, text)
		} else {
			values = append(values, text)
		}
	}
	all := append(nodes, values...)
	if more := len(all) - maxInstead; more > 0 {
		all = append(all[:maxInstead], fmt.Sprintf("and %d more", more))
	}
	return all
}
