package passes

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// This file applies the layouts of recorded [Decisions] to the same graph at other sizes, or returns a [Misfit]. The
// decisions have a [layout.Assignment], with a [layout.Choice] for each node: an implementation, a walk (the order of
// the loops, and the orders of the results), and the copies that the node reads in place of its operands. A layouter
// (layout.go) applies the assignment and calls the checks of this file. The layouts before that, as in eager PyTorch,
// are called the layouts of the graph as written.
//
// For example, the decisions for batches of 8 chose the implementation "tiled" for a product, with a row-major result.
// At batches of 1, "tiled" may not support the operands. Then the first other implementation with a row-major result
// replaces it. If there is none, the decisions do not fit.

// followLayouts applies the recorded assignment. An output must have the layout of its pin or of the graph as written.
// An implementation must support its assigned layouts.
func (p *Plan) followLayouts() error {
	if err := p.decisionsToFollow.checkGraph(p.Graph); err != nil {
		return err
	}
	assignment, err := p.decisionsToFollow.layout.assignment(p.Graph, p.device)
	if err != nil {
		return err
	}
	p.noteLayouts(assignment)
	p.strategyChoseCopies = assignment.Final
	required := make([]outputLayout, len(p.Graph.Outputs))
	for i, output := range p.Graph.Outputs {
		required[i] = outputLayout{pin: output.EffectivePin(), symbolicType: output.Value.Type, meta: output.Value.Meta}
	}
	layouter := newLayouter(p)
	layouter.fromOtherSizes = true
	if err := layouter.apply(assignment); err != nil {
		return err
	}
	return p.checkOutputLayouts(required)
}

// checkGraph returns an error if the layouts were not chosen for the nodes of the graph.
func (d *Decisions) checkGraph(g *graph.Graph) error {
	if d.layout == nil || len(d.nodes) != len(g.Nodes) {
		return misfitError("the graph has %d nodes, but the decisions are for %d nodes", len(g.Nodes), len(d.nodes))
	}
	for i, n := range g.Nodes {
		if d.nodes[i] != signatureOf(n) {
			return misfitError("node %s differs from the node for which the decisions were made", n.Name)
		}
	}
	return nil
}

// outputLayout is the required layout of an output: its pin or, without a pin, the layout of the graph as written.
type outputLayout struct {
	pin          graph.Pin
	symbolicType tensor.Type // in the graph as written, with possibly unknown sizes
	meta         tensor.Meta // in the graph as written
}

// checkOutputLayouts returns an error if an output does not have the required layout.
func (p *Plan) checkOutputLayouts(required []outputLayout) error {
	for i, output := range p.Graph.Outputs {
		meta, pin, original := output.Value.Meta, required[i].pin, required[i].meta
		if !pin.Matches(meta) || !pin.SetsLayout() && !meta.SameLayout(original) {
			return misfitError("output %q would get the layout %v, but it must keep the layout %v of the graph as "+
				"written", output.Name, meta, original)
		}
		if !pin.SetsLayout() {
			// If sizes are unknown, this records the condition as a guard.
			output.Value.Type.SameLayout(required[i].symbolicType)
		}
	}
	return nil
}

// checkNodeLayouts returns an error if a node does not meet its pin or cannot read its operands.
func (l *layouter) checkNodeLayouts(n *graph.Node) error {
	for _, v := range n.Out {
		if !n.Pin.Matches(v.Meta) {
			return misfitError("%q is %v, but is pinned to %v", v.Name, v.Meta, n.Pin)
		}
	}
	if n.Impl != nil && !n.IsView() && n.Impl.MayRejectLayouts() && !n.Impl.Reads(n.Call(), n.Walk) {
		return misfitError("implementation %s cannot read the operands of %s in their layouts", n.Impl.Name, n.Name)
	}
	return nil
}

// implFor returns the implementation and the walk of a node for the recorded choice. The operands already have their
// final layouts. If the recorded implementation does not support the current sizes, implFor returns a replacement. exact
// excludes inexact implementations.
func implFor(n *graph.Node, choice *layout.Choice, exact bool) (*graph.Impl, graph.Walk, error) {
	recorded := choice.Walk
	switch {
	case choice.Impl == nil && len(n.Op.Impls) > 0 && !n.IsView():
		return nil, recorded, misfitError("%s is not a view, but was one when the decisions were made", n.Name)
	case choice.Impl == nil || n.IsView(): // nothing to check: a view, or an op without implementations
		return choice.Impl, recorded, nil
	}
	call := n.Call()
	orders := []tensor.Order{recorded.LoopOrder} // to request from implementations
	if len(recorded.ResultOrders) > 0 && recorded.ResultOrders[0] != recorded.LoopOrder {
		orders = append(orders, recorded.ResultOrders[0])
	}
	for _, walk := range choice.Impl.Walks(call, orders) {
		if walk.LoopOrder == recorded.LoopOrder && givesSameAddresses(n, walk, recorded) {
			return choice.Impl, recorded, nil
		}
	}
	if choice.Impl.OnDevice() { // no host implementation can replace it: its results must be on the device
		return nil, recorded, misfitError("the device has no kernel for %s in the layout of the decisions", n.Name)
	}
	return replacementImpl(n, call, recorded, orders, exact)
}

// replacementImpl returns the first permitted implementation of a node whose results have the layouts of the recorded
// walk, and its walk.
func replacementImpl(n *graph.Node, call *graph.Call, recorded graph.Walk, orders []tensor.Order, exact bool) (
	*graph.Impl, graph.Walk, error) {
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		isPermitted := (n.Pin.Impl == "" || impl.Name == n.Pin.Impl) && !(exact && impl.Inexact)
		if !isPermitted {
			continue
		}
		for _, walk := range impl.Walks(call, orders) {
			if givesSameAddresses(n, walk, recorded) && impl.Reads(call, walk) {
				return impl, walk, nil
			}
		}
	}
	return nil, recorded, misfitError("no implementation of %s supports the layout of the decisions", n.Name)
}

// givesSameAddresses reports whether the elements of a node's results have the same addresses with both walks.
func givesSameAddresses(n *graph.Node, walkA, walkB graph.Walk) bool {
	for i, v := range n.Out {
		if v.Alias == nil && !walkA.ResultLayout(i, v.Meta).SameAddresses(walkB.ResultLayout(i, v.Meta)) {
			return false
		}
	}
	return true
}

// storageAsWritten reports whether an op that reads the bytes of its operand's memory, such as as_strided, reads the
// same bytes as in the graph as written. v is the operand. replacement, if not nil, is the [layout.Copy] that the op
// reads instead: a copy in other memory, a repeated view, or a value itself (Original).
func (l *layouter) storageAsWritten(v *graph.Value, replacement *layout.Copy) bool {
	if replacement != nil && !replacement.Original {
		hasOriginalStrides := replacement.Strides != nil && !replacement.View
		return hasOriginalStrides && v.Alias == nil && v.Node != nil && v.Node.Op.Kind != graph.View
	}
	if replacement != nil && replacement.Value != v { // another value: it must begin at the start of its memory
		v = replacement.Value
		if v.Alias != nil || v.Meta.Offset != 0 {
			return false
		}
	}
	for viewed := v; viewed != nil; viewed = viewed.Alias {
		if l.changedLayouts[viewed] {
			return false
		}
	}
	return true
}
