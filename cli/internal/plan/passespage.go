package plan

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/page"
)

//go:embed passes.html
var passesTemplate string

// passColumn is a column of the page of --passes: the graph after a pass.
type passColumn struct {
	Pass, Doc, Summary string
	IsUnchanged        bool      // whether the pass changed nothing
	Rows               []passRow // nil if IsUnchanged
}

// passRow is a line of a graph.
type passRow struct {
	Mark  string // how the pass changed the line: "+", "~" or "\u2212", or empty if it did not
	Class string // "added", "changed" or "removed"; "constant" for an unchanged constant; else empty
	Words []passWord
	name  string // the name of the value or output
	text  string // the line
}

// passWord is a part of a line.
type passWord struct {
	Text    string
	IsValue bool // whether Text is the name of a value
}

// writePasses writes an HTML page with a column for each graph of dump, the text that [graphrun.Options.Dump] receives.
// Each graph in dump begins with a line "after PASS: DOC".
func writePasses(w io.Writer, title, dump string) error {
	var columns []passColumn
	var previous []passRow // the graph before the pass
	for i, text := range strings.Split("\n"+dump, "\nafter ")[1:] {
		head, body, _ := strings.Cut(text, "\n")
		column := passColumn{}
		column.Pass, column.Doc, _ = strings.Cut(head, ": ")
		rows := passRows(body)
		column.Rows, column.Summary, column.IsUnchanged = markDifferences(previous, rows, i == 0)
		if column.IsUnchanged {
			column.Rows = nil
		}
		columns = append(columns, column)
		previous = rows
	}
	var out strings.Builder
	for i := range columns {
		columns[i].write(&out)
	}
	_, err := io.WriteString(w, page.FillTemplate(passesTemplate, "Title", page.Escape(title), "Columns", out.String()))
	return err
}

// write writes the column as HTML.
func (c *passColumn) write(out *strings.Builder) {
	doc := page.Escape(c.Doc)
	if c.IsUnchanged {
		fmt.Fprintf(out, "<section class=\"same\"><h2 tabindex=\"0\" title=\"%s\">%s: no change</h2>\n</section>\n", doc,
			page.Escape(c.Pass))
		return
	}
	fmt.Fprintf(out, "<section><h2 tabindex=\"0\" title=\"%s\">%s</h2>\n<p>%s</p><p>%s</p>\n<ol>", doc,
		page.Escape(c.Pass), doc, page.Escape(c.Summary))
	for _, r := range c.Rows {
		class := ""
		if r.Class != "" {
			class = fmt.Sprintf(` class="%s"`, r.Class)
		}
		fmt.Fprintf(out, `<li%s data-mark="%s">`, class, r.Mark)
		for _, word := range r.Words {
			text := page.Escape(word.Text)
			if word.IsValue {
				text = fmt.Sprintf(`<b data-v="%s">%s</b>`, text, text)
			}
			out.WriteString(text)
		}
		out.WriteString("</li>\n")
	}
	out.WriteString("</ol></section>\n")
}

// passRows returns the lines of a graph. body is the text of the graph in a dump, one node or output a line.
func passRows(body string) []passRow {
	var rows []passRow
	names := map[string]bool{}
	for line := range strings.Lines(body) {
		line = strings.TrimRight(strings.TrimPrefix(line, "  "), "\n")
		if line == "" {
			continue
		}
		name, _, _ := strings.Cut(line, ": ")
		if strings.HasPrefix(line, "output ") {
			name, _, _ = strings.Cut(line, " = ")
		}
		names[name] = true
		for results, _, _ := strings.Cut(line, " = "); ; { // a node with several results
			before, after, found := strings.Cut(results, ": ")
			if !found {
				break
			}
			names[before[strings.LastIndexByte(before, ' ')+1:]] = true
			results = after
		}
		rows = append(rows, passRow{name: name, text: line})
	}
	for i := range rows {
		rows[i].Words = passWords(rows[i].text, names)
	}
	return rows
}

// passWords divides a line at the names of values. For example, c: add(a, b) becomes the values c, a and b, and the
// texts ": add(", ", " and ")" between them. names is the set of the names of values.
func passWords(line string, names map[string]bool) []passWord {
	var words []passWord
	add := func(text string, isValue bool) { // joins text to the previous word if neither is a value
		text = format.Printable(text)
		if last := len(words) - 1; last >= 0 && !isValue && !words[last].IsValue {
			words[last].Text += text
		} else if text != "" {
			words = append(words, passWord{text, isValue})
		}
	}
	for line != "" {
		if end := nameLength(line); end > 0 {
			add(line[:end], names[line[:end]])
			line = line[end:]
		} else {
			const isValue = false // a separator
			add(line[:1], isValue)
			line = line[1:]
		}
	}
	return words
}

// nameLength returns the length of the name with which a line begins; 0 if it begins with a separator. A colon is a
// separator only before a blank or at the end of the line, because names such as onnx::Conv_497 have colons.
func nameLength(line string) int {
	const separators = " (),:"
	end := strings.IndexAny(line, separators)
	switch {
	case end == 0:
		return 0
	case end < 0:
		return len(line)
	}
	for end < len(line)-1 && line[end] == ':' && line[end+1] != ' ' { // the colon is a part of the name
		separator := strings.IndexAny(line[end+1:], separators)
		if separator < 0 {
			return len(line)
		}
		end += 1 + separator
	}
	return end
}

// markDifferences marks the rows of a graph that differ from previous, the rows of the previous graph. It inserts the
// removed rows at their former positions. For example:
//
//	previous        rows            marked
//	a: relu(x)      a: relu(x)        a: relu(x)
//	b: neg(a)                       - b: neg(a)
//	c: exp(b)       c: exp(a)       ~ c: exp(a)
//	                d: abs(c)       + d: abs(c)
//
// isUnchanged is true if the graphs do not differ. If isFirst is set, there is no previous graph, and no row is marked.
func markDifferences(previous, rows []passRow, isFirst bool) (marked []passRow, summary string, isUnchanged bool) {
	oldText, names := map[string]string{}, map[string]bool{}
	for _, row := range previous {
		oldText[row.name] = row.text
	}
	for _, row := range rows {
		names[row.name] = true
	}
	added, changed, removed := 0, 0, 0
	next := 0 // index of the first row of previous that is not yet visited
	// insertRemoved visits the rows of previous before the row with a name, or all rows if no row has the name. It appends
	// the removed rows.
	insertRemoved := func(before string) {
		for next < len(previous) && previous[next].name != before {
			if row := previous[next]; !names[row.name] {
				row.Mark, row.Class = "\u2212", "removed"
				marked = append(marked, row)
				removed++
			}
			next++
		}
	}
	for _, row := range rows {
		text, known := oldText[row.name]
		switch {
		case isFirst: // nothing to compare with
		case !known:
			row.Mark, row.Class = "+", "added"
			added++
		case text != row.text:
			row.Mark, row.Class = "~", "changed"
			changed++
		}
		if row.Mark == "" && strings.HasSuffix(row.text, " = constant") {
			row.Class = "constant"
		}
		if known {
			insertRemoved(row.name)
		}
		marked = append(marked, row)
	}
	insertRemoved("") // visits all remaining rows, because no row has an empty name
	summary = fmt.Sprintf("%d added, %d changed, %d removed", added, changed, removed)
	if isFirst {
		summary = format.Count(len(rows), "line")
	}
	return marked, summary, !isFirst && added+changed+removed == 0
}
