package layout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Best returns what the k cheapest assignments mean that differ in what runs: in implementations, in walks, or in the
// copies that are made. The cheapest is the first. There are fewer where there are no more, and where [wcsp.KBest]
// finds no others among the assignments that it looks at. Sets with forms that nobody reads mean the same as without.
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
	list, err := wcsp.KBest(m.WCSP, k, wcsp.Options{TimeLimit: SolveLimit}, same)
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
