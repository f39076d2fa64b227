package graphdraw

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// someGraph draws random boxes and nets without cycles. The order of the boxes is random, too.
func someGraph(t *rapid.T) ([]Box, []Net) {
	n := rapid.IntRange(0, 25).Draw(t, "boxes")
	boxes := make([]Box, n)
	names := make([]int, n)
	for i := range boxes {
		boxes[i] = Box{Width: float64(rapid.IntRange(10, 300).Draw(t, "width")),
			Height: float64(rapid.IntRange(10, 90).Draw(t, "height"))}
		names[i] = i
	}
	names = rapid.Permutation(names).Draw(t, "names")
	var nets []Net
	for from := range n - 1 {
		for range rapid.IntRange(0, 2).Draw(t, "nets") {
			to := rapid.SliceOfN(rapid.IntRange(from+1, n-1), 0, 4).Draw(t, "to")
			net := Net{From: names[from]}
			for _, x := range to {
				net.To = append(net.To, names[x])
			}
			nets = append(nets, net)
		}
	}
	enters, leaves := make([]bool, n), make([]bool, n)
	for _, net := range nets {
		leaves[net.From] = leaves[net.From] || len(net.To) > 0
		for _, to := range net.To {
			enters[to] = true
		}
	}
	for i := range boxes {
		switch side := rapid.SampledFrom([]Side{Free, Free, First, Last}).Draw(t, "side"); {
		case side == First && !enters[i], side == Last && !leaves[i]:
			boxes[i].Side = side
		}
	}
	return boxes, nets
}

func within(p Point, b Box, at Point) bool {
	const slack = 0.2 // coordinates are rounded
	return p.X > at.X+slack && p.X < at.X+b.Width-slack && p.Y > at.Y+slack && p.Y < at.Y+b.Height-slack
}

// places returns points on the curve of a segment.
func (s Segment) places() []Point {
	list := []Point{}
	for i := range 21 {
		u := float64(i) / 20
		x := s.From.X + (s.To.X-s.From.X)*u*u*(3-2*u)
		half := (s.To.Y - s.From.Y) / 2
		y := s.From.Y + 3*u*(1-u)*(1-u)*half + 3*u*u*(1-u)*half + u*u*u*2*half
		list = append(list, Point{x, y})
	}
	return list
}

func TestDrawings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boxes, nets := someGraph(t)
		d, err := Draw(boxes, nets)
		require.NoError(t, err)
		require.Len(t, d.Corners, len(boxes))
		require.Len(t, d.Nets, len(nets))
		for i, at := range d.Corners {
			b := boxes[i]
			if at.X < 0 || at.Y < 0 || at.X+b.Width > d.Width || at.Y+b.Height > d.Height {
				t.Fatalf("box %d at %v is beyond the drawing, %v by %v", i, at, d.Width, d.Height)
			}
			for k, other := range d.Corners[:i] {
				if at.X < other.X+boxes[k].Width && other.X < at.X+b.Width && at.Y < other.Y+boxes[k].Height &&
					other.Y < at.Y+b.Height {
					t.Fatalf("boxes %d and %d lie on each other", k, i)
				}
			}
		}
		for i, net := range nets {
			checkNet(t, d, boxes, net, d.Nets[i])
		}
		checkLayers(t, d, boxes)
		again, err := Draw(boxes, nets)
		require.NoError(t, err)
		assert.Equal(t, d, again)
	})
}

// checkLayers checks that boxes are in the bands of their layers. Boxes with Side First must be above all others, and
// those with Last below.
func checkLayers(t *rapid.T, d *Drawing, boxes []Box) {
	for i, b := range boxes {
		band := d.Layers[d.Ranks[i]]
		if at := d.Corners[i]; at.Y < band.Top-0.2 || at.Y+b.Height > band.Bottom+0.2 {
			t.Fatalf("box %d at %v is outside its layer %v", i, at, band)
		}
		for k, other := range boxes {
			if b.Side == First && other.Side != First && d.Ranks[k] <= d.Ranks[i] ||
				b.Side == Last && other.Side != Last && d.Ranks[k] >= d.Ranks[i] {
				t.Fatalf("box %d, on side %d, is in layer %d, and box %d in layer %d", i, b.Side, d.Ranks[i], k, d.Ranks[k])
			}
		}
	}
}

