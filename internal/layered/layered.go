// Package layered lays directed acyclic graphs out in layers, from top to bottom, by Sugiyama's method: boxes get
// layers, each layer an order with few crossings, each box a place above and below what it is joined with. The same
// graph always gives the same drawing.
package layered

import (
	"errors"
	"fmt"
	"math"
)

// Box is the size of what is drawn at one place.
type Box struct{ Width, Height float64 }

// Net joins a box with those that are to lie below it, by number. It is drawn as one trunk that branches.
type Net struct {
	From int
	To   []int
}

// Point is a place in a drawing: X to the right, Y downwards.
type Point struct{ X, Y float64 }

// Segment is a piece of a net: from one place to another one below it. Straight ones are vertical; others leave and
// arrive vertically, and lie between two layers.
type Segment struct{ From, To Point }

// Drawing is where everything lies.
type Drawing struct {
	Width, Height float64
	Corners       []Point     // the upper left corner of each box
	Nets          [][]Segment // the pieces of each net, from its box on
}

// Distances between what is drawn, in the units of boxes.
const (
	margin   = 20.0 // around the drawing
	apart    = 24.0 // between boxes of a layer
	lane     = 12.0 // between nets that pass a layer, and between them and boxes
	leastGap = 34.0 // between layers
	mostGap  = 110.0
	slope    = 0.09 // of the widest step between two layers, by which their gap grows
)

// MaxCells bounds the boxes of a drawing and the places where nets pass layers.
const MaxCells = 1 << 18

// ErrTooLarge says that a graph needs more than MaxCells places.
var ErrTooLarge = errors.New("too large to be drawn in layers")

// Lay lays boxes and nets out. The error is that a net is of no box, that the nets have a cycle, or [ErrTooLarge]. A
// net may reach a box more than once, and is drawn to it once for each time.
func Lay(boxes []Box, nets []Net) (*Drawing, error) {
	for i, n := range nets {
		for _, b := range append([]int{n.From}, n.To...) {
			if b < 0 || b >= len(boxes) {
				return nil, fmt.Errorf("layered: net %d joins box %d of %d", i, b, len(boxes))
			}
		}
	}
	ranks, err := ranked(len(boxes), nets)
	if err != nil {
		return nil, err
	}
	l, err := cellsOf(boxes, nets, ranks)
	if err != nil {
		return nil, err
	}
	l.order()
	l.place()
	l.straighten()
	return l.drawn(), nil
}

// cell is a box, or the place where a net passes a layer.
type cell struct {
	box      int // -1 for a net that passes
	layer    int
	x, width float64 // of its middle
	at       int     // its place in the layer
	up, down []int   // the cells that it is joined with in the layers above and below
}

// laying is a drawing that is made: cells in layers.
type laying struct {
	boxes  []Box
	nets   []Net
	cells  []cell  // the boxes first
	layers [][]int // cells from left to right
	trunks [][]int // of each net the cells where it passes layers, from top to bottom
}

// cellsOf makes the cells and joins them.
func cellsOf(boxes []Box, nets []Net, ranks []int) (*laying, error) {
	l := &laying{boxes: boxes, nets: nets, cells: make([]cell, len(boxes)), trunks: make([][]int, len(nets))}
	if len(boxes) > MaxCells {
		return nil, ErrTooLarge
	}
	most := -1
	for i, b := range boxes {
		l.cells[i] = cell{box: i, layer: ranks[i], width: b.Width}
		most = max(most, ranks[i])
	}
	for i, n := range nets {
		last := ranks[n.From]
		for _, to := range n.To {
			last = max(last, ranks[to])
		}
		for layer := ranks[n.From] + 1; layer < last; layer++ {
			if len(l.cells) == MaxCells {
				return nil, ErrTooLarge
			}
			l.trunks[i] = append(l.trunks[i], len(l.cells))
			l.cells = append(l.cells, cell{box: -1, layer: layer})
		}
		for k, c := range l.trunks[i] {
			l.join(l.above(i, k), c)
		}
		for _, to := range n.To {
			l.join(l.above(i, ranks[to]-ranks[n.From]-1), to)
		}
	}
	l.layers = make([][]int, most+1)
	for i := range l.cells {
		c := &l.cells[i]
		c.at = len(l.layers[c.layer])
		l.layers[c.layer] = append(l.layers[c.layer], i)
	}
	return l, nil
}

// above is the cell from which a net comes to its k-th layer below its box.
func (l *laying) above(net, k int) int {
	if k == 0 {
		return l.nets[net].From
	}
	return l.trunks[net][k-1]
}

func (l *laying) join(a, b int) {
	l.cells[a].down = append(l.cells[a].down, b)
	l.cells[b].up = append(l.cells[b].up, a)
}

// between is how far apart the middles of two neighbours must be.
func (l *laying) between(a, b int) float64 {
	gap := lane
	if l.cells[a].box >= 0 && l.cells[b].box >= 0 {
		gap = apart
	}
	return (l.cells[a].width+l.cells[b].width)/2 + gap
}

// rounded is a coordinate to tenths: no reader sees more.
func rounded(x float64) float64 { return math.Round(x*10) / 10 }
