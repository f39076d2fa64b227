package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Best returns the outcomes of the k cheapest distinct plans, cheapest first. Plans are distinct if they differ in
// implementations, layouts of results, or copies. Assignments that differ only in unread forms (layouts of a value), in
// copying before or after a view, or in the loop order of a node count as one plan. The list is shorter if there are
// fewer plans or if time runs out.
//
// Too many assignments may have the same outcome, so that [wcsp.KBest] does not reach k plans. Best then adds the
// cheapest plans that differ in how nodes are computed. It omits plans that differ from the added plans only in copies.
func (m *Model) Best(k int) ([]*Outcome, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("the number of plans is %d; want at least 1", k)
	}
	meant := map[string]*Outcome{} // by labels, because each outcome is compared with all others
	var failed error
	mean := func(labels []int) *Outcome {
		key := fmt.Sprint(labels)
		if meant[key] == nil {
			o, err := m.Outcome(labels)
			failed = cmp.Or(failed, err)
			meant[key] = cmp.Or(o, &Outcome{})
		}
		return meant[key]
	}
	same := func(a, b []int) bool { return mean(a).same(mean(b)) }
	options := m.Problem.options()
	list, err := wcsp.KBest(m.withoutTwins(), k, options, same)
	if err != nil {
		return nil, err
	}
	if len(list) < k {
		more, err := wcsp.Classes(m.WCSP, k, options, m.ways())
		if err != nil {
			return nil, err
		}
		for _, s := range more {
			if !slices.ContainsFunc(list, func(o *wcsp.Solution) bool { return same(o.Labels, s.Labels) }) {
				list = append(list, s)
			}
		}
	}
	out := make([]*Outcome, 0, len(list))
	for _, s := range list {
		if !s.Optimal() && len(out) == 0 {
			return nil, errors.New("the problem is too large to be solved exactly: its cheapest plans are unknown")
		}
		out = append(out, mean(s.Labels))
	}
	if failed != nil {
		return nil, failed
	}
	slices.SortStableFunc(out, func(a, b *Outcome) int { return cmp.Compare(a.PS, b.PS) })
	return out[:min(k, len(out))], nil
}

// ways returns, for each variable of a node, a class number for each label. Labels with equal [Computed] have the same
// class.
func (m *Model) ways() [][]int {
	classes := make([][]int, len(m.WCSP.Variables))
	for _, t := range m.tasks {
		if t == nil || t.id < 0 {
			continue
		}
		var known []Computed
		for i := range t.labels {
			c := m.computed(t, &t.labels[i])
			k := slices.Index(known, c)
			if k < 0 {
				k, known = len(known), append(known, c)
			}
			classes[t.id] = append(classes[t.id], k)
		}
	}
	return classes
}

// withoutTwins returns the problem with dominated labels forbidden. A label is dominated if another label of the same
// implementation writes the same forms and never costs more. Otherwise n nodes with one dominated label each would give
// 2^n copies of every plan.
func (m *Model) withoutTwins() *wcsp.Problem {
	p := &wcsp.Problem{Version: m.WCSP.Version, Variables: m.WCSP.Variables, Factors: slices.Clone(m.WCSP.Factors)}
	for _, t := range m.tasks {
		if t == nil || t.id < 0 {
			continue
		}
		costs := make(wcsp.Costs, len(t.labels))
		twins := false
		for b := range t.labels {
			for a := range t.labels {
				if a != b && t.labels[a].covers(&t.labels[b]) && (a < b || !t.labels[b].covers(&t.labels[a])) {
					costs[b], twins = wcsp.Forbidden, true
				}
			}
		}
		if twins {
			p.Factors = append(p.Factors, wcsp.Factor{Scope: []int{t.id}, Costs: costs})
		}
	}
	return p
}

// covers reports whether l has the implementation and result forms of o, and costs no more for any forms of the
// operands.
func (l *label) covers(o *label) bool {
	return l.impl == o.impl && l.cost <= o.cost && slices.Equal(l.out, o.out) &&
		slices.EqualFunc(l.read, o.read, func(a, b []int64) bool {
			return slices.EqualFunc(a, b, func(x, y int64) bool { return x <= y })
		})
}