// checkNet follows a net down from its box. It must reach all boxes of its To, and must not pass through any box.
func checkNet(t *rapid.T, d *Drawing, boxes []Box, net Net, pieces []Segment) {
	side := func(p Point, box int, y float64) bool {
		at := d.Corners[box]
		return math.Abs(p.Y-y) < 0.2 && p.X >= at.X && p.X <= at.X+boxes[box].Width
	}
	from := d.Corners[net.From]
	reached := map[Point]bool{}
	for _, s := range pieces {
		if !reached[s.From] && !side(s.From, net.From, from.Y+boxes[net.From].Height) {
			t.Fatalf("a piece begins at %v, where the net is not", s.From)
		}
		if s.To.Y <= s.From.Y {
			t.Fatalf("the piece %v does not go down", s)
		}
		reached[s.To] = true
		for _, p := range s.places() {
			for i, b := range boxes {
				if within(p, b, d.Corners[i]) {
					t.Fatalf("the piece %v goes through box %d at %v", s, i, d.Corners[i])
				}
			}
		}
	}
	for _, to := range net.To {
		arrives := false
		for p := range reached {
			arrives = arrives || side(p, to, d.Corners[to].Y)
		}
		if !arrives {
			t.Fatalf("the net does not come to box %d", to)
		}
	}
}

func TestRanks(t *testing.T) {
	// A long path starts at 0 and ends at 3. A shorter path from another input, 4, joins it there.
	nets := []Net{{0, []int{1}}, {1, []int{2}}, {2, []int{3}}, {4, []int{5}}, {5, []int{3}}}
	ranks, err := assignLayers(make([]Box, 6), nets)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2, 3, 1, 2}, ranks, "a branch lies beside what it is joined with")
	_, err = assignLayers(make([]Box, 3), []Net{{0, []int{1}}, {1, []int{2}}, {2, []int{1}}})
	assert.ErrorIs(t, err, errCycle)
}

func TestCrossings(t *testing.T) {
	// Three paths that cross in the given order, but not in the best order.
	l, err := cellsOf(make([]Box, 9), []Net{{0, []int{5}}, {1, []int{4}}, {2, []int{3}}, {3, []int{7}}, {4, []int{8}},
		{5, []int{6}}}, []int{0, 0, 0, 1, 1, 1, 2, 2, 2})
	require.NoError(t, err)
	assert.Equal(t, 3+2, l.countCrossings())
	l.order()
	assert.Zero(t, l.countCrossings())
}

func TestStraight(t *testing.T) {
	// The net from 0 to 9 passes a chain of boxes of different widths.
	boxes := []Box{{Width: 90, Height: 20}}
	nets := []Net{{0, []int{1, 9}}}
	for i := 1; i <= 9; i++ {
		boxes = append(boxes, Box{Width: float64(60 + 37*i%90), Height: 20})
		if i < 9 {
			nets = append(nets, Net{i, []int{i + 1}})
		}
	}
	d, err := Draw(boxes, nets)
	require.NoError(t, err)
	var xs []float64
	for _, s := range d.Nets[0] {
		if s.From.X == s.To.X && !slices.Contains(xs, s.From.X) {
			xs = append(xs, s.From.X)
		}
	}
	assert.LessOrEqual(t, len(xs), 3, "it goes straight past all of them: %v", d.Nets[0])
	for i := 2; i < 9; i++ {
		assert.InDelta(t, d.Corners[1].X+boxes[1].Width/2, d.Corners[i].X+boxes[i].Width/2, 0.2, "box %d", i)
	}
}

func TestRefused(t *testing.T) {
	for _, n := range []Net{{-1, nil}, {2, nil}, {0, []int{2}}, {0, []int{-1}}} {
		_, err := Draw(make([]Box, 2), []Net{n})
		assert.ErrorContains(t, err, ", but there are 2 boxes")
	}
	_, err := Draw([]Box{{}, {Side: First}}, []Net{{0, []int{1}}})
	assert.ErrorContains(t, err, "above all others")
	_, err = Draw([]Box{{Side: Last}, {}}, []Net{{0, []int{1}}})
	assert.ErrorContains(t, err, "below all others")
	_, err = Draw(make([]Box, 2), []Net{{0, []int{1}}, {1, []int{0}}})
	assert.ErrorIs(t, err, errCycle)
	_, err = Draw(make([]Box, MaxCells+1), nil)
	assert.ErrorIs(t, err, ErrTooLarge)
	// A path in which the net of each box also ends at the last box.
	const n = 1000
	var nets []Net
	for i := range n - 1 {
		nets = append(nets, Net{i, []int{i + 1, n - 1}})
	}
	_, err = Draw(make([]Box, n), nets)
	assert.ErrorIs(t, err, ErrTooLarge)
}
