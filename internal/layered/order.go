package layered

import (
	"cmp"
	"slices"
)

// sweeps is how often layers are ordered downwards and upwards. The best order that was met is kept.
const sweeps = 12

// order orders the cells of each layer so that few pieces of nets cross: each cell comes to the mean place of those
// that it is joined with in the layer before, down and up in turn.
func (l *laying) order() {
	best, least := l.orders(), l.crossings()
	for i := 0; i < sweeps && least > 0; i++ {
		for k := range l.layers {
			if i%2 == 0 {
				l.sortLayer(k, func(c *cell) []int { return c.up })
			} else {
				l.sortLayer(len(l.layers)-1-k, func(c *cell) []int { return c.down })
			}
		}
		if n := l.crossings(); n < least {
			best, least = l.orders(), n
		}
	}
	for k, layer := range best {
		l.layers[k] = layer
		l.number(k)
	}
}

func (l *laying) orders() [][]int {
	list := make([][]int, len(l.layers))
	for k, layer := range l.layers {
		list[k] = slices.Clone(layer)
	}
	return list
}

func (l *laying) number(layer int) {
	for i, c := range l.layers[layer] {
		l.cells[c].at = i
	}
}

// sortLayer sorts a layer by the mean places of what its cells are joined with on one side. Places are parts of their
// layers, so that a cell that is joined with nothing there stays about where it is.
func (l *laying) sortLayer(layer int, side func(*cell) []int) {
	mean := make(map[int]float64, len(l.layers[layer]))
	for _, c := range l.layers[layer] {
		at, joined := l.part(c), side(&l.cells[c])
		if len(joined) > 0 {
			at = 0
			for _, o := range joined {
				at += l.part(o)
			}
			at /= float64(len(joined))
		}
		mean[c] = at
	}
	slices.SortStableFunc(l.layers[layer], func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
	l.number(layer)
}

// part is where a cell is in its layer, from 0 to 1.
func (l *laying) part(c int) float64 {
	return (float64(l.cells[c].at) + 0.5) / float64(len(l.layers[l.cells[c].layer]))
}

// crossings counts how often pieces of nets cross between layers.
func (l *laying) crossings() int {
	total := 0
	for k := 1; k < len(l.layers); k++ {
		// A piece crosses those before it, by upper ends, whose lower ends lie to the right of its own.
		tree := make([]int, len(l.layers[k])+1)
		count := 0
		for _, a := range l.layers[k-1] {
			down := l.cells[a].down
			for _, b := range down {
				total += count
				for i := l.cells[b].at + 1; i > 0; i -= i & -i {
					total -= tree[i]
				}
			}
			for _, b := range down { // those of one cell do not cross each other
				for i := l.cells[b].at + 1; i < len(tree); i += i & -i {
					tree[i]++
				}
				count++
			}
		}
	}
	return total
}
