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

// painter builds a picture.
type painter struct {
	*picture
	report      *report.Plan            // the report of the plan; nil for a graph as written
	maxTime     float64                 // the longest predicted or measured time of a step, in nanoseconds
	steps       map[string]*report.Step // steps by name
	copies      map[string]*report.Copy // by the name of the copied value and the strides of the copy
	boxOf       map[*graph.Value]int    // index of the box that computes a value
	legendIndex map[string]int          // index in the legend of a layout, by the layout's name
	outputBoxes []int                   // index of the box of each output
}

// pictureOf returns the picture of a graph as written, or of a plan. plan is the report of the plan, or nil.
func pictureOf(title string, g *graph.Graph, plan *report.Plan) *picture {
	const withLayout = false // the details of an input have its layout
	p := &painter{picture: &picture{title: title, graph: g}, report: plan, boxOf: map[*graph.Value]int{},
		legendIndex: map[string]int{}, steps: map[string]*report.Step{}, copies: map[string]*report.Copy{}}
	if plan != nil {
		p.addPlan(plan)
	}
	for _, v := range g.Inputs {
		p.boxOf[v] = p.add(pictureBox{kind: inputBox, name: v.Name, head: v.Name,
			lines: p.typeLines([]*graph.Value{v}, withLayout), layout: p.layoutIndex(v),
			details: append([]detail{{"input", v.Name}}, valueDetails("is", v)...), sourceNames: []string{v.Name}})
	}
	for _, n := range g.Nodes {
		box := p.add(p.nodeBox(n))
		for _, v := range n.Out {
			p.boxOf[v] = box
		}
	}
	p.addOutputs(g)
	p.addValues(g)
	return p.picture
}

// add adds a box and returns its index.
func (p *painter) add(b pictureBox) int {
	p.boxes = append(p.boxes, b)
	return len(p.boxes) - 1
}

// addPlan adds the remarks of the report, and indexes its steps and copies.
func (p *painter) addPlan(plan *report.Plan) {
	for i := range plan.Steps {
		s := &plan.Steps[i]
		p.steps[s.Name], p.maxTime = s, max(p.maxTime, s.CostNS)
		if s.MeasuredNS != nil {
			p.maxTime = max(p.maxTime, *s.MeasuredNS)
		}
	}
	bytes := 0
	for i := range plan.Copies {
		c := &plan.Copies[i]
		bytes += c.Bytes
		p.copies[c.Value+format.Ints(c.To)] = c
	}
	text := fmt.Sprintf("strategy %s: %s, %s", plan.Strategy, format.Count(len(plan.Steps), "step"),
		format.CountIrregular(len(plan.Copies), "copy", "copies"))
	if bytes > 0 {
		text += " (" + format.Bytes(bytes) + ")"
	}
	p.remarks = append(p.remarks, fmt.Sprintf("%s, estimated cost %s, peak memory %s", text,
		format.Nanoseconds(plan.CostNS), format.Bytes(plan.PeakBytes)))
	// The lower bound on the cost; with --slack, the number of copies and their additional cost.
	for _, text := range []string{sections.BoundText(plan), sections.SlackText(plan)} {
		if text != "" {
			p.remarks = append(p.remarks, text)
		}
	}
}

// notDense is the legend's name for all layouts that are not dense: slices and broadcast values. [inspect.LayoutName]
// begins their names with "not dense" too.
const notDense = "not dense: a part, or repeated"

// layoutIndex returns the index of a value's layout in the legend, and adds the layout if necessary. It returns -1 if
// the shape depends on data.
func (p *painter) layoutIndex(v *graph.Value) int {
	if v.Dynamic || !v.Meta.DType.Valid() {
		return -1
	}
	name := inspect.LayoutName(v.Meta)
	if strings.HasPrefix(name, "not dense") {
		name = notDense
	}
	index, known := p.legendIndex[name]
	if !known {
		index = len(p.legend)
		p.legendIndex[name] = index
		p.legend = append(p.legend, pictureLayout{name: name})
	}
	return index
}

