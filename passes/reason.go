package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
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

// Sides explains a copy of the plan: the producer of its source, and the reader of its result. Sides is empty for nil
// or unknown copies.
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
		if e.plan.pinOf(name) == (graph.Pin{}) { // the copy of an input: the pin names the input
			name = c.Value
		}
		return Reader{Kind: pinSide, Name: name}
	}
	n, count := e.preferredReader(copyValue)
	// An output is described rather than the nodes that also read the copy.
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
