package graphdraw

import (
	"cmp"
	"math"

	"github.com/graphrun/graphrun/internal/sorted"
)

// netRouting has the x coordinates at which nets leave and enter boxes, and the y coordinates of layers. A net connects
// a box (From) to boxes below it (To). The net has a cell in each layer between its upper box and the lowest of its
// lower boxes. These cells are the trunk of the net. layeredLayout has the x coordinates of all cells, and the trunk of
// each net.
//
//	layer 0   [from]
//	             |        leaveX
//	              \
//	layer 1        |      the trunk: one cell
//	              / \
//	             |   |    arriveX[0] and arriveX[1]
//	layer 2  [to0]  [to1]
type netRouting struct {
	*layeredLayout
	top, bottom []float64   // y coordinates of each layer; set by stackLayers
	leaveX      []float64   // x at the upper box of each net
	arriveX     [][]float64 // x at the lower boxes of each net, by index in Net.To
}

// connection is the connection of a net to the upper or the lower side of a box.
type connection struct {
	x      float64  // x of the cell in the adjacent layer, or mean x of several cells; connections are sorted by x
	target *float64 // the element of leaveX or arriveX to set
	rank   int      // orders connections with equal x
}

// routeNets spreads the connections of nets over the sides of boxes. It sorts them by the positions of the cells in the
// adjacent layer, so that the connections of a side do not cross.
func (l *layeredLayout) routeNets() *netRouting {
	routing := &netRouting{layeredLayout: l, top: make([]float64, len(l.layers)), bottom: make([]float64, len(l.layers)),
		leaveX: make([]float64, len(l.nets)), arriveX: make([][]float64, len(l.nets))}
	// below and above have the connections at the lower and at the upper side of each box.
	below, above := make([][]connection, len(l.boxes)), make([][]connection, len(l.boxes))
	for i, net := range l.nets {
		routing.arriveX[i] = make([]float64, len(net.To))
		for branch, to := range net.To {
			previous := l.cellAbove(i, to)
			above[to] = append(above[to], connection{x: l.cells[previous].x, target: &routing.arriveX[i][branch],
				rank: len(above[to])})
		}
		if x, ok := l.meanNextX(i); ok {
			below[net.From] = append(below[net.From], connection{x: x, target: &routing.leaveX[i], rank: i})
		}
	}
	for box := range l.boxes {
		l.spreadConnections(box, above[box])
		l.spreadConnections(box, below[box])
	}
	return routing
}

// cellAbove returns the cell of a net in the layer above the lower box `to`: a cell of the trunk, or the upper box.
func (l *layeredLayout) cellAbove(netIndex, to int) int {
	crossed := l.cells[to].layer - l.cells[l.nets[netIndex].From].layer - 1 // layers between the two boxes
	return l.cellAfter(netIndex, crossed)
}

// meanNextX returns the mean x of the cells of a net in the layer below its upper box. ok is false if the net has no
// lower box.
func (l *layeredLayout) meanNextX(netIndex int) (x float64, ok bool) {
	net, sum, count := &l.nets[netIndex], 0.0, 0
	for _, to := range net.To {
		if l.cellAbove(netIndex, to) == net.From { // the lower box is in the layer below the upper box
			sum, count = sum+l.cells[to].x, count+1
		}
	}
	if trunk := l.trunks[netIndex]; len(trunk) > 0 {
		sum, count = sum+l.cells[trunk[0]].x, count+1
	}
	return sum / float64(max(count, 1)), count > 0
}

// maxConnectionGap is the greatest distance between neighbouring connections of a box.
const maxConnectionGap = 18

// spreadConnections spreads connections over one side of a box.
func (l *layeredLayout) spreadConnections(box int, connections []connection) {
	sorted.Func(connections, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.rank, b.rank))
	})
	distance := min(maxConnectionGap, l.boxes[box].Width/float64(len(connections)+1))
	middle := float64(len(connections)-1) / 2 // the index at the centre of the box: 1 of three connections, 0.5 of two
	for i, conn := range connections {
		*conn.target = roundTenth(l.cells[box].x + (float64(i)-middle)*distance)
	}
}

