package rowprog

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
)

// Listings returns descriptions of the code of all loops: the fused loop, if there is one, then the loops of each pass,
// which is one traversal of a row.
func (p *Plan) Listings() (list []expr.Listing) {
	add := func(loop *loops.Loop, objects []int, name string) {
		if loop != nil {
			list = append(list, p.listing(loop, objects, name))
		}
	}
	if p.fused != nil {
		objects := make([]int, len(p.fused.pointers))
		for i, pointer := range p.fused.pointers {
			objects[i] = pointer.object
		}
		add(p.fused.loop, objects, "all passes fused in one loop: in each iteration, each pass computes a different row")
	}
	for i := range p.passes {
		pass := &p.passes[i]
		add(pass.loop, pass.pointerObjects, fmt.Sprintf("pass %d", i+1))
		for k := range pass.folds {
			add(pass.folds[k].joinLoop, nil, fmt.Sprintf("pass %d: partial results of fold %d combined", i+1, k+1))
		}
		add(pass.perRow, pass.perRowObjects, fmt.Sprintf("after pass %d, once per row", i+1))
	}
	return list
}

// listing describes the code of a loop. objects[i] is the index in p.objects of the memory of pointer i, or -1. An
// output or operand is staged if it is in memory of the worker (a copy or an intermediate result), not an argument of
// the caller.
func (p *Plan) listing(loop *loops.Loop, objects []int, name string) expr.Listing {
	listing := loop.Listing(name)
	listing.Staged = make([]bool, len(listing.Loop.Code.Out)+len(listing.Loop.Code.In))
	for i := range min(len(objects), len(listing.Staged)) {
		listing.Staged[i] = objects[i] >= 0 && p.objects[objects[i]].argument < 0
	}
	return listing
}
