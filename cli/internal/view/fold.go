package view

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// item is a node of the tree of groups: a box of the picture (a leaf), or a group of items. A folded group is drawn as
// one box. For example, a network of three equal blocks, whose nodes have names from layer1/layer1.0/conv to
// layer1/layer1.2/relu, has the tree
//
//	root
//	  x                  an input
//	  layer1 × 3         a sequence of equal blocks
//	    layer1.0         a block: a group of boxes with the same scope
//	      conv norm relu
//	    layer1.1
//	      conv norm relu
//	    layer1.2
//	      conv norm relu
//	  y                  an output
//
// The boxes of a group are consecutive in groupBuilder.order, which is topological. Therefore no path leaves a folded
// group and returns to it.
//
// The picture has the boxes, and the values between them: a value leads from the box that computes it (from) to the
// boxes that read it (to). The scope of a box is a list of the parts of its name before the last one: layer1, conv for
// layer1/conv/add.
type item struct {
	box   int // an index of picture.boxes; -1 for a group
	label string
	scope string // the common scope of the names of its boxes (see scopeOf), such as layer1/conv; empty for none
	// repeats is the number of items if the items are equal blocks, otherwise 0.
	repeats    int
	items      []*item // nil for a box
	from, upTo int     // the range of its boxes in groupBuilder.order
	isOpen     bool    // whether a group is drawn as a frame with its items
}

// The limits for folding boxes into groups.
const (
	maxVisible   = 60  // a picture with more boxes is folded
	firstVisible = 24  // the maximum number of visible boxes of a folded picture without --depth and --open
	maxPeriod    = 512 // the maximum number of items of one block of a sequence of equal blocks
	sectionItems = 30  // the usual number of items of a section: a group of consecutive items without a common scope
	minGroup     = 3   // the least number of boxes of a group
)

// groupBuilder builds the tree of groups.
type groupBuilder struct {
	*picture
	operands [][]int // for each box, the boxes that compute its operands
	order    []int   // the boxes in a topological order (see sort), which is the order of the leaves of the tree
	position []int   // for each box, its index in order
}

// fold returns the root of the tree of groups. It groups boxes by scopes of names, then equal blocks in sequence. If a
// group still has too many items, it divides them into sections of consecutive items.
func (p *picture) fold() *item {
	builder := &groupBuilder{picture: p, position: make([]int, len(p.boxes)), operands: make([][]int, len(p.boxes))}
	for _, value := range p.values {
		for _, to := range value.to {
			builder.operands[to] = append(builder.operands[to], value.from)
		}
	}
	builder.sort()
	for i, b := range builder.order {
		builder.position[b] = i
	}
	// The order has the inputs first and the outputs last.
	count := len(builder.order)
	firstStep := slices.IndexFunc(builder.order, func(b int) bool { return p.boxes[b].kind != inputBox })
	firstOutput := slices.IndexFunc(builder.order, func(b int) bool { return p.boxes[b].kind == outputBox })
	if firstStep < 0 {
		firstStep = count
	}
	if firstOutput < 0 {
		firstOutput = count
	}
	const depth = 0 // group by the first component of scopes
	root := &item{box: -1, label: p.title, upTo: count, isOpen: true}
	root.items = slices.Concat(builder.terminals(0, firstStep, "inputs"),
		builder.drawableItems(builder.groupRepeats(builder.groupScopes(firstStep, firstOutput, depth))),
		builder.terminals(firstOutput, count, "outputs"))
	return root
}

// sort sets builder.order, a topological order that keeps boxes of one scope together. The next box is chosen among the
// boxes whose operands are already in the order. It shares the longest scope prefix with the previous box. Ties go to
// the least index.
func (builder *groupBuilder) sort() {
	readers := make([][]int, len(builder.boxes))
	unready := make([]int, len(builder.boxes))
	for to, list := range builder.operands {
		unready[to] = len(list)
		for _, from := range list {
			readers[from] = append(readers[from], to)
		}
	}
	ready := readyBoxes{}
	for b, n := range unready {
		if n == 0 {
			ready.add(b, builder.boxes[b].heapKeys())
		}
	}
	isOrdered := make([]bool, len(builder.boxes))
	anyScope := []string{"2", "1", "0"} // the heaps of all outputs, all steps and all inputs: see heapKeys
	preferred := anyScope               // popPreferred tries the last heap first
	for len(builder.order) < len(builder.boxes) {
		b := ready.popPreferred(preferred, isOrdered)
		isOrdered[b] = true
		builder.order = append(builder.order, b)
		// The next box is from the heap of the longest prefix of this box's scope. If that heap is empty, shorter
		// prefixes follow, then the heaps of any scope. The first key of b is its rank alone, which anyScope has.
		preferred = slices.Concat(anyScope, builder.boxes[b].heapKeys()[1:])
		for _, to := range readers[b] {
			if unready[to]--; unready[to] == 0 {
				ready.add(to, builder.boxes[to].heapKeys())
			}
		}
	}
}

