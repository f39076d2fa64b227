package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/pricing"
)

// checkPair validates --strategies.
func (f *flags) checkPair(cmd *cobra.Command) error {
	if len(f.strategies) == 0 {
		return nil
	}
	if f.profile != "" {
		return exit.UsageErrorf("--profile has the times of one plan: draw one plan with --strategy instead of two with " +
			"--strategies")
	}
	if cmd.Flags().Changed("strategy") || len(f.strategies) != 2 {
		return exit.UsageErrorf("--strategies %s: the value must be two strategies A,B, and --strategy must be omitted",
			strings.Join(f.strategies, ","))
	}
	for _, s := range f.strategies {
		if err := f.ext.CheckStrategy(s); err != nil {
			return err
		}
	}
	return nil
}

// renderPair returns the content of the output file and its picture: the plans of two strategies, with marked
// differences. The picture has the boxes of both plans. The tree of groups has one group for each plan.
func (f *flags) renderPair(ctx context.Context, title string, g *graph.Graph,
	costProfile *pricing.Profile) ([]byte, *picture, error) {
	var programs [2]*graphrun.Program
	var pictures [2]*picture
	for i, name := range f.strategies {
		var err error
		if programs[i], err = f.compile(ctx, g, name, costProfile); err != nil {
			return nil, nil, err
		}
		pictures[i] = pictureOf(title, programs[i].Graph(), programs[i].Report())
	}
	difference, err := experiment.Diff(programs[0], programs[1])
	if err != nil {
		return nil, nil, err
	}
	markDifferences(pictures, difference)
	both := &picture{title: title, remarks: []string{differenceText(difference)}}
	both.addSizes(g)
	root := &item{box: -1, label: title, isOpen: true}
	for i, p := range pictures {
		shown, err := f.neighbourhood(p)
		if err != nil {
			return nil, nil, err
		}
		tree, err := f.groupTree(shown)
		if err != nil {
			return nil, nil, err
		}
		tree.label = f.strategies[i]
		both.remarks = append(both.remarks, shown.remarks...)
		both.addPicture(shown, tree, i)
		root.items = append(root.items, tree)
	}
	root.upTo = len(both.boxes)
	both.linkPeers()
	text, err := f.encode(ctx, both, root, newExplainer(g, programs[0]), newExplainer(g, programs[1]))
	return text, both, err
}

// differenceText returns a sentence that summarizes the differences.
func differenceText(difference *experiment.Difference) string {
	if difference.Same {
		return fmt.Sprintf("the plans of %s and %s are equal", difference.First.Strategy, difference.Second.Strategy)
	}
	share := ""
	if difference.First.CostNS > 0 {
		share = fmt.Sprintf(" (%+.1f%%)", 100*difference.DeltaNS/difference.First.CostNS)
	}
	return fmt.Sprintf("%s against %s: %s%s; %s, %s with another layout, %s of one plan only", difference.Second.Strategy,
		difference.First.Strategy, signedTime(difference.DeltaNS), share,
		format.CountIrregular(len(difference.Steps), "difference of steps", "differences of steps"),
		format.Count(len(difference.Values), "value"),
		format.CountIrregular(len(difference.OnlyFirst)+len(difference.OnlySecond), "copy", "copies"))
}

// markDifferences adds the differences of two plans to the boxes of their pictures. A mark of one picture describes the
// other plan, such as "≠ implementation, optimal: nhwc, 12 us".
func markDifferences(pictures [2]*picture, difference *experiment.Difference) {
	// The marks for each picture, by the name of a step or a value.
	stepMarks := [2]map[string]string{{}, {}}
	valueMarks := [2]map[string]string{{}, {}}
	names := [2]string{difference.First.Strategy, difference.Second.Strategy}
	for _, s := range difference.Steps {
		steps := [2][]experiment.StepSummary{s.First, s.Second}
		costNS := [2]float64{s.FirstNS, s.SecondNS}
		for i := range pictures {
			text := stepDifferenceText(s.What, names[1-i], steps[1-i], costNS[1-i])
			for _, step := range steps[i] {
				stepMarks[i][step.Name] = text
			}
		}
	}
	for _, v := range difference.Values {
		valueMarks[0][v.Value] = fmt.Sprintf("%s: %s", names[1], v.Second.Layout)
		nameInSecond := cmp.Or(v.Other, v.Value) // Other is empty if the names are equal
		valueMarks[1][nameInSecond] = fmt.Sprintf("%s: %s", names[0], v.First.Layout)
	}
	for i, p := range pictures {
		for k := range p.boxes {
			p.boxes[k].addMarks(stepMarks[i], valueMarks[i])
		}
	}
}