// stackLayers sets the y coordinates of the layers and the corners of the boxes. It returns the y coordinate below the
// last layer.
func (r *netRouting) stackLayers(drawing *Drawing) (y float64) {
	y = margin
	for k, layer := range r.layers {
		height := 0.0
		for _, index := range layer {
			if box := r.cells[index].box; box >= 0 {
				height = max(height, r.boxes[box].Height)
			}
		}
		r.top[k], r.bottom[k] = y, y+height
		for _, index := range layer {
			if box := r.cells[index].box; box >= 0 {
				left, top := r.cells[index].x-r.boxes[box].Width/2, y+(height-r.boxes[box].Height)/2
				drawing.Corners[box] = Point{roundTenth(left), roundTenth(top)}
			}
		}
		y += height
		if k+1 < len(r.layers) {
			y += r.layerGap(k)
		}
	}
	return y
}

// layerGap returns the distance between a layer and the next layer. It increases with the longest horizontal distance
// of a net between the two layers.
func (r *netRouting) layerGap(layer int) float64 {
	widest := 0.0
	for _, upper := range r.layers[layer] {
		for _, lower := range r.cells[upper].down {
			widest = max(widest, math.Abs(r.cells[upper].x-r.cells[lower].x))
		}
	}
	return min(maxLayerGap, minLayerGap+slope*widest)
}

// segments returns the segments of each net.
func (r *netRouting) segments(drawing *Drawing) [][]Segment {
	list := make([][]Segment, len(r.nets))
	for i := range r.nets {
		list[i] = r.segmentsOf(i, drawing)
	}
	return list
}

// segmentsOf returns the segments of a net: from its upper box along the trunk, and then its branches to the lower
// boxes.
func (r *netRouting) segmentsOf(netIndex int, drawing *Drawing) (list []Segment) {
	net := &r.nets[netIndex]
	// addVertical adds the vertical segment at x between two y coordinates, if it is not empty after rounding.
	addVertical := func(x, top, bottom float64) {
		if top = roundTenth(top); top < roundTenth(bottom) {
			list = append(list, Segment{Point{x, top}, Point{x, roundTenth(bottom)}})
		}
	}
	// addToNextLayer adds the segment from the bottom of a layer to the top of the next layer, between two x coordinates.
	addToNextLayer := func(layer int, upperX, lowerX float64) {
		upper, lower := roundTenth(r.bottom[layer]), roundTenth(r.top[layer+1])
		list = append(list, Segment{Point{upperX, upper}, Point{lowerX, lower}})
	}
	fromLayer := r.cells[net.From].layer
	if len(net.To) > 0 {
		addVertical(r.leaveX[netIndex], drawing.Corners[net.From].Y+r.boxes[net.From].Height, r.bottom[fromLayer])
	}
	for k, cellIndex := range r.trunks[netIndex] { // the first cell is in the layer below the upper box
		layer := fromLayer + 1 + k
		addToNextLayer(layer-1, r.trunkX(netIndex, k), r.cells[cellIndex].x)
		addVertical(r.cells[cellIndex].x, r.top[layer], r.bottom[layer])
	}
	for branch, to := range net.To {
		layer := r.cells[to].layer // a branch leaves the trunk at the bottom of the layer above
		addToNextLayer(layer-1, r.trunkX(netIndex, layer-1-fromLayer), r.arriveX[netIndex][branch])
		addVertical(r.arriveX[netIndex][branch], r.top[layer], drawing.Corners[to].Y)
	}
	return list
}

// trunkX returns the x coordinate at which a net leaves the layer that is `crossed` layers below the net's upper box:
// leaveX for 0, otherwise the x of a cell of the trunk.
func (r *netRouting) trunkX(netIndex, crossed int) float64 {
	if crossed == 0 {
		return r.leaveX[netIndex]
	}
	return r.cells[r.trunks[netIndex][crossed-1]].x
}
