package view

import (
	"slices"
	"strconv"
)

// sort sets builder.order, a topological order that keeps boxes of one scope together. Inputs are first, outputs are
// last. For example, a step with the scope layer1/conv is followed by another ready step of this scope. If there is
// none, a ready step in layer1 is next, even if ready steps outside layer1 have lower indices.
func (builder *groupBuilder) sort() {
	readers := make([][]int, len(builder.boxes))
	missing := make([]int, len(builder.boxes)) // for each box: the number of its operands that are not yet in the order
	for to, list := range builder.operands {
		missing[to] = len(list)
		for _, from := range list {
			readers[from] = append(readers[from], to)
		}
	}
	ready := readyBoxes{}
	for b, count := range missing {
		if count == 0 {
			ready.add(b, builder.boxes[b].prefixes())
		}
	}
	isOrdered := make([]bool, len(builder.boxes))
	anyScope := []string{"0", "1", "2"} // the prefixes of all inputs, all steps and all outputs
	preferred := anyScope
	for range builder.boxes {
		b := ready.next(preferred, isOrdered)
		isOrdered[b] = true
		builder.order = append(builder.order, b)
		prefixes := builder.boxes[b].prefixes()
		for _, to := range readers[b] {
			if missing[to]--; missing[to] == 0 {
				ready.add(to, builder.boxes[to].prefixes())
			}
		}
		slices.Reverse(prefixes)
		// The longest prefix comes first. The last prefix, the rank alone, is in anyScope.
		preferred = append(prefixes[:len(prefixes)-1], anyScope...)
	}
}

// prefixes returns the rank of a box, first alone, and then followed by each prefix of its scope. A step with the scope
// layer1/conv has the prefixes 1, 1/layer1 and 1/layer1/conv.
func (b *pictureBox) prefixes() []string {
	prefix := strconv.Itoa(b.rank())
	list := []string{prefix}
	for _, component := range b.scope {
		prefix += "/" + component
		list = append(list, prefix)
	}
	return list
}

// readyBoxes has, by prefix, the boxes whose operands are in the order, with ascending indices. A list may still have
// boxes that were taken from the list of another prefix.
type readyBoxes map[string][]int

// add adds a box to the lists of its prefixes.
func (ready readyBoxes) add(b int, prefixes []string) {
	for _, prefix := range prefixes {
		list := ready[prefix]
		i, _ := slices.BinarySearch(list, b)
		ready[prefix] = slices.Insert(list, i, b)
	}
}

// next visits the preferred prefixes one after another. It removes and returns the first box that is not yet in the
// order. The graph has no cycles, so such a box always exists.
func (ready readyBoxes) next(preferred []string, isOrdered []bool) int {
	for _, prefix := range preferred {
		for len(ready[prefix]) > 0 {
			b := ready[prefix][0]
			ready[prefix] = ready[prefix][1:]
			if !isOrdered[b] {
				return b
			}
		}
	}
	panic("view: the boxes have a cycle")
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
