package layered

import (
	"cmp"
	"math"
	"slices"
)

// routes is where nets leave boxes and arrive at them, from left to right.
type routes struct {
	*laying
	top, bottom []float64   // of layers
	leaves      []float64   // of each net
	arrives     [][]float64 // of each net, by place in To
}

// end is where a piece of a net is fastened to a box: x is where the other end is.
type end struct {
	x    float64
	at   *float64
	rank int
}

// routes fastens nets to boxes side by side, in the order of where they go.
func (l *laying) routes() *routes {
	r := &routes{laying: l, top: make([]float64, len(l.layers)), bottom: make([]float64, len(l.layers)),
		leaves: make([]float64, len(l.nets)), arrives: make([][]float64, len(l.nets))}
	below, above := make([][]end, len(l.boxes)), make([][]end, len(l.boxes))
	for i, n := range l.nets {
		r.arrives[i] = make([]float64, len(n.To))
		sum, count := 0.0, 0
		for k, to := range n.To {
			from := l.above(i, l.cells[to].layer-l.cells[n.From].layer-1)
			above[to] = append(above[to], end{l.cells[from].x, &r.arrives[i][k], len(above[to])})
			if from == n.From {
				sum, count = sum+l.cells[to].x, count+1
			}
		}
		if len(l.trunks[i]) > 0 {
			sum, count = sum+l.cells[l.trunks[i][0]].x, count+1
		}
		if count > 0 {
			below[n.From] = append(below[n.From], end{sum / float64(count), &r.leaves[i], i})
		}
	}
	for b := range l.boxes {
		l.fasten(b, above[b])
		l.fasten(b, below[b])
	}
	return r
}

// fasten spreads ends over a side of a box.
func (l *laying) fasten(b int, ends []end) {
	slices.SortFunc(ends, func(a, b end) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.rank, b.rank)) })
	step := min(18, l.boxes[b].Width/float64(len(ends)+1))
	for i, e := range ends {
		*e.at = rounded(l.cells[b].x + (float64(i)-float64(len(ends)-1)/2)*step)
	}
}

// gap is the distance below a layer: wider where pieces go far to the side.
func (r *routes) gap(layer int) float64 {
	far := 0.0
	for _, a := range r.layers[layer] {
		for _, b := range r.cells[a].down {
			far = max(far, math.Abs(r.cells[a].x-r.cells[b].x))
		}
	}
	return min(mostGap, leastGap+slope*far)
}

// segments lists the pieces of all nets.
func (r *routes) segments(d *Drawing) [][]Segment {
	list := make([][]Segment, len(r.nets))
	for i, n := range r.nets {
		var s []Segment
		straight := func(x, from, to float64) {
			if from = rounded(from); from < rounded(to) {
				s = append(s, Segment{Point{x, from}, Point{x, rounded(to)}})
			}
		}
		across := func(layer int, from, to float64) {
			s = append(s, Segment{Point{from, rounded(r.bottom[layer])}, Point{to, rounded(r.top[layer+1])}})
		}
		first := r.cells[n.From].layer
		if len(n.To) > 0 {
			straight(r.leaves[i], d.Corners[n.From].Y+r.boxes[n.From].Height, r.bottom[first])
		}
		x := func(k int) float64 { // where the net comes from to its k-th layer
			if k == 0 {
				return r.leaves[i]
			}
			return r.cells[r.trunks[i][k-1]].x
		}
		for k, c := range r.trunks[i] {
			across(first+k, x(k), r.cells[c].x)
			straight(r.cells[c].x, r.top[first+k+1], r.bottom[first+k+1])
		}
		for k, to := range n.To {
			layer := r.cells[to].layer
			across(layer-1, x(layer-1-first), r.arrives[i][k])
			straight(r.arrives[i][k], r.top[layer], d.Corners[to].Y)
		}
		list[i] = s
	}
	return list
}
