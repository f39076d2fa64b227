package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// elider removes copies in one pass over the nodes.
type elider struct {
	plan    *Plan
	uses    *uses // the readers of each value; created at the first copy, because many graphs have no copies
	removed map[*graph.Node]bool
}

// elideCopies removes the copies that are not needed. For example, in x → contiguous → relu, the contiguous is removed
// if x is already contiguous, or if relu can read x in its layout and gives a result of the same layout. If the
// strategy has not decided about the copies of the graph, it also makes the reader of a copy of a copy read the
// original.
func elideCopies(plan *Plan) error {
	state := &elider{plan: plan, removed: map[*graph.Node]bool{}}
	for _, n := range plan.Graph.Nodes {
		interrupt.Check(plan.ctx)
		if n.Op.Identity && n.In[0].Kind == graph.TensorArg && n.In[0].Meta().DType == n.Out[0].Meta.DType {
			if state.uses == nil {
				state.uses = usesOf(plan.Graph)
			}
			if !plan.strategyChoseCopies {
				state.shorten(n)
			}
			if why := state.redundancyReason(n); why != "" {
				state.uses.redirect(plan.Graph, n.Out[0], n.In[0].Value)
				state.drop(n, why)
			}
		}
	}
	plan.Graph.Nodes = slices.DeleteFunc(plan.Graph.Nodes, func(n *graph.Node) bool { return state.removed[n] })
	return nil
}

// drop marks a node for removal, and records the reason.
func (e *elider) drop(n *graph.Node, why string) {
	e.plan.Elided = append(e.plan.Elided, report.Elision{Node: n.Name, Why: why})
	e.removed[n] = true
}

// shorten redirects node n, a copy of a copy, to the original. In a chain of copies, it repeats this. A copy in between
// is removed if it has no other reader.
func (e *elider) shorten(n *graph.Node) {
	for {
		innerCopy := n.In[0].Value
		if n.Out[0].Alias != nil || !isFreeCopy(innerCopy) {
			return
		}
		original := innerCopy.Node.In[0].Value
		if !e.canRead(n, innerCopy, original) {
			return
		}
		e.uses.readers.Set(innerCopy, slices.DeleteFunc(e.uses.readers.At(innerCopy), func(reader *graph.Node) bool {
			return reader == n
		}))
		e.uses.add(original, n)
		n.In[0].Value = original
		if len(e.uses.readers.At(innerCopy)) == 0 && !e.uses.isOutput[innerCopy] && !e.removed[innerCopy.Node] {
			e.drop(innerCopy.Node, fmt.Sprintf("a copy of a copy: %q reads %q itself", n.Name, original.Name))
		}
	}
}

// isFreeCopy reports whether v is a copy of another value, with its own memory and without a pinned layout.
func isFreeCopy(v *graph.Value) bool {
	n := v.Node
	return n != nil && n.Op.Identity && v.Alias == nil && !n.Pin.SetsLayout() && n.In[0].Kind == graph.TensorArg &&
		n.In[0].Meta().DType == v.Meta.DType
}

// redundancyReason returns why a copy can be removed, or "".
func (e *elider) redundancyReason(n *graph.Node) string {
	v, source := n.Out[0], n.In[0].Value
	switch {
	case n.Pin.SetsLayout(): // the user demands the copy
		return ""
	case v.Alias != nil && v.Meta.SameLayout(source.Meta): // a view in the layout of the source: n copies nothing
		return fmt.Sprintf("%q already has the layout asked for, strides %v", source.Name,
			tensor.ListString(source.Meta.Strides))
	case e.plan.strategyChoseCopies: // the strategy has already decided which of the other copies are removed
		return ""
	case e.uses.isOutput[v]: // an output keeps its layout
		return ""
	case len(e.uses.readers.At(v)) == 0: // dropDead removes it
		return ""
	case v.Meta.SameLayout(source.Meta) && (v.Meta.Offset == source.Meta.Offset || !e.hasView(v)):
		return fmt.Sprintf("%q has the same elements in the same layout", source.Name)
	}
	for _, reader := range e.uses.readers.At(v) {
		if !e.canRead(reader, v, source) {
			return ""
		}
	}
	return fmt.Sprintf("all its readers can read %q in its present layout", source.Name)
}

