package graphrun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// looking is a strategy that keeps the problem, and decides nothing.
type looking struct{ problem *layout.Problem }

var errLooked = errors.New("the problem was looked at")

func (*looking) Name() string { return "looking" }

// Choose ends planning, so that the graph of the problem stays as it is.
func (l *looking) Choose(p *layout.Problem) (*layout.Assignment, error) {
	l.problem = p
	return nil, errLooked
}

// layouts returns the problem of layouts that planning states, of a graph that is planned as a whole. The first call
// plans, and ends with its context.
func (c *compiled) layouts(ctx context.Context, o Options) (*layout.Problem, error) {
	c.asking.Do(func() {
		if c.runs.Dynamic() {
			c.asked = errors.New("shapes depend on data: the graph is planned in segments as it runs, and has no one problem " +
				"of layouts")
			return
		}
		whole := c.runs
		if len(c.unpacked) > 0 {
			whole = c.whole()
		}
		var l looking
		_, err := passes.Run(whole, passes.Options{Context: ctx, Strategy: &l, Profile: o.Costs, Passes: o.Passes,
			MemoryLimit: o.MemoryLimit, KeepGoing: o.KeepGoing, Exact: o.Exact, SolveLimit: o.SolveLimit})
		switch {
		case l.problem != nil:
			c.problem = l.problem
		case err == nil:
			c.asked = errors.New("no pass asks a strategy for layouts")
		default:
			c.asked = err
		}
	})
	return c.problem, c.asked
}

// stated states the problem of layouts of the first sizes.
func (p *Program) stated() (*layout.Model, error) {
	if p == nil || p.first == nil || p.first.runs == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	problem, err := p.first.layouts(context.Background(), p.options)
	if err != nil {
		return nil, err
	}
	return layout.NewModel(problem)
}

// Problem returns the problem of layouts that planning this graph states, for the sizes that Compile saw, whatever the
// strategy is: for solvers of one's own. What they find is applied by [layout.Given].
func (p *Program) Problem() (*wcsp.Problem, error) {
	m, err := p.stated()
	if err != nil {
		return nil, err
	}
	return m.WCSP, nil
}

// AdviceReport is what a caller could change, without a change to the graph, so that it costs less: see
// [layout.Advise].
type AdviceReport struct {
	Tried    int           `json:"tried" doc:"How many changes were priced."`
	Possible int           `json:"possible" doc:"How many there are."`
	Hints    []layout.Hint `json:"hints" doc:"What would be saved, what saves most first."`
}

// Advice tells what would be saved if an input came, or an output were taken, in another layout. It plans the graph up
// to 32 times.
func (p *Program) Advice() (*AdviceReport, error) {
	if p == nil || p.first == nil || p.first.runs == nil {
		return nil, errors.New("the program was not made by Compile")
	}
	problem, err := p.first.layouts(context.Background(), p.options)
	if err != nil {
		return nil, err
	}
	a, err := layout.Advise(problem)
	if err != nil {
		return nil, err
	}
	return &AdviceReport{a.Tried, a.Possible, filled(a.Hints)}, nil
}

// Sensitivity tells by how much copies may get slower or faster before another plan is the cheapest.
func (p *Program) Sensitivity() (*layout.Sensitivity, error) {
	m, err := p.stated()
	if err != nil {
		return nil, err
	}
	return m.Sensitive()
}

// PlanChoice is one of the cheapest plans.
type PlanChoice struct {
	CostNS float64       `json:"cost_ns" doc:"What it is estimated to cost, in nanoseconds."`
	MoreNS float64       `json:"more_ns" doc:"That, beyond the cheapest."`
	Change layout.Change `json:"change" doc:"What it does otherwise than the cheapest."`

	place    int
	solution *wcsp.Solution
}

// Strategy plans by the choice, the graph and the options that [Program.Best] was asked about. It refuses others whose
// problem of layouts is another one, and the zero PlanChoice all.
func (c PlanChoice) Strategy() Strategy { return chosen{layout.Given(c.solution), c.place} }

// chosen is a strategy that applies a choice.
type chosen struct {
	Strategy
	place int
}

// Name tells which of the cheapest plans it is.
func (c chosen) Name() string { return fmt.Sprintf("optimal plan %d", c.place) }

// Best returns the k cheapest plans that differ in what runs, the cheapest first: see [layout.Model.Best].
func (p *Program) Best(k int) ([]PlanChoice, error) {
	m, err := p.stated()
	if err != nil {
		return nil, err
	}
	list, err := m.Best(k)
	if err != nil {
		return nil, err
	}
	choices := make([]PlanChoice, len(list))
	for i, o := range list {
		choices[i] = PlanChoice{float64(o.PS) / 1000, float64(o.PS-list[0].PS) / 1000, o.Since(list[0]), i + 1,
			&wcsp.Solution{Version: wcsp.Version, Labels: o.Labels}}
	}
	return choices, nil
}

// proved sets what the solution of the problem of layouts tells of the cost.
func (r *Report) proved(plan *passes.Plan) {
	s := plan.Solution
	if s == nil || s.Bound == 0 && !s.Optimal() {
		return
	}
	// The steps cost the same, but for rounding: a bound is held against what it is a bound of.
	if cost := float64(s.Cost) / 1000; math.Abs(cost-plan.CostNS-plan.SavedNS) <= 1e-9*cost {
		r.CostNS = cost - plan.SavedNS
	}
	bound := float64(s.Bound) / 1000
	r.Optimal, r.LowerBoundNS = s.Optimal(), &bound
}

// pinsOf lists all pins of a graph, by name: those of the file and those that were demanded since.
func pinsOf(g *graph.Graph) []CertifiedPin {
	list := []CertifiedPin{}
	add := func(name string, p graph.Pin) {
		if p.Lays() {
			list = append(list, CertifiedPin{name, graph.Pin{Format: p.Format, Order: p.Order}.String()})
		}
		if p.Impl != "" {
			list = append(list, CertifiedPin{name, graph.Pin{Impl: p.Impl}.String()})
		}
	}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		add(v.Name, v.Pin)
	}
	for _, n := range g.Nodes {
		add(n.Name, n.Pin)
	}
	for _, o := range g.Outputs {
		if g.Value(o.Name) == nil { // else the pin is of the file: the name stands for the value elsewhere
			add(o.Name, o.Pin)
		}
	}
	return list
}

// repin demands pins of a graph, beside those that it has.
func repin(g *graph.Graph, list []CertifiedPin) error {
	for _, c := range list {
		pin, err := graph.ParsePin(c.Pin)
		if err == nil {
			err = g.Pin(c.Name, pin)
		}
		if err != nil {
			return fmt.Errorf("pin %s=%s: %w", c.Name, c.Pin, err)
		}
	}
	return nil
}
