package term

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/graphrun/graphrun/cli/internal/format"
)

// Column is a column of a [Table]. On a narrow terminal its cells are shortened, or the column is omitted.
type Column struct {
	Head string
	// Cut shortens a cell to a width. Nil means that cells are not shortened.
	Cut          func(cell string, width int) string
	minWidths    [rounds]int // the least width of the column in each round of shrinking; unused if Cut is nil
	omitIfAll    string      // on a narrow terminal, the column is omitted if all cells have this text; the default is ""
	omitIfNarrow bool        // whether the column is omitted if shrinking in round 0 does not suffice
	wraps        bool        // whether a long cell continues on further lines; only for the last column
	Right        bool        // whether the column is aligned to the right
}

// rounds is the number of rounds of shrinking. A table is shrunk, round by round, until it fits the terminal. Round 0
// shrinks columns of phrases and prose, round 1 also names, and round 2 also lists. Round 3 permits still smaller
// widths for all of these columns.
const rounds = 4

// unshrinkable is the least width of a column that does not shrink in a round.
const unshrinkable = 1 << 30

// UntruncatedCol returns a column whose cells are not shortened, such as a dtype.
func UntruncatedCol(head string) Column { return Column{Head: head} }

// NumberCol returns a column of numbers. They are aligned to the right and not shortened.
func NumberCol(head string) Column { return Column{Head: head, Right: true} }

// NameCol returns a column of names. They are cut in the middle, because names such as layer1.0.conv2.weight differ at
// both ends.
func NameCol(head string) Column {
	return Column{Head: head, Cut: CutMiddle, minWidths: [rounds]int{unshrinkable, 14, 14, 6}}
}

// ListCol returns a column of lists such as [1,2,3]. Long lists are shortened by omitting items in the middle.
func ListCol(head string) Column {
	return Column{Head: head, Cut: cutList, minWidths: [rounds]int{unshrinkable, unshrinkable, 10, 6}}
}

// PhraseCol returns a column of short texts, cut at the end. The column is not shrunk below minWidth characters,
// except in the last round of shrinking.
func PhraseCol(head string, minWidth int) Column {
	return Column{Head: head, Cut: CutEnd, minWidths: [rounds]int{minWidth, minWidth, minWidth, 6}}
}

// ProseCol returns a column of sentences, which continue on further lines. It must be the last column.
func ProseCol(head string) Column {
	return Column{Head: head, Cut: CutEnd, minWidths: [rounds]int{30, 20, 20, 10}, wraps: true}
}

// OmitIfAll returns a copy of the column that is omitted on a narrow terminal if all cells have the usual text.
func (c Column) OmitIfAll(usual string) Column {
	c.omitIfAll = usual
	return c
}

// OmitIfNarrow returns a copy of the column that is omitted on a narrow terminal, before names and lists are shortened.
func (c Column) OmitIfNarrow() Column {
	c.omitIfNarrow = true
	return c
}

// Table is a table in text output. Two blanks separate columns, so that awk can read a table. On a terminal the table
// is at most as wide as the terminal: columns are omitted ([Column.OmitIfAll], [Column.OmitIfNarrow]), and then the
// cells of the widest columns are shortened. For example:
//
//	name                    shape     why
//	layer1.…conv2.weight    [64,…,3]  a convolution of the
//	                                  library reads it
type Table struct {
	Columns []Column
	Rows    [][]string
}

// NewTable returns a table without rows.
func NewTable(columns ...Column) *Table {
	for i, c := range columns { // a head may be the name of a symbol
		columns[i].Head = format.Printable(c.Head)
	}
	return &Table{Columns: columns}
}

// Add adds a row. The cells are formatted by fmt.Sprint.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, x := range cells {
		row[i] = format.Printable(fmt.Sprint(x))
	}
	t.Rows = append(t.Rows, row)
}

// AddColumn adds a column. cells has a cell for each row.
func (t *Table) AddColumn(c Column, cells []string) {
	c.Head = format.Printable(c.Head)
	t.Columns = append(t.Columns, c)
	for i, cell := range cells {
		if i == len(t.Rows) {
			t.Rows = append(t.Rows, nil)
		}
		t.Rows[i] = append(t.Rows[i], format.Printable(cell))
	}
}

