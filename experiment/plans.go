package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Problem returns the layout problem of a program's graph, for the sizes that Compile planned. It does not depend on
// the program's strategy. [layout.Given] applies the solution of another solver.
func Problem(p *graphrun.Program) (*wcsp.Problem, error) {
	model, err := (*program.Program)(p).Model()
	if err != nil {
		return nil, err
	}
	return model.WCSP, nil
}

// LowerBound returns a lower bound on the cost of any plan of a graph, in nanoseconds. Strategy Optimal proves the
// bound; the Strategy of the options is ignored. LowerBound returns nil if Optimal proves no bound, and an error if
// the graph cannot be planned.
func LowerBound(g *graph.Graph, options graphrun.Options) (*float64, error) {
	options.Strategy, options.Tracer, options.Check, options.Dump = graphrun.Optimal, nil, false, nil
	p, err := graphrun.Compile(g, options)
	if err != nil {
		return nil, err
	}
	return p.Report().LowerBoundNS, nil
}

// Choice is one of the cheapest plans.
type Choice struct {
	CostNS float64       `json:"cost_ns" doc:"Its estimated cost, in nanoseconds."`
	MoreNS float64       `json:"more_ns" doc:"By how much its cost exceeds the cost of the cheapest plan, in nanoseconds."`
	Change layout.Change `json:"change" doc:"Its differences from the cheapest plan."`

	rank     int
	solution *wcsp.Solution
}

// Strategy returns a strategy that makes the plan of the choice. The strategy is valid for the graph and the options
// of the program that was given to [Best]; it rejects graphs with another layout problem. The strategy of the zero
// Choice rejects all graphs.
func (c Choice) Strategy() graphrun.Strategy {
	return rankedStrategy{Strategy: layout.Given(c.solution), rank: c.rank}
}

// rankedStrategy is a strategy that applies a choice.
type rankedStrategy struct {
	graphrun.Strategy
	rank int // position in the list of [Best], from 1; 0 for a choice of [CheapestWithin]
}

// Name returns the rank of the plan, or its origin if it has no rank.
func (r rankedStrategy) Name() string {
	if r.rank == 0 {
		return "optimal within memory"
	}
	return fmt.Sprintf("optimal plan %d", r.rank)
}

// Best returns the k cheapest plans that differ in implementations or copies, the cheapest first: see
// [layout.Model.Best]. timedOut reports whether the time limit ended the search, so that the list is shorter than k.
func Best(p *graphrun.Program, k int) (choices []Choice, timedOut bool, err error) {
	model, err := (*program.Program)(p).Model()
	if err != nil {
		return nil, false, err
	}
	list, timedOut, err := model.Best(k)
	if err != nil {
		return nil, false, err
	}
	choices = make([]Choice, len(list))
	for i, outcome := range list {
		choices[i] = Choice{CostNS: float64(outcome.CostPS) / machine.PSPerNS,
			MoreNS: float64(outcome.CostPS-list[0].CostPS) / machine.PSPerNS, Change: outcome.ChangesSince(list[0]), rank: i + 1,
			solution: &wcsp.Solution{Version: wcsp.Version, Labels: outcome.Labels}}
	}
	return choices, timedOut, nil
}

// MemorySearch is the result of [CheapestWithin].
type MemorySearch struct {
	LowerBoundNS float64 // a lower bound on the cost of the plans within the limit
	LeastBytes   int     // a lower bound on the bytes that a run of any plan needs
	Rejected     int     // the number of examined plans that need more memory
}

// CheapestWithin looks for the cheapest plan whose run needs at most limit bytes. For each candidate, it calls need,
// which returns the bytes that a run of the plan needs: see [layout.Model.CheapestWithin]. knownNS is the cost of a
// known plan within the limit, or infinite. A nil need is an error. The search ends with ctx. The result
// does not contain the plan: the caller keeps the cheapest candidate that fits.
func CheapestWithin(ctx context.Context, p *graphrun.Program, limit int, knownNS float64,
	need func(Choice) (int, error)) (*MemorySearch, error) {
	if need == nil {
		return nil, errors.New("experiment: CheapestWithin: need is nil")
	}
	model, err := (*program.Program)(p).Model()
	if err != nil {
		return nil, err
	}
	// Forbidden exceeds the cost of every plan.
	known := wcsp.Forbidden
	if ps := math.Ceil(knownNS * machine.PSPerNS); ps < float64(known) { // rounded up, to exclude no cheaper plan
		known = int64(ps)
	}
	found, err := model.CheapestWithin(ctx, int64(limit), known, func(outcome *layout.Outcome) (int64, error) {
		solution := &wcsp.Solution{Version: wcsp.Version, Labels: outcome.Labels}
		choice := Choice{CostNS: float64(outcome.CostPS) / machine.PSPerNS, solution: solution}
		bytes, err := need(choice)
		return int64(bytes), err
	})
	if err != nil {
		return nil, err
	}
	return &MemorySearch{float64(found.BoundPS) / machine.PSPerNS, int(found.LeastBytes), found.Rejected}, nil
}

// Sensitivity returns the factors by which the price of copies must rise or fall until another plan becomes the
// cheapest.
func Sensitivity(p *graphrun.Program) (*layout.Sensitivity, error) {
	model, err := (*program.Program)(p).Model()
	if err != nil {
		return nil, err
	}
	return model.Sensitive()
}

// Advice lists changes of input and output layouts that reduce the cost: see [layout.Advise]. The caller can make these
// changes without a change to the graph.
type Advice struct {
	Tried    int           `json:"tried" doc:"The number of changes that were priced."`
	Possible int           `json:"possible" doc:"The number of possible changes."`
	Hints    []layout.Hint `json:"hints" doc:"The changes, the largest saving first."`
}

// Advise prices other layouts of inputs and outputs. It plans the graph up to 32 times.
func Advise(p *graphrun.Program) (*Advice, error) {
	problem, err := (*program.Program)(p).Problem()
	if err != nil {
		return nil, err
	}
	advised, err := layout.Advise(problem)
	if err != nil {
		return nil, err
	}
	return &Advice{advised.Tried, advised.Possible, program.NotNil(advised.Hints)}, nil
}
