package diff

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/report"
)

// writeDifference prints the differences as text. first and second are the names of the plans.
func writeDifference(w io.Writer, display term.Display, doc *Document, first, second string) {
	writeTotals(w, display, doc, first, second)
	const layoutWidth, implWidth = 12, 14 // minimum widths of columns
	valueColumns := []term.Column{term.NameCol("value"), term.ListCol(first), term.PhraseCol("layout", layoutWidth),
		term.ListCol(second), term.PhraseCol("layout", layoutWidth)}
	term.WriteList(w, display, "Values with different layouts", doc.Values, valueColumns,
		func(d experiment.ValueDifference) []any {
			name := d.Value
			if d.Other != "" {
				name += " (second plan: " + d.Other + ")"
			}
			return []any{name, format.Ints(d.First.Strides), d.First.Layout, format.Ints(d.Second.Strides), d.Second.Layout}
		})
	for _, only := range []struct {
		plan   string
		copies []report.Copy
	}{{first, doc.OnlyFirst}, {second, doc.OnlySecond}} {
		sections.WriteCopies(w, display, "Copies that only "+only.plan+" makes", only.copies)
	}
	stepColumns := []term.Column{term.UntruncatedCol("differs"), term.NameCol("step"), term.PhraseCol(first, implWidth),
		term.PhraseCol(second, implWidth), term.NumberCol("first cost"), term.NumberCol("second cost"),
		term.NumberCol("difference")}
	term.WriteList(w, display, "Steps that differ", doc.Steps, stepColumns, func(d experiment.StepDifference) []any {
		name := stepNames(d.First)
		if len(d.First) == 0 {
			name = stepNames(d.Second)
		}
		return []any{d.What, name, stepText(d.First), stepText(d.Second), format.Nanoseconds(d.FirstNS),
			format.Nanoseconds(d.SecondNS), signedTime(d.DeltaNS)}
	})
	for _, only := range []struct {
		plan  string
		nodes []string
	}{{first, doc.NodesFirst}, {second, doc.NodesSecond}} {
		if len(only.nodes) > 0 {
			fmt.Fprintf(w, "\n%s\n%s\n", display.Paint(term.Strong, "Nodes that only "+only.plan+" has"),
				format.Wrap(strings.Join(only.nodes, ", "), display.ProseWidth()))
		}
	}
}

// writeTotals prints the totals of both plans.
func writeTotals(w io.Writer, display term.Display, doc *Document, first, second string) {
	t := term.NewTable(term.NameCol("total"), term.NumberCol(first), term.NumberCol(second), term.NumberCol("difference"))
	firstTotals, secondTotals := &doc.First, &doc.Second
	t.Add("estimated cost", format.Nanoseconds(firstTotals.CostNS), format.Nanoseconds(secondTotals.CostNS),
		format.Difference(firstTotals.CostNS, secondTotals.CostNS, format.Nanoseconds))
	for _, symbol := range doc.changedSymbols() {
		size1, size2, difference := doc.Sizes[0][symbol], doc.Sizes[1][symbol], ""
		if size1 > 0 && size2 > 0 {
			difference = format.Difference(firstTotals.CostNS/float64(size1), secondTotals.CostNS/float64(size2),
				format.Nanoseconds)
		}
		t.Add("cost / "+symbol, format.PerSize(firstTotals.CostNS, size1), format.PerSize(secondTotals.CostNS, size2),
			difference)
	}
	if firstTotals.BoundNS != nil || secondTotals.BoundNS != nil {
		t.Add("lower bound", boundText(firstTotals.BoundNS), boundText(secondTotals.BoundNS), "")
	}
	for _, row := range totalRows(firstTotals.Places) {
		firstTotal, secondTotal := float64(row.total(firstTotals)), float64(row.total(secondTotals))
		t.Add(row.name, row.format(firstTotal), row.format(secondTotal),
			format.Difference(firstTotal, secondTotal, row.format))
	}
	t.Write(w, display)
}

// totalRow is a row of the table of totals.
type totalRow struct {
	name   string
	total  func(*experiment.Totals) int // returns the number that the row shows for a plan
	format func(float64) string
}

// totalRows returns the rows with integers. places is nil without --device; otherwise both plans have the device.
func totalRows(places *report.Places) []totalRow {
	rows := []totalRow{
		{"steps", func(p *experiment.Totals) int { return p.Steps }, integerText},
		{"inserted copies", func(p *experiment.Totals) int { return p.Copies }, integerText},
		{"copied", func(p *experiment.Totals) int { return p.CopiedBytes }, bytesText},
		{"moved", func(p *experiment.Totals) int { return p.MovedBytes }, bytesText},
		{"peak memory", func(p *experiment.Totals) int { return p.PeakBytes }, bytesText},
		{"with weights", func(p *experiment.Totals) int { return p.PeakWithWeights }, bytesText},
	}
	if places != nil {
		const afterCopies = 2
		rows = slices.Insert(rows, afterCopies,
			totalRow{"steps on " + places.Device, func(p *experiment.Totals) int { return p.Places.Steps }, integerText},
			totalRow{"uploads", func(p *experiment.Totals) int { return p.Places.Uploads }, integerText},
			totalRow{"downloads", func(p *experiment.Totals) int { return p.Places.Downloads }, integerText})
	}
	return rows
}

func integerText(x float64) string { return fmt.Sprintf("%.0f", x) }
func bytesText(x float64) string   { return format.Bytes(int(x)) }

// boundText formats a lower bound; ? if it is unknown.
func boundText(ns *float64) string {
	if ns == nil {
		return "?"
	}
	return format.Nanoseconds(*ns)
}

// signedTime formats a difference of times with its sign.
func signedTime(ns float64) string {
	switch {
	case ns < 0:
		return "-" + format.Nanoseconds(-ns)
	case ns > 0:
		return "+" + format.Nanoseconds(ns)
	}
	return "0"
}

// stepNames lists the nodes (Ops) of each step, for at most six steps.
func stepNames(steps []experiment.StepSummary) string {
	const maxNames = 6
	var names []string
	for _, s := range steps[:min(len(steps), maxNames)] {
		names = append(names, strings.Join(s.Ops, "+"))
	}
	if n := len(steps) - maxNames; n > 0 {
		names = append(names, fmt.Sprintf("and %s more", format.Count(n, "step")))
	}
	return strings.Join(names, ", ")
}

// stepText returns the implementation of a single step, or its number of nodes if it has none. For several steps it
// returns the number of steps.
func stepText(steps []experiment.StepSummary) string {
	switch len(steps) {
	case 0:
		return "-"
	case 1:
		return cmp.Or(steps[0].Impl, format.Count(len(steps[0].Ops), "node"))
	}
	return format.Count(len(steps), "step")
}