// nodeBox returns the box of a node: an inserted copy, a view, or a step.
func (p *painter) nodeBox(n *graph.Node) pictureBox {
	b := pictureBox{name: n.Name, head: opsOf(n), layout: -1, sourceNames: fusedNames(n)}
	if len(n.Out) > 0 {
		b.layout = p.layoutIndex(n.Out[0])
	}
	step := p.steps[n.Name]
	p.setKind(&b, n, step)
	b.scope = scopeOf(b.sourceNames)
	b.details = append(b.details, detail{string(b.kind), n.Name}, detail{"op", opsOf(n)})
	if len(b.sourceNames) > 1 {
		b.details = append(b.details, detail{"computes", strings.Join(b.sourceNames, ", ")})
	}
	if step != nil {
		p.addCost(&b, step)
	}
	if n.Pin != (graph.Pin{}) {
		b.lines = append(b.lines, "pinned to "+n.Pin.String())
		b.details = append(b.details, detail{"pinned to", n.Pin.String()})
	}
	b.lines = append(b.lines, p.typeLines(n.Out, b.kind == copyBox)...)
	if b.why != "" {
		b.details = append(b.details, detail{"why", b.why})
	}
	b.signature = signatureOf(n, &b)
	for _, v := range n.Out {
		b.values = append(b.values, v.Name)
	}
	b.details = append(b.details, operandDetails(n)...)
	return b
}

// setKind sets the kind of the box of a node, and the reason, head and source name of a copy. step is nil if the plan
// has no step for the node.
func (p *painter) setKind(b *pictureBox, n *graph.Node, step *report.Step) {
	isView := false
	if p.report == nil { // a graph as written
		isView = len(n.Out) > 0 && n.Out[0].Alias != nil
	} else { // in a plan, a view is a node without a step
		isView = step == nil
	}
	copied := p.copyOf(n)
	switch {
	case copied != nil:
		b.kind, b.head, b.why = copyBox, "copy of "+copied.Value, copied.Why
		b.sourceNames = []string{copied.Value}
	case n.Why != "": // another node that a pass inserted, such as a packed constant; nodes of the user have no Why
		b.kind, b.why = copyBox, n.Why
	case isView:
		b.kind = viewBox
	default:
		b.kind = stepBox
	}
}

// scopeOf returns the common scope of names. The scope of a name is the list of its parts except the last part. Parts
// are separated by slashes, as in ONNX models. In a name without slashes they are separated by dots, as in PyTorch.
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
		common = common[:sharedLength(common, parts)]
	}
	return common
}

// sharedLength returns the length of the longest common prefix of two scopes.
func sharedLength(a, b []string) int {
	length := 0
	for length < min(len(a), len(b)) && a[length] == b[length] {
		length++
	}
	return length
}

// signatureOf returns the signature of box b of a node: a text that is equal for boxes with equal ops, attributes,
// implementations, pins, types and layouts. It needs the fields kind, head and why of b.
func signatureOf(n *graph.Node, b *pictureBox) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %t %v", b.kind, b.head, b.why != "", n.Pin)
	if n.Impl != nil {
		text.WriteString(n.Impl.Name)
	}
	for name, value := range n.AttrsAsGiven() {
		if _, isValue := value.(graph.ValueRef); !isValue {
			fmt.Fprintf(&text, " %s=%v", name, value)
		}
	}
	for _, v := range n.Out {
		fmt.Fprintf(&text, " %s %v", typeText(v), v.Meta.Strides)
	}
	return text.String()
}

