package view

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file groups repeats of equal blocks in a picture. An item is a box, or a group of boxes. A block is a sequence
// of adjacent items. For example, the boxes
//
//	conv relu add relu  conv relu add relu  conv relu add relu  mean
//
// are three equal blocks with a period of four items, and a further item.

// The limits of a group of equal blocks.
const (
	minRepeated = 6   // the minimum number of its boxes
	maxPeriod   = 512 // the maximum number of items of one block
)

var blockSeed = maphash.MakeSeed()

// tandem is a tandem repeat: a sequence of `count` equal blocks, each of `period` items. Its first item has the index
// `from`.
type tandem struct{ from, period, count int }

// upTo is the index of the item after the last block.
func (t tandem) upTo() int { return t.from + t.period*t.count }

// groupRepeats groups sequences of equal blocks of items. The boxes of an item have the positions from item.from to
// item.upTo-1 in builder.order. Blocks are equal if their boxes have equal ops, attributes, implementations, types and
// layouts, and equal connections. drawableItems then divides the items of each new group if they are too many for one
// drawing.
func (builder *groupBuilder) groupRepeats(items []*item) []*item {
	hashes := make([]uint64, len(items))
	for i, it := range items {
		hashes[i] = builder.hash(it)
	}
	hasEnoughBoxes := func(t tandem) bool { return items[t.upTo()-1].upTo-items[t.from].from >= minRepeated }
	var list []*item
	next := 0 // the index of the first item that is not yet in list
	for _, found := range tandems(hashes, hasEnoughBoxes) {
		list = append(list, items[next:found.from]...)
		blocks := builder.blocks(items[found.from:found.upTo()], found.period)
		last := blocks[found.count-1]
		list = append(list, &item{box: -1, label: builder.repeatLabel(blocks[0], last, found.period), repeats: found.count,
			items: builder.drawableItems(blocks), from: blocks[0].from, upTo: last.upTo})
		next = found.upTo()
	}
	return append(list, items[next:]...)
}

// blocks divides items into blocks of `period` items. A block of one item is this item; other blocks are groups, in
// which repeats are grouped again.
func (builder *groupBuilder) blocks(items []*item, period int) []*item {
	if period == 1 {
		return slices.Clone(items)
	}
	var list []*item
	for block := range slices.Chunk(items, period) {
		list = append(list, &item{box: -1, label: fmt.Sprintf("block %d", len(list)+1),
			items: builder.drawableItems(builder.groupRepeats(block)),
			from:  block[0].from, upTo: block[period-1].upTo})
	}
	return list
}

// repeatLabel returns the label of a sequence of equal blocks with the given first and last block.
func (builder *groupBuilder) repeatLabel(first, last *item, period int) string {
	opAt := func(i int) string { return builder.boxes[builder.order[i]].head }
	switch {
	case period == 1 && first.box < 0:
		return first.label + " to " + last.label
	case period == 1:
		return opAt(first.from)
	}
	return opAt(first.from) + " " + term.Ellipsis + " " + opAt(first.upTo-1)
}

// hash returns a hash of an item. Equal items have equal hashes.
func (builder *groupBuilder) hash(it *item) uint64 {
	// The hash includes the distance from each box to each operand, in positions. Distance 0 stands for operands that do
	// not distinguish items: inputs; for a group, operands before its first box; for a single box, operands that are more
	// than maxDistance positions away.
	const maxDistance = 16
	var digest maphash.Hash
	digest.SetSeed(blockSeed)
	for i := it.from; i < it.upTo; i++ {
		b := builder.order[i]
		digest.WriteString(builder.boxes[b].signature)
		for _, operand := range builder.operands[b] {
			distance := i - builder.position[operand]
			isFar := distance > maxDistance
			if it.box < 0 {
				isFar = builder.position[operand] < it.from
			}
			if isFar || builder.boxes[operand].kind == inputBox {
				distance = 0
			}
			fmt.Fprintf(&digest, " %d", distance)
		}
		digest.WriteByte(0)
	}
	return digest.Sum64()
}

// tandems returns disjoint sequences of equal blocks, sorted by position. hashes has the hash of each item. tandems
// considers only sequences for which worthwhile returns true. If sequences overlap, it prefers more items, and then
// shorter blocks.
func tandems(hashes []uint64, worthwhile func(tandem) bool) []tandem {
	var found []tandem
	for period := 1; period <= min(len(hashes)/2, maxPeriod); period++ {
		for i := 0; i+period < len(hashes); {
			run := 0 // number of consecutive items, from item i, that equal the items one period later
			for i+run+period < len(hashes) && hashes[i+run] == hashes[i+run+period] {
				run++
			}
			// run/period + 1 equal blocks start at item i.
			candidate := tandem{from: i, period: period, count: run/period + 1}
			if candidate.count > 1 && worthwhile(candidate) {
				found = append(found, candidate)
			}
			i += run + 1
		}
	}
	// Select sequences that do not overlap, the best first.
	sorted.Func(found, func(a, b tandem) int {
		return cmp.Or(cmp.Compare(b.period*b.count, a.period*a.count), cmp.Compare(a.period, b.period))
	})
	var list []tandem
	used := make([]bool, len(hashes))
	for _, candidate := range found {
		// The sequences in list have at least as many items as the candidate. An overlap with one of them therefore contains
		// the first or the last item of the candidate.
		if used[candidate.from] || used[candidate.upTo()-1] {
			continue
		}
		for i := candidate.from; i < candidate.upTo(); i++ {
			used[i] = true
		}
		list = append(list, candidate)
	}
	sorted.Func(list, func(a, b tandem) int { return cmp.Compare(a.from, b.from) })
	return list
}
