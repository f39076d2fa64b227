package view

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// item is a box of the picture, or a group of items that can be drawn as one box. The boxes of a group are consecutive
// in a topological order of the graph, so that no line leaves a folded group and comes back to it.
type item struct {
	box   int // an index of picture.boxes; -1 for a group
	label string
	scope string // the common scope of the names of its boxes; empty for none
	// repeats is the number of equal blocks, if they are the items of the group; else 0.
	repeats    int
	items      []*item
	from, upTo int  // the range of its boxes in the order of the tree
	open       bool // drawn as a frame with its items
}

// The limits of folding.
const (
	mostVisible  = 60  // the number of boxes above which groups are folded
	firstVisible = 24  // the number of boxes of a folded picture
	mostPeriod   = 512 // the number of items of a repeated block
	sectionItems = 30  // the number of items of a section
	leastGroup   = 3   // the number of boxes of a group
)

// folder builds the tree of groups.
type folder struct {
	*picture
	order []int // the boxes in the order of the tree
	place []int // the inverse of order
	reads [][]int
}

// fold groups the boxes: first by scopes of names, then equal blocks in sequence, and last, where a level still has too
// many items, sections of consecutive boxes.
func (p *picture) fold() *item {
	f := &folder{picture: p, place: make([]int, len(p.boxes)), reads: make([][]int, len(p.boxes))}
	for _, n := range p.nets {
		for _, to := range n.to {
			f.reads[to] = append(f.reads[to], n.from)
		}
	}
	f.sort()
	for i, b := range f.order {
		f.place[b] = i
	}
	first := slices.IndexFunc(f.order, func(b int) bool { return p.boxes[b].kind != inputBox })
	last := slices.IndexFunc(f.order, func(b int) bool { return p.boxes[b].kind == outputBox })
	if first < 0 {
		first = len(f.order)
	}
	if last < 0 {
		last = len(f.order)
	}
	root := &item{box: -1, label: p.title, upTo: len(f.order), open: true}
	root.items = slices.Concat(f.ends(0, first, "inputs"), f.sections(f.repeats(f.scopes(first, last, 0))),
		f.ends(last, len(f.order), "outputs"))
	return root
}

// ends returns the items of inputs or outputs, as one group if they are many.
func (f *folder) ends(from, upTo int, name string) []*item {
	list := f.leaves(from, upTo)
	if len(list) <= sectionItems/2 {
		return list
	}
	return []*item{{box: -1, label: fmt.Sprintf("%d %s", len(list), name), items: f.sections(list), from: from,
		upTo: upTo}}
}

func (f *folder) leaves(from, upTo int) []*item {
	var list []*item
	for i := from; i < upTo; i++ {
		b := &f.boxes[f.order[i]]
		list = append(list, &item{box: f.order[i], label: b.name, scope: strings.Join(b.scope, "/"), from: i, upTo: i + 1})
	}
	return list
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

// sort sets the order of the boxes. It is topological. Within this rule, the boxes of a scope are together, in the
// order of their numbers.
func (f *folder) sort() {
	readers := make([][]int, len(f.boxes))
	open := make([]int, len(f.boxes))
	for to, list := range f.reads {
		open[to] = len(list)
		for _, from := range list {
			readers[from] = append(readers[from], to)
		}
	}
	ready := map[string]*numbers{} // by rank and scope; a box is in the heap of each prefix of its scope
	keys := func(b int) []string {
		key := fmt.Sprint(f.boxes[b].rank())
		list := []string{key}
		for _, s := range f.boxes[b].scope {
			key += "/" + s
			list = append(list, key)
		}
		return list
	}
	add := func(b int) {
		for _, key := range keys(b) {
			if ready[key] == nil {
				ready[key] = &numbers{}
			}
			heap.Push(ready[key], b)
		}
	}
	for b, n := range open {
		if n == 0 {
			add(b)
		}
	}
	done := make([]bool, len(f.boxes))
	usual := []string{"2", "1", "0"} // heaps; the last heap is used first
	near := usual
	for len(f.order) < len(f.boxes) {
		b := next(ready, near, done)
		done[b] = true
		f.order = append(f.order, b)
		near = slices.Concat(usual, keys(b)[1:])
		for _, to := range readers[b] {
			if open[to]--; open[to] == 0 {
				add(to)
			}
		}
	}
}

// next removes the least box from the last heap that is not empty.
func next(ready map[string]*numbers, near []string, done []bool) int {
	for _, key := range slices.Backward(near) {
		for h := ready[key]; h != nil && h.Len() > 0; {
			if b := heap.Pop(h).(int); !done[b] {
				return b
			}
		}
	}
	panic("view: the boxes have a cycle")
}

// numbers is a heap of box numbers.
type numbers []int

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, k int) bool { return n[i] < n[k] }
func (n numbers) Swap(i, k int)      { n[i], n[k] = n[k], n[i] }
func (n *numbers) Push(x any)        { *n = append(*n, x.(int)) }
func (n *numbers) Pop() any {
	last := len(*n) - 1
	x := (*n)[last]
	*n = (*n)[:last]
	return x
}

