package experiment

import (
	"fmt"
	"math"
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
//   - the regret: the difference from the fastest measured plan ("~" if it is not significant);
//   - the inserted copies and their bytes;
//   - if a program has a device: the steps that the device computes, and the uploads and downloads among the copies;
//   - the bytes that steps read and write;
//   - the peak memory without inputs and constants, and with constants;
//   - the time of planning.
//
// The heading of a column has the unit of its numbers. Unknown numbers are dashes.
func TableOf(rows []Measurement) *Table {
	b := &tableBuilder{rows: rows, table: &Table{Rows: make([][]string, len(rows))}}
	base := "base"
	if len(rows) > 0 {
		base = rows[0].Name
	}
	b.addTexts("strategy", alignLeft, (*Measurement).nameText)
	b.addNumbers("cost", timeUnits, func(m *Measurement) *float64 { return &m.CostNS })
	if slices.ContainsFunc(rows, func(m Measurement) bool { return m.Gap != nil }) {
		b.addTexts("gap", alignRight, (*Measurement).gapText)
	}
	b.addNumbers("median", timeUnits, func(m *Measurement) *float64 { return m.Median })
	b.addTexts("±", alignRight, (*Measurement).halfWidthText)
	b.addTexts("vs "+base, alignRight, (*Measurement).changeText)
	b.addTexts("p", alignRight, (*Measurement).pValueText)
	b.addTexts("regret", alignRight, (*Measurement).regretText)
	b.addTexts("copies", alignRight, func(m *Measurement) string { return strconv.Itoa(m.Copies) })
	b.addBytes("copied", func(m *Measurement) int { return m.CopiedBytes })
	if index := slices.IndexFunc(rows, func(m Measurement) bool { return m.Places != nil }); index >= 0 {
		b.addDeviceCount("on "+rows[index].Places.Device, func(p *report.Places) int { return p.Steps })
		b.addDeviceCount("uploads", func(p *report.Places) int { return p.Uploads })
		b.addDeviceCount("downloads", func(p *report.Places) int { return p.Downloads })
	}
	b.addBytes("moved", func(m *Measurement) int { return m.MovedBytes })
	b.addBytes("peak", func(m *Measurement) int { return m.PeakBytes })
	b.addBytes("+weights", func(m *Measurement) int { return m.PeakWithWeights })
	b.addNumbers("plan", timeUnits, func(m *Measurement) *float64 { return new(m.PlanMS * 1e6) })
	return b.table
}

// tableBuilder adds columns to the table of measurements.
type tableBuilder struct {
	rows  []Measurement
	table *Table
}

// The alignments of columns: values of Table.Right.
const alignLeft, alignRight = false, true

// addTexts adds a column.
func (b *tableBuilder) addTexts(head string, isRight bool, cell func(*Measurement) string) {
	b.table.Heads, b.table.Right = append(b.table.Heads, head), append(b.table.Right, isRight)
	for i := range b.rows {
		b.table.Rows[i] = append(b.table.Rows[i], cell(&b.rows[i]))
	}
}

// addNumbers adds a column of numbers with a common unit, which addNumbers chooses from units. The function `number`
// returns a number in the smallest of units, or nil if it is unknown.
func (b *tableBuilder) addNumbers(head string, units units, number func(*Measurement) *float64) {
	values := make([]*float64, len(b.rows))
	for i := range b.rows {
		values[i] = number(&b.rows[i])
	}
	unit, cells := units.cells(values)
	row := -1 // addTexts visits the measurements in order
	b.addTexts(head+"/"+unit, alignRight, func(*Measurement) string { row++; return cells[row] })
}

// addBytes adds a column of numbers of bytes.
func (b *tableBuilder) addBytes(head string, bytes func(*Measurement) int) {
	b.addNumbers(head, byteUnits, func(m *Measurement) *float64 { return new(float64(bytes(m))) })
}

// addDeviceCount adds a column of numbers that only a program with a device has.
func (b *tableBuilder) addDeviceCount(head string, count func(*report.Places) int) {
	b.addTexts(head, alignRight, func(m *Measurement) string {
		if m.Places == nil {
			return "-"
		}
		return strconv.Itoa(count(m.Places))
	})
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
	return fmt.Sprintf("%.1f%%", 100*(*m.Gap))
}

// halfWidthText prints the half width of the confidence interval of the median.
func (s *Spread) halfWidthText() string {
	half := s.halfWidth()
	if half == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*(*half))
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

// regretText prints the difference from the fastest plan, "~" if it is not significant.
func (m *Measurement) regretText() string {
	switch {
	case m.Regret == nil:
		return "-"
	case *m.Regret > 0 && !m.RegretSignificant:
		return "~"
	}
	return fmt.Sprintf("%.1f%%", 100*(*m.Regret))
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

// units has the units of a quantity.
type units struct {
	names []string // from the smallest unit to the largest
	ratio float64  // ratio of successive units
}

var (
	timeUnits = units{names: []string{"ns", "µs", "ms", "s"}, ratio: 1000}
	byteUnits = units{names: []string{"B", "KiB", "MiB", "GiB", "TiB"}, ratio: 1024}
)

// cells formats the numbers of a column in a common unit, the unit that suits the largest number, and returns this
// unit. All numbers have the same number of decimals. In the smallest unit there are no decimals. In other units, the
// smallest positive number gets three significant digits, but at most 3 decimals. A nil number is a dash.
func (u units) cells(values []*float64) (unit string, cells []string) {
	largest, smallest := 0.0, math.Inf(1)
	for _, value := range values {
		if value != nil && *value > 0 {
			largest, smallest = max(largest, *value), min(smallest, *value)
		}
	}
	index, scale := 0, 1.0 // index of the unit in names, and its size in smallest units
	for index+1 < len(u.names) && largest >= scale*u.ratio {
		index, scale = index+1, scale*u.ratio
	}
	decimals := 0
	if index > 0 {
		exponent := int(math.Floor(math.Log10(smallest / scale))) // exponent of the first of the three digits
		decimals = min(3, max(0, 2-exponent))
	}
	for _, value := range values {
		if value == nil {
			cells = append(cells, "-")
		} else {
			cells = append(cells, fmt.Sprintf("%.*f", decimals, *value/scale))
		}
	}
	return u.names[index], cells
}