// addMarks adds the marks of the box's step and results. stepMarks are by the name of a step, and valueMarks by the
// name of a value.
func (b *pictureBox) addMarks(stepMarks, valueMarks map[string]string) {
	if text := stepMarks[b.name]; text != "" && (b.kind == stepBox || b.kind == copyBox) {
		b.marks = append(b.marks, text)
	}
	for _, v := range b.values {
		if text := valueMarks[v]; text != "" {
			b.marks = append(b.marks, "≠ layout, "+text)
		}
	}
	for _, mark := range b.marks {
		b.details = append(b.details, detail{"difference", mark})
	}
	b.signature += strings.Join(b.marks, ";")
}

// stepDifferenceText describes how a step differs from the corresponding steps of the other plan. what is
// [experiment.StepDifference.What]; other is the strategy of the other plan, and ns the cost of these steps.
func stepDifferenceText(what, other string, steps []experiment.StepSummary, ns float64) string {
	switch {
	case len(steps) == 0:
		return "+ only here: not in " + other
	case what == "implementation":
		return fmt.Sprintf("≠ implementation, %s: %s, %s", other, steps[0].Impl, format.Nanoseconds(ns))
	case what == "grouping":
		return fmt.Sprintf("≠ grouping, %s: %s, %s", other, format.Count(len(steps), "step"), format.Nanoseconds(ns))
	}
	return fmt.Sprintf("≠ cost, %s: %s", other, format.Nanoseconds(ns))
}

// signedTime formats a time with its sign.
func signedTime(ns float64) string {
	if ns < 0 {
		return "-" + format.Nanoseconds(-ns)
	}
	return "+" + format.Nanoseconds(ns)
}

// addPicture adds the boxes, values and layouts of the picture of one plan to p, and renumbers the boxes of tree.
// planIndex is 0 or 1.
func (p *picture) addPicture(added *picture, tree *item, planIndex int) {
	firstBox := len(p.boxes)
	newIndex := p.mergeLegend(added.legend)
	layoutOf := func(index int) int {
		if index < 0 { // no layout
			return index
		}
		return newIndex[index]
	}
	for _, box := range added.boxes {
		box.layout, box.planIndex = layoutOf(box.layout), planIndex
		p.boxes = append(p.boxes, box)
	}
	for _, value := range added.values {
		value.from, value.to, value.layout = value.from+firstBox, slices.Clone(value.to), layoutOf(value.layout)
		for i := range value.to {
			value.to[i] += firstBox
		}
		p.values = append(p.values, value)
	}
	tree.shiftBoxes(firstBox)
}

// mergeLegend adds a legend to p.legend. It returns the index in p.legend of each added layout.
func (p *picture) mergeLegend(added []pictureLayout) (newIndex []int) {
	newIndex = make([]int, len(added))
	for i, layout := range added {
		index := slices.IndexFunc(p.legend, func(known pictureLayout) bool { return known.name == layout.name })
		if index < 0 {
			index = len(p.legend)
			p.legend = append(p.legend, pictureLayout{name: layout.name})
		}
		p.legend[index].count += layout.count
		newIndex[i] = index
	}
	return newIndex
}

// shiftBoxes adds offset to the indices of the boxes of an item.
func (it *item) shiftBoxes(offset int) {
	it.from, it.upTo = it.from+offset, it.upTo+offset
	if it.box >= 0 {
		it.box += offset
	}
	for _, child := range it.items {
		child.shiftBoxes(offset)
	}
}

// linkPeers sets pictureBox.peer: it links the boxes of the two plans for the same node, input or output.
func (p *picture) linkPeers() {
	// A node, an input and an output may have the same name. A copy may have the name of a node.
	type boxKey struct {
		isCopy, isOutput, isInput bool
		name                      string
	}
	boxOf := [2]map[boxKey]int{{}, {}} // the boxes of each plan
	for i := range p.boxes {
		box := &p.boxes[i]
		box.peer = -1
		boxOf[box.planIndex][boxKey{box.kind == copyBox, box.kind == outputBox, box.kind == inputBox, box.name}] = i
	}
	for key, i := range boxOf[0] {
		if k, found := boxOf[1][key]; found {
			p.boxes[i].peer, p.boxes[k].peer = k, i
		}
	}
}
