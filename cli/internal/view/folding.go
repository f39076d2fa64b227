package view

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// The directions of a picture, and the value of --open that opens all groups.
const (
	vertical   = "vertical"
	horizontal = "horizontal"
	openAll    = "all"
)

// addDrawingFlags adds the flags that change the drawing but not the plan.
func (f *flags) addDrawingFlags(cmd *cobra.Command) {
	flagSet := cmd.Flags()
	flagSet.StringArrayVar(&f.open, "open", nil,
		"open all groups of a `SCOPE`, as layer1/layer1.0; all opens every group (repeatable)")
	flagSet.IntVar(&f.depth, "depth", -1, "open `N` levels of groups; 0 folds all")
	flagSet.Lookup("depth").DefValue = "as many as are readable"
	flagSet.StringVar(&f.around, "around", "", "draw only the boxes near a `VALUE`: see --hops")
	flagSet.IntVar(&f.hops, "hops", 2, "with --around: draw boxes within `N` lines of the value")
	flagSet.StringVar(&f.direction, "direction", vertical,
		"draw from operands to results in a `DIRECTION`: vertical or horizontal")
	_ = cmd.RegisterFlagCompletionFunc("direction", cobra.FixedCompletions([]string{vertical, horizontal},
		cobra.ShellCompDirectiveNoFileComp))
}

// checkDrawing validates the flags that addDrawingFlags adds.
func (f *flags) checkDrawing(cmd *cobra.Command) error {
	switch {
	case f.direction != vertical && f.direction != horizontal:
		return exit.UsageErrorf("--direction %s: want vertical or horizontal", f.direction)
	case cmd.Flags().Changed("depth") && f.depth < 0:
		return exit.UsageErrorf("--depth %d: want at least 0", f.depth)
	case f.hops < 0:
		return exit.UsageErrorf("--hops %d: want at least 0", f.hops)
	case cmd.Flags().Changed("hops") && f.around == "":
		return exit.UsageErrorf("--hops has no effect without --around: add --around VALUE")
	}
	return nil
}

// firstVisible is the maximum number of visible boxes of a folded picture without --depth and --open.
const firstVisible = 24

// groupTree returns the tree of groups of a picture. --depth and --open select the open groups. A small picture has
// groups only if one of these flags is given.
func (f *flags) groupTree(drawing *picture) (*item, error) {
	if len(drawing.boxes) <= maxVisible && f.depth < 0 && len(f.open) == 0 {
		return drawing.flat(), nil
	}
	root := drawing.fold()
	switch {
	case slices.Contains(f.open, openAll):
		root.openTo(root.depth())
		return root, nil
	case f.depth >= 0:
		root.openTo(f.depth)
	case len(f.open) > 0:
		root.openTo(0)
	default:
		root.openLevels(firstVisible)
	}
	for _, scope := range f.open {
		if root.openScope(scope) {
			continue
		}
		names := root.scopes()
		if len(names) == 0 {
			return nil, exit.UsageErrorf("--open %s: the picture has no groups", scope)
		}
		return nil, exit.UsageErrorf("--open %s: the picture has no such group; want all or one of %s", scope,
			strings.Join(names, ", "))
	}
	return root, nil
}

// flat returns the root of a tree without groups: its items are all boxes of the picture.
func (p *picture) flat() *item {
	root := &item{box: -1, label: p.title, upTo: len(p.boxes), isOpen: true}
	for i := range p.boxes {
		root.items = append(root.items, &item{box: i, label: p.boxes[i].name, from: i, upTo: i + 1})
	}
	return root
}

// isUnfolded reports whether no group is folded.
func (it *item) isUnfolded() bool {
	return !slices.ContainsFunc(it.items, func(child *item) bool {
		return child.box < 0 && (!child.isOpen || !child.isUnfolded())
	})
}

// scopes returns the names of the outermost groups, as --open accepts them.
func (it *item) scopes() []string {
	var list []string
	for _, child := range it.items {
		if child.box < 0 {
			name := child.scope
			if name == "" {
				name = child.label
			}
			list = append(list, name)
		}
	}
	return list
}

// openTo opens the first depth levels of groups and folds the other groups.
func (it *item) openTo(depth int) {
	for _, child := range it.items {
		if child.box < 0 {
			child.isOpen = depth > 0
			child.openTo(depth - 1)
		}
	}
}

// countVisible returns the number of boxes and folded groups that are drawn.
func (it *item) countVisible() int {
	count := 0
	for _, child := range it.items {
		if child.isOpen {
			count += child.countVisible()
		} else {
			count++
		}
	}
	return count
}

// depth returns the number of levels of groups.
func (it *item) depth() int {
	levels := 0
	for _, child := range it.items {
		if child.box < 0 {
			levels = max(levels, 1+child.depth())
		}
	}
	return levels
}

// openLevels opens as many levels of groups as possible with at most maxBoxes visible boxes.
func (it *item) openLevels(maxBoxes int) {
	depth := 0
	for levels := 1; levels <= it.depth(); levels++ {
		it.openTo(levels)
		if it.countVisible() <= maxBoxes {
			depth = levels
		}
	}
	it.openTo(depth)
}

// openScope opens the groups with a scope or label, the groups in them, and the groups around them. It reports whether
// a group has this scope or label.
func (it *item) openScope(name string) bool {
	found := false
	for _, child := range it.items {
		switch {
		case child.box >= 0: // not a group
		case child.label == name || child.scope == strings.Trim(name, "/"):
			child.isOpen, found = true, true
			child.openTo(child.depth())
		case child.openScope(name):
			child.isOpen, found = true, true
		}
	}
	return found
}
