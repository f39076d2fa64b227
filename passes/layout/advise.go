package layout

import (
	"cmp"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Advice lists changes of the layouts of a graph's inputs and outputs that would make its plan cheaper.
type Advice struct {
	// Tried is the number of changes that were priced. Possible is the total number of candidate changes.
	Tried    int
	Possible int
	Hints    []Hint // in descending order of the saving
}

// Hint proposes another dimension order for an input or an output.
type Hint struct {
	Input   bool    `json:"input" doc:"Whether the hint is for an input; if false, it is for an output."`
	Name    string  `json:"name" doc:"The input or the output."`
	Order   string  `json:"order" doc:"The proposed dimension order."`
	SavedNS float64 `json:"saved_ns" doc:"The saving, in nanoseconds."`
	Part    float64 `json:"saved_part" doc:"The saving as a fraction of the plan's cost."`
	Change  Change  `json:"change" doc:"The difference between the plans."`
}

// Limits of [Advise].
const (
	maxTrials      = 32      // maximum number of priced changes
	maxCostEntries = 1 << 23 // maximum total number of entries in the cost tables of all priced problems
	minSavedPart   = 0.001   // minimum reported saving, as a fraction of the plan's cost
)

// maxTrialNodes is the maximum number of nodes in the search tree of the solver for one change. Most networks need only
// a few nodes; with this limit, the largest problems take some tenths of a second. The limit is not a time, so that
// the advice does not depend on the machine.
const maxTrialNodes = 64

// trial is a candidate change: another dimension order for one input or one output.
type trial struct {
	value       *graph.Value
	outputIndex int          // index of the output; inputTrial for an input
	name        string       // name of the input or the output
	order       tensor.Order // proposed order
	text        string       // name of the order
}

// inputTrial is the outputIndex of a trial that changes an input.
const inputTrial = -1

// Advise prices changes of the dimension order of a single input or output. It tries the order of each dense layout
// that [Model] considers for the value, and solves each changed problem exactly. Changes of large values are tried
// first. The number of changes depends only on the size of the problem.
func Advise(p *Problem) (*Advice, error) {
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	candidates := m.trials()
	advice := &Advice{Possible: len(candidates)}
	entries := 1 // of all cost tables; at least 1, because entries is a divisor
	for _, factor := range m.WCSP.Factors {
		entries += len(factor.Costs)
	}
	candidates = candidates[:min(len(candidates), maxTrials, maxCostEntries/entries)]
	if len(candidates) == 0 {
		return advice, nil
	}
	current, err := m.cheapest()
	if err != nil {
		return nil, err
	}
	for _, candidate := range candidates {
		if err := interrupt.Err(p.Context()); err != nil {
			return nil, err
		}
		changedModel, err := NewModel(candidate.apply(p))
		if err != nil {
			continue // infeasible
		}
		changed, err := changedModel.cheapest()
		if err != nil {
			continue // infeasible or too large
		}
		advice.Tried++
		savedPS := current.CostPS - changed.CostPS
		if float64(savedPS) >= minSavedPart*float64(current.CostPS) && savedPS > 0 {
			advice.Hints = append(advice.Hints, Hint{Input: candidate.outputIndex == inputTrial, Name: candidate.name,
				Order: candidate.text, SavedNS: float64(savedPS) / machine.PSPerNS,
				Part: float64(savedPS) / float64(current.CostPS), Change: changed.ChangesSince(current)})
		}
	}
	sorted.Func(advice.Hints, func(a, b Hint) int { return cmp.Compare(b.SavedNS, a.SavedNS) })
	return advice, nil
}

// cheapest returns the outcome of an optimal assignment.
func (m *Model) cheapest() (*Outcome, error) {
	const noLimit = -1
	solution, err := wcsp.Exact.Solve(m.Weighted,
		wcsp.Options{Context: m.Problem.Context(), TimeLimit: noLimit, MaxNodes: maxTrialNodes})
	if err != nil {
		return nil, err
	}
	if !solution.Optimal() {
		return nil, errors.New("the problem is too large to be solved exactly")
	}
	return m.Outcome(solution.Labels)
}

// trials lists the possible changes. Changes of larger values come first. The forms of a value are the layouts that it
// may have. Form 0 of an input is its declared layout.
func (m *Model) trials() []trial {
	var list []trial
	add := func(v *graph.Value, outputIndex int, name string, currentForm int) {
		variable := m.variables.At(v)
		for i := range variable.forms {
			if form := &variable.forms[i]; i != currentForm && form.dense {
				list = append(list, trial{value: v, outputIndex: outputIndex, name: name,
					order: form.order, text: form.text()})
			}
		}
	}
	for _, v := range m.Problem.Graph.Inputs {
		// A fixed input must keep its layout, and an input that is also an output would change the output, too.
		if !m.Problem.fixed[v] && !m.Problem.outputs[v] {
			add(v, inputTrial, v.Name, 0)
		}
	}
	for i, output := range m.Problem.Graph.Outputs {
		if output.Value.Const == nil {
			add(output.Value, i, output.Name, m.outputForm(m.variables.At(output.Value), output))
		}
	}
	sorted.Func(list, func(a, b trial) int { return cmp.Compare(b.value.Meta.Numel(), a.value.Meta.Numel()) })
	return list
}

// apply returns problem p with the change. It does not modify p.
func (t *trial) apply(p *Problem) *Problem {
	if t.outputIndex == inputTrial {
		other := *p
		other.inputOrders = map[*graph.Value]tensor.Order{t.value: t.order}
		return &other
	}
	g := *p.Graph
	g.Outputs = slices.Clone(g.Outputs)
	g.Outputs[t.outputIndex].Pin = graph.Pin{Order: t.order}
	other := NewProblem(&g, p.Profile)
	// KeepGoing is not copied: a change that makes a node fail must be rejected.
	other.Exact, other.SolveLimit, other.Device, other.Slack = p.Exact, p.SolveLimit, p.Device, p.Slack
	return other
}
