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

// layoutScript computes the positions of boxes and groups as groups are opened and folded.
//
//go:embed layout.js
var layoutScript string

// viewScript draws the picture, and handles clicks, search and zoom.
//
//go:embed view.js
var viewScript string

// pageData is the JSON data of an HTML page, which the scripts of the page read. It has two drawings of each group of a
// [scene]: one open, one folded.
type pageData struct {
	Title      string       `json:"title"`
	Remarks    []string     `json:"remarks"`
	Horizontal bool         `json:"horizontal"`
	Legend     []pageLayout `json:"legend"`
	Boxes      []pageBox    `json:"boxes"`  // picture.boxes
	Values     []pageValue  `json:"values"` // picture.values
	Groups     []pageGroup  `json:"groups"` // the first group is the whole picture
}

// pageLayout is a layout in the legend.
type pageLayout struct {
	Name  string `json:"name"`
	Count int    `json:"count"` // number of values with the layout
	Color string `json:"color"`
	Dash  string `json:"dash"` // SVG dash pattern of its lines
}

// pageBox is a box with its details, which the page shows after a click. [pictureBox] explains the fields.
type pageBox struct {
	Kind    boxKind  `json:"kind"`
	Head    string   `json:"head"`
	Share   float64  `json:"share"`
	Facts   []detail `json:"facts"`
	Explain []string `json:"explain"` // for each value of the box, the output of graphrun explain
	Marks   []string `json:"marks,omitempty"`
	Peer    *int     `json:"peer,omitempty"`
	pageMarkup
}

// pageMarkup is the size of a folded item in pixels, and its content as SVG, with escaped names.
type pageMarkup struct {
	Width  float64 `json:"w"`
	Height float64 `json:"h"`
	SVG    string  `json:"svg"`
}

// pageValue is a value, drawn as a line from the box that computes the value to its readers.
type pageValue struct {
	From   int    `json:"from"`   // index of the box that computes the value
	To     []int  `json:"to"`     // indices of the readers
	Layout int    `json:"layout"` // index in the legend; -1 for none
	Tip    string `json:"tip"`
}

// pageGroup is a group of items. An item is a box or a group.
type pageGroup struct {
	Label      string      `json:"label"`
	LabelWidth float64     `json:"labelWidth"` // the least width of the frame of the open group
	Lines      []string    `json:"lines"`      // the text of the folded group
	Open       bool        `json:"open"`       // whether the group is open at first
	Items      []int       `json:"items"`      // i for box i, -1-i for group i
	Drawing    pageDrawing `json:"drawing"`
	pageMarkup             // size and SVG of the folded group
}

// pageDrawing is the drawing of an open group: a [level]. In a horizontal picture, x and y are exchanged. A port is a
// point on the frame of the group, at which a line from outside continues. Items come before ports.
type pageDrawing struct {
	Width  float64      `json:"w"`
	At     [][2]float64 `json:"at"`     // x and y of the upper left corner of each item and port
	Sizes  [][2]float64 `json:"sizes"`  // width and height of each item and port
	Ranks  []int        `json:"ranks"`  // the layer of each item and port
	Layers [][2]float64 `json:"layers"` // y of the top and the bottom of each layer
	Ports  [][2]any     `json:"ports"`  // port.line (the line outside) and port.out (whether it leaves the group)
	Lines  []pageLine   `json:"lines"`
}

// pageLine is a line of a drawing. Leave, Cross and Arrive are the coordinates of its route: see graphdraw.Route.
type pageLine struct {
	Values []int     `json:"values"` // indices of pageData.Values
	Layout int       `json:"layout"` // index in the legend; -1 for none or several
	From   int       `json:"from"`   // index of an item or port
	To     []int     `json:"to"`     // indices of items and ports
	Leave  float64   `json:"leave"`
	Cross  []float64 `json:"cross"`
	Arrive []float64 `json:"arrive"`
}

// page returns a self-contained HTML page with the drawings of all groups. explainers has an explainer for each
// plan of the picture, or one for a graph as written.
func (s *scene) page(ctx context.Context, explainers ...*explainer) ([]byte, error) {
	content := pageData{Title: s.title, Remarks: append([]string{}, s.remarks...), Horizontal: s.horizontal,
		Legend: []pageLayout{}, Boxes: []pageBox{}, Values: []pageValue{}}
	for i, layout := range s.legend {
		color, dash := s.colorOf(i)
		content.Legend = append(content.Legend, pageLayout{layout.name, layout.count, color, dash})
	}
	for i := range s.boxes {
		box, err := pageBoxOf(ctx, &s.boxes[i], explainers)
		if err != nil {
			return nil, err
		}
		content.Boxes = append(content.Boxes, box)
	}
	for i := range s.values {
		value := &s.values[i]
		tip := s.lineTip(&line{values: []int{i}}) // tooltip of a line with this value only
		content.Values = append(content.Values, pageValue{value.from, value.to, value.layout, tip})
	}
	s.addGroup(&content, s.root)
	data, err := json.Marshal(&content) // escapes <, > and &, which could end the script
	if err != nil {
		return nil, err
	}
	return []byte(page.FillTemplate(pageText, "Title", page.Escape(s.title), "Style", s.layoutStyle(), "Data",
		string(data), "Layout", layoutScript, "Script", viewScript)), nil
}

