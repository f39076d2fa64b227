package compare

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed report.html
var pageText string

var pageTemplate = template.Must(template.New("report").Parse(pageText))

// writeHTML writes the comparison as a self-contained page without scripts.
func (s *comparison) writeHTML(w io.Writer) error {
	t := s.table()
	page := struct {
		*comparison
		Files, Caption string
		Heads          []string
		Rows           []pageRow
		Wanted         int
		VerdictTexts   []string
	}{comparison: s, Caption: s.caption(), Wanted: s.flags.runs, VerdictTexts: s.verdictTexts()}
	var files []string
	for _, r := range s.rows {
		if !slices.Contains(files, r.File) {
			files = append(files, r.File)
		}
	}
	page.Files = strings.Join(files, ", ")
	for _, c := range t.Columns {
		page.Heads = append(page.Heads, c.Head)
	}
	slowest := s.slowest()
	for i, r := range s.rows {
		row := pageRow{Cells: t.Rows[i], First: r.Base == ""}
		if most := slowest[r.Place()]; r.Median != nil && most > 0 {
			row.Percent = 100 * *r.Median / most
		}
		page.Rows = append(page.Rows, row)
	}
	return pageTemplate.Execute(w, page)
}

// pageRow is a row of the table, with the median in percent of the slowest strategy of the same combination.
type pageRow struct {
	Cells   []string
	First   bool // of a combination
	Percent float64
}

// slowest returns the greatest median by [Row.Place].
func (s *comparison) slowest() map[string]float64 {
	most := map[string]float64{}
	for _, r := range s.rows {
		if r.Median != nil {
			most[r.Place()] = max(most[r.Place()], *r.Median)
		}
	}
	return most
}
