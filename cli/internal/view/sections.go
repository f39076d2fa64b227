package view

import (
	"cmp"
	"fmt"
	"slices"
)

// This file divides long lists of items into sections: groups of consecutive items.

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
// slack items would follow the section, the section includes these items, too.
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
	// firstAfter returns the index of the first item that begins after a position of builder.order.
	firstAfter := func(position int) int {
		i, _ := slices.BinarySearchFunc(items, position+1, func(it *item, p int) int { return cmp.Compare(it.from, p) })
		return i
	}
	changes := make([]int, len(items)+1) // for each item: its crossings minus the crossings of the previous item
	for _, value := range builder.values {
		lastReader := -1 // a position
		for _, b := range value.to {
			lastReader = max(lastReader, builder.position[b])
		}
		// The value crosses the items from the first item after its box to the last item that begins at or before lastReader.
		if from, upTo := firstAfter(builder.position[value.from]), firstAfter(lastReader); from < upTo {
			changes[from]++
			changes[upTo]--
		}
	}
	sum := 0
	list := make([]int, len(items))
	for i := range list {
		sum += changes[i]
		list[i] = sum
	}
	return list
}