// pageBoxOf returns the data of a box without its size and SVG, which addGroup sets.
func pageBoxOf(ctx context.Context, b *pictureBox, explainers []*explainer) (pageBox, error) {
	box := pageBox{Kind: b.kind, Head: format.Printable(b.head), Share: b.share, Facts: []detail{}, Explain: []string{},
		Marks: b.marks}
	if len(explainers) > 1 && b.peer >= 0 {
		box.Peer = &b.peer
	}
	for _, f := range b.details {
		box.Facts = append(box.Facts, detail{f.Name, format.Printable(f.Text)})
	}
	for _, name := range b.sourceNames {
		if err := exit.InterruptError(ctx); err != nil {
			return box, err
		}
		box.Explain = append(box.Explain, explainers[b.planIndex].texts(name)...)
	}
	return box, nil
}

// addGroup adds a group and all groups in it to content.Groups. It returns the group's element of pageGroup.Items.
func (s *scene) addGroup(content *pageData, it *item) int {
	index := len(content.Groups)
	content.Groups = append(content.Groups, pageGroup{})
	created := pageGroup{Label: it.label, Open: it.isOpen, Items: []int{}, Lines: []string{},
		Drawing: drawingOf(s.levels[it])}
	if t := s.texts[it]; t != nil {
		created.Label, created.LabelWidth, created.Lines, created.pageMarkup = t.frameLabel, t.labelWidth(), t.lines, t.page()
	}
	for _, child := range it.items {
		if child.box < 0 { // a group
			created.Items = append(created.Items, s.addGroup(content, child))
			continue
		}
		content.Boxes[child.box].pageMarkup = s.texts[child].page()
		created.Items = append(created.Items, child.box)
	}
	content.Groups[index] = created
	return -1 - index
}

// page returns the size and the SVG of a box for an HTML page.
func (b *svgBox) page() pageMarkup { return pageMarkup{b.size.Width, b.size.Height, b.markup()} }

// drawingOf returns a level as JSON data.
func drawingOf(drawn *level) pageDrawing {
	created := pageDrawing{Width: drawn.Width, At: [][2]float64{}, Sizes: [][2]float64{}, Ranks: drawn.Ranks,
		Layers: [][2]float64{}, Ports: [][2]any{}, Lines: []pageLine{}}
	for i, b := range drawn.sizes {
		created.At = append(created.At, [2]float64{drawn.Corners[i].X, drawn.Corners[i].Y})
		created.Sizes = append(created.Sizes, [2]float64{b.Width, b.Height})
	}
	for _, b := range drawn.Layers {
		created.Layers = append(created.Layers, [2]float64{b.Top, b.Bottom})
	}
	for _, p := range drawn.ports {
		created.Ports = append(created.Ports, [2]any{p.line, p.out})
	}
	for i, line := range drawn.lines {
		route := drawn.Routes[i]
		created.Lines = append(created.Lines, pageLine{Values: line.values, Layout: line.layout, From: line.from,
			To: line.to, Leave: route.LeaveX, Cross: append([]float64{}, route.CrossX...), Arrive: route.ArriveX})
	}
	return created
}

// explainer computes the output of graphrun explain for the values of a graph.
type explainer struct {
	graph       *graph.Graph
	program     *graphrun.Program         // nil for a graph as written
	preRunFacts *program.PreRunFacts      // the facts about values whose shapes depend on data
	named       map[string][]*graph.Value // the results of each node, and inputs and constants, by name
}

// newExplainer returns an explainer of a graph. compiled is the program of the graph, or nil.
func newExplainer(g *graph.Graph, compiled *graphrun.Program) *explainer {
	created := &explainer{graph: g, program: compiled, preRunFacts: program.NewPreRunFacts(g),
		named: map[string][]*graph.Value{}}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		created.named[v.Name] = []*graph.Value{v}
	}
	for _, n := range g.Nodes {
		created.named[n.Name] = n.Out
	}
	return created
}

// texts returns the explanation of the input or constant with this name, or of each result of the node. It returns
// nil for a node that a pass inserted.
func (e *explainer) texts(name string) (list []string) {
	for _, value := range e.named[name] {
		doc := infer.ValueDocOf(value, e.preRunFacts)
		var b strings.Builder
		if e.program == nil {
			layout, err := inspect.ExplainLayout(e.graph, value.Name)
			if err != nil {
				continue
			}
			explanation := &inspect.Explanation{Layout: *layout}
			explain.WriteLayout(&b, term.Display{}, &explain.Document{Value: &doc, Explanation: explanation})
		} else {
			explanation, err := inspect.Explain(e.program, value.Name)
			if err != nil {
				continue
			}
			explain.Write(&b, term.Display{}, &explain.Document{Value: &doc, Explanation: explanation})
		}
		list = append(list, strings.TrimSpace(b.String()))
	}
	return list
}