// WriteMarkdown prints the table in Markdown. It ignores errors of w.
func (t *Table) WriteMarkdown(w io.Writer) {
	writeLine := func(cell func(column int) string) {
		for i := range t.Columns {
			fmt.Fprint(w, "| ", strings.ReplaceAll(cell(i), "|", "\\|"), " ")
		}
		fmt.Fprintln(w, "|")
	}
	writeLine(func(i int) string { return t.Columns[i].Head })
	writeLine(func(i int) string {
		if t.Columns[i].Right {
			return "---:"
		}
		return "---"
	})
	for _, row := range t.Rows {
		writeLine(func(i int) string { return row[i] })
	}
}

// columnGap is the number of blanks between columns.
const columnGap = 2

// Write prints the table. It ignores errors of w.
func (t *Table) Write(w io.Writer, display Display) {
	widths := t.fittedWidths(display.width)
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Head
	}
	if strings.Join(heads, "") != "" {
		for _, line := range t.lines(heads, widths, display.width) {
			fmt.Fprintln(w, display.Paint(Strong, line))
		}
	}
	for _, row := range t.Rows {
		for _, line := range t.lines(row, widths, display.width) {
			fmt.Fprintln(w, line)
		}
	}
}

// widths returns the widths of the columns before shrinking.
func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Head)
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], Width(cell))
		}
	}
	return widths
}

// omitted is the width of an omitted column.
const omitted = -1

// fittedWidths returns the widths of the columns on a display with lines of limit characters; limit 0 means unlimited.
func (t *Table) fittedWidths(limit int) []int {
	widths := t.widths()
	if limit == 0 || lineWidth(widths) <= limit {
		return widths
	}
	for i, c := range t.Columns {
		hasOtherText := func(row []string) bool { return row[i] != c.omitIfAll }
		if len(t.Rows) > 0 && !slices.ContainsFunc(t.Rows, hasOtherText) {
			widths[i] = omitted
		}
	}
	t.omitOptional(widths, limit)
	for round := range rounds {
		t.shrink(widths, limit, round)
	}
	return widths
}

// omitOptional omits the columns with omitIfNarrow one by one, from the right, until round 0 of shrinking suffices.
func (t *Table) omitOptional(widths []int, limit int) {
	for i := len(widths) - 1; i >= 0; i-- {
		if !t.Columns[i].omitIfNarrow {
			continue
		}
		shrunk := slices.Clone(widths)
		const round = 0
		t.shrink(shrunk, limit, round)
		if lineWidth(shrunk) <= limit {
			return
		}
		widths[i] = omitted
	}
}

// lineWidth returns the width of a line, gaps included.
func lineWidth(widths []int) int {
	total := -columnGap
	for _, width := range widths {
		if width != omitted {
			total += width + columnGap
		}
	}
	return total
}

// shrink narrows the widest columns until the line fits, or all columns have reached their least widths. For example,
// to save 14 characters of columns of the widths 30, 20 and 10, it gives them the widths 18, 18 and 10.
func (t *Table) shrink(widths []int, limit, round int) {
	for excess := lineWidth(widths) - limit; excess > 0; {
		widest, secondWidth := t.widestColumns(widths, round)
		if widest < 0 {
			return
		}
		// Shrink the widest column to the width of the second widest, or by one character if both have the same width.
		least := max(t.minWidth(widest, round), min(secondWidth, widths[widest]-1))
		reduction := min(excess, widths[widest]-least)
		widths[widest] -= reduction
		excess -= reduction
	}
}

// widestColumns returns the index of the widest column that can still be shrunk in a round, or -1, and the width of the
// second widest.
func (t *Table) widestColumns(widths []int, round int) (widest, secondWidth int) {
	widest = -1
	for i, width := range widths {
		switch {
		case width <= t.minWidth(i, round): // the column cannot be shrunk
		case widest < 0:
			widest = i
		case width > widths[widest]:
			widest, secondWidth = i, widths[widest]
		default:
			secondWidth = max(secondWidth, width)
		}
	}
	return widest, secondWidth
}

// minWidth returns the least width of a column in a round.
func (t *Table) minWidth(i, round int) int {
	if t.Columns[i].Cut == nil {
		return unshrinkable
	}
	return max(t.Columns[i].minWidths[round], Width(t.Columns[i].Head))
}

