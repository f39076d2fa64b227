package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/sorted"
)

// This file writes the text of the items of a group. An item is a box of the picture, or again a group. The text of a
// group describes all boxes in it.

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
	share               float64        // share of the total cost
	measured, predicted float64        // the times of the boxes with a measured time, in nanoseconds
}

// sumBoxes returns the sums over the boxes of a group.
func (s *scene) sumBoxes(it *item) *groupSums {
	sums := &groupSums{opCounts: map[string]int{}}
	it.eachBox(func(b int) {
		box := &s.boxes[b]
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
