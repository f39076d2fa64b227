package view

import (
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
// boxes that read it (to). The scope of a box is the list of all parts of its name except the last part. For example,
// the scope of layer1/conv/add is layer1, conv.
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
	maxVisible   = 60 // a picture with more boxes is folded
	sectionItems = 30 // the usual number of items of a section: a group of consecutive items without a common scope
	minGroup     = 3  // the least number of boxes of a group
)

// groupBuilder builds the tree of groups.
type groupBuilder struct {
	*picture
	operands [][]int // for each box, the boxes that compute its operands
	order    []int   // the boxes in a topological order (see sort), which is the order of the leaves of the tree
	position []int   // for each box, its index in order
}

// fold returns the root of the tree of groups. It groups boxes by scopes of names, and then groups sequences of equal
// blocks. If a group still has too many items, it divides them into sections of consecutive items.
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
	kindAt := func(position int) boxKind { return p.boxes[builder.order[position]].kind }
	count := len(builder.order)
	firstStep, firstOutput := 0, count
	for firstStep < count && kindAt(firstStep) == inputBox {
		firstStep++
	}
	for firstOutput > firstStep && kindAt(firstOutput-1) == outputBox {
		firstOutput--
	}
	const depth = 0 // group by the first component of scopes
	root := &item{box: -1, label: p.title, upTo: count, isOpen: true}
	root.items = slices.Concat(builder.terminals(0, firstStep, "inputs"),
		builder.drawableItems(builder.groupRepeats(builder.groupScopes(firstStep, firstOutput, depth))),
		builder.terminals(firstOutput, count, "outputs"))
	return root
}

// terminals returns the items of the inputs or outputs in a range of order, as one group if there are many items.
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
	for end := from; from < upTo; from = end {
		scope := builder.scopeAt(from)
		end = from + 1
		for end < upTo && shareComponent(scope, builder.scopeAt(end), depth) {
			end++
		}
		if end-from < minGroup {
			list = append(list, builder.leaves(from, end)...)
			continue
		}
		label, fullScope := scope[depth], strings.Join(scope[:depth+1], "/")
		items := builder.groupRepeats(builder.groupScopes(from, end, depth+1))
		if len(items) > 1 {
			if groupsOf[label]++; groupsOf[label] > 1 {
				label += fmt.Sprintf(" (part %d)", groupsOf[label])
			}
			items = []*item{{box: -1, label: label, scope: fullScope, items: builder.drawableItems(items), from: from,
				upTo: end}}
		} else if items[0].repeats > 0 { // the scope is a better label than the ops of the blocks
			items[0].label, items[0].scope = label, fullScope
		}
		list = append(list, items...)
	}
	return list
}

// scopeAt returns the scope of the box at a position of order.
func (builder *groupBuilder) scopeAt(position int) []string {
	return builder.boxes[builder.order[position]].scope
}

// shareComponent reports whether both scopes have the same component at an index.
func shareComponent(a, b []string, index int) bool {
	return len(a) > index && len(b) > index && a[index] == b[index]
}
