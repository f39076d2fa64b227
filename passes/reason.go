package passes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// Explainer explains copies of a plan, which change the layout of a value for its readers. A pin is a layout that the
// user requires for a value. An Explainer names layouts by dimensions, slowest first: "(N,H,W,C)" for images;
// "row-major order", "column-major order", "channels_last order" or "dimension order (0,2,1)" for other values.
// If a value is not dense, the name also states the stride that differs: "(N,H,W,C) with stride 116 along W".
type Explainer struct {
	plan    *Plan
	uses    *uses
	problem *layout.Problem // finds the images
}

// Explainer returns an explainer of the plan's copies.
func (p *Plan) Explainer() *Explainer {
	if p == nil || p.Graph == nil {
		return nil
	}
	return &Explainer{p, usesOf(p.Graph), &layout.Problem{Graph: p.Graph}}
}

// Explain describes a copy of the plan: the producer of its source, and the reader of its result. Why then has all
// reasons in sentences: the producer, the reader, the cost and the advice, separated by semicolons.
//
//	`act` writes (N,H,W,C), as its operand `conv` is stored; `y` is pinned to (N,C,H,W);
//	the copy costs 1.249µs, 5.5% of the plan; to avoid it, remove the pin of `y`
//
// The description of nil is empty, and unknown copies are not explained.
func (e *Explainer) Explain(c *Copy) report.Copy {
	if c == nil {
		return report.Copy{}
	}
	explained := c.Copy
	if e == nil || e.plan == nil || !e.plan.hasCopy(c) {
		return explained
	}
	if c.Node.Impl.IsTransfer() {
		explained.Transfer = c.Node.Impl.Name
	}
	from, copyValue := c.Node.In[0].Value, c.Node.Out[0]
	explained.Producer, explained.Reader = e.describeProducer(from), e.describeReader(c)
	explained.Producer.Layout, explained.Reader.Layout = e.layoutOf(from), e.layoutOf(copyValue)
	source, dense := tensor.OrderOf(from.Meta)
	explained.Producer.Padded = !dense
	explained.Reader.Dense = !dense && source.Matches(copyValue.Meta)
	if explained.Producer.Layout == explained.Reader.Layout { // the layouts differ only in dimensions of size 1
		explained.Producer.Layout = "strides " + tensor.ListString(from.Meta.Strides)
		explained.Reader.Layout = "strides " + tensor.ListString(copyValue.Meta.Strides)
	}
	if e.plan.CostNS > 0 {
		explained.Share = c.CostNS / e.plan.CostNS
	}
	explained.Advice = e.advice(from, copyValue, &explained)
	// The strategy gives no reason if the layout is fixed, or if an implementation requires the layout.
	if kind := explained.Reader.Kind; c.Why != layout.ReaderNeeds && kind != pinSide && kind != outputSide {
		explained.Strategy = c.Why
	}
	explained.Why = copyText(&explained)
	return explained
}

// Reasons returns two lists of sentences about a copy of the plan, one sentence per step: from the source of the copy
// back to the node, input or pin that determined its layout, and from the copy to the reader or output that requires
// the new layout.
func (e *Explainer) Reasons(c *Copy) (source, target []string) {
	if e == nil || e.plan == nil || !e.plan.hasCopy(c) {
		return nil, nil
	}
	return e.sourceReasons(c.Node.In[0].Value), e.targetReasons(c.Node.Out[0])
}

// hasCopy reports whether the node of a copy is a node of the plan.
func (p *Plan) hasCopy(c *Copy) bool {
	if c == nil || c.Node == nil || len(c.Node.In) == 0 || c.Node.In[0].Value == nil || len(c.Node.Out) == 0 {
		return false
	}
	return slices.Contains(p.Graph.Nodes, c.Node)
}

// describeProducer describes the origin of a value's layout.
func (e *Explainer) describeProducer(v *graph.Value) report.Producer {
	producer, n := report.Producer{Name: v.Name}, v.Node
	// pinSources has the name of the pinned copy of v, or "". An input or a constant has the same name as its copy.
	if pinned := e.plan.pinSources[v]; pinned != v.Name {
		producer.Pinned = pinned
	}
	switch {
	case n == nil && v.Const != nil:
		producer.Kind = constantSide
	case n == nil:
		producer.Kind = inputSide
	case n.Pin.SetsLayout():
		producer.Kind = pinSide
	case v.Alias != nil:
		producer.Kind, producer.LayoutSource = viewSide, v.Alias.Name
	default:
		producer.Kind = nodeSide
		if choosesLayout(n) && n.Impl != nil {
			producer.Impl = n.Impl.Name
		}
		if from := orderSource(n, v); from != nil {
			producer.LayoutSource = from.Name
		}
	}
	return producer
}

