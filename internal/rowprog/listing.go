package rowprog

import (
	"fmt"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
)

// Listings returns descriptions of the code of all loops: the fused loop, if there is one, then the loops of each pass.
// A pass is one traversal
// of a row. An object is memory that loops access. Staged operands are read from, or written to, memory of the worker
// instead of the caller's.
func (p *Plan) Listings() []expr.Listing {
	var list []expr.Listing
	// objects[i] is the index in p.objects of the memory of pointer i, or -1.
	add := func(loop *loops.Loop, objects []int, name string) {
		if loop == nil {
			return
		}
		listing := loop.Listing(name)
		listing.Staged = make([]bool, len(listing.Loop.Code.Out)+len(listing.Loop.Code.In))
		for i := range min(len(objects), len(listing.Staged)) {
			// An object that is no argument is in memory of the worker: a staged copy or an intermediate result.
			listing.Staged[i] = objects[i] >= 0 && p.objects[objects[i]].argument < 0
		}
		list = append(list, listing)
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
