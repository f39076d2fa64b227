package graphdraw

import "math"

// These are the numbers of placement rounds. In each of the first rounds, a downward pass moves cells towards their
// connected cells in the layer above, and then an upward pass moves cells towards their connected cells in the layer
// below. A final round is one pass that moves cells towards the connected cells in both layers.
const (
	placementRounds = 10
	finalRounds     = 4
)

// assignX assigns x coordinates. It processes one layer after another, and places the cells of the layer close to their
// connected cells. The order of the layer and the minimum distances are constraints. An isotonic regression minimizes
// the weighted sum of the squared distances.
func (l *layeredLayout) assignX() {
	for _, layer := range l.layers {
		l.centerLayer(layer)
	}
	up, down := func(c *cell) [][]int { return [][]int{c.up} }, func(c *cell) [][]int { return [][]int{c.down} }
	both := func(c *cell) [][]int { return [][]int{c.up, c.down} }
	for range placementRounds {
		for k := range l.layers {
			l.placeLayer(k, up)
		}
		for k := len(l.layers) - 1; k >= 0; k-- {
			l.placeLayer(k, down)
		}
	}
	for range finalRounds {
		for k := range l.layers {
			l.placeLayer(k, both)
		}
	}
}

// centerLayer places the cells of a layer at their minimum distances, with the middle of the layer at 0.
func (l *layeredLayout) centerLayer(layer []int) {
	x := 0.0
	for i, index := range layer {
		if i > 0 {
			x += l.minDistance(layer[i-1], index)
		}
		l.cells[index].x = x
	}
	for _, index := range layer {
		l.cells[index].x -= x / 2
	}
}

// weight returns the weight of the distance between connected cells a and b. The weight is greatest between two
// crossings of a net (cells without a box), so that long nets are straight. It is least between a crossing and a box.
func (l *layeredLayout) weight(a, b int) float64 {
	switch {
	case l.cells[a].box < 0 && l.cells[b].box < 0:
		return 8
	case l.cells[a].box < 0 || l.cells[b].box < 0:
		return 1
	}
	return 2
}

// block is a group of adjacent cells of a layer, which are placed at their minimum distances.
type block struct {
	shift  float64 // x - offset, the same for all cells of the block: see placeLayer
	weight float64 // sum of the weights of its cells
	cells  int     // number of cells
}

// placeLayer places one layer. connectedLists returns lists of the connected cells that attract a cell. The desired x
// of a cell is the weighted mean of the x of these cells. The offset of a cell is its minimum distance from the first
// cell of the layer. Cells keep their minimum distances if their shifts, x - offset, do not decrease from left to
// right. Therefore adjacent cells whose desired shifts decrease are joined to a block. A block has one shift: the
// weighted mean of the desired shifts. (This is the algorithm "pool adjacent violators".) For example, let two cells of
// equal weight have the minimum distance 10 and the desired x 30 and 20. Their desired shifts, 30 and 10, decrease. The
// block has the shift 20, and the cells are placed at 20 and 30.
func (l *layeredLayout) placeLayer(layer int, connectedLists func(*cell) [][]int) {
	var blocks []block
	offset := 0.0
	cells := l.layers[layer]
	for i, index := range cells {
		if i > 0 {
			offset += l.minDistance(cells[i-1], index)
		}
		x, weight := l.desiredX(index, connectedLists(&l.cells[index]))
		blocks = appendBlock(blocks, block{shift: x - offset, weight: weight, cells: 1})
	}
	offset = 0
	i := 0 // index in cells
	for _, placed := range blocks {
		for range placed.cells {
			if i > 0 {
				offset += l.minDistance(cells[i-1], cells[i])
			}
			l.cells[cells[i]].x = placed.shift + offset
			i++
		}
	}
}

// desiredX returns the weighted mean of the x of the cells that attract a cell, and the sum of the weights of these
// cells.
func (l *layeredLayout) desiredX(index int, connectedLists [][]int) (x, weight float64) {
	const unconnectedWeight = 0.01 // an unconnected cell hardly affects the position of its block
	sum := 0.0
	for _, connected := range connectedLists {
		for _, other := range connected {
			otherWeight := l.weight(index, other)
			sum, weight = sum+otherWeight*l.cells[other].x, weight+otherWeight
		}
	}
	if weight == 0 {
		weight = unconnectedWeight
		sum = weight * l.cells[index].x
	}
	return sum / weight, weight
}

// appendBlock appends a block. While its shift does not exceed the shift of the last block, it is joined with the last
// block. The shift of a joined block is the weighted mean of the two shifts.
func appendBlock(blocks []block, added block) []block {
	for len(blocks) > 0 && blocks[len(blocks)-1].shift >= added.shift {
		last := blocks[len(blocks)-1]
		blocks = blocks[:len(blocks)-1]
		total := last.weight + added.weight
		added = block{shift: (last.shift*last.weight + added.shift*added.weight) / total, weight: total,
			cells: last.cells + added.cells}
	}
	return append(blocks, added)
}

// drawing converts the layout to a drawing: it shifts x coordinates so that the drawing begins at the margin, stacks
// the layers, and routes the nets.
func (l *layeredLayout) drawing() *Drawing {
	drawing := &Drawing{Width: 2 * margin, Height: 2 * margin, Corners: make([]Point, len(l.boxes))}
	if len(l.layers) == 0 {
		drawing.Nets = make([][]Segment, len(l.nets))
		return drawing
	}
	left, right := math.Inf(1), math.Inf(-1)
	for i := range l.cells {
		c := &l.cells[i]
		left, right = min(left, c.x-c.width/2), max(right, c.x+c.width/2)
	}
	for i := range l.cells {
		l.cells[i].x = roundTenth(l.cells[i].x - left + margin)
	}
	drawing.Width = roundTenth(right - left + 2*margin)
	routing := l.routeNets()
	drawing.Height = roundTenth(routing.stackLayers(drawing) + margin)
	drawing.Nets = routing.segments(drawing)
	for k := range l.layers {
		drawing.Layers = append(drawing.Layers, Band{roundTenth(routing.top[k]), roundTenth(routing.bottom[k])})
	}
	for i := range l.boxes {
		drawing.Ranks = append(drawing.Ranks, l.cells[i].layer)
	}
	for i := range l.nets {
		route := Route{LeaveX: routing.leaveX[i], ArriveX: routing.arriveX[i]}
		for _, index := range l.trunks[i] {
			route.CrossX = append(route.CrossX, l.cells[index].x)
		}
		drawing.Routes = append(drawing.Routes, route)
	}
	return drawing
}
