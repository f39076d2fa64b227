// Package graphdraw draws directed acyclic graphs in layers, from top to bottom, by Sugiyama's method
// (Sugiyama, Tagawa, Toda: Methods for visual understanding of hierarchical system structures, 1981).
//
// [Draw] takes boxes and nets, and returns a [Drawing]. It assigns boxes to layers (ranks.go), orders each layer to
// reduce crossings (order.go), places boxes close to connected boxes (place.go, straight.go), and routes nets
// (routes.go). The same graph always has the same drawing. In this drawing, one net connects A to B and C, and another
// net connects B to C:
//
//	layer 0   A
//	          |\
//	layer 1   B |   the first net crosses this layer
//	          |/
//	layer 2   C
//
// The package exists because libraries are slow. For a picture of 2,000 boxes and 2,440 edges, `graphrun view` takes
// 0.15 s of CPU in total. The layout alone takes 10 s with dagre 3.1, 16 s with elkjs 0.12 (1.6 MB of script), and 35 s
// with Graphviz as WebAssembly (go-graphviz 0.2 adds 6.6 MB to a program; November 2026). nulab/autog 0.11 panics on
// this graph, and gonum has no layered drawings. The HTML pages of `graphrun view` also need the routes of nets in each
// layer, so that a reader can collapse a group without a new layout.
package graphdraw

import (
	"errors"
	"fmt"
	"math"
)

// Box is a box to draw.
type Box struct {
	Width, Height float64
	Side          Side
}

// Side is the side of a drawing at which a box is fixed.
type Side int

// Free boxes may be in any layer. First boxes are above all other boxes, and no net goes to a First box. Last boxes are
// below all other boxes, and no net goes from a Last box.
const (
	Free Side = iota
	First
	Last
)

// Net connects a box to boxes below it. It is drawn as one trunk with a branch to each lower box.
type Net struct {
	From int   // index of the upper box
	To   []int // indices of the lower boxes
}

// Point is a position in a drawing. X increases to the right, and Y increases downwards.
type Point struct{ X, Y float64 }

// Segment is a piece of a net, from one point to another point below it. A segment whose points have equal X is
// vertical. Other segments connect two layers, and are vertical at both ends.
type Segment struct{ From, To Point }

// Drawing has the positions of boxes and nets.
type Drawing struct {
	Width, Height float64
	Corners       []Point     // upper left corner of each box
	Nets          [][]Segment // segments of each net, starting at its upper box
	Layers        []Band      // the layers of boxes, from top to bottom
	Ranks         []int       // for each box, the index of its layer
	Routes        []Route     // the x coordinates of each net
}

// Band is the range of y of a layer.
type Band struct{ Top, Bottom float64 }

// Route has the x coordinates of a net. The route and the layers determine the segments of the net.
type Route struct {
	LeaveX  float64   // at the upper box
	CrossX  []float64 // at each layer that the trunk crosses, from top to bottom
	ArriveX []float64 // at each lower box, in the order of Net.To
}

// Distances between elements, in the units of Box.
const (
	margin      = 20.0  // width of the empty border of the drawing
	boxGap      = 24.0  // between boxes of a layer
	netGap      = 12.0  // in a layer: between nets that cross the layer, and between such a net and a box
	minLayerGap = 34.0  // between layers
	maxLayerGap = 110.0 // between layers
	slope       = 0.09  // a layer gap grows by slope times the width of its widest segment
)

// MaxCells is the maximum number of cells of a drawing. A cell is a box, or the place where a net crosses a layer that
// is between the layers of the net's boxes.
const MaxCells = 1 << 18

// ErrTooLarge is the error of a graph that needs more than MaxCells cells.
var ErrTooLarge = errors.New("too large to be drawn in layers")