// describeReader describes the reader of a copy.
func (e *Explainer) describeReader(c *Copy) report.Reader {
	copyValue := c.Node.Out[0]
	if c.Node.Pin.SetsLayout() {
		name := copyValue.Name
		if e.plan.pinOf(name) == (graph.Pin{}) { // the copy of an input: the pin names the input
			name = c.Value
		}
		return report.Reader{Kind: pinSide, Name: name}
	}
	n, count := e.preferredReader(copyValue)
	// An output is described rather than the nodes that also read the copy.
	for _, output := range e.plan.Graph.Outputs {
		if output.Value != copyValue {
			continue
		}
		if output.Pin.SetsLayout() {
			return report.Reader{Kind: pinSide, Name: output.Name, OtherReaders: count}
		}
		return report.Reader{Kind: outputSide, Name: output.Name, OtherReaders: count}
	}
	if n == nil {
		return report.Reader{}
	}
	reader := report.Reader{Kind: nodeSide, Name: n.Name, OtherReaders: count - 1}
	if n.Pin.SetsLayout() {
		reader.Pin = n.Pin.String()
	}
	if choosesLayout(n) && n.Impl != nil {
		reader.Impl = n.Impl.Name
		return reader
	}
	if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias == copyValue }) {
		reader.Kind = viewSide
	}
	reader.DecidedBy = e.determiningNode(n)
	return reader
}

// determiningNode returns the name of the node, output or pin after n that requires the layout of n's first result;
// empty if there is none.
func (e *Explainer) determiningNode(n *graph.Node) string {
	visited := map[*graph.Node]bool{}
	for n != nil && !visited[n] {
		visited[n] = true
		if n.Pin.SetsLayout() {
			return n.Out[0].Name
		}
		for _, output := range e.plan.Graph.Outputs {
			if output.Value == n.Out[0] {
				return output.Name
			}
		}
		if n, _ = e.preferredReader(n.Out[0]); n != nil && choosesLayout(n) {
			return n.Name
		}
	}
	return ""
}

// advice returns a change by the caller that avoids the copy; empty if none is known.
func (e *Explainer) advice(from, copyValue *graph.Value, explained *report.Copy) string {
	if from.Place() != copyValue.Place() { // a transfer: inputs and outputs are on the host
		return ""
	}
	isOnlyReader := len(e.uses.readers.At(from)) == 1 && !e.uses.isOutput[from]
	order, dense := tensor.OrderOf(from.Meta)
	switch {
	case explained.Producer.Kind == inputSide && explained.Reader.Kind == pinSide:
		return fmt.Sprintf("pass `%s` in %s, or remove the pin", from.Name, explained.Reader.Layout)
	case explained.Reader.Kind == pinSide:
		return fmt.Sprintf("remove the pin of `%s`", explained.Reader.Name)
	case explained.Reader.Kind == outputSide && dense:
		return fmt.Sprintf("accept `%s` in %s: --pin %s=%v", explained.Reader.Name, explained.Producer.Layout, explained.Reader.Name,
			graph.Pin{Format: order.Format(), Order: orderUnlessNamed(order)})
	case explained.Producer.Kind == pinSide:
		return fmt.Sprintf("remove the pin of `%s`", from.Name)
	case explained.Producer.Kind == inputSide && isOnlyReader && explained.Reader.Dense:
		return fmt.Sprintf("pass `%s` dense", from.Name)
	case (explained.Producer.Kind == inputSide || explained.Producer.Kind == constantSide) && isOnlyReader:
		verb := map[string]string{inputSide: "pass", constantSide: "store"}[explained.Producer.Kind]
		return fmt.Sprintf("%s `%s` in %s", verb, from.Name, e.layoutOf(copyValue))
	}
	return ""
}

// orderUnlessNamed returns the order; "" if a memory format has this order.
func orderUnlessNamed(order tensor.Order) tensor.Order {
	if order.Format() != tensor.NoFormat {
		return ""
	}
	return order
}

// sourceReasons follows a value back to the origin of its layout.
func (e *Explainer) sourceReasons(v *graph.Value) (path []string) {
	for range len(e.plan.Graph.Nodes) + 1 { // a path visits each node at most once, and ends at an input or a constant
		n := v.Node
		switch {
		case n == nil && v.Const != nil:
			return append(path, fmt.Sprintf("constant %q is stored in %s", v.Name, e.layoutOf(v)))
		case n == nil:
			return append(path, fmt.Sprintf("input %q is stored in %s", v.Name, e.layoutOf(v)))
		case n.Pin.SetsLayout():
			return append(path, fmt.Sprintf("%q is pinned to %s", v.Name, e.layoutOf(v)))
		case v.Alias != nil:
			path = append(path, fmt.Sprintf("%s (%s) views %q", n.Name, n.Op.Name, v.Alias.Name))
			v = v.Alias
			continue
		}
		path = append(path, nodeDescription(n)+" writes "+e.layoutOf(v))
		from := orderSource(n, v)
		if from == nil {
			return path
		}
		v = from
	}
	return path
}

