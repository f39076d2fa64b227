package layout

import (
	"cmp"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Advice is what the caller of a graph could change.
type Advice struct {
	// Tried counts the changes that were priced, of Possible ones.
	Tried    int
	Possible int
	Hints    []Hint // the one that saves most first
}

// Hint is an input that would better be handed over in another order, or an output that would better be taken in one.
type Hint struct {
	Input   bool    `json:"input" doc:"Whether it is an input: else an output."`
	Name    string  `json:"name" doc:"The input or the output."`
	Order   string  `json:"order" doc:"The order in which it would better come, or be taken."`
	SavedNS float64 `json:"saved_ns" doc:"What the plan would cost less, in nanoseconds."`
	Part    float64 `json:"saved_part" doc:"That, as a part of what the plan costs."`
	Change  Change  `json:"change" doc:"What the plan would do otherwise."`
}

// What advice may take: plans for so many changes, whose problems have so many costs together. Of hints those are told
// that save at least this part of the cost.
const (
	mostTried   = 32
	mostCosts   = 1 << 23
	worthSaying = 0.001
)

// trialNodes is how many nodes each may take that is not solved at once: some tenths of a second where the problem is
// as large as it may be. Those of networks take a few. It is no time, so that the same is said everywhere.
const trialNodes = 64

// trial is a change that is priced.
type trial struct {
	value *graph.Value
	place int // of the output; -1 for an input
	name  string
	order tensor.Order
	text  string
}

// Advise finds what would be saved if one input came, or one output were taken, in another of the orders in which its
// value may lie; all else stays as it is. Each is solved exactly, the largest values first, within bounds that follow
// from the problem's size alone.
func Advise(p *Problem) (*Advice, error) {
	m, err := NewModel(p)
	if err != nil {
		return nil, err
	}
	list := m.trials()
	a := &Advice{Possible: len(list)}
	size := 1
	for _, f := range m.WCSP.Factors {
		size += len(f.Costs)
	}
	list = list[:min(len(list), mostTried, mostCosts/size)]
	if len(list) == 0 {
		return a, nil
	}
	now, err := m.cheapest()
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if err := ends.Err(p.Context()); err != nil {
			return nil, err
		}
		other, err := NewModel(t.of(p))
		if err != nil {
			continue // it cannot be had
		}
		then, err := other.cheapest()
		if err != nil {
			continue
		}
		a.Tried++
		if saved := now.PS - then.PS; float64(saved) >= worthSaying*float64(now.PS) && saved > 0 {
			a.Hints = append(a.Hints, Hint{Input: t.place < 0, Name: t.name, Order: t.text,
				SavedNS: float64(saved) / 1000, Part: float64(saved) / float64(now.PS), Change: then.Since(now)})
		}
	}
	slices.SortStableFunc(a.Hints, func(x, y Hint) int { return cmp.Compare(y.SavedNS, x.SavedNS) })
	return a, nil
}

// cheapest is what the cheapest assignment means.
func (m *Model) cheapest() (*Outcome, error) {
	s, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{Context: m.Problem.Context(), TimeLimit: -1, MaxNodes: trialNodes})
	if err != nil {
		return nil, err
	}
	if !s.Optimal() {
		return nil, errors.New("the problem is too large to be solved exactly")
	}
	return m.Outcome(s.Labels)
}

// trials lists the changes, of the largest values first.
func (m *Model) trials() []trial {
	var list []trial
	add := func(v *graph.Value, place int, name string, now int) {
		x := m.variables.At(v)
		for i := range x.forms {
			if f := &x.forms[i]; i != now && f.dense {
				list = append(list, trial{v, place, name, f.order, f.text()})
			}
		}
	}
	for _, v := range m.Problem.Graph.Inputs {
		if !m.Problem.fixed[v] && !m.Problem.outputs[v] { // else what is handed over would be another
			add(v, -1, v.Name, 0)
		}
	}
	for i, o := range m.Problem.Graph.Outputs {
		if o.Value.Const == nil {
			add(o.Value, i, o.Name, m.handed(m.variables.At(o.Value), o))
		}
	}
	slices.SortStableFunc(list, func(a, b trial) int { return cmp.Compare(b.value.Meta.Numel(), a.value.Meta.Numel()) })
	return list
}

// of is the problem with the change.
func (t *trial) of(p *Problem) *Problem {
	if t.place < 0 {
		other := *p
		other.comes = map[*graph.Value]tensor.Order{t.value: t.order}
		return &other
	}
	g := *p.Graph
	g.Outputs = slices.Clone(g.Outputs)
	g.Outputs[t.place].Pin = graph.Pin{Order: t.order}
	other := NewProblem(&g, p.Profile)
	other.Exact, other.SolveLimit = p.Exact, p.SolveLimit
	return other
}
