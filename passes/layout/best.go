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
// and where [wcsp.KBest] finds no others among the assignments that it looks at. Sets with forms that nobody reads mean
// the same as without, to copy before a view is the same as behind it, and ways through a node that differ in the order
// of its loops alone are one: the cheapest.
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
	list, err := wcsp.KBest(m.withoutTwins(), k, wcsp.Options{TimeLimit: SolveLimit}, same)
	if err != nil {
		return nil, err
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
	return out, nil
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
