package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/sorted"
)

// maxLargest is the maximum number of steps that are listed with their costs.
const maxLargest = 3

// answers returns the text output of the command: the written file, the remarks of the picture, and the steps with the
// largest costs.
func (p *picture) answers(file string) []string {
	first, others := fmt.Sprintf("%s shows %s", file, p.title), p.remarks
	if len(others) > 0 {
		first, others = first+": "+others[0], others[1:]
	}
	list := append([]string{first}, others...)
	if text := p.largestText(); text != "" {
		list = append(list, text)
	}
	return list
}

// largestText lists the steps with the largest costs. It returns "" if there are no costs, or if the picture shows
// two plans.
func (p *picture) largestText() string {
	if slices.ContainsFunc(p.boxes, func(box pictureBox) bool { return box.planIndex > 0 }) {
		return ""
	}
	boxes := slices.DeleteFunc(slices.Clone(p.boxes), func(box pictureBox) bool { return box.share <= 0 })
	sorted.Func(boxes, func(a, b pictureBox) int { return cmp.Compare(b.share, a.share) })
	var list []string
	for _, box := range boxes[:min(len(boxes), maxLargest)] {
		list = append(list, fmt.Sprintf("%s (%s) %s, %s", box.name, box.head, format.Nanoseconds(box.predicted),
			format.Percent(box.share)))
	}
	if len(list) == 0 {
		return ""
	}
	return "largest costs: " + strings.Join(list, "; ")
}
