package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/sections"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/report"
)

// boxKind is the kind of a box.
type boxKind string

const (
	inputBox    boxKind = "input"
	constantBox boxKind = "constant" // a constant that is an output; other constants are in the details of their readers
	stepBox     boxKind = "step"
	viewBox     boxKind = "view"
	copyBox     boxKind = "copy"
	outputBox   boxKind = "output"
	groupBox    boxKind = "group" // a folded group of boxes
	restBox     boxKind = "rest"  // omitted boxes beside an excerpt
)

// picture is a drawing of a graph as written or of a plan.
type picture struct {
	title   string
	graph   *graph.Graph // the graph that is drawn
	remarks []string
	boxes   []pictureBox
	nets    []pictureNet
	legend  []pictureLayout // in the order of first use
}

// pictureBox is an input, a step, a view, an inserted copy, or an output.
type pictureBox struct {
	kind  boxKind
	name  string   // of the node, the input or the output
	scope []string // the scopes of the name, the outermost first
	code  string   // equal for boxes with equal ops, attributes, implementations, types and layouts
	head  string   // the op
	lines []string // further text
	why   string   // the reason of a copy
	// share is the cost of the step divided by the total cost. bar is the cost of the step divided by the cost of the
	// most expensive step.
	share, bar float64
	// predicted and measured are the times of a step in nanoseconds; measured is 0 without --profile. measuredBar is
	// the measured time divided by the longest time of a step.
	predicted, measured, measuredBar float64
	layout                           int // of the first result, as an index of the legend; -1 for none
	facts                            []fact
	explain                          []string // the names of the values of the graph as written that the box computes
	values                           []string // the names of its results
	omitted                          int      // of a restBox, the number of lines to it
	marks                            []string // differences to another plan
	side                             int      // of a picture of two plans
	peer                             int      // the box of the other side for the same node; -1 for none
}

// fact is a line of the details of a box.
type fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// pictureNet is a value, drawn as lines from the box that computes the value to the boxes that read it.
type pictureNet struct {
	from   int    // the box that computes the value, as an index of picture.boxes
	to     []int  // the boxes that read the value
	layout int    // an index of the legend; -1 for none
	tip    string // the tooltip
}

// pictureLayout is a layout of values in the picture.
type pictureLayout struct {
	name  string
	count int // the number of values with the layout
}

// pictured returns the picture of a graph. The report is nil for a graph as written.
func pictured(title string, g *graph.Graph, r *report.Plan) *picture {
	p := &painter{picture: &picture{title: title, graph: g}, report: r, boxOf: map[*graph.Value]int{},
		index: map[string]int{},
		steps: map[string]*report.Step{}, copies: map[string]*report.Copy{}}
	if r != nil {
		p.addPlan(r)
	}
	for _, v := range g.Inputs {
		p.boxOf[v] = p.add(pictureBox{kind: inputBox, name: v.Name, head: v.Name, lines: p.kinds([]*graph.Value{v}, false),
			layout: p.layoutIndex(v),
			facts:  append([]fact{{"input", v.Name}}, valueFacts("is", v)...), explain: []string{v.Name}})
	}
	for _, n := range g.Nodes {
		at := p.add(p.node(n))
		for _, v := range n.Out {
			p.boxOf[v] = at
		}
	}
	p.addOutputs(g)
	p.addNets(g)
	return p.picture
}

// painter builds a picture.
type painter struct {
	*picture
	report      *report.Plan
	maxCost     float64 // the cost of the most expensive step
	steps       map[string]*report.Step
	copies      map[string]*report.Copy // by value and new strides
	boxOf       map[*graph.Value]int    // the boxes that compute values
	index       map[string]int          // by name of a layout: its index in the legend
	outputBoxes []int                   // indices of the boxes of outputs
}

func (p *painter) add(b pictureBox) int {
	p.boxes = append(p.boxes, b)
	return len(p.boxes) - 1
}