// Draw computes the positions of boxes and the routes of nets. A net has one branch for each element of To. Draw fails
// if a net refers to an unknown box, if the nets have a cycle, or if they contradict the side of a box. It returns
// [ErrTooLarge] for a graph with more than [MaxCells] cells.
func Draw(boxes []Box, nets []Net) (*Drawing, error) {
	for i, net := range nets {
		for _, box := range append([]int{net.From}, net.To...) {
			if box < 0 || box >= len(boxes) {
				return nil, fmt.Errorf("graphdraw: net %d refers to box %d, but there are %d boxes", i, box, len(boxes))
			}
		}
	}
	ranks, err := assignLayers(boxes, nets)
	if err != nil {
		return nil, err
	}
	layout, err := cellsOf(boxes, nets, ranks)
	if err != nil {
		return nil, err
	}
	layout.order()
	layout.assignX()
	layout.straightenLines()
	return layout.drawing(), nil
}

// cell is a box, or the crossing of a net through a layer.
type cell struct {
	box      int     // index of the box; -1 for the crossing of a net
	layer    int     // index of the layer
	x, width float64 // center and width
	position int     // position in the layer, from left to right
	up, down []int   // the connected cells in the layers above and below
}

// layeredLayout is an unfinished drawing: cells in layers. A cell is identified by its index in cells.
type layeredLayout struct {
	boxes  []Box
	nets   []Net
	cells  []cell  // boxes first
	layers [][]int // the cells of each layer, from left to right
	trunks [][]int // for each net, the cells in which it crosses layers, from top to bottom
}

// cellsOf returns a layout of connected cells in layers. The x coordinates of cells are not set, and the order in a
// layer is arbitrary. ranks are the layers of boxes.
func cellsOf(boxes []Box, nets []Net, ranks []int) (*layeredLayout, error) {
	layout := &layeredLayout{boxes: boxes, nets: nets, cells: make([]cell, len(boxes)),
		trunks: make([][]int, len(nets))}
	if len(boxes) > MaxCells {
		return nil, ErrTooLarge
	}
	lastRank := -1
	for i, box := range boxes {
		layout.cells[i] = cell{box: i, layer: ranks[i], width: box.Width}
		lastRank = max(lastRank, ranks[i])
	}
	for i := range nets {
		if err := layout.addTrunk(i, ranks); err != nil {
			return nil, err
		}
	}
	layout.layers = make([][]int, lastRank+1)
	for i := range layout.cells {
		placed := &layout.cells[i]
		placed.position = len(layout.layers[placed.layer])
		layout.layers[placed.layer] = append(layout.layers[placed.layer], i)
	}
	return layout, nil
}

// addTrunk adds the cells in which a net crosses the layers between its boxes, and connects them to each other and to
// the boxes.
func (l *layeredLayout) addTrunk(i int, ranks []int) error {
	net := l.nets[i]
	lowest := ranks[net.From] // the layer of the lowest box
	for _, to := range net.To {
		lowest = max(lowest, ranks[to])
	}
	for layer := ranks[net.From] + 1; layer < lowest; layer++ {
		if len(l.cells) == MaxCells {
			return ErrTooLarge
		}
		l.trunks[i] = append(l.trunks[i], len(l.cells))
		l.cells = append(l.cells, cell{box: -1, layer: layer})
	}
	for k, crossing := range l.trunks[i] {
		l.connect(l.cellAfter(i, k), crossing)
	}
	for _, to := range net.To {
		l.connect(l.cellAfter(i, ranks[to]-ranks[net.From]-1), to)
	}
	return nil
}

// cellAfter returns the cell of a net that is `crossed` layers below the net's upper box: the upper box for 0,
// otherwise a crossing.
func (l *layeredLayout) cellAfter(net, crossed int) int {
	if crossed == 0 {
		return l.nets[net].From
	}
	return l.trunks[net][crossed-1]
}

// connect connects two cells of adjacent layers.
func (l *layeredLayout) connect(upper, lower int) {
	l.cells[upper].down = append(l.cells[upper].down, lower)
	l.cells[lower].up = append(l.cells[lower].up, upper)
}

// minDistance returns the minimum distance between the centers of two neighbouring cells of a layer.
func (l *layeredLayout) minDistance(a, b int) float64 {
	gap := netGap
	if l.cells[a].box >= 0 && l.cells[b].box >= 0 {
		gap = boxGap
	}
	return (l.cells[a].width+l.cells[b].width)/2 + gap
}

// roundTenth rounds a coordinate to tenths.
func roundTenth(x float64) float64 { return math.Round(x*10) / 10 }
