package graphrun

import (
	"sync"

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
	// WithoutNS is nil where no plan does without, and where nothing can be said: where the problem was not solved, and
	// where a program was asked of so many copies of a large graph that a solution for each would take too long.
	WithoutNS *float64       `json:"without_ns" doc:"What the cheapest plan without such a copy costs more than the cheapest of all, in nanoseconds; null if unknown."`
	Instead   *layout.Change `json:"instead" doc:"What that plan does otherwise than the cheapest; null if unknown."`
}

// explainCopies tells of the copies of a value, and of those that the step that computes it reads, why they are there.
func (p *Program) explainCopies(v *graph.Value, r *FateReport, plan *passes.Plan) []CopyWhy {
	list := []CopyWhy{}
	for i := range plan.Copies {
		c := &plan.Copies[i]
		if !concerns(c, v, r) {
			continue
		}
		sides := plan.Sides(c)
		why := CopyWhy{CopyReport: copyOf(*c), Written: filled(sides.Written), Wanted: filled(sides.Wanted)}
		why.WithoutNS, why.Instead = p.without().copy(c)
		list = append(list, why)
	}
	return list
}

// without is the exact problem of a program, its solution, and what that means; a nil model of one that cannot be told.
// A program keeps it for who asks of many values, with what is known of copies.
type without struct {
	model *layout.Model
	best  *wcsp.Solution
	means *layout.Outcome

	asking sync.Mutex
	known  map[*passes.Copy]withoutCopy
	work   int // decisions of the problems that were solved so far
}

// mostWork is the decisions of all problems that are solved to tell what a program's copies cost to do without: it is
// that of some seconds.
const mostWork = 1 << 20

// withoutCopy is what is told of a copy.
type withoutCopy struct {
	ns     *float64
	change *layout.Change
}

// solved is a solution that is proved, and what it means; nil where there is none.
func solved(m *layout.Model) (*wcsp.Solution, *layout.Outcome) {
	s, err := wcsp.Exact.Solve(m.WCSP, wcsp.Options{TimeLimit: m.Problem.Search()})
	if err != nil || !s.Optimal() {
		return nil, nil
	}
	means, err := m.Outcome(s.Labels)
	if err != nil {
		return nil, nil
	}
	return s, means
}

// without states and solves the problem, once.
func (p *Program) without() *without {
	p.whyOnce.Do(func() {
		p.why = &without{known: map[*passes.Copy]withoutCopy{}}
		m, err := p.stated()
		if err != nil {
			return
		}
		if best, means := solved(m); best != nil {
			p.why.model, p.why.best, p.why.means = m, best, means
		}
	})
	return p.why
}

// copy tells what the cheapest plan without a copy costs more, in nanoseconds, and what it does otherwise; nil where
// none is known.
func (w *without) copy(c *passes.Copy) (*float64, *layout.Change) {
	w.asking.Lock()
	defer w.asking.Unlock()
	k, known := w.known[c]
	if !known {
		k.ns, k.change = w.price(c)
		w.known[c] = k
	}
	return k.ns, k.change
}

func (w *without) price(c *passes.Copy) (*float64, *layout.Change) {
	if w.model == nil || c.Node == nil {
		return nil, nil
	}
	v := w.model.Problem.Graph.Value(c.Value)
	if v == nil {
		return nil, nil
	}
	if w.work += len(w.model.WCSP.Variables); w.work > mostWork {
		return nil, nil
	}
	m, err := w.model.Without(v, tensor.Meta{DType: v.Meta.DType, Shape: v.Meta.Shape, Strides: c.To})
	if err != nil {
		return nil, nil
	}
	s, means := solved(m)
	if s == nil {
		return nil, nil
	}
	ns, change := float64(s.Cost-w.best.Cost)/1000, means.Since(w.means)
	return &ns, &change
}