// nodeDescription names a node, its op and its implementation.
func nodeDescription(n *graph.Node) string {
	text := fmt.Sprintf("%s (%s)", n.Name, n.Op.Name)
	if choosesLayout(n) && n.Impl != nil {
		text += " by " + n.Impl.Name
	}
	return text
}

// choosesLayout reports whether layouts of a node depend on the implementation that is chosen.
func choosesLayout(n *graph.Node) bool {
	return len(n.Op.Impls) > 1 || len(n.Op.Impls) == 1 && n.Op.Impls[0].MayRejectLayouts()
}

// orderSource returns the largest operand that has the dimension order of v, which v is assumed to follow. It returns
// nil if there is none, or if the implementation determines the order.
func orderSource(n *graph.Node, v *graph.Value) (from *graph.Value) {
	if choosesLayout(n) {
		return nil
	}
	order, dense := tensor.OrderOf(v.Meta)
	for _, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil || !dense || a.Value.Meta.Rank() != v.Meta.Rank() ||
			!order.Matches(a.Value.Meta) {
			continue
		}
		if from == nil || a.Value.Meta.Bytes() > from.Meta.Bytes() {
			from = a.Value
		}
	}
	return from
}

// targetReasons follows a value forward to the reader or output that requires its layout.
func (e *Explainer) targetReasons(v *graph.Value) (path []string) {
	visited := map[*graph.Value]bool{}
	for !visited[v] {
		visited[v] = true
		for _, output := range e.plan.Graph.Outputs {
			if output.Value == v {
				return append(path, fmt.Sprintf("output %q is stored in %s", output.Name, e.layoutOf(v)))
			}
		}
		n, _ := e.preferredReader(v)
		if n == nil {
			return path
		}
		out := n.Out[0]
		switch {
		case n.Pin.SetsLayout():
			return append(path, fmt.Sprintf("%q is pinned to %s", out.Name, e.layoutOf(out)))
		case out.Alias == v:
			path = append(path, fmt.Sprintf("%s (%s) views it as %s", n.Name, n.Op.Name, e.layoutOf(out)))
		case choosesLayout(n):
			return append(path, nodeDescription(n)+" requires "+e.layoutOf(v))
		default:
			path = append(path, nodeDescription(n)+" reads it and writes "+e.layoutOf(out))
		}
		v = out
	}
	return path
}

// preferredReader returns a node that reads v, preferably one that chooses its layouts, and the number of nodes that
// read v.
func (e *Explainer) preferredReader(v *graph.Value) (first *graph.Node, count int) {
	counted := map[*graph.Node]bool{}
	for _, n := range e.uses.readers.At(v) {
		if counted[n] {
			continue
		}
		counted[n] = true
		if first == nil || choosesLayout(n) && !choosesLayout(first) {
			first = n
		}
	}
	return first, len(counted)
}

// Kinds of the sides of a copy.
const (
	inputSide    = "input"
	constantSide = "constant"
	outputSide   = "output"
	pinSide      = "pin"    // a pinned value
	viewSide     = "viewed" // a view node, whose result has the layout of its operand
	nodeSide     = "node"   // any other node
)

// copyText states both sides of a copy, the cost and the advice in one sentence, and the strategy's reason in a second
// sentence.
func copyText(c *report.Copy) string {
	parts := []string{producerText(c.Producer)}
	if text := readerText(c.Reader); text != "" {
		parts = append(parts, text)
	}
	cost := "the copy costs " + machine.Nanoseconds(c.CostNS)
	if c.Share > 0 {
		cost += ", " + shareText(c.Share) + " of the plan"
	}
	parts = append(parts, cost)
	if c.Advice != "" {
		parts = append(parts, "to avoid it, "+c.Advice)
	}
	text := strings.Join(parts, "; ")
	if c.Strategy != "" {
		text += ". " + strings.ToUpper(c.Strategy[:1]) + c.Strategy[1:]
	}
	return text
}

