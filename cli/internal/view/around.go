package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// around returns an excerpt of a picture. It has the boxes that compute a value, and all boxes at a distance of at most
// `hops` lines from them. A value {from, to} has a line from the box that computes it to each box that reads it. A box
// at the border of the excerpt is connected to an omittedBox, which stands for omitted operands or readers. For
// example, this is the excerpt around b with one hop, of a picture that also has a reader of c and two operands of a:
//
//	… 2 operands -> a -> b -> c -> … 1 reader
//
// around returns false if no box computes the value.
func (p *picture) around(name string, hops int) (excerpt *picture, found bool) {
	distance, reached := p.distances(name, hops)
	if reached == 0 {
		return nil, false
	}
	excerpt = &picture{title: p.title, remarks: append(slices.Clone(p.remarks), fmt.Sprintf("around %s: %d of %s", name,
		reached, format.CountIrregular(len(p.boxes), "box", "boxes"))), legend: slices.Clone(p.legend)}
	excerptIndex := make([]int, len(p.boxes))
	for i := range p.boxes {
		if distance[i] >= 0 {
			excerptIndex[i] = len(excerpt.boxes)
			excerpt.boxes = append(excerpt.boxes, p.boxes[i])
		}
	}
	for i := range excerpt.legend {
		excerpt.legend[i].count = 0 // addExcerptLines counts the values of each layout in the excerpt
	}
	excerpt.addExcerptLines(p, distance, excerptIndex)
	return excerpt, true
}

// distances returns, for each box, the number of lines between the box and the boxes that compute a value; -1 if it is
// greater than hops. reached is the number of boxes with a distance.
func (p *picture) distances(name string, hops int) (distance []int, reached int) {
	distance = make([]int, len(p.boxes))
	var queue []int
	for i := range p.boxes {
		box := &p.boxes[i]
		distance[i] = -1
		// The name belongs to the box, to a node or input in the graph as written, or to a result of the box.
		if box.name == name || slices.Contains(box.sourceNames, name) || slices.Contains(box.values, name) {
			distance[i] = 0
			queue = append(queue, i)
		}
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
	return distance, len(queue)
}

// addExcerptLines adds lines to the excerpt p: the lines of the whole picture that begin or end at a box of p. distance
// has, for each box of whole, the number of lines between the box and the value; -1 for a box outside p. excerptIndex
// has the index of each box in p.
func (p *picture) addExcerptLines(whole *picture, distance, excerptIndex []int) {
	omittedBoxes := map[omittedNeighbours]int{}
	for _, value := range whole.values {
		hasFrom := distance[value.from] >= 0 // whether the excerpt has the box that computes the value
		excerptValue := value
		excerptValue.to = nil
		omittedReaders := 0 // the box of the omitted readers; 0 means none, since boxes of the excerpt come first
		for _, to := range value.to {
			switch hasReader := distance[to] >= 0; {
			case hasReader && hasFrom:
				excerptValue.to = append(excerptValue.to, excerptIndex[to])
			case hasReader: // the box that computes the value is omitted
				omittedOperands := p.countOmitted(omittedBoxes, omittedNeighbours{excerptIndex[to], "operand"})
				p.addValue(pictureValue{from: omittedOperands, to: []int{excerptIndex[to]}, layout: value.layout,
					tip: value.tip})
			case hasFrom: // the reader is omitted
				omittedReaders = p.countOmitted(omittedBoxes, omittedNeighbours{excerptIndex[value.from], "reader"})
			default: // the line is outside the excerpt
			}
		}
		if omittedReaders > 0 {
			excerptValue.to = append(excerptValue.to, omittedReaders)
		}
		if hasFrom && len(excerptValue.to) > 0 {
			excerptValue.from = excerptIndex[value.from]
			p.addValue(excerptValue)
		}
	}
}

// omittedNeighbours are the omitted operands, or the omitted readers, of a box of an excerpt.
type omittedNeighbours struct {
	box  int
	role string // operand or reader
}

// countOmitted counts one more omitted box among the given neighbours. It returns the index of the omittedBox that
// stands for these neighbours, and adds the omittedBox if necessary. omittedBoxes has the indices of these boxes.
func (p *picture) countOmitted(omittedBoxes map[omittedNeighbours]int, counted omittedNeighbours) int {
	i, exists := omittedBoxes[counted]
	if !exists {
		i = len(p.boxes)
		omittedBoxes[counted] = i
		p.boxes = append(p.boxes, pictureBox{kind: omittedBox, layout: -1, details: make([]detail, 1)})
	}
	b := &p.boxes[i]
	b.omitted++
	b.head = "… " + format.Count(b.omitted, counted.role)
	b.details[0] = detail{"omitted", b.head}
	return i
}

// addValue adds a value, and counts it in the legend.
func (p *picture) addValue(value pictureValue) {
	p.values = append(p.values, value)
	if value.layout >= 0 {
		p.legend[value.layout].count++
	}
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
