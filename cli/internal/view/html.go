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

// pageData is the data of the script of the page.
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

// pageBox has the details of a box, which the page shows after a click.
type pageBox struct {
	Kind    boxKind  `json:"kind"`
	Head    string   `json:"head"`
	Share   float64  `json:"share"`
	Facts   []fact   `json:"facts"`
	Explain []string `json:"explain"` // the output of explain for each value
}

// page returns an HTML page, which needs no other files, with the drawing and the explanations of values. program is
// nil for a graph as written.
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
		SVG   template.HTML // names in it are escaped
		Data  pageData
	}{p.title, template.HTML(svg), d})
	return out.Bytes(), err
}

// explainer has the output of graphrun explain for values.
type explainer struct {
	graph   *graph.Graph
	program *graphrun.Program // nil: without the part about the program
	known   *program.Known
	named   map[string][]*graph.Value // by the names of inputs and nodes
}

// newExplainer returns an explainer; the program is nil for a graph as written.
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

// texts returns the explanations of an input or of the values of a node. Nodes that passes inserted have none.
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
