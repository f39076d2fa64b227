package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/report"
)

// boxKind is what a box of a picture stands for.
type boxKind string

const (
	inputBox    boxKind = "input"
	constantBox boxKind = "constant" // of a constant that is handed over: others are told by their readers
	stepBox     boxKind = "step"
	viewBox     boxKind = "view"
	copyBox     boxKind = "copy"
	outputBox   boxKind = "output"
)

// picture is a graph to be drawn: as it is written, or as it runs under a strategy.
type picture struct {
	title   string
	remarks []string
	boxes   []pictureBox
	nets    []pictureNet
	legend  []pictureLayout // in the order of first use
}

// pictureBox is an input, a step, a view, a copy that was inserted, or an output.
type pictureBox struct {
	kind  boxKind
	head  string   // what it does
	lines []string // what else is written into it
	why   string   // of a copy
	// share is its part of the cost of all; bar that of the dearest step's.
	share, bar float64
	layout     int // of what it makes first, in the legend; -1 for none
	facts      []fact
	explain    []string // the values of the graph as written that it computes
}

// fact is a line of what is told of a box beside its drawing.
type fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// pictureNet is a value: it goes from the box that makes it to those that read it.
type pictureNet struct {
	from   int
	to     []int
	layout int
	tip    string
}

// pictureLayout is a way to lie that values of the picture have.
type pictureLayout struct {
	name  string
	count int
}

// pictured makes the picture of a graph. The report is that of the program that runs it; nil for a graph as it is
// written.
func pictured(title string, g *graph.Graph, r *report.Plan) *picture {
	p := &painter{picture: &picture{title: title}, report: r, made: map[*graph.Value]int{}, lies: map[string]int{},
		steps: map[string]*report.Step{}, copies: map[string]*report.Copy{}}
	if r != nil {
		p.tellPlan(r)
	}
	for _, v := range g.Inputs {
		p.made[v] = p.add(pictureBox{kind: inputBox, head: v.Name, lines: p.kinds([]*graph.Value{v}, false), layout: p.lay(v),
			facts: append([]fact{{"input", v.Name}}, valueFacts("is", v)...), explain: []string{v.Name}})
	}
	for _, n := range g.Nodes {
		at := p.add(p.node(n))
		for _, v := range n.Out {
			p.made[v] = at
		}
	}
	p.hand(g)
	p.join(g)
	return p.picture
}

// painter makes a picture.
type painter struct {
	*picture
	report *report.Plan
	most   float64 // what the dearest step costs
	steps  map[string]*report.Step
	copies map[string]*report.Copy // by the value and its new strides
	made   map[*graph.Value]int    // the boxes that make values
	lies   map[string]int          // places in the legend by name
	hands  []int                   // the boxes of outputs
}

func (p *painter) add(b pictureBox) int {
	p.boxes = append(p.boxes, b)
	return len(p.boxes) - 1
}

// tellPlan notes what the report tells of steps and copies, and the remarks of the picture.
func (p *painter) tellPlan(r *report.Plan) {
	for i := range r.Steps {
		s := &r.Steps[i]
		p.steps[s.Name], p.most = s, max(p.most, s.CostNS)
	}
	bytes := 0
	for i := range r.Copies {
		c := &r.Copies[i]
		bytes += c.Bytes
		p.copies[c.Value+format.Ints(c.To)] = c
	}
	text := fmt.Sprintf("strategy %s: %s, %s", r.Strategy, format.Count(len(r.Steps), "step"),
		format.CountIrregular(len(r.Copies), "copy", "copies"))
	if bytes > 0 {
		text += " (" + format.Bytes(bytes) + ")"
	}
	p.remarks = append(p.remarks, fmt.Sprintf("%s, estimated cost %s, peak memory %s", text, format.Nanoseconds(r.CostNS),
		format.Bytes(r.PeakBytes)))
	if r.LowerBoundNS != nil {
		var b strings.Builder
		sections.WriteBound(&b, r)
		p.remarks = append(p.remarks, strings.TrimSpace(b.String()))
	}
}

