package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Best returns the outcomes of the k cheapest distinct plans, cheapest first. Plans are distinct if they differ in
// implementations, layouts of results, or copies. Assignments count as one plan if they differ only in unread layouts,
// in the loop order of a node, or in copying before instead of after a view. The list is shorter if there are fewer
// plans, or if time runs out, which timedOut reports.
//
// If very many assignments have the same outcome, [wcsp.KBest] finds fewer than k plans. Best then adds the cheapest
// plan for each combination of implementations and layouts of results. Plans that differ only in copies are then
// missing.
func (m *Model) Best(k int) (best []*Outcome, timedOut bool, err error) {
	if err := m.check(); err != nil {
		return nil, false, err
	}
	if k < 1 {
		return nil, false, fmt.Errorf("the number of plans is %d; want at least 1", k)
	}
	c := &comparer{model: m, outcomes: map[string]*Outcome{}}
	options := m.Problem.options()
	list, timedOut, err := wcsp.KBest(m.withoutDominated(nil), k, options, c.samePlan)
	if err != nil {
		return nil, false, err
	}
	if len(list) < k {
		more, classesTimedOut, err := wcsp.Classes(m.WCSP, k, options, m.computedClasses())
		if err != nil {
			return nil, false, err
		}
		timedOut = timedOut || classesTimedOut
		for _, s := range more {
			if !slices.ContainsFunc(list, func(o *wcsp.Solution) bool { return c.samePlan(o.Labels, s.Labels) }) {
				list = append(list, s)
			}
		}
	}
	out := make([]*Outcome, 0, len(list))
	for _, s := range list {
		if !s.Optimal() && len(out) == 0 {
			return nil, false, errors.New("the problem is too large to be solved exactly: its cheapest plans are unknown")
		}
		out = append(out, c.outcome(s.Labels))
	}
	if c.err != nil {
		return nil, false, c.err
	}
	sorted.Func(out, func(a, b *Outcome) int { return cmp.Compare(a.PS, b.PS) })
	return out[:min(k, len(out))], timedOut && len(out) < k, nil
}

// comparer compares the plans that labels give. It caches their outcomes, because each is compared with all others.
type comparer struct {
	model    *Model
	outcomes map[string]*Outcome // by labels
	err      error
}

// outcome returns the outcome of labels. If there is an error, it sets c.err and returns an empty outcome.
func (c *comparer) outcome(labels []int) *Outcome {
	key := fmt.Sprint(labels)
	if c.outcomes[key] == nil {
		o, err := c.model.Outcome(labels)
		c.err = cmp.Or(c.err, err)
		c.outcomes[key] = cmp.Or(o, &Outcome{})
	}
	return c.outcomes[key]
}

// samePlan reports whether two assignments have the same plan.
func (c *comparer) samePlan(a, b []int) bool { return c.outcome(a).samePlan(c.outcome(b)) }

// computedClasses returns, by variable and label, the class of each label of a node. Labels that give equal [Computed]
// have the same class. Variables of values have no classes.
func (m *Model) computedClasses() [][]int {
	classes := make([][]int, len(m.WCSP.Variables))
	for _, computed := range m.computedNodes {
		if computed == nil || computed.id < 0 {
			continue
		}
		var known []Computed
		for i := range computed.labels {
			c := m.describeComputation(computed, &computed.labels[i])
			k := slices.Index(known, c)
			if k < 0 {
				k, known = len(known), append(known, c)
			}
			classes[computed.id] = append(classes[computed.id], k)
		}
	}
	return classes
}

// withoutDominated returns the problem with dominated labels forbidden. A label is dominated if another label of the
// same implementation writes the same forms and never costs more. Without this step, n nodes with one dominated label
// each would give 2^n equivalent assignments for every plan. If bytes, by node and label, is not nil, a label does not
// dominate labels with fewer bytes.
func (m *Model) withoutDominated(bytes [][]int64) *wcsp.Problem {
	p := &wcsp.Problem{Version: m.WCSP.Version, Variables: m.WCSP.Variables, Factors: slices.Clone(m.WCSP.Factors)}
	for i, computed := range m.computedNodes {
		if computed == nil || computed.id < 0 {
			continue
		}
		dominates := func(a, b int) bool {
			return computed.labels[a].dominates(&computed.labels[b]) &&
				(bytes == nil || bytes[i] == nil || bytes[i][a] <= bytes[i][b])
		}
		costs := make(wcsp.Costs, len(computed.labels))
		dominated := false
		for b := range computed.labels {
			for a := range computed.labels {
				if a != b && dominates(a, b) && (a < b || !dominates(b, a)) {
					costs[b], dominated = wcsp.Forbidden, true
				}
			}
		}
		if dominated {
			p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{computed.id}, Costs: costs})
		}
	}
	return p
}

// dominates reports whether l has the implementation and result forms of o, and costs no more for any forms of the
// operands.
func (l *label) dominates(o *label) bool {
	return l.impl == o.impl && l.cost <= o.cost && slices.Equal(l.resultForms, o.resultForms) &&
		slices.EqualFunc(l.readCosts, o.readCosts, func(a, b []int64) bool {
			return slices.EqualFunc(a, b, func(x, y int64) bool { return x <= y })
		})
}
