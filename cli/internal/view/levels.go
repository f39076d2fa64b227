package view

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
)

// level is the drawing of one group: the positions of its items and the lines between the items. An item of a group is
// a box of the picture, or again a group. A group is open or folded (drawn as one box). y increases from operands to
// results. For a horizontal picture, x and y are exchanged when the level is drawn.
//
// A value leads from the box that computes it (from) to the boxes that read it (to). On a level it is drawn as a line
// between the items that contain these boxes. Each open group inside a level has a level of its own, drawn in a frame.
// A line that enters or leaves the group ends at the frame, and continues inside it at a port:
//
//	      item 0
//	        |            line 0 of the outer level
//	+-------o-------+    port {line: 0}
//	|       |       |    line 0 of the inner level
//	|     item 0    |
//	|       |       |    line 1 of the inner level
//	+-------o-------+    port {line: 1, out: true}
//	        |            line 1 of the outer level
//	      item 2
type level struct {
	*graphdraw.Drawing
	sizes []graphdraw.Box // sizes of the items, then of the ports
	lines []line
	ports []port
}

// line connects items and ports of a group. Item i has index i; port k has index len(items)+k.
type line struct {
	values []int // indices of picture.values
	from   int   // index of an item or port
	to     []int // indices of items and ports
	layout int   // an index of the legend; -1 for none or several
}

// port is a point on the frame of a group. A line outside the group continues at the port inside the group.
type port struct {
	line int  // index of the line outside, in level.lines of the enclosing group
	out  bool // whether the line leaves the group
}

// Sizes in the frame of an open group, in pixels.
const (
	frameHead = 26.0 // height of the label of the group
	portWidth = 12.0 // space that a port takes on the edge of the frame
	labelPad  = 60.0 // least width of the frame in addition to the text of its label
)

// scene is a picture with a tree of groups, and the positions of the boxes in each group.
type scene struct {
	*picture
	root       *item
	horizontal bool
	drawsAll   bool              // whether all groups have a drawing, not only the open groups
	levels     map[*item]*level  // the drawing of each group
	texts      map[*item]*svgBox // the text of each item
}

// newScene computes the drawings of the open groups of a picture, or of all its groups if drawsAll is true.
func (p *picture) newScene(root *item, horizontal, drawsAll bool) (*scene, error) {
	s := &scene{picture: p, root: root, horizontal: horizontal, drawsAll: drawsAll, levels: map[*item]*level{},
		texts: map[*item]*svgBox{}}
	values := make([]int, len(p.values))
	for i := range values {
		values[i] = i
	}
	_, err := s.drawLevel(root, "", values, nil) // the root has no scope, and no lines outside
	return s, err
}

// drawLevel computes the drawing of a group, and of the groups in it. scope is the common beginning of names around the
// group, such as layer1/conv. values are the indices (in picture.values) of the values that the boxes of the group
// compute or read. outerLine maps a value that enters or leaves the group to its line outside the group.
func (s *scene) drawLevel(group *item, scope string, values []int, outerLine map[int]int) (*level, error) {
	drawn := &level{}
	if group.scope != "" {
		scope = group.scope
	}
	innerValues, lineOf := s.connect(group, drawn, values, outerLine)

	// The sizes of the items. The size of an open group follows from its own drawing.
	names := s.names(group, scope)
	for i, child := range group.items {
		text := s.itemBox(child, names[i])
		s.texts[child] = text
		size := text.size
		isDrawnGroup := child.box < 0 && (s.drawsAll || child.isOpen)
		if isDrawnGroup {
			inner, err := s.drawLevel(child, scope, innerValues[i], lineOf)
			if err != nil {
				return nil, err
			}
			if child.isOpen {
				size = s.frame(inner, text)
			}
		}
		drawn.sizes = append(drawn.sizes, s.orientBox(size))
	}
	// A value enters through a port above all items, and leaves through a port below all items.
	for _, p := range drawn.ports {
		box := graphdraw.Box{Width: portWidth, Side: graphdraw.First}
		if p.out {
			box.Side = graphdraw.Last
		}
		drawn.sizes = append(drawn.sizes, box)
	}

	nets := make([]graphdraw.Net, len(drawn.lines))
	for i, link := range drawn.lines {
		nets[i] = graphdraw.Net{From: link.from, To: link.to}
	}
	var err error
	drawn.Drawing, err = graphdraw.Draw(drawn.sizes, nets)
	s.levels[group] = drawn
	return drawn, err
}

