package experiment

import (
	"fmt"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/passes/layout"
)

// Regret bounds how much more the plan of a program costs than any other plan, at any prices within their intervals: see
// [layout.RegretBound]. It is for the sizes that Compile planned. The strategy must state the layout problem, as Optimal does.
func Regret(p *graphrun.Program) (*layout.RegretBound, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	solution := p.Internal().FirstBinding().Plan.Solution
	if solution == nil {
		return nil, fmt.Errorf("strategy %s does not state the problem of layouts", p.Report().Strategy)
	}
	return model.Regret(solution.Labels, false)
}
