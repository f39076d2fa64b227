package passes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// This file explains the copies of a plan. The two sides of a copy are the origin of the layout of its source, and the
// demand for the layout of its result. A node chooses layouts if they depend on its implementation (choosesLayout).
//
// Sides collects the facts, and Sides.String puts them into words. The producer, the reader, the cost and the advice of
// a copy are separated by semicolons:
//
//	`act` writes (N,H,W,C), as its operand `conv` is stored; `y` is pinned to (N,C,H,W);
//	the copy costs 1.249µs, 5.5% of the plan; to avoid it, remove the pin of `y`

// Kinds of the sides of a copy.
const (
	inputSide    = "input"
	constantSide = "constant"
	outputSide   = "output"
	pinSide      = "pin"    // a pinned value
	viewSide     = "viewed" // a view node, whose result has the layout of its operand
	nodeSide     = "node"   // any other node
)

// Sides explains a copy of the plan; the result is empty for nil or unknown copies.
func (e *Explainer) Sides(c *Copy) (sides Sides) {
	if e == nil || e.plan == nil || !e.plan.hasCopy(c) {
		return sides
	}
	from, copyValue := c.Node.In[0].Value, c.Node.Out[0]
	sides.SourceReasons, sides.TargetReasons = e.sourceReasons(from), e.targetReasons(copyValue)
	sides.Producer, sides.Reader = e.describeProducer(from), e.describeReader(c)
	sides.Producer.Layout, sides.Reader.Layout = e.layoutOf(from), e.layoutOf(copyValue)
	source, dense := tensor.OrderOf(from.Meta)
	sides.Producer.Padded = !dense
	sides.Reader.Dense = !dense && source.Matches(copyValue.Meta)
	if sides.Producer.Layout == sides.Reader.Layout { // the two layouts differ only in dimensions of size 1
		sides.Producer.Layout = "strides " + tensor.ListString(from.Meta.Strides)
		sides.Reader.Layout = "strides " + tensor.ListString(copyValue.Meta.Strides)
	}
	sides.CostNS = c.CostNS
	if e.plan.CostNS > 0 {
		sides.Share = c.CostNS / e.plan.CostNS
	}
	sides.Advice = e.advice(from, copyValue, &sides)
	// The strategy gives no reason if the layout is fixed, or if an implementation requires the layout.
	if c.Why != layout.ReaderNeeds && sides.Reader.Kind != pinSide && sides.Reader.Kind != outputSide {
		sides.Strategy = c.Why
	}
	return sides
}

// hasCopy reports whether the node of a copy is a node of the plan.
func (p *Plan) hasCopy(c *Copy) bool {
	if c == nil || c.Node == nil || len(c.Node.In) == 0 || c.Node.In[0].Value == nil || len(c.Node.Out) == 0 {
		return false
	}
	return slices.Contains(p.Graph.Nodes, c.Node)
}

// describeProducer describes the origin of a value's layout.
func (e *Explainer) describeProducer(v *graph.Value) Producer {
	producer, n := Producer{Name: v.Name}, v.Node
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
func (e *Explainer) describeReader(c *Copy) Reader {
	copyValue := c.Node.Out[0]
	if c.Node.Pin.SetsLayout() {
		name := copyValue.Name
		if e.plan.pinOf(name) == (graph.Pin{}) { // the copy of an input
			name = c.Value
		}
		return Reader{Kind: pinSide, Name: name}
	}
	n, count := e.preferredReader(copyValue)
	for _, output := range e.plan.Graph.Outputs {
		if output.Value != copyValue {
			continue
		}
		if output.Pin.SetsLayout() {
			return Reader{Kind: pinSide, Name: output.Name, OtherReaders: count}
		}
		return Reader{Kind: outputSide, Name: output.Name, OtherReaders: count}
	}
	if n == nil {
		return Reader{}
	}
	reader := Reader{Kind: nodeSide, Name: n.Name, OtherReaders: count - 1}
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
func (e *Explainer) advice(from, copyValue *graph.Value, sides *Sides) string {
	if from.Place() != copyValue.Place() { // a transfer: inputs and outputs are on the host
		return ""
	}
	isOnlyReader := len(e.uses.readers.At(from)) == 1 && !e.uses.isOutput[from]
	order, dense := tensor.OrderOf(from.Meta)
	switch {
	case sides.Producer.Kind == inputSide && sides.Reader.Kind == pinSide:
		return fmt.Sprintf("pass `%s` in %s, or remove the pin", from.Name, sides.Reader.Layout)
	case sides.Reader.Kind == pinSide:
		return fmt.Sprintf("remove the pin of `%s`", sides.Reader.Name)
	case sides.Reader.Kind == outputSide && dense:
		return fmt.Sprintf("accept `%s` in %s: --pin %s=%v", sides.Reader.Name, sides.Producer.Layout, sides.Reader.Name,
			graph.Pin{Format: order.Format(), Order: orderUnlessNamed(order)})
	case sides.Producer.Kind == pinSide:
		return fmt.Sprintf("remove the pin of `%s`", from.Name)
	case sides.Producer.Kind == inputSide && isOnlyReader && sides.Reader.Dense:
		return fmt.Sprintf("pass `%s` dense", from.Name)
	case (sides.Producer.Kind == inputSide || sides.Producer.Kind == constantSide) && isOnlyReader:
		verb := map[string]string{inputSide: "pass", constantSide: "store"}[sides.Producer.Kind]
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

// layoutOf names the layout of a value; see [Explainer]. The dimensions are named as in an image also for a copy of an
// image, and for a value whose copy is an image.
func (e *Explainer) layoutOf(v *graph.Value) string {
	isImage := e.problem.Image
	isImageCopy := v.Node != nil && v.Node.Op.Identity && v.Node.In[0].Value != nil && isImage(v.Node.In[0].Value)
	place := ""
	if v.Place() != tensor.Host && e.plan.device != nil {
		place = " on " + e.plan.device.Name()
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

// String states both sides, the cost and the advice in one sentence, and the strategy's reason in a second sentence.
func (s Sides) String() string {
	parts := []string{s.Producer.String()}
	if readerText := s.Reader.text(); readerText != "" {
		parts = append(parts, readerText)
	}
	cost := "the copy costs " + machine.Nanoseconds(s.CostNS)
	if s.Share > 0 {
		cost += ", " + shareText(s.Share) + " of the plan"
	}
	parts = append(parts, cost)
	if s.Advice != "" {
		parts = append(parts, "to avoid it, "+s.Advice)
	}
	text := strings.Join(parts, "; ")
	if s.Strategy != "" {
		text += ". " + strings.ToUpper(s.Strategy[:1]) + s.Strategy[1:]
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

// String describes the layout of a copy's source and its reason.
func (p Producer) String() string {
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
	if p.Impl != "" {
		name += " (" + p.Impl + ")"
	}
	text := fmt.Sprintf("%s writes %s", name, layout)
	if p.LayoutSource != "" {
		text += fmt.Sprintf(", as its operand `%s` is stored", p.LayoutSource)
	}
	return text
}

// nodeText formats the name of a node and of its implementation.
func nodeText(name, impl string) string {
	if impl == "" {
		return "`" + name + "`"
	}
	return fmt.Sprintf("`%s` (%s)", name, impl)
}

// text describes the layout that a copy's reader needs; empty if nothing reads the copy.
func (r Reader) text() string {
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
	readers := nodeText(r.Name, r.Impl)
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
