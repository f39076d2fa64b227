package view

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/explain"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
)

//go:embed view.html
var pageText string

var page = template.Must(template.New("view").Parse(pageText))

// pageData is what the page's script knows of the picture.
type pageData struct {
	Title   string       `json:"title"`
	Remarks []string     `json:"remarks"`
	Legend  []pageLayout `json:"legend"`
	Boxes   []pageBox    `json:"boxes"`
}

// pageLayout is a layout of the legend.
type pageLayout struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Color string `json:"color"`
	Dash  string `json:"dash"`
}

// pageBox is what is told of a box that is clicked.
type pageBox struct {
	Kind    boxKind  `json:"kind"`
	Head    string   `json:"head"`
	Share   float64  `json:"share"`
	Facts   []fact   `json:"facts"`
	Explain []string `json:"explain"` // what explain tells, a text for each value
}

// page is the picture as a page of its own, with what explain tells of the values of the graph as written. The program
// is that which runs it; nil for a graph that is drawn as it is written.
func (p *picture) page(ctx context.Context, svg []byte, g *graph.Graph, program *graphrun.Program) ([]byte, error) {
	d := pageData{Title: p.title, Remarks: slices.Clone(p.remarks), Legend: []pageLayout{}, Boxes: []pageBox{}}
	for i, l := range p.legend {
		color, dash := p.colorOf(i)
		d.Legend = append(d.Legend, pageLayout{l.name, l.count, color, dash})
	}
	e := newExplainer(g, program)
	for i := range p.boxes {
		b := &p.boxes[i]
		box := pageBox{Kind: b.kind, Head: format.Printable(b.head), Share: b.share, Facts: []fact{}, Explain: []string{}}
		for _, f := range b.facts {
			box.Facts = append(box.Facts, fact{f.Name, format.Printable(f.Text)})
		}
		for _, name := range b.explain {
			if err := exit.Stopped(ctx); err != nil {
				return nil, err
			}
			box.Explain = append(box.Explain, e.texts(name)...)
		}
		d.Boxes = append(d.Boxes, box)
	}
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Title string
		SVG   template.HTML // all that names could be of it is escaped
		Data  pageData
	}{p.title, template.HTML(svg), d})
	return out.Bytes(), err
}

// explainer tells of values what graphrun explain does.
type explainer struct {
	graph   *graph.Graph
	program *graphrun.Program // nil: what becomes of them is not told
	known   *program.Known
	named   map[string][]*graph.Value // of inputs by name, and of nodes
}

// newExplainer returns one for a graph; the program is nil for a graph as it is written.
func newExplainer(g *graph.Graph, p *graphrun.Program) *explainer {
	e := &explainer{graph: g, program: p, known: program.KnownOf(g), named: map[string][]*graph.Value{}}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		e.named[v.Name] = []*graph.Value{v}
	}
	for _, n := range g.Nodes {
		e.named[n.Name] = n.Out
	}
	return e
}

// texts explains what a node makes, or an input: nothing of what passes inserted.
func (e *explainer) texts(name string) (list []string) {
	for _, v := range e.named[name] {
		d := infer.ValueDocOf(v, e.known)
		var b strings.Builder
		if e.program == nil {
			l, err := inspect.ExplainLayout(e.graph, v.Name)
			if err != nil {
				continue
			}
			explain.WriteLayout(&b, term.Display{}, &explain.Document{Value: &d, Explanation: &inspect.Explanation{Layout: *l}})
		} else {
			x, err := inspect.Explain(e.program, v.Name)
			if err != nil {
				continue
			}
			explain.Write(&b, term.Display{}, &explain.Document{Value: &d, Explanation: x})
		}
		list = append(list, strings.TrimSpace(b.String()))
	}
	return list
}
