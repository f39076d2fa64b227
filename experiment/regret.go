package experiment

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
)

// Regret bounds how much more a plan costs than the cheapest plan, at any prices within their intervals: see
// [layout.Regret].
type Regret struct {
	NS        float64           `json:"ns" doc:"The greatest regret, in nanoseconds."`
	Share     float64           `json:"share" doc:"The greatest regret as a share of the cost of the plan."`
	Prices    int               `json:"prices" doc:"The number of measured prices. Prices that were not measured lie within a factor of 1.5 to 2.5."`
	Intervals []layout.Interval `json:"intervals" doc:"The intervals that contribute to the regret, the greatest first."`
}

// RegretOf returns the regret of a program's plan, for the sizes that Compile planned. The strategy must state the layout
// problem, as Optimal does.
func RegretOf(p *graphrun.Program) (*Regret, error) {
	model, err := p.Internal().Model()
	if err != nil {
		return nil, err
	}
	solution := p.Internal().FirstBinding().Plan.Solution
	if solution == nil {
		return nil, errors.New("the strategy does not state the problem of layouts, so that the regret of its plan is unknown")
	}
	regret, err := model.Regret(solution.Labels, false)
	if err != nil {
		return nil, err
	}
	return regretOf(regret, p), nil
}

// regretOf converts a regret of a program.
func regretOf(r *layout.Regret, p *graphrun.Program) *Regret {
	result := &Regret{NS: float64(r.PS()) / pricing.PSPerNS, Share: r.Share(), Intervals: r.Intervals}
	if costs := p.Internal().Options().Costs; costs != nil {
		result.Prices = len(costs.Prices)
	}
	return result
}

// Text states the regret in words, with the intervals that contribute most.
func (r *Regret) Text() string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("at most %.2g%% from the best at any prices within the measured intervals", 100*r.Share)
	var list []string
	for _, interval := range r.Intervals[:min(3, len(r.Intervals))] {
		list = append(list, fmt.Sprintf("%s by %s (%s)", interval.Choice, interval.Label, timeText(interval.NS)))
	}
	if list != nil {
		text += "; most uncertain: " + strings.Join(list, ", ")
	}
	return text
}
