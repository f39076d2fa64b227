package main

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed report.html
var reportText string

var reportPage = template.Must(template.New("report").Parse(reportText))

// writeHTML writes the comparison as a page of its own: no scripts, nothing loaded.
func (c *comparison) writeHTML(w io.Writer) error {
	return reportPage.Execute(w, struct {
		*comparison
		Rows []row
		Runs int
	}{c, c.doc().rows(), c.runs()})
}