// lines returns the lines of a row. A row has several lines if its prose is long. widths are the widths of the columns,
// and limit is the width of the display.
func (t *Table) lines(row []string, widths []int, limit int) []string {
	var b strings.Builder
	var continuation []string // lines after the first
	start := 0                // the terminal column at which the next column of the table starts
	for i, cell := range row {
		if widths[i] == omitted {
			continue
		}
		pad(&b, &start)
		column := &t.Columns[i]
		switch {
		case Width(cell) <= widths[i]: // the cell fits
		case column.wraps:
			wrapped := strings.Split(format.Wrap(cell, widths[i]), "\n")
			cell, continuation = wrapped[0], wrapped[1:]
			for k := range continuation {
				continuation[k] = strings.Repeat(" ", start) + continuation[k]
			}
		default:
			cell = column.Cut(cell, widths[i])
		}
		cellWidth := Width(cell)
		blanks := strings.Repeat(" ", max(0, widths[i]-cellWidth))
		if column.Right {
			cell, blanks = blanks+cell, ""
		}
		b.WriteString(cell)
		b.WriteString(blanks)
		start += max(cellWidth, widths[i])
	}
	lines := append([]string{strings.TrimRight(b.String(), " ")}, continuation...)
	if limit > 0 {
		for i := range lines {
			lines[i] = CutEnd(lines[i], limit)
		}
	}
	return lines
}

// pad writes the blanks before a column other than the first, and advances start.
func pad(b *strings.Builder, start *int) {
	if *start > 0 {
		b.WriteString(strings.Repeat(" ", columnGap))
		*start += columnGap
	}
}

// Width returns the number of terminal columns of a text. Wide characters have two columns, combining characters none.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return runewidth.StringWidth(s)
		}
	}
	return len(s)
}

// Ellipsis replaces omitted text.
const Ellipsis = "…"

// CutEnd cuts the end of a text that is wider than width.
func CutEnd(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	head := runewidth.Truncate(s, max(0, width-Width(Ellipsis)), "")
	return strings.TrimRight(head, " ") + Ellipsis
}

// CutMiddle cuts the middle of a text that is wider than width.
func CutMiddle(s string, width int) string {
	fullWidth := Width(s)
	if fullWidth <= width {
		return s
	}
	remainingWidth := max(0, width-Width(Ellipsis))
	head := runewidth.Truncate(s, (remainingWidth+1)/2, "")
	tail := runewidth.TruncateLeft(s, fullWidth-(remainingWidth-Width(head)), "")
	return head + Ellipsis + tail
}

// cutList removes items from the middle of a list such as [1,2,3]. A word may precede the brackets. Texts without
// brackets are cut at the end.
func cutList(list string, width int) string {
	if Width(list) <= width {
		return list
	}
	head, inner, ok := strings.Cut(list, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed || strings.ContainsAny(inner, "[]") {
		return CutEnd(list, width)
	}
	items := strings.Split(inner, ",")
	best := "" // the longest text that fits
	for kept := 1; kept < len(items); kept++ {
		keptBefore := (kept + 1) / 2 // the number of kept items before the ellipsis
		keptAfter := kept - keptBefore
		shortened := slices.Concat(items[:keptBefore], []string{Ellipsis}, items[len(items)-keptAfter:])
		text := head + "[" + strings.Join(shortened, ",") + "]"
		if Width(text) > width {
			break
		}
		best = text
	}
	if best == "" {
		return CutEnd(list, width)
	}
	return best
}

// CutFlags abbreviates non_overlapping_and_dense as dense, then cuts at the end.
func CutFlags(s string, width int) string {
	return CutEnd(strings.ReplaceAll(s, "non_overlapping_and_dense", "dense"), width)
}

// WriteList prints a list as a table with a title. row returns the cells of an item. WriteList prints nothing if the
// list is empty.
func WriteList[T any](w io.Writer, display Display, title string, list []T, columns []Column, row func(T) []any) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+display.Paint(Strong, title))
	t := NewTable(columns...)
	for _, x := range list {
		t.Add(row(x)...)
	}
	t.Write(w, display)
}