// scopes groups consecutive boxes with a common scope, from the given depth of scopes on.
func (f *folder) scopes(from, upTo, depth int) []*item {
	var list []*item
	parts := map[string]int{} // the number of groups of a scope that another scope divides
	for from < upTo {
		scope := f.boxes[f.order[from]].scope
		if len(scope) <= depth {
			list = append(list, f.leaves(from, from+1)...)
			from++
			continue
		}
		end := from + 1
		for end < upTo {
			if s := f.boxes[f.order[end]].scope; len(s) <= depth || s[depth] != scope[depth] {
				break
			}
			end++
		}
		items := f.repeats(f.scopes(from, end, depth+1))
		switch {
		case end-from < leastGroup:
			list = append(list, f.leaves(from, end)...)
		case len(items) == 1:
			if items[0].repeats > 0 {
				items[0].label, items[0].scope = scope[depth], strings.Join(scope[:depth+1], "/")
			}
			list = append(list, items...)
		default:
			g := &item{box: -1, label: scope[depth], scope: strings.Join(scope[:depth+1], "/"), items: f.sections(items),
				from: from, upTo: end}
			if parts[g.label]++; parts[g.label] > 1 {
				g.label += fmt.Sprintf(" (part %d)", parts[g.label])
			}
			list = append(list, g)
		}
		from = end
	}
	return list
}

// sections groups consecutive items if there are too many for one drawing: boxes between groups, and then all items.
func (f *folder) sections(items []*item) []*item {
	if len(items) <= mostVisible {
		return items
	}
	var list []*item
	for from := 0; from < len(items); {
		end := from
		for end < len(items) && items[end].box >= 0 {
			end++
		}
		list = append(list, f.divided(items[from:end])...)
		if end < len(items) {
			list = append(list, items[end])
			end++
		}
		from = end
	}
	if len(list) > mostVisible {
		list = f.divided(list)
	}
	return list
}

// divided returns sections of items, divided where few values pass from one section to the next.
func (f *folder) divided(items []*item) []*item {
	if len(items) <= sectionItems {
		return items
	}
	crossing := f.crossings(items)
	size := max(sectionItems, (len(items)+mostVisible/2-1)/(mostVisible/2))
	var list []*item
	for from := 0; from < len(items); {
		end := min(from+size, len(items))
		if len(items)-end < size/4 {
			end = len(items)
		}
		if end < len(items) {
			for k := end - size/4; k <= min(end+size/4, len(items)-1); k++ {
				if crossing[k] < crossing[end] {
					end = k
				}
			}
		}
		part := items[from:end]
		g := &item{box: -1, from: part[0].from, upTo: part[len(part)-1].upTo}
		g.label = fmt.Sprintf("boxes %d to %d", g.from+1, g.upTo)
		if g.items = f.sections(part); len(part) == 1 {
			g = part[0]
		}
		list = append(list, g)
		from = end
	}
	return list
}

// crossings returns, for each item, the number of values that are computed before it and read by it or after it.
func (f *folder) crossings(items []*item) []int {
	first, last := items[0].from, items[len(items)-1].upTo
	count := make([]int, last-first+1)
	for _, n := range f.nets {
		from, to := f.place[n.from], -1
		for _, b := range n.to {
			to = max(to, f.place[b])
		}
		if from, to = max(from, first-1), min(to, last-1); from < to {
			count[from+1-first]++
			count[to+1-first]--
		}
	}
	list := make([]int, len(items))
	for i, at, sum := 0, first, 0; i < len(items); i++ {
		for ; at <= items[i].from; at++ {
			sum += count[at-first]
		}
		list[i] = sum
	}
	return list
}

// openTo opens the groups above a depth. Depth 0 folds all groups.
func (g *item) openTo(depth int) {
	for _, i := range g.items {
		if i.box < 0 {
			i.open = depth > 0
			i.openTo(depth - 1)
		}
	}
}

// visible counts the boxes that are drawn, folded groups included.
func (g *item) visible() int {
	n := 0
	for _, i := range g.items {
		if i.open {
			n += i.visible()
		} else {
			n++
		}
	}
	return n
}

// depth returns the number of levels of groups.
func (g *item) depth() int {
	n := 0
	for _, i := range g.items {
		if i.box < 0 {
			n = max(n, 1+i.depth())
		}
	}
	return n
}

// openFew opens as many levels of groups as the number of visible boxes allows.
func (g *item) openFew(most int) {
	depth := 0
	for d := 1; d <= g.depth(); d++ {
		if g.openTo(d); g.visible() <= most {
			depth = d
		}
	}
	g.openTo(depth)
}

// openScope opens the groups of a scope or label, all groups in them, and the groups around them. It reports whether
// there is such a group.
func (g *item) openScope(name string) bool {
	found := false
	for _, i := range g.items {
		switch {
		case i.box >= 0:
		case i.label == name || i.scope == strings.Trim(name, "/"):
			i.open, found = true, true
			i.openTo(i.depth())
		case i.openScope(name):
			i.open, found = true, true
		}
	}
	return found
}
