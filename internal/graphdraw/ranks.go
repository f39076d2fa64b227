package graphdraw

import (
	"errors"
	"fmt"
	"slices"
)

var errCycle = errors.New("graphdraw: the nets have a cycle")

// boxNets has the indices of the nets that go to a box and of the nets that leave the box. A net connects a box to
// boxes below it.
type boxNets struct{ incoming, outgoing []int }

// assignLayers assigns each box to a layer below the layers of its predecessors. It returns the ranks of the boxes: the
// indices of their layers, from the top. It starts with the highest possible layers, and then moves boxes down as long
// as this does not increase the total length of nets. The length of a net is the number of layers from its upper box to
// the lowest of its lower boxes. For example, with the nets a→b, b→d and c→d, boxes a and c are in layer 0 at first, b
// in layer 1 and d in layer 2. Then c moves down to layer 1, which shortens the net c→d.
func assignLayers(boxes []Box, nets []Net) ([]int, error) {
	netsOf := make([]boxNets, len(boxes))
	for i, net := range nets {
		netsOf[net.From].outgoing = append(netsOf[net.From].outgoing, i)
		for _, to := range net.To {
			netsOf[to].incoming = append(netsOf[to].incoming, i) // repeated if net.To has the box several times
		}
	}
	order, ranks := longestPath(nets, netsOf)
	if len(order) < len(boxes) {
		return nil, errCycle
	}
	const rounds = 8 // two or three suffice for networks
	for range rounds {
		moved := false
		for i := len(order) - 1; i >= 0; i-- { // upwards: the successors of a box move before the box
			box := order[i]
			if layer := bestLayer(box, ranks, nets, &netsOf[box]); layer != ranks[box] {
				ranks[box], moved = layer, true
			}
		}
		if !moved {
			break
		}
	}
	if err := moveToSides(boxes, ranks, netsOf, nets); err != nil {
		return nil, err
	}
	return compactLayers(ranks), nil
}

// moveToSides moves the First boxes to a new layer above all others, and the Last boxes to a new layer below. The ranks
// of all other boxes increase by 1. The new layers have the ranks 0 and last+1.
func moveToSides(boxes []Box, ranks []int, netsOf []boxNets, nets []Net) error {
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

// longestPath returns the boxes in topological order, and the length of the longest path to each box. This length is
// the highest possible layer of the box. The result order lacks boxes on cycles and the boxes below them.
func longestPath(nets []Net, netsOf []boxNets) (order, ranks []int) {
	ranks = make([]int, len(netsOf))
	pending := make([]int, len(netsOf)) // number of incoming nets from boxes that are not in order
	for box := range netsOf {
		if pending[box] = len(netsOf[box].incoming); pending[box] == 0 {
			order = append(order, box)
		}
	}
	for i := 0; i < len(order); i++ {
		box := order[i]
		for _, net := range netsOf[box].outgoing {
			for _, to := range nets[net].To {
				ranks[to] = max(ranks[to], ranks[box]+1)
				if pending[to]--; pending[to] == 0 {
					order = append(order, to)
				}
			}
		}
	}
	return order, ranks
}

// bestLayer returns the layer, at or below the current layer of the box, at which the nets of a box have the least
// total length. If there are several such layers, it returns the lowest. A box without outgoing nets does not move.
func bestLayer(box int, ranks []int, nets []Net, netsOfBox *boxNets) int {
	if len(netsOfBox.outgoing) == 0 {
		return ranks[box]
	}
	lowest := -1       // the layer above the highest successor
	shortenedNets := 0 // number of outgoing nets with lower boxes; moving the box down by one layer shortens each by one
	for _, net := range netsOfBox.outgoing {
		for _, to := range nets[net].To {
			if lowest < 0 || ranks[to]-1 < lowest {
				lowest = ranks[to] - 1
			}
		}
		if len(nets[net].To) > 0 {
			shortenedNets++
		}
	}
	if lowest <= ranks[box] {
		return ranks[box]
	}
	best, leastIncrease := ranks[box], 0 // the increase of the total length at layer best; it is never positive
	for _, layer := range candidateLayers(box, lowest, ranks, nets, netsOfBox) {
		increase := -shortenedNets * (layer - ranks[box])
		for i, net := range netsOfBox.incoming {
			isRepeated := slices.Contains(netsOfBox.incoming[:i], net)
			if !isRepeated { // a net ends at its lowest box, so it becomes longer if this box moves below the other boxes
				end := max(ranks[box], lastLayer(box, ranks, &nets[net])) // before the move
				increase += max(0, layer-end)
			}
		}
		if increase <= leastIncrease {
			best, leastIncrease = layer, increase
		}
	}
	return best
}

// candidateLayers returns the layers that bestLayer tries for a box. They are the layer `lowest`, and each layer
// between the box and lowest at which an incoming net has its lowest other box. Between two adjacent candidates, the
// net lengths are linear functions of the layer, so no other layer is better.
func candidateLayers(box, lowest int, ranks []int, nets []Net, netsOfBox *boxNets) []int {
	list := []int{}
	for _, net := range netsOfBox.incoming {
		if last := lastLayer(box, ranks, &nets[net]); last > ranks[box] && last < lowest {
			list = append(list, last)
		}
	}
	return append(list, lowest)
}

// lastLayer returns the lowest layer of a net's lower boxes other than the given box, or 0 if there are none.
func lastLayer(box int, ranks []int, net *Net) int {
	last := 0
	for _, to := range net.To {
		if to != box {
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
	newRank := make([]int, lastRank+1) // first, 1 for each used rank
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
