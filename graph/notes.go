package graph

import "github.com/graphrun/graphrun/report"

// Notes returns the notes on the graph for documents: its assumed sizes and its warnings.
func (g *Graph) Notes() (notes report.Notes) {
	if g == nil {
		return notes
	}
	if assumed := g.Assumed(); len(assumed) > 0 {
		notes.Assumed = assumed
	}
	for _, e := range g.Warnings() {
		notes.Warnings = append(notes.Warnings, e.Mistake())
	}
	return notes
}

// Mistake returns the error for documents. A nil error is the zero Mistake.
func (e *Error) Mistake() report.Mistake {
	if e == nil {
		return report.Mistake{}
	}
	mistake := report.Mistake{Node: e.Node, Op: e.Op}
	if e.Err != nil {
		mistake.Message = e.Err.Error()
	}
	if e.Line > 0 {
		mistake.File, mistake.Line, mistake.Col = e.File, e.Line, e.Col
	}
	return mistake
}
