package view

import (
	"cmp"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// sort sets builder.order, a topological order that keeps boxes of one scope together. Inputs are first, outputs are
// last. For example, while the last box of the order has the scope layer1/conv, a ready box with the scope layer1 is
// next, before ready boxes of other scopes with lower indices.
func (builder *groupBuilder) sort() {
	readers := make([][]int, len(builder.boxes))
	missing := make([]int, len(builder.boxes)) // for each box: the number of its operands that are not yet in the order
	for to, list := range builder.operands {
		missing[to] = len(list)
		for _, from := range list {
			readers[from] = append(readers[from], to)
		}
	}
	compare := func(a, b int) int {
		return cmp.Or(cmp.Compare(builder.boxes[a].rank(), builder.boxes[b].rank()), cmp.Compare(a, b))
	}
	var ready []int // the boxes whose operands are in the order, sorted by rank, then by index
	for b, count := range missing {
		if count == 0 {
			ready = append(ready, b)
		}
	}
	sorted.Func(ready, compare)
	for range builder.boxes {
		i := builder.nextBox(ready)
		b := ready[i]
		ready = slices.Delete(ready, i, i+1)
		builder.order = append(builder.order, b)
		for _, to := range readers[b] {
			if missing[to]--; missing[to] == 0 {
				i, _ := slices.BinarySearchFunc(ready, to, compare)
				ready = slices.Insert(ready, i, to)
			}
		}
	}
}

// nextBox returns the index of the next box in ready: the first of the boxes that share most of their scope with the
// last box of the order. Boxes of different ranks share nothing.
func (builder *groupBuilder) nextBox(ready []int) int {
	if len(builder.order) == 0 {
		return 0
	}
	last := &builder.boxes[builder.order[len(builder.order)-1]]
	next, longest := 0, 0
	for i := 0; i < len(ready) && longest < len(last.scope); i++ {
		box := &builder.boxes[ready[i]]
		if shared := sharedLength(box.scope, last.scope); shared > longest && box.rank() == last.rank() {
			next, longest = i, shared
		}
	}
	return next
}

// sharedLength returns the length of the longest common prefix of two scopes.
func sharedLength(a, b []string) int {
	length := 0
	for length < min(len(a), len(b)) && a[length] == b[length] {
		length++
	}
	return length
}

// rank orders inputs before steps, and steps before outputs.
func (b *pictureBox) rank() int {
	switch b.kind {
	case inputBox:
		return 0
	case outputBox:
		return 2
	}
	return 1
}
