package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// placementTrial makes a placement on trial: a value becomes a slice of another value (see place.go). The trial changes
// the layout of the value and of its views, and estimates the costs of the affected nodes before and after the change.
//
// For example, let a be placed in c, let conv compute a, let relu read a, and let mul read a view of a. The affected
// nodes are conv, relu and mul, and the changed values are a and its view.
type placementTrial struct {
	placer     *placer
	oldLayouts []savedLayout // of changed values
	nodes      []*graph.Node // affected nodes that compute; the first node computes the placed value
	views      []*graph.Node // the nodes of the views
}

// savedLayout is the layout of a value before a trial.
type savedLayout struct {
	value       *graph.Value
	valueType   tensor.Type
	meta        tensor.Meta
	alias       *graph.Value
	containedIn *graph.Value
}

// saveLayout saves the current layout of v for undo.
func (t *placementTrial) saveLayout(v *graph.Value) {
	t.oldLayouts = append(t.oldLayouts, savedLayout{value: v, valueType: v.Type, meta: v.Meta, alias: v.Alias,
		containedIn: v.ContainedIn})
}

// undo restores the layouts before the trial.
func (t *placementTrial) undo() {
	for _, saved := range t.oldLayouts {
		v := saved.value
		v.Type, v.Meta, v.Alias, v.ContainedIn = saved.valueType, saved.meta, saved.alias, saved.containedIn
	}
}

// changesLayout reports whether the trial changes the layout of a value.
func (t *placementTrial) changesLayout(v *graph.Value) bool {
	return slices.ContainsFunc(t.oldLayouts, func(saved savedLayout) bool { return saved.value == v })
}

// addReaders adds the readers of v to the trial, and the readers of its views.
func (t *placementTrial) addReaders(v *graph.Value) {
	for _, n := range t.placer.readers.At(v) {
		if !n.IsView() {
			if !slices.Contains(t.nodes, n) {
				t.nodes = append(t.nodes, n)
			}
			continue
		}
		t.views = append(t.views, n)
		for _, result := range n.Out {
			t.addReaders(result)
		}
	}
}

// place sets the layout of the placed value.
func (t *placementTrial) place(tried placement) {
	v, meta := tried.value, tried.meta
	t.saveLayout(v)
	if v.ContainedIn = tried.within; v.Meta.SameAddresses(meta) {
		meta.Strides = v.Meta.Strides // only the offset differs: keep the strides of dimensions of size 1
	}
	v.SetMeta(meta)
}

// supportsLayouts infers the views again. It reports whether they are still views and all nodes support the new
// layouts.
func (t *placementTrial) supportsLayouts() bool {
	for _, n := range t.views {
		for _, result := range n.Out {
			t.saveLayout(result)
		}
		if inferOutputs(n) != nil || !n.IsView() {
			return false
		}
		for _, result := range n.Out {
			if !n.Pin.Matches(result.Meta) {
				return false
			}
		}
	}
	// Node 0 computes the value whose layout changes, so all its checks are repeated; the other nodes read the value.
	for i, n := range t.nodes {
		if i == 0 && n.CheckProps() != nil || i > 0 && n.RecheckProps(t.changesLayout) != nil {
			return false
		}
	}
	return true
}

// costByPart is the cost of a node, in parts that are independent of each other ([graph.Impl.Read]). A trial changes
// the layout of one value, so that only some parts of a node with many operands must be estimated again.
type costByPart struct {
	// parts has the cost of the node's own work, then of reading each operand, in ns. It is nil if there is no cost
	// profile or the node has no work.
	parts []float64
	ns    float64 // sum of the parts
}

// oldCost returns the total cost of the affected nodes before the placement, in ns. placer.costs caches the costs of
// nodes until a trial that affects them is accepted.
func (t *placementTrial) oldCost() (ns float64) {
	for _, n := range t.nodes {
		cost, known := t.placer.costs[n]
		if !known {
			cost = t.placer.nodeCost(n, costByPart{}, nil)
			t.placer.costs[n] = cost
		}
		ns += cost.ns
	}
	return ns
}

// newCosts returns the costs of the affected nodes after the placement, and their sum in ns.
func (t *placementTrial) newCosts() (costs []costByPart, ns float64) {
	costs = make([]costByPart, len(t.nodes))
	for i, n := range t.nodes {
		old := t.placer.costs[n]
		if i == 0 {
			old = costByPart{} // the layout of its result changes, and thereby all parts
		}
		costs[i] = t.placer.nodeCost(n, old, t.changesLayout)
		ns += costs[i].ns
	}
	return costs, ns
}

// nodeCost returns the cost of a node at the current layouts. It estimates the parts of operands for which
// layoutChanged returns true, and takes the other parts from old. If old has no parts, it estimates all.
func (placer *placer) nodeCost(n *graph.Node, old costByPart, layoutChanged func(*graph.Value) bool) (cost costByPart) {
	if placer.profile == nil {
		return cost
	}
	cost.parts = make([]float64, 1+len(n.In))
	copy(cost.parts, old.parts)
	// k is the index of an operand, or -1 for the node's own work.
	mustEstimate := func(k int) bool { return old.parts == nil || k >= 0 && layoutChanged(n.In[k].Value) }
	setPart := func(k int, work graph.Work) {
		cost.parts[k+1] = float64(layout.PricePS(placer.profile, work)) / machine.PSPerNS
	}
	if hasWork := n.EachWork(mustEstimate, setPart); !hasWork {
		return costByPart{}
	}
	for _, ns := range cost.parts {
		cost.ns += ns
	}
	return cost
}
