// Package page writes reports as self-contained HTML pages: sentences, charts, tables, and the data behind them as CSV.
//
// Charts are inline SVG that is drawn here: they need no script, follow the colors of the page, and print. Chart
// libraries either need a script of several hundred kilobytes (Plot, ECharts), draw on a canvas, which does not print
// well (uPlot), or embed fonts of four megabytes (gonum.org/v1/plot).
package page

import (
	_ "embed"
	"encoding/base64"
	"encoding/csv"
	"html/template"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/term"
)

// Page is a report.
type Page struct {
	Title    string
	Summary  []string // the results in words, a paragraph each
	Warnings []string
	Sections []Section
	About    []Fact // what is needed to cite and to repeat the measurement
}

// Fact is a named property of the measurement.
type Fact struct{ Name, Value string }

// Section is a chart or a table, or both, with an explanation and the data.
type Section struct {
	Title string
	Note  string // how to read it
	Chart Chart  // nil for none
	Table *Table // nil for none
	Data  *Table // what the chart shows; nil if the table has it
}

// Table is a table of texts. Right lists the columns that are aligned to the right.
type Table struct {
	Name  string // of the CSV file, without its ending
	Heads []string
	Right []bool
	Rows  [][]string
}

// TableOf returns the table of a text output.
func TableOf(name string, t *term.Table) *Table {
	p := &Table{Name: name, Rows: t.Rows}
	for _, c := range t.Columns {
		p.Heads, p.Right = append(p.Heads, c.Head), append(p.Right, c.Right)
	}
	return p
}

// Chart is a picture of data.
type Chart interface {
	// draw returns the picture as SVG.
	draw() template.HTML
}

//go:embed page.html
var text string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"draw":  func(c Chart) template.HTML { return c.draw() },
	"csv":   func(t *Table) string { return t.csv() },
	"link":  func(t *Table) template.URL { return t.link() },
	"right": func(t *Table, i int) bool { return i < len(t.Right) && t.Right[i] },
}).Parse(text))

// Write writes the page.
func (p *Page) Write(w io.Writer) error { return pageTemplate.Execute(w, p) }

// csv returns the table as CSV.
func (t *Table) csv() string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(t.Heads)
	_ = w.WriteAll(t.Rows) // a strings.Builder does not fail
	return b.String()
}

// link returns the CSV as a data URL.
func (t *Table) link() template.URL {
	return template.URL("data:text/csv;base64," + base64.StdEncoding.EncodeToString([]byte(t.csv())))
}

// DataOf returns the table whose CSV the page contains: Data, or Table.
func (s *Section) DataOf() *Table {
	if s.Data != nil {
		return s.Data
	}
	return s.Table
}
