// Package page writes the results of a command as a self-contained HTML page. A [Page] has sentences, charts, tables,
// and the data of charts as CSV. [Page.Write] writes the HTML.
//
// Charts are inline SVG without a script: they have the colors of the page (light, dark, print), a title on each mark,
// logarithmic axes and confidence intervals, in 450 lines and 33 kB of code. Libraries, as of November 2026:
// gonum.org/v1/plot 0.17 has fixed colors and no titles, and adds 7.5 MB to a program, mostly fonts. go-analyze/charts
// 0.6 adds 2.0 MB and has fixed colors; its x axis has categories, not numbers. go-analyze/charts draws with its
// package chartdraw, which has numeric and logarithmic axes, but no intervals, titles or shapes of points. With
// chartdraw, about 300 of the 450 lines would remain. Observable Plot (209 kB) and ECharts (0.5 to 1.1 MB) show nothing
// without a script; uPlot (51 kB) draws on a canvas.
package page

import (
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/term"
)

// Page is the content of an HTML page.
type Page struct {
	Title    string
	Summary  []string // the results in words, one paragraph for each element
	Warnings []string
	Sections []Section
	About    []Fact // the facts for a citation: see [About]
}

// Fact is a named property of the measurement.
type Fact struct{ Name, Value string }

// Section has a chart, a table or both, with an explanation.
type Section struct {
	Title string
	Note  string // explains how to read the chart or table
	Chart Chart  // nil for none
	Table *Table // nil for none
	Data  *Table // the data of the chart; nil if Table has the data
}

// Table is a table of texts.
type Table struct {
	Name  string // name of the CSV file, without extension
	Heads []string
	Right []bool // whether each column is aligned to the right; missing elements are false
	Rows  [][]string
}

// TableOf returns a table of a command's text output as a table of a page.
func TableOf(name string, t *term.Table) *Table {
	converted := &Table{Name: name, Rows: t.Rows}
	for _, c := range t.Columns {
		converted.Heads, converted.Right = append(converted.Heads, c.Head), append(converted.Right, c.Right)
	}
	return converted
}

// Chart is a picture of data.
type Chart interface {
	// draw returns the picture as SVG.
	draw() string
}

//go:embed page.html
var pageTemplate string

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	content := &body{}
	content.addLine("<h1>", Escape(p.Title), "</h1>")
	for _, s := range p.Summary {
		content.addLine(`<p class="summary">`, Escape(s), "</p>")
	}
	for _, s := range p.Warnings {
		content.addLine(`<p class="warning">Warning: `, Escape(s), "</p>")
	}
	content.addLine("<main>")
	for i := range p.Sections {
		content.addSection(&p.Sections[i])
	}
	content.addLine("</main>")
	if len(p.About) > 0 {
		content.addLine("<section>\n<h2>About this measurement</h2>\n<dl>")
		for _, f := range p.About {
			content.addLine("<dt>", Escape(f.Name), "<dd>", Escape(f.Value))
		}
		content.addLine("</dl></section>")
	}
	_, err := io.WriteString(w, FillTemplate(pageTemplate, "Title", Escape(p.Title), "Body", content.String()))
	return err
}

// FillTemplate replaces placeholders such as {{Title}} in an HTML text. args alternates between names of placeholders
// and their HTML. Package html/template is not used, because it calls methods by name. The linker would keep every
// exported method, and the program would grow by megabytes.
func FillTemplate(text string, args ...string) string {
	pairs := slices.Clone(args)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{{" + pairs[i] + "}}"
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Escape escapes a text for HTML elements and quoted attributes.
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func Escape(text string) string { return html.EscapeString(text) }

// body builds the HTML of the body element.
type body struct{ strings.Builder }

// addLine adds a line. The parts are HTML.
// It is not inlined, to save compile time: it has many callers, none of them hot.
//
//go:noinline
func (b *body) addLine(parts ...string) {
	for _, s := range parts {
		b.WriteString(s)
	}
	b.WriteByte('\n')
}

// maxRows is the maximum number of rows of CSV data in a section, some megabytes.
const maxRows = 20000

// addSection adds a section: its title, note, chart and table.
func (b *body) addSection(s *Section) {
	class := ""
	if s.Table != nil && s.Chart == nil {
		class = ` class="wide"`
	}
	b.addLine("<section", class, ">\n<h2>", Escape(s.Title), "</h2>")
	if s.Note != "" {
		b.addLine(`<p class="note">`, Escape(s.Note), "</p>")
	}
	if s.Chart != nil {
		b.addLine(s.Chart.draw())
	}
	if s.Table != nil {
		b.addTable(s.Table)
	}
	switch t := s.CSVTable(); {
	case t == nil: // the section has no data
	case len(t.Rows) > maxRows:
		b.addLine(`<p class="note">The data has `, strconv.Itoa(len(t.Rows)), " rows. The page leaves them out; ",
			"the output with --json has them.</p>")
	default:
		text := t.csv()
		b.addLine(`<details><summary>Data (CSV)</summary><p><a download="`, Escape(t.Name), `.csv" href="data:text/csv;base64,`,
			base64.StdEncoding.EncodeToString([]byte(text)), `">`, Escape(t.Name), ".csv</a></p>\n<pre>", Escape(text),
			"</pre></details>")
	}
	b.addLine("</section>")
}

func (b *body) addTable(t *Table) {
	cell := func(tag string, column int, text string) string {
		class := ""
		if column < len(t.Right) && t.Right[column] {
			class = ` class="right"`
		}
		return "<" + tag + class + ` title="` + Escape(text) + `">` + Escape(text)
	}
	b.addLine(`<div class="scroll"><table>`)
	b.WriteString("<thead><tr>")
	for i, head := range t.Heads {
		b.WriteString(cell("th", i, head))
	}
	b.addLine("</thead>\n<tbody>")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, text := range row {
			b.WriteString(cell("td", i, text))
		}
		b.WriteByte('\n')
	}
	b.addLine("</tbody></table></div>")
}

func (t *Table) csv() string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(t.Heads)
	_ = w.WriteAll(t.Rows) // a strings.Builder does not fail
	return b.String()
}

// CSVTable returns the table whose CSV the page contains: Data, or Table if Data is nil.
func (s *Section) CSVTable() *Table {
	if s.Data != nil {
		return s.Data
	}
	return s.Table
}
