package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// column is a column of a table: its heading, and how cells that a terminal has no room
// for become narrower. Without cut they do not.
type column struct {
	head string
	cut  func(cell string, width int) string
	flow bool // the last column: its words go on in further lines
}

// Names lose their middle, since they differ at both ends (layer1.0.conv2.weight), lists their
// middle items, sentences their end. Numbers and dtypes stay whole.
func nameCol(head string) column   { return column{head: head, cut: cutMiddle} }
func wholeCol(head string) column  { return column{head: head} }
func listCol(head string) column   { return column{head: head, cut: cutList} }
func phraseCol(head string) column { return column{head: head, cut: cutEnd} }
func proseCol(head string) column  { return column{head: head, cut: cutEnd, flow: true} }

// table has plain columns two blanks apart, which awk can take too. On a terminal it is
// never wider than that.
type table struct {
	columns []column
	rows    [][]string
}

func newTable(columns ...column) *table { return &table{columns: columns} }

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, x := range cells {
		row[i] = printable(fmt.Sprint(x))
	}
	t.rows = append(t.rows, row)
}

// gap is the number of blanks between columns.
const gap = 2

// write prints the table. Errors come out at w's Flush, or its next Write.
func (t *table) write(w io.Writer, d display) {
	widths := t.widths()
	if d.width > 0 && total(widths) > d.width {
		t.dropEmpty(widths)
		t.shrink(widths, d.width)
	}
	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.head
	}
	if strings.Join(heads, "") != "" {
		for _, line := range t.lines(heads, widths, d.width) {
			fmt.Fprintln(w, d.paint(strong, line))
		}
	}
	for _, row := range t.rows {
		for _, line := range t.lines(row, widths, d.width) {
			fmt.Fprintln(w, line)
		}
	}
}

// widths returns what the columns take when nothing is cut.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = columnsOf(c.head)
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	return widths
}

// absent is the width of a column that is left out.
const absent = -1

// dropEmpty leaves out columns in which nothing stands.
func (t *table) dropEmpty(widths []int) {
	for i := range widths {
		if !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			widths[i] = absent
		}
	}
}

// total is the width of a line.
func total(widths []int) int {
	n := -gap
	for _, w := range widths {
		if w != absent {
			n += w + gap
		}
	}
	return n
}

// narrowest is how far a column that can be cut shrinks, its heading permitting.
const narrowest = 6

// shrink takes columns away from the widest until the line fits, or no column has anything
// to give: a terminal of so few columns sees lines cut at its edge.
func (t *table) shrink(widths []int, limit int) {
	for over := total(widths) - limit; over > 0; {
		widest, next := -1, 0
		for i, c := range t.columns {
			least := max(narrowest, columnsOf(c.head))
			if c.cut == nil || widths[i] <= least {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
				if widest >= 0 {
					next = max(next, widths[widest])
				}
				widest = i
			} else {
				next = max(next, widths[i])
			}
		}
		if widest < 0 {
			return
		}
		least := max(narrowest, columnsOf(t.columns[widest].head), min(next, widths[widest]-1))
		give := min(over, widths[widest]-least)
		widths[widest] -= give
		over -= give
	}
}

// lines lays a row out, in one line but for prose.
func (t *table) lines(row []string, widths []int, limit int) []string {
	var b strings.Builder
	var more []string
	at := 0 // where the next column starts
	for i, cell := range row {
		if widths[i] == absent {
			continue
		}
		pad(&b, &at)
		n := columnsOf(cell)
		if n > widths[i] {
			if c := t.columns[i]; c.flow {
				parts := strings.Split(wrapped(cell, widths[i]), "\n")
				cell, more = parts[0], parts[1:]
				for k := range more {
					more[k] = strings.Repeat(" ", at) + more[k]
				}
			} else {
				cell = c.cut(cell, widths[i])
			}
			n = columnsOf(cell)
		}
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", max(0, widths[i]-n)))
		at += max(n, widths[i])
	}
	out := append([]string{strings.TrimRight(b.String(), " ")}, more...)
	if limit > 0 {
		for i := range out {
			out[i] = cutEnd(out[i], limit)
		}
	}
	return out
}

// pad keeps columns apart.
func pad(b *strings.Builder, at *int) {
	if *at > 0 {
		b.WriteString(strings.Repeat(" ", gap))
		*at += gap
	}
}

// columnsOf is the number of columns that a terminal gives a text: two for each of Chinese,
// none for accents that stand above another letter.
func columnsOf(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return runewidth.StringWidth(s)
		}
	}
	return len(s)
}

// ellipsis stands where something was cut out.
const ellipsis = "…"

// cutEnd keeps the start of a text.
func cutEnd(s string, width int) string {
	if columnsOf(s) <= width {
		return s
	}
	head := runewidth.Truncate(s, max(0, width-columnsOf(ellipsis)), "")
	return strings.TrimRight(head, " ") + ellipsis
}

// cutMiddle keeps both ends of a text.
func cutMiddle(s string, width int) string {
	n := columnsOf(s)
	if n <= width {
		return s
	}
	room := max(0, width-columnsOf(ellipsis))
	head := runewidth.Truncate(s, (room+1)/2, "")
	tail := runewidth.TruncateLeft(s, n-(room-columnsOf(head)), "")
	return head + ellipsis + tail
}

// cutList keeps as many numbers of a list [1,2,3] as there is room for: half of them from
// its end. A text that is no list loses its end.
func cutList(s string, width int) string {
	if columnsOf(s) <= width {
		return s
	}
	inner, ok := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed || strings.ContainsAny(inner, "[]") {
		return cutEnd(s, width)
	}
	items := strings.Split(inner, ",")
	best := ""
	for keep := 1; keep < len(items); keep++ {
		first := (keep + 1) / 2
		parts := slices.Concat(items[:first], []string{ellipsis}, items[len(items)-(keep-first):])
		text := "[" + strings.Join(parts, ",") + "]"
		if columnsOf(text) > width {
			break
		}
		best = text
	}
	if best == "" {
		return cutMiddle(s, width)
	}
	return best
}