// partLayout is the legend's name for values that are not dense.
const partLayout = "not dense: a part, or repeated"

// lay notes a layout in the legend and returns its place; -1 for a value whose shape depends on data.
func (p *painter) lay(v *graph.Value) int {
	if v.Dynamic || !v.Meta.DType.Valid() {
		return -1
	}
	name := inspect.LayoutName(v.Meta)
	if strings.HasPrefix(name, "not dense") {
		name = partLayout
	}
	at, known := p.lies[name]
	if !known {
		at = len(p.legend)
		p.lies[name] = at
		p.legend = append(p.legend, pictureLayout{name: name})
	}
	return at
}

// node is the box of a node.
func (p *painter) node(n *graph.Node) pictureBox {
	b := pictureBox{kind: stepBox, head: opsOf(n), layout: -1, explain: writtenIn(n)}
	if len(n.Out) > 0 {
		b.layout = p.lay(n.Out[0])
	}
	s := p.steps[n.Name]
	c := p.copyOf(n)
	switch {
	case c != nil || n.Why != "":
		b.kind, b.why = copyBox, n.Why
		if c != nil {
			b.head, b.why = "copy of "+c.Value, c.Why
			b.explain = []string{c.Value}
		}
	case p.report != nil && s == nil, p.report == nil && len(n.Out) > 0 && n.Out[0].Alias != nil:
		b.kind = viewBox
	}
	if b.kind != copyBox && n.Name != b.head {
		b.lines = append(b.lines, n.Name)
	}
	b.facts = append(b.facts, fact{string(b.kind), n.Name}, fact{"op", opsOf(n)})
	if len(b.explain) > 1 {
		b.facts = append(b.facts, fact{"computes", strings.Join(b.explain, ", ")})
	}
	if s != nil {
		p.price(&b, s)
	}
	if n.Pin != (graph.Pin{}) {
		b.lines = append(b.lines, "pinned to "+n.Pin.String())
		b.facts = append(b.facts, fact{"pinned to", n.Pin.String()})
	}
	b.lines = append(b.lines, p.kinds(n.Out, b.kind == copyBox)...)
	if b.why != "" {
		b.facts = append(b.facts, fact{"why", b.why})
	}
	for i, v := range n.Out {
		name := "makes"
		if len(n.Out) > 1 {
			name = fmt.Sprintf("makes %d", i)
		}
		b.facts = append(b.facts, valueFacts(name, v)...)
	}
	for _, a := range n.In {
		switch {
		case a.Kind == graph.TensorArg && a.Value.Const != nil:
			b.facts = append(b.facts, valueFacts("constant", a.Value)...)
		case a.Kind == graph.TensorArg:
			b.facts = append(b.facts, valueFacts("reads", a.Value)...)
		case a.Kind == graph.NumberArg:
			b.facts = append(b.facts, fact{"number", a.Number.String()})
		}
	}
	return b
}

// price tells what a step costs.
func (p *painter) price(b *pictureBox, s *report.Step) {
	text := format.Nanoseconds(s.CostNS)
	if p.report.CostNS > 0 {
		b.share = s.CostNS / p.report.CostNS
		text += " (" + format.Percent(b.share) + ")"
	}
	if p.most > 0 {
		b.bar = s.CostNS / p.most
	}
	b.facts = append(b.facts, fact{"cost", text})
	if s.Impl != "" {
		b.facts = append(b.facts, fact{"implementation", s.Impl})
		text = s.Impl + " · " + text
	}
	b.lines = append(b.lines, text)
	b.facts = append(b.facts, fact{"moves", format.Bytes(s.Bytes)})
	if s.Loop != nil {
		b.facts = append(b.facts, fact{"loop", format.Ints(s.Loop.Shape)}, fact{"fast set-up", s.FastSetup})
	}
}

// copyOf is what the report tells of a node that is a copy; nil for others.
func (p *painter) copyOf(n *graph.Node) *report.Copy {
	if n.Why == "" || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg || len(n.Out) == 0 {
		return nil
	}
	return p.copies[n.In[0].Value.Name+format.Ints(n.Out[0].Meta.Strides)]
}