// hasView reports whether a view of v exists. The offset of such a view counts from the start of v's storage, so v
// cannot be replaced by a value with another offset.
func (e *elider) hasView(v *graph.Value) bool {
	return slices.ContainsFunc(e.uses.readers.At(v), func(reader *graph.Node) bool {
		return slices.ContainsFunc(reader.Out, func(result *graph.Value) bool { return result.Alias == v })
	})
}

// canRead reports whether a reader of `from` can read the replacement instead, while its results keep their layouts. It
// returns false for a view, for an op that reads the bytes between elements, and for an implementation that rejects the
// layout of the replacement. Pointwise nodes, copies, and nodes whose results have a chosen layout keep the layouts of
// their results. For any other node, inference must give the same results with the replacement as with `from`.
func (e *elider) canRead(reader *graph.Node, from, replacement *graph.Value) bool {
	if reader.Op.ReadsStorage || reader.Op.Kind == graph.View && !reader.Op.Identity {
		return false
	}
	for _, v := range reader.Out {
		if v.Alias != nil {
			return false
		}
	}
	call := reader.Call()
	call.In = slices.Clone(reader.In)
	for i := range call.In {
		if call.In[i].Value == from {
			call.In[i].Value = replacement
		}
	}
	if reader.Impl != nil && !reader.Impl.Reads(call, reader.Walk) {
		return false
	}
	if reader.Op.Kind == graph.FollowsOperands || reader.Op.Identity || !reader.Walk.HasInferredLayouts() {
		return true
	}
	results, err := reader.Op.Infer(call)
	if err != nil || len(results) != len(reader.Out) {
		return false
	}
	for i, result := range results {
		if result.Alias >= 0 || !result.Meta().SameLayout(reader.Out[i].Meta) {
			return false
		}
	}
	return true
}

// cancelPermutes removes the second of two consecutive permutations that are inverses. It keeps both permutations if
// one of them, or the operand of the first, is pinned to a layout. The readers of the second permutation then read the
// operand of the first.
func cancelPermutes(plan *Plan) error {
	g := plan.Graph
	var valueUses *uses // created at the first pair
	removed := map[*graph.Node]bool{}
	for _, n := range g.Nodes {
		if n.Pin.SetsLayout() || n.Op.Permutes == nil || n.In[0].Kind != graph.TensorArg {
			continue
		}
		first := n.In[0].Value.Node
		if first == nil || first.Op.Permutes == nil || first.Pin.SetsLayout() {
			continue
		}
		source := first.In[0].Value
		// A reader of the source must read its pinned layout, but a reader of n need not.
		if source.EffectivePin().SetsLayout() {
			continue
		}
		if !areInverse(first.Op.Permutes(first.Call()), n.Op.Permutes(n.Call())) || !n.Out[0].Meta.SameLayout(source.Meta) {
			continue
		}
		if valueUses == nil {
			valueUses = usesOf(g)
		}
		valueUses.redirect(g, n.Out[0], source)
		removed[n] = true
		plan.Elided = append(plan.Elided, report.Elision{Node: n.Name,
			Why: fmt.Sprintf("undoes %q: its readers read %q", first.Name, source.Name)})
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return removed[n] })
	return nil
}

// areInverse reports whether permutation first followed by permutation second is the identity.
func areInverse(first, second []int) bool {
	for i, dim := range second {
		if first[dim] != i {
			return false
		}
	}
	return len(first) == len(second)
}

// setBases sets the bases of outputs. original is the graph before all passes.
func (p *Plan) setBases(original *graph.Graph) {
	bases := map[string]string{} // by name of the output
	for _, output := range original.Outputs {
		bases[output.Name] = output.Value.Root().Name
	}
	for i := range p.Graph.Outputs {
		output := &p.Graph.Outputs[i]
		output.Base = bases[output.Name]
	}
}