// heapKeys returns the keys of the heaps of readyBoxes that have the box while it is ready: its rank alone, and with
// each prefix of its scope. A step with the scope layer1/conv has the keys 1, 1/layer1 and 1/layer1/conv.
func (b *pictureBox) heapKeys() []string {
	key := fmt.Sprint(b.rank())
	keys := []string{key}
	for _, s := range b.scope {
		key += "/" + s
		keys = append(keys, key)
	}
	return keys
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

// readyBoxes has heaps of the boxes whose operands are in the order, by heapKeys.
type readyBoxes map[string]*indexHeap

// add adds a box to the heaps with the given keys.
func (ready readyBoxes) add(b int, keys []string) {
	for _, key := range keys {
		if ready[key] == nil {
			ready[key] = &indexHeap{}
		}
		heap.Push(ready[key], b)
	}
}

// popPreferred tries the heaps with the preferred keys from last to first. It removes and returns the least box of the
// first heap that has one. It discards boxes that are already in the order, which remain in the heaps of other
// prefixes.
func (ready readyBoxes) popPreferred(preferred []string, isOrdered []bool) int {
	for _, key := range slices.Backward(preferred) {
		for h := ready[key]; h != nil && h.Len() > 0; {
			if b := heap.Pop(h).(int); !isOrdered[b] {
				return b
			}
		}
	}
	panic("view: the boxes have a cycle")
}

// indexHeap is a heap of indices of boxes.
type indexHeap []int

func (h indexHeap) Len() int           { return len(h) }
func (h indexHeap) Less(i, k int) bool { return h[i] < h[k] }
func (h indexHeap) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *indexHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *indexHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// terminals returns the items of the inputs or outputs in a range of order, as one group if they are many.
func (builder *groupBuilder) terminals(from, upTo int, name string) []*item {
	leaves := builder.leaves(from, upTo)
	if len(leaves) <= sectionItems/2 {
		return leaves
	}
	return []*item{{box: -1, label: fmt.Sprintf("%d %s", len(leaves), name), items: builder.drawableItems(leaves),
		from: from, upTo: upTo}}
}

// leaves returns an item for each box in a range of order.
func (builder *groupBuilder) leaves(from, upTo int) []*item {
	var list []*item
	for i := from; i < upTo; i++ {
		b := &builder.boxes[builder.order[i]]
		list = append(list, &item{box: builder.order[i], label: b.name, scope: strings.Join(b.scope, "/"), from: i,
			upTo: i + 1})
	}
	return list
}

// groupScopes returns the items of a range of boxes. At least minGroup consecutive boxes whose scopes have the same
// component at index depth form a group. The group is divided in the same way by the next component. If this gives a
// single item, the item takes the place of the group.
func (builder *groupBuilder) groupScopes(from, upTo, depth int) []*item {
	var list []*item
	// The number of groups of each component: other boxes in the order may divide a scope into several groups.
	groupsOf := map[string]int{}
	for from < upTo {
		scope := builder.boxes[builder.order[from]].scope
		if len(scope) <= depth {
			list = append(list, builder.leaves(from, from+1)...)
			from++
			continue
		}
		end := from + 1
		for end < upTo && builder.hasComponent(end, depth, scope[depth]) {
			end++
		}
		items := builder.groupRepeats(builder.groupScopes(from, end, depth+1))
		switch {
		case end-from < minGroup:
			list = append(list, builder.leaves(from, end)...)
		case len(items) == 1:
			if items[0].repeats > 0 { // the scope is a better label than the ops of the blocks
				items[0].label, items[0].scope = scope[depth], strings.Join(scope[:depth+1], "/")
			}
			list = append(list, items...)
		default:
			group := &item{box: -1, label: scope[depth], scope: strings.Join(scope[:depth+1], "/"),
				items: builder.drawableItems(items), from: from, upTo: end}
			if groupsOf[group.label]++; groupsOf[group.label] > 1 {
				group.label += fmt.Sprintf(" (part %d)", groupsOf[group.label])
			}
			list = append(list, group)
		}
		from = end
	}
	return list
}

// hasComponent reports whether the scope of the box at a position of order has a component at index depth.
func (builder *groupBuilder) hasComponent(position, depth int, component string) bool {
	scope := builder.boxes[builder.order[position]].scope
	return len(scope) > depth && scope[depth] == component
}

// drawableItems returns items, divided into sections if they are too many for one drawing. It first divides each
// sequence of consecutive boxes between groups. If the resulting list still has too many items, it also divides this
// list.
func (builder *groupBuilder) drawableItems(items []*item) []*item {
	if len(items) <= maxVisible {
		return items
	}
	var list []*item
	for from := 0; from < len(items); {
		end := from // items[from:end] are boxes
		for end < len(items) && items[end].box >= 0 {
			end++
		}
		list = append(list, builder.divide(items[from:end])...)
		if end < len(items) { // items[end] is a group
			list = append(list, items[end])
			end++
		}
		from = end
	}
	if len(list) > maxVisible {
		list = builder.divide(list)
	}
	return list
}

// divide divides items into sections of about equal size. The end of a section may move by about a quarter of the size,
// to a position that fewer values cross: see crossings.
func (builder *groupBuilder) divide(items []*item) []*item {
	if len(items) <= sectionItems {
		return items
	}
	crossings := builder.crossings(items)
	const maxSections = maxVisible / 2 // approximately, because the ends of sections move
	size := max(sectionItems, (len(items)+maxSections-1)/maxSections)
	var list []*item
	for from := 0; from < len(items); {
		end := sectionEnd(from+size, size/4, crossings)
		section := items[from:end]
		group := section[0] // a section of one item needs no group
		if len(section) > 1 {
			group = &item{box: -1, from: section[0].from, upTo: section[len(section)-1].upTo,
				items: builder.drawableItems(section)}
			group.label = fmt.Sprintf("boxes %d to %d", group.from+1, group.upTo)
		}
		list = append(list, group)
		from = end
	}
	return list
}

// sectionEnd returns the index of the item at which a section ends: the item usual, or a nearby item with fewer
// crossings. The search begins slack items before usual. It ends slack items after the best item so far. If fewer than
// slack items would follow the section, the section has them, too.
func sectionEnd(usual, slack int, crossings []int) int {
	count := len(crossings)
	if count-usual < slack {
		return count
	}
	end := usual
	for k := end - slack; k <= min(end+slack, count-1); k++ {
		if crossings[k] < crossings[end] {
			end = k
		}
	}
	return end
}

// crossings returns, for each item, the number of values that are computed before the item and read by the item or
// later items. For example, in the order a b c, with values from a to c and from b to c, 2 values cross c, and 1 value
// crosses b.
func (builder *groupBuilder) crossings(items []*item) []int {
	first, last := items[0].from, items[len(items)-1].upTo
	// change[i] is the number of values that cross position first+i, minus the number that cross the position before.
	change := make([]int, last-first+1)
	for _, value := range builder.values {
		producer, lastReader := builder.position[value.from], -1 // positions
		for _, b := range value.to {
			lastReader = max(lastReader, builder.position[b])
		}
		// The value crosses the positions after producer up to lastReader, as far as they are in the items' range.
		crossedFrom, crossedUpTo := max(producer+1, first), min(lastReader+1, last)
		if crossedFrom < crossedUpTo {
			change[crossedFrom-first]++
			change[crossedUpTo-first]--
		}
	}
	list := make([]int, len(items))
	position, sum := first, 0 // sum: the number of values that cross position-1
	for i, it := range items {
		for ; position <= it.from; position++ {
			sum += change[position-first]
		}
		list[i] = sum
	}
	return list
}

// openTo opens the first depth levels of groups and folds the other groups.
func (it *item) openTo(depth int) {
	for _, child := range it.items {
		if child.box < 0 {
			child.isOpen = depth > 0
			child.openTo(depth - 1)
		}
	}
}

// countVisible returns the number of boxes and folded groups that are drawn.
func (it *item) countVisible() int {
	count := 0
	for _, child := range it.items {
		if child.isOpen {
			count += child.countVisible()
		} else {
			count++
		}
	}
	return count
}

// depth returns the number of levels of groups.
func (it *item) depth() int {
	levels := 0
	for _, child := range it.items {
		if child.box < 0 {
			levels = max(levels, 1+child.depth())
		}
	}
	return levels
}

// openLevels opens as many levels of groups as possible with at most maxBoxes visible boxes.
func (it *item) openLevels(maxBoxes int) {
	depth := 0
	for levels := 1; levels <= it.depth(); levels++ {
		it.openTo(levels)
		if it.countVisible() <= maxBoxes {
			depth = levels
		}
	}
	it.openTo(depth)
}

// openScope opens the groups with a scope or label, the groups in them, and the groups around them. It reports whether
// a group has this scope or label.
func (it *item) openScope(name string) bool {
	found := false
	for _, child := range it.items {
		switch {
		case child.box >= 0: // not a group
		case child.label == name || child.scope == strings.Trim(name, "/"):
			child.isOpen, found = true, true
			child.openTo(child.depth())
		case child.openScope(name):
			child.isOpen, found = true, true
		}
	}
	return found
}
