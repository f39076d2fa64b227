package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// around returns the part of a picture within a number of lines of the boxes that compute or hold a value. A box at the
// border of the part is connected to a box that stands for its omitted operands or readers.
func (p *picture) around(name string, hops int) (*picture, bool) {
	distance := make([]int, len(p.boxes))
	var next []int
	for i := range p.boxes {
		b := &p.boxes[i]
		if distance[i] = -1; b.name == name || slices.Contains(b.explain, name) || slices.Contains(b.values, name) {
			distance[i] = 0
			next = append(next, i)
		}
	}
	if len(next) == 0 {
		return nil, false
	}
	links := make([][]int, len(p.boxes))
	for _, n := range p.nets {
		for _, to := range n.to {
			links[n.from], links[to] = append(links[n.from], to), append(links[to], n.from)
		}
	}
	for i := 0; i < len(next); i++ {
		b := next[i]
		for _, to := range links[b] {
			if distance[to] < 0 && distance[b] < hops {
				distance[to] = distance[b] + 1
				next = append(next, to)
			}
		}
	}
	part := &picture{title: p.title, remarks: append(slices.Clone(p.remarks), fmt.Sprintf("around %s: %d of %s", name,
		len(next), format.CountIrregular(len(p.boxes), "box", "boxes"))), legend: slices.Clone(p.legend)}
	at := make([]int, len(p.boxes))
	for i := range p.boxes {
		if distance[i] >= 0 {
			at[i] = len(part.boxes)
			part.boxes = append(part.boxes, p.boxes[i])
		}
	}
	for i := range part.legend {
		part.legend[i].count = 0
	}
	part.excerpt(p, distance, at)
	return part, true
}

// excerpt adds the lines of the whole picture that begin or end at boxes within the distance.
func (p *picture) excerpt(whole *picture, distance, at []int) {
	rests := map[[2]int]int{} // by box and side: the box that stands for the omitted boxes
	rest := func(box, side int, name string) int {
		key := [2]int{box, side}
		i, is := rests[key]
		if !is {
			i = len(p.boxes)
			rests[key] = i
			p.boxes = append(p.boxes, pictureBox{kind: restBox, head: "…", layout: -1, facts: []fact{{name, ""}}})
		}
		b := &p.boxes[i]
		if b.omitted++; b.omitted > 1 {
			b.head = fmt.Sprintf("… %d %ss", b.omitted, name)
		} else {
			b.head = "… 1 " + name
		}
		b.facts[0] = fact{"omitted", b.head}
		return i
	}
	for _, n := range whole.nets {
		m := n
		m.to = nil
		omitted := 0
		for _, to := range n.to {
			switch {
			case distance[to] >= 0 && distance[n.from] >= 0:
				m.to = append(m.to, at[to])
			case distance[to] >= 0:
				m.from = rest(at[to], 0, "operand")
				p.addNet(pictureNet{m.from, []int{at[to]}, n.layout, n.tip})
			case distance[n.from] >= 0:
				omitted = rest(at[n.from], 1, "reader")
			}
		}
		if m.from = at[n.from]; omitted > 0 {
			m.to = append(m.to, omitted)
		}
		if distance[n.from] >= 0 && len(m.to) > 0 {
			p.addNet(m)
		}
	}
}

func (p *picture) addNet(n pictureNet) {
	if p.nets = append(p.nets, n); n.layout >= 0 {
		p.legend[n.layout].count++
	}
}
