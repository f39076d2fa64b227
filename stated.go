package graphrun

import (
	"errors"

	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
)

// stating is a strategy that states the problem exactly, and chooses nothing: the graph stays as the problem has it.
type stating struct{ model *layout.Model }

var errStated = errors.New("the problem is stated")

func (s *stating) Name() string { return "stating" }

func (s *stating) Choose(p *layout.Problem) (*layout.Assignment, error) {
	m, err := layout.NewModel(p)
	if err != nil {
		return nil, err
	}
	s.model = m
	return nil, errStated
}

// stated returns the exact problem of the program's layouts.
func (p *Program) stated() (*layout.Model, error) {
	if p.first == nil || p.first.runs == nil {
		return nil, errors.New("the program was not compiled")
	}
	if p.first.plan == nil || p.first.runs.Dynamic() {
		return nil, errors.New("shapes depend on data: there is one problem for each segment")
	}
	s := &stating{}
	_, err := passes.Run(p.first.runs, passes.Options{Strategy: s, Profile: p.options.Costs, Passes: p.options.Passes,
		MemoryLimit: p.options.MemoryLimit})
	if errors.Is(err, errStated) {
		return s.model, nil
	}
	return nil, err
}
