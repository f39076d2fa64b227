package graphdraw

import (
	"cmp"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/sorted"
)

// straightenLines makes lines vertical if neighbouring cells leave enough space. Placement, which processes one layer
// at a time, leaves lines slightly bent. A line is a chain of boxes or the trunk (vertical part) of a net.
func (l *layeredLayout) straightenLines() {
	lines := slices.Concat(l.trunks, l.boxChains())
	lines = slices.DeleteFunc(lines, func(line []int) bool { return len(line) < 2 })
	sorted.Func(lines, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	const rounds = 3 // moving a line can free space for other lines
	for range rounds {
		for _, line := range lines {
			l.align(line)
		}
	}
}

// boxChains divides the boxes into maximal chains. In a chain, each box after the first is the only successor of the
// previous box, and has no other predecessor. The index of a box is also the index of its cell.
func (l *layeredLayout) boxChains() [][]int {
	next := func(box int) int {
		if down := l.cells[box].down; len(down) == 1 && l.cells[down[0]].box >= 0 && len(l.cells[down[0]].up) == 1 {
			return down[0]
		}
		return -1
	}
	follows := make([]bool, len(l.boxes))
	for box := range l.boxes {
		if to := next(box); to >= 0 {
			follows[to] = true
		}
	}
	var list [][]int
	for box := range l.boxes {
		if follows[box] {
			continue
		}
		line := []int{box}
		for to := next(box); to >= 0; to = next(to) {
			line = append(line, to)
		}
		list = append(list, line)
	}
	return list
}

// align divides a line into as few runs of cells as possible. All cells of a run get the same x, which must be in their
// free ranges (freeRange). Among these x, it is the closest to the mean x of the run.
func (l *layeredLayout) align(line []int) {
	for len(line) > 0 {
		low, high := math.Inf(-1), math.Inf(1) // the common free range of line[:count]
		count, sum := 0, 0.0
		for _, index := range line {
			from, to := l.freeRange(index)
			if max(low, from) > min(high, to) {
				break
			}
			low, high = max(low, from), min(high, to)
			sum += l.cells[index].x
			count++
		}
		if count == 0 { // because of rounding, the range of a cell may be empty; the cell then keeps its place
			count = 1
		} else {
			x := min(max(sum/float64(count), low), high)
			for _, index := range line[:count] {
				l.cells[index].x = x
			}
		}
		line = line[count:]
	}
}

// freeRange returns the range of x that the neighbours of a cell in its layer permit.
func (l *layeredLayout) freeRange(index int) (from, to float64) {
	layer, i := l.layers[l.cells[index].layer], l.cells[index].position
	from, to = math.Inf(-1), math.Inf(1)
	if i > 0 {
		from = l.cells[layer[i-1]].x + l.minDistance(layer[i-1], index)
	}
	if i+1 < len(layer) {
		to = l.cells[layer[i+1]].x - l.minDistance(index, layer[i+1])
	}
	return from, to
}
