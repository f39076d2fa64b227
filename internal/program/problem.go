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
func (o *observer) Choose(p *layout.Problem) (*layout.Assignment, error) {
	o.problem = p
	return nil, errObserved
}

// Problem returns the layout problem that planning states for the sizes of [Program.FirstBinding].
func (p *Program) Problem() (*layout.Problem, error) {
	b := p.FirstBinding()
	if b == nil || b.RunnableGraph == nil {
		return nil, ErrNotCompiled
	}
	return p.ProblemOf(context.Background(), b)
}

// ProblemOf returns the layout problem that planning states for a binding. It fails if the graph is planned in
// segments, or if planning fails before a pass calls the strategy. The first call plans the graph, and stops when ctx
// ends.
func (p *Program) ProblemOf(ctx context.Context, b *Binding) (*layout.Problem, error) {
	b.problemOnce.Do(func() {
		if b.RunnableGraph.Dynamic() {
			b.problemErr = errors.New("shapes depend on data: the graph is planned in segments as it runs, " +
				"so there is no single layout problem")
			return
		}
		whole := b.RunnableGraph // planning folds constants, so it needs the data of all constants
		if len(b.packedConstants) > 0 {
			whole = b.WithAllConstants()
		}
		var recorder observer
		_, err := passes.Run(whole, passes.Options{Context: ctx, Strategy: &recorder, Profile: p.options.Costs,
			Passes: p.options.Passes, MemoryLimit: p.options.MemoryLimit, KeepGoing: p.options.KeepGoing,
			Exact: p.options.Exact, SolveLimit: p.options.SolveLimit, Slack: p.options.Slack, Device: p.device})
		switch {
		case recorder.problem != nil:
			b.problem = recorder.problem
		case err == nil:
			b.problemErr = errors.New("no pass asks a strategy for layouts")
		default:
			b.problemErr = err
		}
	})
	return b.problem, b.problemErr
}

// Model converts [Program.Problem] to the form that the exact solver takes.
func (p *Program) Model() (*layout.Model, error) {
	problem, err := p.Problem()
	if err != nil {
		return nil, err
	}
	return layout.NewModel(problem)
}