// kinds are lines with the dtypes and shapes of values, and how they lie.
func (p *painter) kinds(list []*graph.Value, lies bool) []string {
	const most = 3
	var lines []string
	for _, v := range list[:min(most, len(list))] {
		if lines = append(lines, typeText(v)); lies && !v.Dynamic {
			lines = append(lines, "to "+inspect.LayoutName(v.Meta))
		}
	}
	if len(list) > most {
		lines = append(lines, fmt.Sprintf("and %d more", len(list)-most))
	}
	return lines
}

// typeText tells dtype and shape.
func typeText(v *graph.Value) string {
	switch {
	case !v.Meta.DType.Valid():
		return "type depends on data"
	case v.Dynamic:
		return v.Meta.DType.String() + ", shape depends on data"
	}
	return v.Meta.DType.String() + " " + format.Ints(v.Meta.Shape)
}

// valueFacts tells of a value all that is known ahead.
func valueFacts(name string, v *graph.Value) []fact {
	text := v.Name + ": " + typeText(v)
	if !v.Dynamic && v.Meta.DType.Valid() {
		text += " by " + format.Ints(v.Meta.Strides)
		if v.Meta.Offset != 0 {
			text += fmt.Sprintf(" from %d on", v.Meta.Offset)
		}
		text += ", " + inspect.LayoutName(v.Meta) + ", " + format.Bytes(v.Meta.Bytes())
	}
	return []fact{{name, text}}
}

// opsOf tells the ops that a node stands for.
func opsOf(n *graph.Node) string {
	f, fused := n.Attrs.(*graph.Fusion)
	if !fused {
		return n.Op.Name
	}
	var list []string
	for i := 0; i < len(f.Parts); {
		op, first := f.Parts[i].Op.Name, i
		for i < len(f.Parts) && f.Parts[i].Op.Name == op {
			i++
		}
		if i > first+1 {
			op = fmt.Sprintf("%s×%d", op, i-first)
		}
		list = append(list, op)
	}
	return strings.Join(list, " + ")
}

// writtenIn lists the nodes that a node stands for.
func writtenIn(n *graph.Node) []string {
	if f, fused := n.Attrs.(*graph.Fusion); fused {
		return f.Names()
	}
	return []string{n.Name}
}

// hand adds the boxes of outputs, and of constants that are handed over as they are.
func (p *painter) hand(g *graph.Graph) {
	for _, o := range g.Outputs {
		if _, there := p.made[o.Value]; !there {
			v := o.Value
			p.made[v] = p.add(pictureBox{kind: constantBox, head: v.Name, lines: p.kinds([]*graph.Value{v}, false),
				layout: p.lay(v), facts: valueFacts("constant", v), explain: []string{v.Name}})
		}
		b := pictureBox{kind: outputBox, head: o.Name, layout: -1, facts: append([]fact{{"output", o.Name}},
			valueFacts("is", o.Value)...)}
		if o.Pin.Lays() {
			b.lines = []string{"pinned to " + o.Pin.String()}
			b.facts = append(b.facts, fact{"pinned to", o.Pin.String()})
		}
		p.hands = append(p.hands, p.add(b))
	}
}

// join adds the nets of values, in the order of the boxes that make them.
func (p *painter) join(g *graph.Graph) {
	at := map[*graph.Value]int{}
	link := func(v *graph.Value, to int) {
		from, there := p.made[v]
		if !there {
			return // a constant
		}
		i, known := at[v]
		if !known {
			i = len(p.nets)
			at[v] = i
			p.nets = append(p.nets, pictureNet{from: from, layout: p.lay(v), tip: valueFacts("", v)[0].Text})
			if l := p.nets[i].layout; l >= 0 {
				p.legend[l].count++
			}
		}
		if n := &p.nets[i]; !slices.Contains(n.to, to) {
			n.to = append(n.to, to)
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg && len(n.Out) > 0 {
				link(a.Value, p.made[n.Out[0]])
			}
		}
	}
	for i, o := range g.Outputs {
		link(o.Value, p.hands[i])
	}
}
