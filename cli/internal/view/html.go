package view

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/explain"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/infer"
	"github.com/graphrun/graphrun/cli/internal/page"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/internal/program"
)

//go:embed view.html
var pageText string

// layoutScript places items, and viewScript draws and moves them.
//
//go:embed layout.js
var layoutScript string

//go:embed view.js
var viewScript string

// pageData is the data of the script of the page.
type pageData struct {
	Title      string       `json:"title"`
	Remarks    []string     `json:"remarks"`
	Horizontal bool         `json:"horizontal"`
	Legend     []pageLayout `json:"legend"`
	Boxes      []pageBox    `json:"boxes"`
	Values     []pageValue  `json:"values"`
	Groups     []pageGroup  `json:"groups"` // the first one has all others
}

// pageLayout is a layout of the legend.
type pageLayout struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Color string `json:"color"`
	Dash  string `json:"dash"`
}

// pageBox is a box with its details, which the page shows after a click.
type pageBox struct {
	Kind    boxKind  `json:"kind"`
	Head    string   `json:"head"`
	Share   float64  `json:"share"`
	Facts   []fact   `json:"facts"`
	Explain []string `json:"explain"` // the output of explain for each value
	Marks   []string `json:"marks,omitempty"`
	Peer    *int     `json:"peer,omitempty"`
	pageMarkup
}

// pageMarkup is the size of a box, and its content as SVG, with escaped names.
type pageMarkup struct {
	Width  float64 `json:"w"`
	Height float64 `json:"h"`
	SVG    string  `json:"svg"`
}

// pageValue is a line between boxes.
type pageValue struct {
	From   int    `json:"from"`
	To     []int  `json:"to"`
	Layout int    `json:"layout"`
	Tip    string `json:"tip"`
}

// pageGroup is a group. Items are indices of boxes, or -1 less the index of a group.
type pageGroup struct {
	Label      string      `json:"label"`
	LabelWidth float64     `json:"labelWidth"`
	Lines      []string    `json:"lines"`
	Open       bool        `json:"open"`
	Items      []int       `json:"items"`
	Drawing    pageDrawing `json:"drawing"`
	pageMarkup
}

// pageDrawing is a level. Coordinates run along the direction of the picture.
type pageDrawing struct {
	Width  float64      `json:"w"`
	At     [][2]float64 `json:"at"`
	Sizes  [][2]float64 `json:"sizes"`
	Ranks  []int        `json:"ranks"`
	Layers [][2]float64 `json:"layers"`
	Ports  [][2]any     `json:"ports"` // the line around the group, and whether it leaves
	Lines  []pageLine   `json:"lines"`
}

// pageLine is a line of a level.
type pageLine struct {
	Values []int     `json:"values"`
	Layout int       `json:"layout"`
	From   int       `json:"from"`
	To     []int     `json:"to"`
	Leave  float64   `json:"leave"`
	Cross  []float64 `json:"cross"`
	Arrive []float64 `json:"arrive"`
}

// page returns an HTML page, which needs no other files, with the drawings of all groups and the explanations of
// values, by side of the picture.
func (s *scene) page(ctx context.Context, sides ...*explainer) ([]byte, error) {
	d := pageData{Title: s.title, Remarks: append([]string{}, s.remarks...), Horizontal: s.horizontal,
		Legend: []pageLayout{}, Boxes: []pageBox{}, Values: []pageValue{}}
	for i, l := range s.legend {
		color, dash := s.colorOf(i)
		d.Legend = append(d.Legend, pageLayout{l.name, l.count, color, dash})
	}
	for i := range s.boxes {
		b := &s.boxes[i]
		box := pageBox{Kind: b.kind, Head: format.Printable(b.head), Share: b.share, Facts: []fact{}, Explain: []string{},
			Marks: b.marks}
		if len(sides) > 1 && b.peer >= 0 {
			box.Peer = &b.peer
		}
		for _, f := range b.facts {
			box.Facts = append(box.Facts, fact{f.Name, format.Printable(f.Text)})
		}
		for _, name := range b.explain {
			if err := exit.Stopped(ctx); err != nil {
				return nil, err
			}
			box.Explain = append(box.Explain, sides[b.side].texts(name)...)
		}
		d.Boxes = append(d.Boxes, box)
	}
	for i := range s.nets {
		n := &s.nets[i]
		d.Values = append(d.Values, pageValue{n.from, n.to, n.layout, s.lineTip(&line{values: []int{i}})})
	}
	s.addGroup(&d, s.root)
	data, err := json.Marshal(&d) // escapes <, > and &, which could end the script
	if err != nil {
		return nil, err
	}
	return []byte(page.Fill(pageText, "Title", page.Escape(s.title), "Style", s.layoutStyle(), "Data", string(data),
		"Layout", layoutScript, "Script", viewScript)), nil
}

// addGroup adds a group with all groups in it, and returns its number as an item.
func (s *scene) addGroup(d *pageData, g *item) int {
	at := len(d.Groups)
	d.Groups = append(d.Groups, pageGroup{})
	p := pageGroup{Label: g.label, Open: g.open, Items: []int{}, Lines: []string{}, Drawing: drawingOf(s.levels[g])}
	if t := s.texts[g]; t != nil {
		p.Label, p.LabelWidth, p.Lines, p.pageMarkup = t.frameLabel, t.labelWidth(), t.lines, t.page()
	}
	for _, x := range g.items {
		if x.box < 0 {
			p.Items = append(p.Items, s.addGroup(d, x))
			continue
		}
		d.Boxes[x.box].pageMarkup = s.texts[x].page()
		p.Items = append(p.Items, x.box)
	}
	d.Groups[at] = p
	return -1 - at
}

func (b *svgBox) page() pageMarkup { return pageMarkup{b.size.Width, b.size.Height, b.markup()} }

func drawingOf(l *level) pageDrawing {
	d := pageDrawing{Width: l.Width, At: [][2]float64{}, Sizes: [][2]float64{}, Ranks: l.Ranks, Layers: [][2]float64{},
		Ports: [][2]any{}, Lines: []pageLine{}}
	for i, b := range l.sizes {
		d.At = append(d.At, [2]float64{l.Corners[i].X, l.Corners[i].Y})
		d.Sizes = append(d.Sizes, [2]float64{b.Width, b.Height})
	}
	for _, b := range l.Layers {
		d.Layers = append(d.Layers, [2]float64{b.Top, b.Bottom})
	}
	for _, p := range l.ports {
		d.Ports = append(d.Ports, [2]any{p.line, p.out})
	}
	for i, n := range l.lines {
		r := l.Routes[i]
		d.Lines = append(d.Lines, pageLine{n.values, n.layout, n.from, n.to, r.Leave, append([]float64{}, r.Cross...),
			r.Arrive})
	}
	return d
}

// explainer has the output of graphrun explain for values.
type explainer struct {
	graph   *graph.Graph
	program *graphrun.Program // nil: without the part about the program
	known   *program.Known
	named   map[string][]*graph.Value // by the names of inputs and nodes
}

// newExplainer returns an explainer. The program is nil for a graph as written.
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
