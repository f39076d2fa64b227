package diff

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// summary returns the differences in a sentence. first and second are the names of the plans.
func (doc *Document) summary(first, second string) string {
	if doc.Same {
		return fmt.Sprintf("the plans are the same: %s and %s choose the same layouts and steps", first, second)
	}
	kinds := map[string]int{}
	for _, s := range doc.Steps {
		kinds[s.What]++
	}
	list := []string{format.CountIrregular(len(doc.Values), "value has another layout", "values have other layouts"),
		format.CountIrregular(kinds["implementation"], "step has another implementation",
			"steps have other implementations")}
	// Differences that are omitted if there are none.
	for _, kind := range []struct {
		count            int
		singular, plural string
	}{
		{kinds["grouping"], "group of nodes is fused differently", "groups of nodes are fused differently"},
		{kinds["nodes"], "step is in one graph only", "steps are in one graph only"},
		// Steps whose operands or results have other layouts. The first item has counted these values, so this item
		// states only that the costs differ.
		{kinds["layout"], "step differs in its cost alone", "steps differ in their cost alone"},
	} {
		if kind.count > 0 {
			list = append(list, format.CountIrregular(kind.count, kind.singular, kind.plural))
		}
	}
	change := "more"
	copies := doc.Second.Copies - doc.First.Copies
	if copies < 0 {
		copies, change = -copies, "fewer"
	}
	list = append(list, format.CountIrregular(copies, "copy", "copies")+" "+change)
	return fmt.Sprintf("%s costs %s: %s", second, doc.costText(first), strings.Join(list, ", "))
}

// sizesText compares the costs of plans for two sizes of one symbol: the total costs, and the costs divided by the
// size. It returns "" if no size differs or several sizes differ.
func (doc *Document) sizesText(first, second string) string {
	symbols := doc.changedSymbols()
	if len(symbols) != 1 || doc.First.CostNS == 0 {
		return ""
	}
	symbol := symbols[0]
	total := [2]float64{doc.First.CostNS, doc.Second.CostNS}
	text := fmt.Sprintf("%s costs %s, and %s costs %s: %.4g times as much", first, format.Nanoseconds(total[0]), second,
		format.Nanoseconds(total[1]), total[1]/total[0])
	sizes := [2]int{doc.Sizes[0][symbol], doc.Sizes[1][symbol]}
	if sizes[0] == 0 || sizes[1] == 0 {
		return text
	}
	perSize := [2]float64{total[0] / float64(sizes[0]), total[1] / float64(sizes[1])}
	before, after := format.Nanoseconds(perSize[0]), format.Nanoseconds(perSize[1])
	if before == after {
		return fmt.Sprintf("%s; cost/%s is %s in both", text, symbol, after)
	}
	return fmt.Sprintf("%s; cost/%s is %s instead of %s: %s", text, symbol, after, before,
		format.Difference(perSize[0], perSize[1], format.Nanoseconds))
}

// costText compares the costs of the two plans.
func (doc *Document) costText(first string) string {
	cost1, cost2 := doc.First.CostNS, doc.Second.CostNS
	switch {
	case cost1 == cost2:
		return "as much as " + first
	case cost2 < cost1:
		return fmt.Sprintf("%s (%s) less than %s", format.Nanoseconds(cost1-cost2), percentText(1-cost2/cost1), first)
	case cost1 == 0:
		return fmt.Sprintf("%s more than %s", format.Nanoseconds(cost2), first)
	}
	return fmt.Sprintf("%s (%s) more than %s", format.Nanoseconds(cost2-cost1), percentText(cost2/cost1-1), first)
}

// percentText is [format.Percent] of a positive fraction, except that it never gives 0.0%.
func percentText(fraction float64) string {
	if fraction < 0.0005 {
		return "less than 0.1%"
	}
	return format.Percent(fraction)
}
