package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// column is a column of a table, and what becomes of it on a terminal that is too narrow.
type column struct {
	head string
	cut  func(cell string, width int) string // makes a cell narrower; nil: cells stay whole
	// floors are the widths down to which the column gives way in each round, before any
	// column gives more.
	floors [rounds]int
	usual  string // the column is left out where all of its cells are this
	spare  bool   // the column is left out before others lose what makes them worth reading
	flow   bool   // the last column: its words go on in further lines
	right  bool   // numbers, whose last digits are below each other
}

// rounds is the number of times that columns give way: first remarks, then names, then
// shapes and strides, then whatever there is.
const rounds = 4

// never is a floor of those that do not give way yet.
const never = 1 << 30

// Names lose their middle, since they differ at both ends (layer1.0.conv2.weight), lists their
// middle items, phrases and prose their end. Numbers and dtypes stay whole.
func wholeCol(head string) column  { return column{head: head} }
func numberCol(head string) column { return column{head: head, right: true} }
func nameCol(head string) column {
	return column{head: head, cut: cutMiddle, floors: [rounds]int{never, 14, 14, 6}}
}
func listCol(head string) column {
	return column{head: head, cut: cutList, floors: [rounds]int{never, never, 10, 6}}
}
func phraseCol(head string, floor int) column {
	return column{head: head, cut: cutEnd, floors: [rounds]int{floor, floor, floor, 6}}
}
func proseCol(head string) column {
	return column{head: head, cut: cutEnd, floors: [rounds]int{30, 20, 20, 10}, flow: true}
}

// unless makes a column that is left out where all of its cells are the usual ones.
func (c column) unless(usual string) column {
	c.usual = usual
	return c
}

// ifRoom makes a column that is the first to go.
func (c column) ifRoom() column {
	c.spare = true
	return c
}

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

// addColumn adds a column with a cell for each row.
func (t *table) addColumn(c column, cells []string) {
	t.columns = append(t.columns, c)
	for i, cell := range cells {
		if i == len(t.rows) {
			t.rows = append(t.rows, nil)
		}
		t.rows[i] = append(t.rows[i], printable(cell))
	}
}

// writeMarkdown prints the table as Markdown has it. Errors come out at w's next Write.
func (t *table) writeMarkdown(w io.Writer) {
	line := func(of func(i int) string) {
		for i := range t.columns {
			fmt.Fprint(w, "| ", strings.ReplaceAll(of(i), "|", "\\|"), " ")
		}
		fmt.Fprintln(w, "|")
	}
	line(func(i int) string { return t.columns[i].head })
	line(func(i int) string {
		if t.columns[i].right {
			return "---:"
		}
		return "---"
	})
	for _, row := range t.rows {
		line(func(i int) string { return row[i] })
	}
}

// gap is the number of blanks between columns.
const gap = 2

// write prints the table. Errors come out at w's Flush, or its next Write.
func (t *table) write(w io.Writer, d display) {
	widths := t.fit(d.width)
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

// fit returns the widths that columns have on a terminal of so many columns; 0 is no limit.
func (t *table) fit(limit int) []int {
	widths := t.widths()
	if limit == 0 || total(widths) <= limit {
		return widths
	}
	for i, c := range t.columns {
		if !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != c.usual }) {
			widths[i] = absent
		}
	}
	for round := range rounds {
		for round == 0 {
			shrunk := slices.Clone(widths)
			t.shrink(shrunk, limit, round)
			spare := lastIndex(t.columns, func(i int) bool { return t.columns[i].spare && widths[i] != absent })
			if total(shrunk) <= limit || spare < 0 {
				break
			}
			widths[spare] = absent
		}
		t.shrink(widths, limit, round)
	}
	return widths
}

// lastIndex is the index of the last item that holds; -1 if none does.
func lastIndex[T any](list []T, holds func(i int) bool) int {
	for i := len(list) - 1; i >= 0; i-- {
		if holds(i) {
			return i
		}
	}
	return -1
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

// shrink takes from the widest columns until the line fits, or no column has anything left
// to give in this round.
func (t *table) shrink(widths []int, limit, round int) {
	for over := total(widths) - limit; over > 0; {
		widest, next := -1, 0
		for i := range t.columns {
			if widths[i] <= t.floor(i, round) {
				continue
			}
			if widest < 0 || widths[i] > widths[widest] {
				widest, i = i, widest
			}
			if i >= 0 {
				next = max(next, widths[i])
			}
		}
		if widest < 0 {
			return
		}
		// Down to the next one, and with it from there on.
		least := max(t.floor(widest, round), min(next, widths[widest]-1))
		give := min(over, widths[widest]-least)
		widths[widest] -= give
		over -= give
	}
}

// floor is the least width of a column in a round.
func (t *table) floor(i, round int) int {
	if t.columns[i].cut == nil {
		return never
	}
	return max(t.columns[i].floors[round], columnsOf(t.columns[i].head))
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
		blanks := strings.Repeat(" ", max(0, widths[i]-n))
		if t.columns[i].right {
			cell, blanks = blanks+cell, ""
		}
		b.WriteString(cell)
		b.WriteString(blanks)
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
// none for accents that are above another letter.
func columnsOf(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return runewidth.StringWidth(s)
		}
	}
	return len(s)
}

// ellipsis is where something was cut out.
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
// its end. A word may be before it. A text that is no list loses its end.
func cutList(s string, width int) string {
	if columnsOf(s) <= width {
		return s
	}
	head, inner, ok := strings.Cut(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed || strings.ContainsAny(inner, "[]") {
		return cutEnd(s, width)
	}
	items := strings.Split(inner, ",")
	best := ""
	for keep := 1; keep < len(items); keep++ {
		first := (keep + 1) / 2
		parts := slices.Concat(items[:first], []string{ellipsis}, items[len(items)-(keep-first):])
		text := head + "[" + strings.Join(parts, ",") + "]"
		if columnsOf(text) > width {
			break
		}
		best = text
	}
	if best == "" {
		return cutEnd(s, width)
	}
	return best
}

// cutFlags says dense for non_overlapping_and_dense, which is longer than all other flags
// together, before it loses the end.
func cutFlags(s string, width int) string {
	return cutEnd(strings.ReplaceAll(s, "non_overlapping_and_dense", "dense"), width)
}