// shareText formats a share of the plan's cost.
func shareText(share float64) string {
	if share < 0.001 {
		return "less than 0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

// producerText describes the layout of a copy's source and its reason.
func producerText(p report.Producer) string {
	layout := p.Layout
	if p.Padded {
		layout += " (padded)"
	}
	name := "`" + p.Name + "`"
	if p.Pinned != "" {
		name = "`" + p.Pinned + "` before its pin"
	}
	switch p.Kind {
	case inputSide, constantSide:
		return fmt.Sprintf("%s %s is stored in %s", p.Kind, name, layout)
	case pinSide:
		return fmt.Sprintf("%s is pinned to %s", name, layout)
	case viewSide:
		return fmt.Sprintf("%s views `%s` in %s", name, p.LayoutSource, layout)
	}
	text := fmt.Sprintf("%s writes %s", withImpl(name, p.Impl), layout)
	if p.LayoutSource != "" {
		text += fmt.Sprintf(", as its operand `%s` is stored", p.LayoutSource)
	}
	return text
}

// readerText describes the layout that a copy's reader needs; empty if nothing reads the copy.
func readerText(r report.Reader) string {
	layout := r.Layout
	if r.Dense {
		layout = "it dense"
	}
	switch r.Kind {
	case outputSide:
		return fmt.Sprintf("output `%s` keeps the layout of the graph as written, %s", r.Name, r.Layout)
	case pinSide:
		return fmt.Sprintf("`%s` is pinned to %s", r.Name, r.Layout)
	case "":
		return ""
	}
	verb := "needs"
	readers := withImpl("`"+r.Name+"`", r.Impl)
	switch {
	case r.OtherReaders == 1:
		readers, verb = readers+" and 1 other reader", "need"
	case r.OtherReaders > 1:
		readers, verb = fmt.Sprintf("%s and %d other readers", readers, r.OtherReaders), "need"
	}
	text := fmt.Sprintf("%s %s %s", readers, verb, layout)
	if r.Pin != "" {
		text += ", pinned to " + r.Pin
	}
	if r.DecidedBy != "" && r.DecidedBy != r.Name {
		text += fmt.Sprintf(" for `%s`", r.DecidedBy)
	}
	return text
}

// withImpl appends the name of an implementation, if any, to the name of a node.
func withImpl(name, impl string) string {
	if impl == "" {
		return name
	}
	return name + " (" + impl + ")"
}

// This part names layouts for explanations of copies: see [Explainer].

// layoutOf names the layout of a value; see [Explainer]. The dimensions have the names of an image's dimensions if the
// value is an image, a copy of an image, or a value whose copy is an image.
func (e *Explainer) layoutOf(v *graph.Value) string {
	isImage := e.problem.Image
	isImageCopy := v.Node != nil && v.Node.Op.Identity && v.Node.In[0].Value != nil && isImage(v.Node.In[0].Value)
	place := ""
	if v.Place() != tensor.Host && e.plan.options.Device != nil {
		place = " on " + e.plan.options.Device.Name()
	}
	hasImageCopy := slices.ContainsFunc(e.uses.readers.At(v), func(n *graph.Node) bool {
		return n.Op.Identity && isImage(n.Out[0])
	})
	return layoutText(v.Meta, isImageCopy || isImage(v) || hasImageCopy) + place
}

// layoutText names the order of dimensions, and the strides that differ from the strides of a dense value in this
// order.
func layoutText(meta tensor.Meta, isImage bool) string {
	rank := meta.Rank()
	names := make([]string, rank)
	for dim := range names {
		names[dim] = fmt.Sprint("dimension ", dim)
	}
	if isImage = isImage && (rank == 4 || rank == 5); isImage {
		names = strings.Split(map[int]string{4: "N C H W", 5: "N C D H W"}[rank], " ")
	}
	order, dense := tensor.OrderOf(meta)
	for dim, size := range meta.Shape {
		if size > 1 && meta.Strides[dim] == 0 {
			return "strides " + tensor.ListString(meta.Strides) // repeated elements have no order
		}
	}
	text := orderText(order, names, isImage)
	if dense {
		return text
	}
	var gaps []string
	denseStride := 1 // the stride of the next dimension, fastest first, if there is no gap before it
	for _, dim := range slices.Backward(order.Dims()) {
		if meta.Shape[dim] == 1 {
			continue
		}
		if meta.Strides[dim] != denseStride {
			gaps = append(gaps, fmt.Sprintf("%d along %s", meta.Strides[dim], names[dim]))
		}
		denseStride = meta.Strides[dim] * meta.Shape[dim]
	}
	return text + " with stride " + strings.Join(gaps, " and ")
}

// orderText names an order of dimensions. names has the names of the dimensions, which are used for images.
func orderText(order tensor.Order, names []string, isImage bool) string {
	switch {
	case isImage:
		list := make([]string, len(order))
		for i, dim := range order.Dims() {
			list[i] = names[dim]
		}
		return "(" + strings.Join(list, ",") + ")"
	case order.IsRowMajor():
		return "row-major order"
	case order.Rank() == 2:
		return "column-major order"
	case order.Format() != tensor.NoFormat:
		return order.String() + " order"
	}
	return "dimension order (" + order.String() + ")"
}