// addCost adds the cost of a step to its box.
func (p *painter) addCost(box *pictureBox, step *report.Step) {
	text := format.Nanoseconds(step.CostNS)
	box.predicted = step.CostNS
	if p.report.CostNS > 0 {
		box.share = step.CostNS / p.report.CostNS
		text += " (" + format.Percent(box.share) + ")"
	}
	if p.maxTime > 0 {
		box.predictedBar = step.CostNS / p.maxTime
	}
	box.details = append(box.details, detail{"cost", text})
	if step.MeasuredNS != nil {
		box.measured, box.measuredBar = *step.MeasuredNS, *step.MeasuredNS/max(p.maxTime, 1)
		box.details = append(box.details, detail{"measured", measuredText(box.measured, step.CostNS)})
	}
	if step.Impl != "" {
		box.details = append(box.details, detail{"implementation", step.Impl})
		text = step.Impl + " · " + text
	}
	box.lines = append(box.lines, text)
	if box.measured > 0 {
		box.lines = append(box.lines, "measured "+measuredText(box.measured, step.CostNS))
	}
	box.details = append(box.details, detail{"moves", format.Bytes(step.Bytes)})
	if step.Loop != nil { // an elementwise step; FastSetup: the fast path that set up its loop
		box.details = append(box.details, detail{"loop", format.Ints(step.Loop.Shape)}, detail{"fast set-up", step.FastSetup})
	}
}

// copyOf returns the report of a node that is a copy; nil for other nodes.
func (p *painter) copyOf(n *graph.Node) *report.Copy {
	if n.Why == "" || len(n.In) == 0 || n.In[0].Kind != graph.TensorArg || len(n.Out) == 0 {
		return nil
	}
	return p.copies[n.In[0].Value.Name+format.Ints(n.Out[0].Meta.Strides)]
}

// typeLines returns lines with the dtype and shape of each value, and with its layout if withLayout is true.
func (p *painter) typeLines(list []*graph.Value, withLayout bool) []string {
	const maxValues = 3
	var lines []string
	for _, v := range list[:min(maxValues, len(list))] {
		lines = append(lines, typeText(v))
		if withLayout && !v.Dynamic {
			lines = append(lines, "to "+inspect.LayoutName(v.Meta))
		}
	}
	if len(list) > maxValues {
		lines = append(lines, fmt.Sprintf("and %d more", len(list)-maxValues))
	}
	return lines
}

// addOutputs adds a box for each output, and for each constant that is an output.
func (p *painter) addOutputs(g *graph.Graph) {
	const withLayout = false // the details of a constant have its layout
	for _, output := range g.Outputs {
		if _, hasBox := p.boxOf[output.Value]; !hasBox {
			v := output.Value
			p.boxOf[v] = p.add(pictureBox{kind: constantBox, name: v.Name, head: v.Name,
				lines: p.typeLines([]*graph.Value{v}, withLayout), layout: p.layoutIndex(v),
				details: valueDetails("constant", v), sourceNames: []string{v.Name}})
		}
		box := pictureBox{kind: outputBox, name: output.Name, head: output.Name, layout: -1,
			details: append([]detail{{"output", output.Name}}, valueDetails("is", output.Value)...)}
		if output.Pin.SetsLayout() {
			box.lines = []string{"pinned to " + output.Pin.String()}
			box.details = append(box.details, detail{"pinned to", output.Pin.String()})
		}
		p.outputBoxes = append(p.outputBoxes, p.add(box))
	}
}

// addValues adds a pictureValue for each value that has readers, in the order of the first readers.
func (p *painter) addValues(g *graph.Graph) {
	indexOf := map[*graph.Value]int{}
	link := func(v *graph.Value, to int) {
		from, hasBox := p.boxOf[v]
		if !hasBox {
			return // a constant that is not an output has no box
		}
		i, known := indexOf[v]
		if !known {
			i = len(p.values)
			indexOf[v] = i
			p.values = append(p.values, pictureValue{from: from, layout: p.layoutIndex(v), tip: valueText(v)})
			if layout := p.values[i].layout; layout >= 0 {
				p.legend[layout].count++
			}
		}
		if value := &p.values[i]; !slices.Contains(value.to, to) {
			value.to = append(value.to, to)
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.In {
			if a.Kind == graph.TensorArg && len(n.Out) > 0 {
				link(a.Value, p.boxOf[n.Out[0]])
			}
		}
	}
	for i, output := range g.Outputs {
		link(output.Value, p.outputBoxes[i])
	}
}
