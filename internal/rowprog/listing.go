package rowprog

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
)

// Listings returns descriptions of the code of all loops, in the order in which the loops run.
func (p *Plan) Listings() []expr.Listing {
	var list []expr.Listing
	add := func(loop *loops.Loop, slots []int, name string) {
		if loop == nil {
			return
		}
		listing := loop.Listing(name)
		listing.Staged = make([]bool, len(listing.Loop.Code.Out)+len(listing.Loop.Code.In))
		for i := range min(len(slots), len(listing.Staged)) {
			// An object in the worker's memory is a staged copy or an intermediate result.
			listing.Staged[i] = slots[i] >= 0 && p.objects[slots[i]].argument < 0
		}
		list = append(list, listing)
	}
	if p.fused != nil {
		slots := make([]int, len(p.fused.slots))
		for i, slot := range p.fused.slots {
			slots[i] = slot.object
		}
		add(p.fused.loop, slots, "all passes fused in one loop: in each iteration, each pass computes a different row")
	}
	for i := range p.passes {
		pass := &p.passes[i]
		add(pass.loop, pass.pointerObjects, fmt.Sprintf("pass %d", i+1))
		for k := range pass.folds {
			add(pass.folds[k].joinLoop, nil, fmt.Sprintf("pass %d: partial results of fold %d combined", i+1, k+1))
		}
		add(pass.perRow, pass.perRowSlots, fmt.Sprintf("after pass %d, once per row", i+1))
	}
	return list
}
