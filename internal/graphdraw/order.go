package graphdraw

import (
	"cmp"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// This file orders the cells of each layer of a drawing so that few nets cross. For example, with the net segments a-y
// and b-x, the lower layer becomes y x:
//
//	a   b        a   b
//	  X          |   |
//	x   y        y   x

// orderRounds is the number of ordering passes. Downward and upward passes alternate. The order with the fewest
// crossings is used.
const orderRounds = 12

// order orders the cells of each layer to reduce crossings. It uses the barycenter heuristic: cells are sorted by the
// mean position of their connected cells in the previous layer.
func (l *layeredLayout) order() {
	best, least := l.copyLayers(), l.countCrossings()
	for i := 0; i < orderRounds && least > 0; i++ {
		for k := range l.layers {
			if i%2 == 0 {
				l.sortLayer(k, func(c *cell) []int { return c.up })
			} else {
				l.sortLayer(len(l.layers)-1-k, func(c *cell) []int { return c.down })
			}
		}
		if n := l.countCrossings(); n < least {
			best, least = l.copyLayers(), n
		}
	}
	for k, layer := range best {
		l.layers[k] = layer
		l.setPositions(k)
	}
}

// copyLayers returns a copy of l.layers.
func (l *layeredLayout) copyLayers() [][]int {
	list := make([][]int, len(l.layers))
	for k, layer := range l.layers {
		list[k] = slices.Clone(layer)
	}
	return list
}

// setPositions sets the positions of the cells of a layer.
func (l *layeredLayout) setPositions(layer int) {
	for i, index := range l.layers[layer] {
		l.cells[index].position = i
	}
}

// sortLayer sorts the cells of a layer by the mean position of their connected cells. connectedCells returns the
// connected cells in the layer above or below. Positions are relative to the sizes of the layers, so that an
// unconnected cell stays near its previous position.
func (l *layeredLayout) sortLayer(layer int, connectedCells func(*cell) []int) {
	mean := make(map[int]float64, len(l.layers[layer]))
	for _, index := range l.layers[layer] {
		position, connected := l.relativePosition(index), connectedCells(&l.cells[index])
		if len(connected) > 0 {
			position = 0
			for _, other := range connected {
				position += l.relativePosition(other)
			}
			position /= float64(len(connected))
		}
		mean[index] = position
	}
	sorted.Func(l.layers[layer], func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	l.setPositions(layer)
}

// relativePosition returns the relative position of a cell in its layer, from 0 to 1.
func (l *layeredLayout) relativePosition(index int) float64 {
	return (float64(l.cells[index].position) + 0.5) / float64(len(l.layers[l.cells[index].layer]))
}

// countCrossings returns the number of crossings of net segments between adjacent layers.
func (l *layeredLayout) countCrossings() int {
	total := 0
	for k := 1; k < len(l.layers); k++ {
		total += l.countCrossingsBelow(k - 1)
	}
	return total
}

// countCrossingsBelow returns the number of crossings between a layer and the next layer. A segment crosses each
// segment that begins to its left in the upper layer and ends to its right in the lower layer.
func (l *layeredLayout) countCrossingsBelow(layer int) (total int) {
	// tree is a Fenwick tree that counts the segments to the left, by the position of their lower ends.
	tree := make([]int, len(l.layers[layer+1])+1)
	count := 0 // number of segments to the left
	for _, upper := range l.layers[layer] {
		down := l.cells[upper].down
		for _, lower := range down {
			total += count // the loop subtracts the segments that do not end to the right
			for i := l.cells[lower].position + 1; i > 0; i -= i & -i {
				total -= tree[i]
			}
		}
		for _, lower := range down { // segments of one cell do not cross each other
			for i := l.cells[lower].position + 1; i < len(tree); i += i & -i {
				tree[i]++
			}
			count++
		}
	}
	return total
}
