package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// around returns an excerpt of a picture. It has the boxes that compute a value, and all boxes at a distance of at most
// `hops` lines from them. A box at the border of the excerpt is connected to an omittedBox, which stands for omitted
// operands or readers. around returns false if no box computes the value.
func (p *picture) around(name string, hops int) (*picture, bool) {
	distance := make([]int, len(p.boxes))
	var queue []int
	for i := range p.boxes {
		box := &p.boxes[i]
		distance[i] = -1 // not reached
		if box.name == name || slices.Contains(box.sourceNames, name) || slices.Contains(box.values, name) {
			distance[i] = 0
			queue = append(queue, i)
		}
	}
	if len(queue) == 0 {
		return nil, false
	}
	neighbours := make([][]int, len(p.boxes))
	for _, value := range p.values {
		for _, to := range value.to {
			neighbours[value.from] = append(neighbours[value.from], to)
			neighbours[to] = append(neighbours[to], value.from)
		}
	}
	for i := 0; i < len(queue); i++ { // breadth-first; the loop appends to queue
		box := queue[i]
		for _, to := range neighbours[box] {
			if distance[to] < 0 && distance[box] < hops {
				distance[to] = distance[box] + 1
				queue = append(queue, to)
			}
		}
	}
	excerpt := &picture{title: p.title, remarks: append(slices.Clone(p.remarks), fmt.Sprintf("around %s: %d of %s", name,
		len(queue), format.CountIrregular(len(p.boxes), "box", "boxes"))), legend: slices.Clone(p.legend)}
	excerptIndex := make([]int, len(p.boxes))
	for i := range p.boxes {
		if distance[i] >= 0 {
			excerptIndex[i] = len(excerpt.boxes)
			excerpt.boxes = append(excerpt.boxes, p.boxes[i])
		}
	}
	for i := range excerpt.legend {
		excerpt.legend[i].count = 0
	}
	excerpt.addExcerptLines(p, distance, excerptIndex)
	return excerpt, true
}

// valueNames yields the names that [picture.around] finds.
func (p *picture) valueNames(yield func(string) bool) {
	for i := range p.boxes {
		box := &p.boxes[i]
		for _, names := range [][]string{{box.name}, box.sourceNames, box.values} {
			for _, name := range names {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// addExcerptLines adds lines to the excerpt p: the lines of the whole picture that begin or end at a box of p. distance
// has, for each box of whole, the number of lines between the box and the value; -1 for a box outside p. excerptIndex
// has the index of each box in p.
func (p *picture) addExcerptLines(whole *picture, distance, excerptIndex []int) {
	type omittedSide struct { // the omitted operands, or the omitted readers, of a box
		box  int
		name string // operand or reader
	}
	omittedBoxes := map[omittedSide]int{} // the boxes that stand for omitted boxes
	omittedBoxOf := func(box int, name string) int {
		key := omittedSide{box, name}
		i, exists := omittedBoxes[key]
		if !exists {
			i = len(p.boxes)
			omittedBoxes[key] = i
			p.boxes = append(p.boxes, pictureBox{kind: omittedBox, head: "…", layout: -1, details: []detail{{name, ""}}})
		}
		b := &p.boxes[i]
		if b.omitted++; b.omitted > 1 {
			b.head = fmt.Sprintf("… %d %ss", b.omitted, name)
		} else {
			b.head = "… 1 " + name
		}
		b.details[0] = detail{"omitted", b.head}
		return i
	}
	for _, value := range whole.values {
		excerptValue := value
		excerptValue.to = nil
		omittedReaders := 0 // the box of the omitted readers; 0 means none, since boxes of the excerpt come first
		for _, to := range value.to {
			switch {
			case distance[to] >= 0 && distance[value.from] >= 0:
				excerptValue.to = append(excerptValue.to, excerptIndex[to])
			case distance[to] >= 0:
				p.addValue(pictureValue{from: omittedBoxOf(excerptIndex[to], "operand"), to: []int{excerptIndex[to]},
					layout: value.layout, tip: value.tip})
			case distance[value.from] >= 0:
				omittedReaders = omittedBoxOf(excerptIndex[value.from], "reader")
			}
		}
		if excerptValue.from = excerptIndex[value.from]; omittedReaders > 0 {
			excerptValue.to = append(excerptValue.to, omittedReaders)
		}
		if distance[value.from] >= 0 && len(excerptValue.to) > 0 {
			p.addValue(excerptValue)
		}
	}
}

// addValue adds a value, and counts it in the legend.
func (p *picture) addValue(value pictureValue) {
	if p.values = append(p.values, value); value.layout >= 0 {
		p.legend[value.layout].count++
	}
}
