package layered

import (
	"errors"
	"slices"
)

var errCycle = errors.New("layered: the nets have a cycle")

// joined is what a box is joined with by nets.
type joined struct{ in, out []int } // nets

// ranked gives each box a layer, below those of all that it is reached from, so that nets are short: first the highest
// that is possible, then boxes are moved down while that makes the sum of the nets' lengths no greater.
func ranked(boxes int, nets []Net) ([]int, error) {
	of := make([]joined, boxes)
	for i, n := range nets {
		of[n.From].out = append(of[n.From].out, i)
		for _, to := range n.To {
			of[to].in = append(of[to].in, i) // once for each time that it is reached
		}
	}
	order, ranks := highest(nets, of)
	if len(order) < boxes {
		return nil, errCycle
	}
	const rounds = 8 // two or three are enough for networks
	for range rounds {
		moved := false
		for i := len(order) - 1; i >= 0; i-- { // what is below has moved
			b := order[i]
			if to := lowered(b, ranks, nets, &of[b]); to != ranks[b] {
				ranks[b], moved = to, true
			}
		}
		if !moved {
			break
		}
	}
	return raised(ranks), nil
}

// highest lists boxes in topological order, as they come, and their layers by the longest path; boxes on cycles and
// below them are left out.
func highest(nets []Net, of []joined) (order, ranks []int) {
	ranks = make([]int, len(of))
	open := make([]int, len(of))
	for b := range of {
		if open[b] = len(of[b].in); open[b] == 0 {
			order = append(order, b)
		}
	}
	for i := 0; i < len(order); i++ {
		b := order[i]
		for _, n := range of[b].out {
			for _, to := range nets[n].To {
				ranks[to] = max(ranks[to], ranks[b]+1)
				if open[to]--; open[to] == 0 {
					order = append(order, to)
				}
			}
		}
	}
	return order, ranks
}

// lowered is the lowest layer that a box may have for which the nets at it are no longer than now.
func lowered(b int, ranks []int, nets []Net, of *joined) int {
	if len(of.out) == 0 {
		return ranks[b]
	}
	lowest := -1
	leaves := 0 // nets that get shorter
	for _, n := range of.out {
		for _, to := range nets[n].To {
			if lowest < 0 || ranks[to]-1 < lowest {
				lowest = ranks[to] - 1
			}
		}
		if len(nets[n].To) > 0 {
			leaves++
		}
	}
	if lowest <= ranks[b] {
		return ranks[b]
	}
	best, least := ranks[b], 0
	for _, to := range stops(b, lowest, ranks, nets, of) {
		longer := -leaves * (to - ranks[b])
		for i, n := range of.in {
			if !slices.Contains(of.in[:i], n) {
				longer += max(0, to-max(ranks[b], furthest(b, ranks, &nets[n])))
			}
		}
		if longer <= least {
			best, least = to, longer
		}
	}
	return best
}

// stops are the layers among which the best for a box is, from above: the lengths of nets are linear between them.
func stops(b, lowest int, ranks []int, nets []Net, of *joined) []int {
	list := []int{}
	for _, n := range of.in {
		if f := furthest(b, ranks, &nets[n]); f > ranks[b] && f < lowest {
			list = append(list, f)
		}
	}
	return append(list, lowest)
}

// furthest is the lowest layer that a net reaches but for a box.
func furthest(b int, ranks []int, n *Net) int {
	f := 0
	for _, to := range n.To {
		if to != b {
			f = max(f, ranks[to])
		}
	}
	return f
}

// raised numbers the layers anew, without those that are empty.
func raised(ranks []int) []int {
	most := 0
	for _, r := range ranks {
		most = max(most, r)
	}
	number := make([]int, most+1)
	for _, r := range ranks {
		number[r] = 1
	}
	next := 0
	for r, used := range number {
		number[r] = next
		next += used
	}
	for i, r := range ranks {
		ranks[i] = number[r]
	}
	return ranks
}
