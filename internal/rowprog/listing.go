package rowprog

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
)

// Listings tells what was made of all loops, in the order in which they run.
func (p *Plan) Listings() []expr.Listing {
	var list []expr.Listing
	add := func(l *loops.Loop, slots []int, name string) {
		if l == nil {
			return
		}
		r := l.Listing(name)
		r.Staged = make([]bool, len(r.Loop.Code.Out)+len(r.Loop.Code.In))
		for i := range min(len(slots), len(r.Staged)) {
			r.Staged[i] = slots[i] >= 0 && p.objects[slots[i]].ptr < 0
		}
		list = append(list, r)
	}
	if p.all != nil {
		slots := make([]int, len(p.all.slots))
		for i, g := range p.all.slots {
			slots[i] = g.object
		}
		add(p.all.loop, slots, "all sweeps at once, each over rows of its own")
	}
	for i := range p.steps {
		st := &p.steps[i]
		add(st.loop, st.slots, fmt.Sprintf("sweep %d", i+1))
		for k := range st.folds {
			add(st.folds[k].join, nil, fmt.Sprintf("sweep %d: partial results of fold %d put together", i+1, k+1))
		}
		add(st.after, st.afterSlots, fmt.Sprintf("after sweep %d, once a row", i+1))
	}
	return list
}
