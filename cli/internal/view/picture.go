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

// boxKind is the kind of a box. The string is also the CSS class of the box.
type boxKind string

const (
	inputBox    boxKind = "input"
	constantBox boxKind = "constant" // a constant that is an output; other constants are in the details of their readers
	stepBox     boxKind = "step"
	viewBox     boxKind = "view"
	copyBox     boxKind = "copy"
	outputBox   boxKind = "output"
	groupBox    boxKind = "group" // a folded group of boxes
	omittedBox  boxKind = "rest"  // stands for the omitted boxes at the border of an excerpt
)

// picture has the boxes and lines of a drawing, without positions. It shows a graph as written, a plan, or two plans
// side by side. For example, the graph y = relu(x) has three boxes and two values:
//
//	boxes:  0: inputBox x    1: stepBox relu    2: outputBox y
//	values: {from: 0, to: [1]}, {from: 1, to: [2]}
//
// The legend has a color for each layout of the values.
type picture struct {
	title   string
	graph   *graph.Graph // the graph that is drawn; nil for an excerpt or two plans
	remarks []string     // sentences below the title
	boxes   []pictureBox
	values  []pictureValue
	legend  []pictureLayout // in the order of first use
}

// pictureBox is an input, an output, a constant, a step, a view, or an inserted copy. It may also stand for a group of
// boxes or for omitted boxes: see boxKind.
type pictureBox struct {
	kind        boxKind
	name        string   // name of the node, input or output
	scope       []string // the scopes of the name, outermost first
	sourceNames []string // names of the nodes and inputs that the box represents, in the graph as written
	values      []string // names of the results
	// signature is the same string for boxes with equal ops, attributes, implementations, types and layouts.
	signature string

	head    string   // the text in bold: the op, or the name of an input or output
	lines   []string // the text below the head
	details []detail
	layout  int    // layout of the first result, as an index of the legend; -1 for none
	why     string // the reason for a copy
	omitted int    // for an omittedBox: the number of omitted operands or readers

	// Fields of a step. The bars have lengths from 0 to 1: a time divided by the longest time of any step.
	predicted    float64 // the predicted time in nanoseconds, which is the cost
	measured     float64 // the measured time in nanoseconds; 0 without --profile
	share        float64 // the cost divided by the total cost of the plan
	predictedBar float64 // length of the bar of the predicted time
	measuredBar  float64 // length of the bar of the measured time

	// Fields for a picture of two plans.
	planIndex int      // 0 for the first plan, 1 for the second plan
	marks     []string // differences from the other plan
	peer      int      // index of the box for the same node, input or output in the other plan; -1 for none
}

// detail is a line in the details of a box. For example, {"reads", "x: float32 [2,3] by [3,1], row-major, 24 B"}
// describes an operand.
type detail struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// pictureValue is a value, drawn as lines from the box that computes the value to the boxes that read it.
type pictureValue struct {
	from   int    // index of the box that computes the value, in picture.boxes
	to     []int  // indices of the boxes that read the value
	layout int    // an index of the legend; -1 for none
	tip    string // the tooltip
}

// pictureLayout is a layout of values in the picture.
type pictureLayout struct {
	name  string
	count int // the number of values with the layout
}

// painter builds a picture.
type painter struct {
	*picture
	report      *report.Plan            // the report of the plan; nil for a graph as written
	maxTime     float64                 // the longest predicted or measured time of a step, in nanoseconds
	steps       map[string]*report.Step // by name
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

// operandDetails returns the details of the results and operands of a node.
func operandDetails(n *graph.Node) (list []detail) {
	for i, v := range n.Out {
		name := "makes"
		if len(n.Out) > 1 {
			name = fmt.Sprintf("makes %d", i)
		}
		list = append(list, valueDetails(name, v)...)
	}
	for _, arg := range n.In {
		switch {
		case arg.Kind == graph.TensorArg && arg.Value.Const != nil:
			list = append(list, valueDetails("constant", arg.Value)...)
		case arg.Kind == graph.TensorArg:
			list = append(list, valueDetails("reads", arg.Value)...)
		case arg.Kind == graph.NumberArg:
			list = append(list, detail{"number", arg.Number.String()})
		}
	}
	return list
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
		shared := 0
		for shared < min(len(common), len(parts)) && common[shared] == parts[shared] {
			shared++
		}
		common = common[:shared]
	}
	return common
}

// signatureOf returns pictureBox.signature for box b of a node. It needs the fields kind, head and why of b.
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

// measuredText formats a measured time (in nanoseconds) and its ratio to the predicted time.
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

// typeText returns the dtype and the shape of a value.
func typeText(v *graph.Value) string {
	switch {
	case !v.Meta.DType.Valid():
		return "type depends on data"
	case v.Dynamic:
		return v.Meta.DType.String() + ", shape depends on data"
	}
	return v.Meta.DType.String() + " " + format.Ints(v.Meta.Shape)
}

// valueDetails returns a list of one detail with the given name and valueText.
func valueDetails(name string, v *graph.Value) []detail { return []detail{{name, valueText(v)}} }

// valueText returns the name, dtype, shape, strides, layout and size of a value.
func valueText(v *graph.Value) string {
	text := v.Name + ": " + typeText(v)
	if !v.Dynamic && v.Meta.DType.Valid() {
		text += " by " + format.Ints(v.Meta.Strides)
		if v.Meta.Offset != 0 {
			text += fmt.Sprintf(" from %d on", v.Meta.Offset)
		}
		text += ", " + inspect.LayoutName(v.Meta) + ", " + format.Bytes(v.Meta.Bytes())
	}
	return text
}

// opsOf returns the op of a node, or the ops of all nodes that were fused into it.
func opsOf(n *graph.Node) string {
	attrs, fused := n.Attrs.(*fusion.Fusion)
	if !fused {
		return n.Op.Name
	}
	var list []string
	for i := 0; i < len(attrs.Parts); {
		op, first := attrs.Parts[i].Op.Name, i
		for i < len(attrs.Parts) && attrs.Parts[i].Op.Name == op {
			i++
		}
		if i > first+1 {
			op = fmt.Sprintf("%s×%d", op, i-first)
		}
		list = append(list, op)
	}
	return strings.Join(list, " + ")
}

// fusedNames returns the names of the nodes that were fused into a node, or the node's own name.
func fusedNames(n *graph.Node) []string {
	if f, fused := n.Attrs.(*fusion.Fusion); fused {
		return f.Names()
	}
	return []string{n.Name}
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