// addPlan adds the remarks of the report, and indexes its steps and copies.
func (p *painter) addPlan(r *report.Plan) {
	for i := range r.Steps {
		s := &r.Steps[i]
		p.steps[s.Name], p.maxCost = s, max(p.maxCost, s.CostNS)
		if s.MeasuredNS != nil {
			p.maxCost = max(p.maxCost, *s.MeasuredNS)
		}
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

// partLayout is the name in the legend of layouts that are not dense.
const partLayout = "not dense: a part, or repeated"

// layoutIndex adds the layout of a value to the legend and returns its index; -1 if the shape depends on data.
func (p *painter) layoutIndex(v *graph.Value) int {
	if v.Dynamic || !v.Meta.DType.Valid() {
		return -1
	}
	name := inspect.LayoutName(v.Meta)
	if strings.HasPrefix(name, "not dense") {
		name = partLayout
	}
	at, known := p.index[name]
	if !known {
		at = len(p.legend)
		p.index[name] = at
		p.legend = append(p.legend, pictureLayout{name: name})
	}
	return at
}

// node returns the box of a node.
func (p *painter) node(n *graph.Node) pictureBox {
	b := pictureBox{kind: stepBox, name: n.Name, head: opsOf(n), layout: -1, explain: writtenIn(n)}
	b.scope = scopeOf(b.explain)
	if len(n.Out) > 0 {
		b.layout = p.layoutIndex(n.Out[0])
	}
	s := p.steps[n.Name]
	c := p.copyOf(n)
	switch {
	case c != nil || n.Why != "":
		b.kind, b.why = copyBox, n.Why
		if c != nil {
			b.head, b.why = "copy of "+c.Value, c.Why
			b.explain = []string{c.Value}
			b.scope = scopeOf(b.explain)
		}
	case p.report != nil && s == nil, p.report == nil && len(n.Out) > 0 && n.Out[0].Alias != nil:
		b.kind = viewBox
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
	b.code = codeOf(n, &b)
	for i, v := range n.Out {
		b.values = append(b.values, v.Name)
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

// scopeOf returns the common scope of names: the parts before the last part. Parts are separated by slashes, as in ONNX
// models, or else by dots, as in PyTorch.
func scopeOf(names []string) []string {
	var common []string
	for i, name := range names {
		separator := "."
		if strings.Contains(name, "/") {
			separator = "/"
		}
		parts := strings.Split(strings.Trim(name, separator), separator)
		parts = parts[:len(parts)-1]
		if i == 0 {
			common = parts
		}
		same := 0
		for same < min(len(common), len(parts)) && common[same] == parts[same] {
			same++
		}
		common = common[:same]
	}
	return common
}

// codeOf returns the code of the box of a node.
func codeOf(n *graph.Node, b *pictureBox) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %t %v", b.kind, b.head, b.why != "", n.Pin)
	if n.Impl != nil {
		s.WriteString(n.Impl.Name)
	}
	for name, value := range n.Written() {
		if _, isValue := value.(graph.Ref); !isValue {
			fmt.Fprintf(&s, " %s=%v", name, value)
		}
	}
	for _, v := range n.Out {
		fmt.Fprintf(&s, " %s %v", typeText(v), v.Meta.Strides)
	}
	return s.String()
}

// price adds the cost of a step to its box.
func (p *painter) price(b *pictureBox, s *report.Step) {
	text := format.Nanoseconds(s.CostNS)
	b.predicted = s.CostNS
	if p.report.CostNS > 0 {
		b.share = s.CostNS / p.report.CostNS
		text += " (" + format.Percent(b.share) + ")"
	}
	if p.maxCost > 0 {
		b.bar = s.CostNS / p.maxCost
	}
	b.facts = append(b.facts, fact{"cost", text})
	if s.MeasuredNS != nil {
		b.measured, b.measuredBar = *s.MeasuredNS, *s.MeasuredNS/max(p.maxCost, 1)
		b.facts = append(b.facts, fact{"measured", measuredText(b.measured, s.CostNS)})
	}
	if s.Impl != "" {
		b.facts = append(b.facts, fact{"implementation", s.Impl})
		text = s.Impl + " · " + text
	}
	b.lines = append(b.lines, text)
	if b.measured > 0 {
		b.lines = append(b.lines, "measured "+measuredText(b.measured, s.CostNS))
	}
	b.facts = append(b.facts, fact{"moves", format.Bytes(s.Bytes)})
	if s.Loop != nil {
		b.facts = append(b.facts, fact{"loop", format.Ints(s.Loop.Shape)}, fact{"fast set-up", s.FastSetup})
	}
}

// measuredText is a measured time, and its ratio to the predicted time.
func measuredText(measured, predicted float64) string {
	text := format.Nanoseconds(measured)
	if predicted > 0 {
		text += fmt.Sprintf(", %.2f × predicted", measured/predicted)
	}
	return text
}

// copyOf returns the report of a node that is a copy; nil for other nodes.
func (p *painter) copyOf(n *graph.Node) *report.Copy {
	if n.Why == "" || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg || len(n.Out) == 0 {
		return nil
	}
	return p.copies[n.In[0].Value.Name+format.Ints(n.Out[0].Meta.Strides)]
}

// kinds returns lines with the dtypes, shapes and layouts of values.
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

// typeText returns dtype and shape.
func typeText(v *graph.Value) string {
	switch {
	case !v.Meta.DType.Valid():
		return "type depends on data"
	case v.Dynamic:
		return v.Meta.DType.String() + ", shape depends on data"
	}
	return v.Meta.DType.String() + " " + format.Ints(v.Meta.Shape)
}

// valueFacts returns what is known of a value before a run.
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

// opsOf returns the op of a node, or the ops of all nodes that were fused into it.
func opsOf(n *graph.Node) string {
	f, fused := n.Attrs.(*fusion.Fusion)
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

// writtenIn lists the nodes that were fused into a node.
func writtenIn(n *graph.Node) []string {
	if f, fused := n.Attrs.(*fusion.Fusion); fused {
		return f.Names()
	}
	return []string{n.Name}
}

// addOutputs adds the boxes of outputs, and of constants that are outputs.
func (p *painter) addOutputs(g *graph.Graph) {
	for _, o := range g.Outputs {
		if _, there := p.boxOf[o.Value]; !there {
			v := o.Value
			p.boxOf[v] = p.add(pictureBox{kind: constantBox, name: v.Name, head: v.Name,
				lines: p.kinds([]*graph.Value{v}, false), layout: p.layoutIndex(v),
				facts: valueFacts("constant", v), explain: []string{v.Name}})
		}
		b := pictureBox{kind: outputBox, name: o.Name, head: o.Name, layout: -1, facts: append([]fact{{"output", o.Name}},
			valueFacts("is", o.Value)...)}
		if o.Pin.Lays() {
			b.lines = []string{"pinned to " + o.Pin.String()}
			b.facts = append(b.facts, fact{"pinned to", o.Pin.String()})
		}
		p.outputBoxes = append(p.outputBoxes, p.add(b))
	}
}

// addNets adds the lines of values in the order of their boxes.
func (p *painter) addNets(g *graph.Graph) {
	at := map[*graph.Value]int{}
	link := func(v *graph.Value, to int) {
		from, there := p.boxOf[v]
		if !there {
			return // a constant
		}
		i, known := at[v]
		if !known {
			i = len(p.nets)
			at[v] = i
			p.nets = append(p.nets, pictureNet{from: from, layout: p.layoutIndex(v), tip: valueFacts("", v)[0].Text})
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
				link(a.Value, p.boxOf[n.Out[0]])
			}
		}
	}
	for i, o := range g.Outputs {
		link(o.Value, p.outputBoxes[i])
	}
}
