package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/graphdraw"
	"github.com/graphrun/graphrun/internal/sorted"
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
)

// scene is a picture with a tree of groups, and the positions of the boxes in each group.
type scene struct {
	*picture
	root       *item
	horizontal bool
	levels     map[*item]*level  // the drawing of each group
	texts      map[*item]*svgBox // the text of each item
}

// newScene computes the drawings of the open groups of a picture, or of all its groups if drawsAll is true.
func (p *picture) newScene(root *item, horizontal, drawsAll bool) (*scene, error) {
	s := &scene{picture: p, root: root, horizontal: horizontal, levels: map[*item]*level{}, texts: map[*item]*svgBox{}}
	values := make([]int, len(p.values))
	for i := range values {
		values[i] = i
	}
	_, err := s.drawLevel(root, "", values, nil, drawsAll)
	return s, err
}

// drawLevel computes the drawing of a group, and of the groups in it. scope is the common beginning of names around the
// group, such as layer1/conv. values are the indices (in picture.values) of the values that the boxes of the group
// compute or read. outerLine maps a value that enters or leaves the group to its line outside the group. The parameter
// drawsAll has the same meaning as in newScene.
func (s *scene) drawLevel(group *item, scope string, values []int, outerLine map[int]int,
	drawsAll bool) (*level, error) {
	drawn := &level{}
	if group.scope != "" {
		scope = group.scope
	}
	innerValues, lineOf := s.connect(group, drawn, values, outerLine)
	names := s.names(group, scope)
	for i, child := range group.items {
		text := s.itemBox(child, names[i])
		s.texts[child] = text
		size := text.size
		isDrawnGroup := child.box < 0 && (drawsAll || child.isOpen)
		if isDrawnGroup {
			inner, err := s.drawLevel(child, scope, innerValues[i], lineOf, drawsAll)
			if err != nil {
				return nil, err
			}
			if child.isOpen {
				size = s.frame(inner, text)
			}
		}
		drawn.sizes = append(drawn.sizes, s.orientBox(size))
	}
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
func (s *scene) connect(it *item, drawn *level, values []int,
	outerLine map[int]int) (innerValues [][]int, lineOf map[int]int) {
	innerValues, lineOf = make([][]int, len(it.items)), map[int]int{}
	itemOf := s.itemOfBox(it) // for each box in the group, the index of its item
	lineByEnds, portIndices := map[string]int{}, map[port]int{}
	portIndex := func(wanted port) int { // the index of the port as an end of lines; adds the port if necessary
		if _, exists := portIndices[wanted]; !exists {
			portIndices[wanted] = len(it.items) + len(drawn.ports)
			drawn.ports = append(drawn.ports, wanted)
		}
		return portIndices[wanted]
	}
	for _, valueIndex := range values {
		value := &s.values[valueIndex]
		readers, isReadOutside := readingItems(value, itemOf)
		producer, isComputedInside := itemOf[value.from]
		if !isComputedInside {
			producer = -1
		}
		for i := range it.items {
			isGroup := it.items[i].box < 0
			if isGroup && (i == producer || slices.Contains(readers, i)) {
				innerValues[i] = append(innerValues[i], valueIndex)
			}
		}
		// If boxes of one item compute and read the value, the line between them is on the level of that item.
		readers = slices.DeleteFunc(readers, func(i int) bool { return i == producer })
		added := line{values: []int{valueIndex}, from: producer, to: readers, layout: value.layout}
		switch {
		case !isComputedInside: // the value enters the group at a port
			added.from = portIndex(port{line: outerLine[valueIndex]})
		case isReadOutside: // the value also leaves the group, at a port
			added.to = append(added.to, portIndex(port{line: outerLine[valueIndex], out: true}))
		}
		if len(added.to) > 0 {
			lineOf[valueIndex] = s.addLine(it, drawn, lineByEnds, added)
		}
	}
	return innerValues, lineOf
}

// itemOfBox maps each box of a group to the index of the item that contains the box.
func (s *scene) itemOfBox(it *item) map[int]int {
	itemIndex := map[int]int{}
	var add func(it *item, i int)
	add = func(it *item, i int) {
		if it.box >= 0 {
			itemIndex[it.box] = i
		}
		for _, child := range it.items {
			add(child, i)
		}
	}
	for i, child := range it.items {
		add(child, i)
	}
	return itemIndex
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

// addLine adds a line to a level, and returns its index. If one of the ends is a group or a port, and a line with the
// same ends exists, the values are added to that line instead. lineByEnds maps the ends of lines to their indices.
func (s *scene) addLine(it *item, drawn *level, lineByEnds map[string]int, added line) int {
	ends := fmt.Sprint(added.from, added.to)
	isGroupOrPort := func(i int) bool { return i >= len(it.items) || it.items[i].box < 0 }
	joinsBoxes := !slices.ContainsFunc(append([]int{added.from}, added.to...), isGroupOrPort)
	index, exists := lineByEnds[ends]
	if !exists || joinsBoxes {
		lineByEnds[ends] = len(drawn.lines)
		drawn.lines = append(drawn.lines, added)
		return lineByEnds[ends]
	}
	existing := &drawn.lines[index]
	existing.values = append(existing.values, added.values...)
	if existing.layout != added.layout {
		existing.layout = -1 // values of several layouts
	}
	return index
}

// names returns the names of the boxes of a group, relative to the scope around them and short enough for a box.
func (s *scene) names(it *item, scope string) []string {
	list := make([]string, len(it.items))
	for i, child := range it.items {
		if child.box < 0 {
			continue
		}
		list[i] = format.Printable(s.boxes[child.box].name)
		for _, prefix := range []string{"/" + scope + "/", scope + "/", strings.ReplaceAll(scope, "/", ".") + "."} {
			if suffix, found := strings.CutPrefix(list[i], prefix); found && scope != "" && suffix != "" {
				list[i] = suffix
				break
			}
		}
	}
	return distinct(list, boxColumns) // cuts long names so that different names stay different
}

// itemBox returns the text of an item. name is the displayed name of a box, unused for a group.
func (s *scene) itemBox(it *item, name string) *svgBox {
	if it.box >= 0 {
		return newSVGBox(&s.boxes[it.box], name)
	}
	sums := s.sumBoxes(it)
	group := &pictureBox{kind: groupBox, head: it.label, layout: -1, share: sums.share}
	boxesText := format.CountIrregular(sums.boxes, "box", "boxes")
	if it.repeats > 0 {
		group.head += fmt.Sprintf(" × %d", it.repeats)
		boxesText = fmt.Sprintf("%d equal blocks, %s", it.repeats, boxesText)
	}
	group.lines = []string{boxesText, term.CutEnd(strings.Join(sums.countedOps(), ", "), boxColumns)}
	if sums.copies > 0 {
		group.lines = append(group.lines, format.CountIrregular(sums.copies, "inserted copy", "inserted copies"))
	}
	if sums.marked > 0 {
		group.marks = []string{"≠ " + format.CountIrregular(sums.marked, "box differs", "boxes differ")}
	}
	if sums.share > 0 {
		group.lines = append(group.lines, format.Percent(sums.share)+" of the cost")
	}
	if sums.measured > 0 {
		group.lines = append(group.lines, "measured "+measuredText(sums.measured, sums.predicted))
	}
	box := newSVGBox(group, "")
	box.frameLabel = format.Printable(group.head)
	return box
}

// groupSums has sums over the boxes of a group.
type groupSums struct {
	boxes, copies       int            // numbers of boxes and of inserted copies
	marked              int            // number of boxes that differ from the other plan
	opNames             []string       // in the order of first use
	opCounts            map[string]int // the number of boxes of each op
	share               float64        // of the cost
	measured, predicted float64        // the times of the boxes with a measured time, in nanoseconds
}

// sumBoxes returns the sums over the boxes of a group.
func (s *scene) sumBoxes(it *item) *groupSums {
	sums := &groupSums{opCounts: map[string]int{}}
	s.eachBox(it, func(box *pictureBox) {
		sums.boxes++
		sums.share += box.share
		if box.measured > 0 {
			sums.measured += box.measured
			sums.predicted += box.predicted
		}
		if box.kind == copyBox {
			sums.copies++
		}
		if len(box.marks) > 0 {
			sums.marked++
		}
		if sums.opCounts[box.head]++; sums.opCounts[box.head] == 1 {
			sums.opNames = append(sums.opNames, box.head)
		}
	})
	return sums
}

// eachBox calls visit with each box of an item.
func (s *scene) eachBox(it *item, visit func(*pictureBox)) {
	if it.box >= 0 {
		visit(&s.boxes[it.box])
	}
	for _, child := range it.items {
		s.eachBox(child, visit)
	}
}

// countedOps lists the ops with their numbers, such as "conv2d ×3", the most frequent op first.
func (sums *groupSums) countedOps() []string {
	list := slices.Clone(sums.opNames)
	sorted.Func(list, func(a, b string) int { return sums.opCounts[b] - sums.opCounts[a] })
	for i, op := range list {
		if count := sums.opCounts[op]; count > 1 {
			list[i] = fmt.Sprintf("%s ×%d", op, count)
		}
	}
	return list
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
func (b *svgBox) labelWidth() float64 { return headWidth*float64(term.Width(b.frameLabel)) + 60 }
