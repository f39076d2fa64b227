package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/graphrun/graphrun/report"
)

// Table is a [Comparison] as text: a row for each measurement, and headings with units.
type Table struct {
	Heads []string
	Right []bool // indexed by column: whether it is aligned to the right
	Rows  [][]string
}

// Table returns the comparison as a table: see [TableOf].
func (c *Comparison) Table() *Table {
	if c == nil {
		return TableOf(nil)
	}
	return TableOf(c.Rows)
}

// TableOf returns measurements of one comparison or several as a table. The columns are:
//   - the name, with the name of the candidate that was measured instead, because it has an equal plan;
//   - the estimated cost, and its gap to the lower bound if one is known;
//   - the median time, and the half width of its confidence interval in percent;
//   - the difference from the base ("~" if the difference is not significant, "=" for an equal plan), and its p-value
//     with Holm's correction;
//   - the inserted copies and their bytes;
//   - if a program has a device: the steps that the device computes, and the uploads and downloads among the copies;
//   - the bytes that steps read and write;
//   - the peak memory without inputs and constants, and with constants;
//   - the time of planning.
//
// The heading of a column has the unit of its numbers. Unknown numbers are dashes.
func TableOf(rows []Measurement) *Table {
	table := &Table{Rows: make([][]string, len(rows))}
	const left, right = false, true
	addTexts := func(head string, alignRight bool, cell func(*Measurement) string) {
		table.Heads, table.Right = append(table.Heads, head), append(table.Right, alignRight)
		for i := range rows {
			table.Rows[i] = append(table.Rows[i], cell(&rows[i]))
		}
	}
	addNumbers := func(head string, units units, number func(*Measurement) *float64) {
		values := make([]*float64, len(rows))
		for i := range rows {
			values[i] = number(&rows[i])
		}
		unit, cells := units.cells(values)
		row := -1 // addTexts visits the measurements in order
		addTexts(head+"/"+unit, right, func(*Measurement) string { row++; return cells[row] })
	}
	addBytes := func(head string, bytes func(*Measurement) int) {
		addNumbers(head, byteUnits, func(measured *Measurement) *float64 { return new(float64(bytes(measured))) })
	}
	base := "base"
	if len(rows) > 0 {
		base = rows[0].Name
	}
	addTexts("strategy", left, func(measured *Measurement) string { return measured.nameText() })
	addNumbers("cost", timeUnits, func(measured *Measurement) *float64 { return &measured.CostNS })
	if slices.ContainsFunc(rows, func(measured Measurement) bool { return measured.Gap != nil }) {
		addTexts("gap", right, func(measured *Measurement) string { return measured.gapText() })
	}
	addNumbers("median", timeUnits, func(measured *Measurement) *float64 { return measured.Median })
	addTexts("±", right, func(measured *Measurement) string { return measured.halfWidthText() })
	addTexts("vs "+base, right, func(measured *Measurement) string { return measured.changeText() })
	addTexts("p", right, func(measured *Measurement) string { return measured.pValueText() })
	addTexts("copies", right, func(measured *Measurement) string { return strconv.Itoa(measured.Copies) })
	addBytes("copied", func(measured *Measurement) int { return measured.CopiedBytes })
	if index := slices.IndexFunc(rows, func(measured Measurement) bool { return measured.Places != nil }); index >= 0 {
		addCount := func(head string, count func(*report.Places) int) {
			addTexts(head, right, func(measured *Measurement) string {
				if measured.Places == nil {
					return "-"
				}
				return strconv.Itoa(count(measured.Places))
			})
		}
		addCount("on "+rows[index].Places.Device, func(p *report.Places) int { return p.Steps })
		addCount("uploads", func(p *report.Places) int { return p.Uploads })
		addCount("downloads", func(p *report.Places) int { return p.Downloads })
	}
	addBytes("moved", func(measured *Measurement) int { return measured.MovedBytes })
	addBytes("peak", func(measured *Measurement) int { return measured.PeakBytes })
	addBytes("+weights", func(measured *Measurement) int { return measured.PeakWithWeights })
	addNumbers("plan", timeUnits, func(measured *Measurement) *float64 { return new(measured.PlanMS * 1e6) })
	return table
}

// nameText prints the name, and the name of the candidate that was measured instead.
func (m *Measurement) nameText() string {
	if m.MeasuredAs == "" {
		return m.Name
	}
	return fmt.Sprintf("%s (= %s)", m.Name, m.MeasuredAs)
}

// gapText prints the gap to the lower bound.
func (m *Measurement) gapText() string {
	if m.Gap == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**m.Gap)
}

// halfWidthText prints the half width of the confidence interval of the median.
func (s *Spread) halfWidthText() string {
	half := s.halfWidth()
	if half == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100**half)
}

// changeText prints the difference from the base: "=" for an equal plan, and "~" if the difference is not significant.
func (v *Versus) changeText() string {
	switch {
	case v.Base == "" || v.Ratio == nil:
		return "-"
	case v.PHolm == nil:
		return "="
	case !v.Significant:
		return "~"
	}
	return fmt.Sprintf("%+.1f%%", 100*(*v.Ratio-1))
}

// pValueText prints the p-value with Holm's correction.
func (v *Versus) pValueText() string {
	switch {
	case v.Base == "" || v.PHolm == nil:
		return "-"
	case *v.PHolm < 0.001:
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", *v.PHolm)
}

// String prints the table in columns, two spaces apart.
func (t *Table) String() string {
	if t == nil {
		return ""
	}
	var out strings.Builder
	widths := make([]int, len(t.Heads))
	lines := append([][]string{t.Heads}, t.Rows...)
	for _, line := range lines {
		for i := range min(len(line), len(widths)) {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
	}
	for _, line := range lines {
		text := ""
		for i := range min(len(line), len(widths)) {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(line[i]))
			if i < len(t.Right) && t.Right[i] {
				text += blanks + line[i] + "  "
			} else {
				text += line[i] + blanks + "  "
			}
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return out.String()
}