// connect adds the lines and ports of a group to its level, drawn. Values between the same items share a line, unless
// all these items are boxes. innerValues has, for each item that is a group, the values that its boxes compute or read.
// lineOf maps a value to the index of its line in drawn.lines. The other parameters have the same meaning as in
// drawLevel.
func (s *scene) connect(group *item, drawn *level, values []int,
	outerLine map[int]int) (innerValues [][]int, lineOf map[int]int) {
	innerValues, lineOf = make([][]int, len(group.items)), map[int]int{}
	itemOf := s.itemOfBox(group) // for each box in the group, the index of its item
	lineByEnds, portIndices := map[string]int{}, map[port]int{}
	portIndex := func(wanted port) int { // the index of the port as an end of lines; adds the port if necessary
		if _, exists := portIndices[wanted]; !exists {
			portIndices[wanted] = len(group.items) + len(drawn.ports)
			drawn.ports = append(drawn.ports, wanted)
		}
		return portIndices[wanted]
	}
	for _, valueIndex := range values {
		value := &s.values[valueIndex]
		readers, isReadOutside := readingItems(value, itemOf)
		from, isComputedInside := itemOf[value.from]
		if !isComputedInside { // the value enters the group at a port
			from = portIndex(port{line: outerLine[valueIndex]})
		}
		for i, child := range group.items {
			if child.box < 0 && (i == from || slices.Contains(readers, i)) {
				innerValues[i] = append(innerValues[i], valueIndex)
			}
		}
		// If boxes of one item compute and read the value, the line between them is on the level of that item.
		to := slices.DeleteFunc(readers, func(i int) bool { return i == from })
		if isComputedInside && isReadOutside { // the value leaves the group at a port
			to = append(to, portIndex(port{line: outerLine[valueIndex], out: true}))
		}
		if len(to) > 0 {
			lineOf[valueIndex] = drawn.addLine(group, lineByEnds,
				line{values: []int{valueIndex}, from: from, to: to, layout: value.layout})
		}
	}
	return innerValues, lineOf
}

// itemOfBox maps each box of a group to the index of the item that contains the box.
func (s *scene) itemOfBox(group *item) map[int]int {
	itemIndex := map[int]int{}
	for i, child := range group.items {
		child.eachBox(func(b int) { itemIndex[b] = i })
	}
	return itemIndex
}

// eachBox calls visit with the index of each box of an item.
func (it *item) eachBox(visit func(b int)) {
	if it.box >= 0 {
		visit(it.box)
	}
	for _, child := range it.items {
		child.eachBox(visit)
	}
}

// readingItems returns the items whose boxes read a value, each once, and whether boxes outside these items read it.
// itemOf maps boxes to items.
func readingItems(value *pictureValue, itemOf map[int]int) (readers []int, isReadOutside bool) {
	for _, b := range value.to {
		index, inside := itemOf[b]
		switch {
		case !inside:
			isReadOutside = true
		case !slices.Contains(readers, index):
			readers = append(readers, index)
		}
	}
	return readers, isReadOutside
}

// addLine adds a line to the level of a group, and returns its index. If one of the ends is a group or a port, and a
// line with the same ends exists, the values are added to that line instead. lineByEnds maps the ends of lines to their
// indices.
func (l *level) addLine(group *item, lineByEnds map[string]int, added line) int {
	ends := append([]int{added.from}, added.to...)
	isGroupOrPort := func(i int) bool { return i >= len(group.items) || group.items[i].box < 0 }
	key := fmt.Sprint(ends)
	index, exists := lineByEnds[key]
	if !exists || !slices.ContainsFunc(ends, isGroupOrPort) {
		index = len(l.lines)
		lineByEnds[key] = index
		l.lines = append(l.lines, added)
		return index
	}
	existing := &l.lines[index]
	existing.values = append(existing.values, added.values...)
	if existing.layout != added.layout {
		existing.layout = -1 // values of several layouts
	}
	return index
}

// orientBox swaps width and height if the picture is horizontal.
func (s *scene) orientBox(b graphdraw.Box) graphdraw.Box {
	if s.horizontal {
		b.Width, b.Height = b.Height, b.Width
	}
	return b
}

// frame returns the size of the frame of an open group.
func (s *scene) frame(l *level, label *svgBox) graphdraw.Box {
	size := s.orientBox(graphdraw.Box{Width: l.Width, Height: l.Height})
	return graphdraw.Box{Width: max(size.Width, label.labelWidth()), Height: size.Height + frameHead}
}

// labelWidth returns the least width of the frame of an open group.
func (b *svgBox) labelWidth() float64 { return headWidth*float64(term.Width(b.frameLabel)) + labelPad }
