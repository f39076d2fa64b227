package program

import (
	"context"
	"errors"

	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// observer is a strategy that records the layout problem and ends planning, so that the graph of the problem is not
// changed.
type observer struct{ problem *layout.Problem }

var errObserved = errors.New("the problem was observed")

func (*observer) Name() string { return "observer" }

// Choose records the problem and returns errObserved.
func (o *observer) Choose(problem *layout.Problem) (*layout.Assignment, error) {
	o.problem = problem
	return nil, errObserved
}

// Problem returns the layout problem that planning states for the sizes of [Program.FirstBinding].
func (p *Program) Problem() (*layout.Problem, error) {
	binding, err := p.Compiled()
	if err != nil {
		return nil, err
	}
	return p.ProblemOf(context.Background(), binding)
}

// ProblemOf returns the layout problem that planning states for a binding. It fails if the graph is planned in
// segments, or if planning fails before a pass calls the strategy. The first call plans the graph, and stops when ctx
// ends.
func (p *Program) ProblemOf(ctx context.Context, binding *Binding) (*layout.Problem, error) {
	binding.problemOnce.Do(func() {
		if binding.RunnableGraph.Dynamic() {
			binding.problemErr = errors.New("shapes depend on data: the graph is planned in segments as it runs, " +
				"so there is no single layout problem")
			return
		}
		withConstants := binding.RunnableGraph // planning folds constants, so it needs the data of all constants
		if len(binding.packedConstants) > 0 {
			withConstants = binding.WithAllConstants()
		}
		var recorder observer
		_, err := passes.Run(withConstants, passes.Options{Context: ctx, Strategy: &recorder, Profile: p.options.Costs,
			Passes: p.options.Passes, MemoryLimit: p.options.MemoryLimit, KeepGoing: p.options.KeepGoing,
			Exact: p.options.Exact, SolveLimit: p.options.SolveLimit, Slack: p.options.Slack, Device: p.device})
		switch {
		case recorder.problem != nil:
			binding.problem = recorder.problem
		case err == nil:
			binding.problemErr = errors.New("no pass asks a strategy for layouts")
		default:
			binding.problemErr = err
		}
	})
	return binding.problem, binding.problemErr
}

// Model converts [Program.Problem] to the form that the exact solver takes.
func (p *Program) Model() (*layout.Model, error) {
	problem, err := p.Problem()
	if err != nil {
		return nil, err
	}
	return layout.NewModel(problem)
}
