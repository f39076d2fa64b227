package report

import "github.com/graphrun/graphrun/graph"

// Notes are remarks on a graph. Documents contain them in addition to results.
type Notes struct {
	Assumed  map[string]int `json:"assumed,omitzero" doc:"The assumed sizes of symbols that were not given, by symbol."`
	Warnings []Mistake      `json:"warnings,omitzero" doc:"Possible mistakes in the file."`
}

// Mistake is a [graph.Error] in a document.
type Mistake struct {
	Node    string `json:"node" doc:"The node that has the mistake; empty for none."`
	Op      string `json:"op,omitzero" doc:"The op of the node."`
	Message string `json:"message" doc:"The message, in PyTorch's words if PyTorch has one."`
	File    string `json:"file,omitzero" doc:"The file that has the mistake."`
	Line    int    `json:"line,omitzero" doc:"The line in the file, from 1."`
	Col     int    `json:"col,omitzero" doc:"The column in the line, from 1."`
}

// NotesOf returns the notes on a graph: its assumed sizes and its warnings.
func NotesOf(g *graph.Graph) (notes Notes) {
	if g == nil {
		return notes
	}
	if assumed := g.Assumed(); len(assumed) > 0 {
		notes.Assumed = assumed
	}
	for _, e := range g.Warnings() {
		notes.Warnings = append(notes.Warnings, MistakeOf(e))
	}
	return notes
}

// MistakeOf converts an error to a Mistake, and nil to the zero Mistake.
func MistakeOf(e *graph.Error) Mistake {
	if e == nil {
		return Mistake{}
	}
	mistake := Mistake{Node: e.Node, Op: e.Op}
	if e.Err != nil {
		mistake.Message = e.Err.Error()
	}
	if e.Line > 0 {
		mistake.File, mistake.Line, mistake.Col = e.File, e.Line, e.Col
	}
	return mistake
}
