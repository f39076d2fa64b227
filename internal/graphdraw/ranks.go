package graphdraw

import (
	"errors"
	"fmt"
	"slices"
)

var errCycle = errors.New("graphdraw: the nets have a cycle")

// boxNets has the indices of the nets that go to a box and of the nets that leave the box.
type boxNets struct{ incoming, outgoing []int }

// assignLayers assigns each box to a layer below the layers of its predecessors. It returns the ranks of the boxes: the
// indices of their layers, from the top. It starts with the highest possible layers, and then moves boxes down while
// that does not increase the total length of nets.
func assignLayers(boxes []Box, nets []Net) ([]int, error) {
	netsOf := make([]boxNets, len(boxes))
	for i, net := range nets {
		netsOf[net.From].outgoing = append(netsOf[net.From].outgoing, i)
		for _, to := range net.To {
			netsOf[to].incoming = append(netsOf[to].incoming, i) // once per occurrence
		}
	}
	order, ranks := longestPath(nets, netsOf)
	if len(order) < len(boxes) {
		return nil, errCycle
	}
	const rounds = 8 // two or three suffice for networks
	for range rounds {
		moved := false
		for i := len(order) - 1; i >= 0; i-- { // successors have moved
			b := order[i]
			if to := lowestLayer(b, ranks, nets, &netsOf[b]); to != ranks[b] {
				ranks[b], moved = to, true
			}
		}
		if !moved {
			break
		}
	}
	if err := fixSides(boxes, ranks, netsOf, nets); err != nil {
		return nil, err
	}
	return compactLayers(ranks), nil
}

// fixSides moves boxes with a side to a layer of their own, above or below all others.
func fixSides(boxes []Box, ranks []int, netsOf []boxNets, nets []Net) error {
	hasLowerBox := func(net int) bool { return len(nets[net].To) > 0 }
	last := 0
	for i := range ranks {
		ranks[i]++
		last = max(last, ranks[i])
	}
	for i, box := range boxes {
		switch {
		case box.Side == First && len(netsOf[i].incoming) > 0:
			return fmt.Errorf("graphdraw: a net goes to box %d, which is above all others", i)
		case box.Side == Last && slices.ContainsFunc(netsOf[i].outgoing, hasLowerBox):
			return fmt.Errorf("graphdraw: a net leaves box %d, which is below all others", i)
		case box.Side == First:
			ranks[i] = 0
		case box.Side == Last:
			ranks[i] = last + 1
		}
	}
	return nil
}

// longestPath returns the boxes in topological order, and the layer of each box: the length of the longest path to it.
// order lacks boxes on cycles and boxes below them.
func longestPath(nets []Net, netsOf []boxNets) (order, ranks []int) {
	ranks = make([]int, len(netsOf))
	pending := make([]int, len(netsOf))
	for box := range netsOf {
		if pending[box] = len(netsOf[box].incoming); pending[box] == 0 {
			order = append(order, box)
		}
	}
	for i := 0; i < len(order); i++ {
		box := order[i]
		for _, n := range netsOf[box].outgoing {
			for _, to := range nets[n].To {
				ranks[to] = max(ranks[to], ranks[box]+1)
				if pending[to]--; pending[to] == 0 {
					order = append(order, to)
				}
			}
		}
	}
	return order, ranks
}

// lowestLayer returns the lowest layer for box b that does not increase the total length of its nets.
func lowestLayer(b int, ranks []int, nets []Net, atBox *boxNets) int {
	if len(atBox.outgoing) == 0 {
		return ranks[b]
	}
	lowest := -1
	shorter := 0 // number of nets that become shorter
	for _, net := range atBox.outgoing {
		for _, to := range nets[net].To {
			if lowest < 0 || ranks[to]-1 < lowest {
				lowest = ranks[to] - 1
			}
		}
		if len(nets[net].To) > 0 {
			shorter++
		}
	}
	if lowest <= ranks[b] {
		return ranks[b]
	}
	best, least := ranks[b], 0
	for _, to := range candidates(b, lowest, ranks, nets, atBox) {
		increase := -shorter * (to - ranks[b])
		for i, net := range atBox.incoming {
			if !slices.Contains(atBox.incoming[:i], net) {
				increase += max(0, to-max(ranks[b], lastLayer(b, ranks, &nets[net])))
			}
		}
		if increase <= least {
			best, least = to, increase
		}
	}
	return best
}

// candidates returns the layers that lowestLayer tries for a box. Between two adjacent candidates the net lengths are
// linear, so that no other layer is better.
func candidates(b, lowest int, ranks []int, nets []Net, atBox *boxNets) []int {
	list := []int{}
	for _, n := range atBox.incoming {
		if last := lastLayer(b, ranks, &nets[n]); last > ranks[b] && last < lowest {
			list = append(list, last)
		}
	}
	return append(list, lowest)
}

// lastLayer returns the lowest layer of a net's lower boxes other than box b.
func lastLayer(b int, ranks []int, n *Net) int {
	last := 0
	for _, to := range n.To {
		if to != b {
			last = max(last, ranks[to])
		}
	}
	return last
}

// compactLayers removes empty layers and renumbers the other layers.
func compactLayers(ranks []int) []int {
	lastRank := 0
	for _, rank := range ranks {
		lastRank = max(lastRank, rank)
	}
	newRank := make([]int, lastRank+1) // at first, 1 for each used rank
	for _, rank := range ranks {
		newRank[rank] = 1
	}
	next := 0
	for rank, used := range newRank {
		newRank[rank] = next
		next += used
	}
	for i, rank := range ranks {
		ranks[i] = newRank[rank]
	}
	return ranks
}
