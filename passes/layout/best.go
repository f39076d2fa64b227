package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Best returns what the k cheapest assignments mean that are plans of their own: that differ in implementations, in
// how results lie, or in the copies that are made. The cheapest is the first. There are fewer where there are no more,
// and where no time is left. Sets with forms that nobody reads mean the same as without, to copy before a view is the
// same as behind it, and ways through a node that differ in the order of its loops alone are one: the cheapest.
//
// Where so many assignments mean the same that [wcsp.KBest] does not come to the k-th plan, the others are the
// cheapest of those that differ in how nodes are computed: what differs from a cheaper one in copies alone is left out.
func (m *Model) Best(k int) ([]*Outcome, error) {
	if err := m.stated(); err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, fmt.Errorf("%d plans are asked for; it must be 1 or more", k)
	}
	meant := map[string]*Outcome{} // a list is compared with each that was found
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
			return nil, errors.New("the problem is too large to be solved exactly: its cheapest plans are not known")
		}
		out = append(out, mean(s.Labels))
	}
	if failed != nil {
		return nil, failed
	}
	slices.SortStableFunc(out, func(a, b *Outcome) int { return cmp.Compare(a.PS, b.PS) })
	return out[:min(k, len(out))], nil
}

// ways are the classes of labels of nodes: those that are one way to compute it, as [Computed] tells it.
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

// withoutTwins is the problem in which labels are forbidden for which there is another one of the same implementation
// that writes the same and never costs more: they are no plans of their own. Left in, each of n nodes that has two
// such would make 2^n of every plan.
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

// covers reports whether a label does what another does, for no more, however the operands lie.
func (l *label) covers(o *label) bool {
	return l.impl == o.impl && l.cost <= o.cost && slices.Equal(l.out, o.out) &&
		slices.EqualFunc(l.read, o.read, func(a, b []int64) bool {
			return slices.EqualFunc(a, b, func(x, y int64) bool { return x <= y })
		})
}
