package passes

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Sides explains a copy by its two sides: the origin of the layout of the source, and the demand for the new layout.
type Sides struct {
	// SourceReasons leads from the source of the copy back to the node, input or pin that determined its layout.
	// TargetReasons leads from the copy to the reader or output that requires the new layout. Each has one sentence per
	// step.
	SourceReasons, TargetReasons []string
	Producer                     Producer
	Reader                       Reader
	CostNS                       float64
	Share                        float64 // the cost of the copy as a share of the cost of the plan, from 0 to 1
	Advice                       string  // a change by the caller that avoids the copy; empty if none is known
	// Strategy states why the strategy inserted the copy. It is empty if an output, a pin or the reader's implementation
	// requires the layout.
	Strategy string
}

// Producer is the side of a copy's source. Kind is "input", "constant", "pin", "viewed" or "node".
type Producer struct {
	Kind         string
	Name         string // the value that is copied
	Impl         string // for a node whose layout depends on its implementation: the implementation; else empty
	LayoutSource string // the value that the copied value views, or the operand that determines its layout
	Layout       string // see [Explainer]
	Padded       bool   // the rows of the value are separated by gaps
	// Pinned is set if the node has a pin but writes another layout: the name of the copy that has the pinned layout.
	Pinned string
}

// Reader is the side of a copy's reader. Kind is "output", "pin", "viewed" or "node", and empty if nothing
// reads the copy. A reader of kind "viewed" is a view.
type Reader struct {
	Kind         string
	Name         string // the output, the pinned value, or the node
	Impl         string // for a node whose layouts depend on its implementation: the implementation; else empty
	DecidedBy    string // the later node, output or pin that determines the layout, if the reader does not
	Pin          string // the pin of the node, if it has one
	OtherReaders int    // the number of further readers of the copy
	Layout       string
	Dense        bool // the reader needs the order of the source, without its padding
}

// Explainer explains copies of a plan. It names layouts by dimensions, slowest first: "(N,H,W,C)" for images;
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
