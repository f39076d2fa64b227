package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
)

// placementTrial makes a placement on trial: a value becomes a slice of another value (see place.go). The trial changes
// the layout of the value and of its views, and estimates the costs of the affected nodes before and after the change.
//
// For example, let a be placed in c, let conv compute a, let relu read a, and let mul read a view of a. The affected
// nodes are conv, relu and mul, and the changed values are a and its view.
type placementTrial struct {
	placer  *placer
	changed []savedValue  // values whose layouts the trial changes
	nodes   []*graph.Node // affected nodes that compute; the first node computes the placed value
	views   []*graph.Node // the nodes of the views
}

// savedValue is a value and its fields before a trial.
type savedValue struct {
	value  *graph.Value
	before graph.Value
}

// saveValue saves v for undo.
func (t *placementTrial) saveValue(v *graph.Value) { t.changed = append(t.changed, savedValue{v, *v}) }

// undo restores the layouts before the trial.
func (t *placementTrial) undo() {
	for i := range t.changed {
		*t.changed[i].value = t.changed[i].before
	}
}

// changesLayout reports whether the trial changes the layout of a value.
func (t *placementTrial) changesLayout(v *graph.Value) bool {
	return slices.ContainsFunc(t.changed, func(saved savedValue) bool { return saved.value == v })
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
	t.saveValue(v)
	v.ContainedIn = tried.within
	if v.Meta.SameAddresses(meta) {
		meta.Strides = v.Meta.Strides // only the offset differs: keep the strides of dimensions of size 1
	}
	v.SetMeta(meta)
}

// supportsLayouts infers the views again. It reports whether they are still views and all nodes support the new
// layouts.
func (t *placementTrial) supportsLayouts() bool {
	for _, n := range t.views {
		for _, result := range n.Out {
			t.saveValue(result)
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
	// The first node computes the placed value, so all its checks are repeated; the others read the value.
	return t.nodes[0].CheckProps() == nil && !slices.ContainsFunc(t.nodes[1:], func(reader *graph.Node) bool {
		return reader.RecheckProps(t.changesLayout) != nil
	})
}

// partialCosts is the cost of a node in parts that are independent of each other ([graph.Impl.Read]), in ns: the node's
// own work, then reading each operand. A trial changes the layout of one value, so that only some parts of a node with
// many operands must be estimated again. It is nil if there is no cost profile or the node has no work.
type partialCosts []float64

// sum returns the cost of the node.
func (parts partialCosts) sum() (ns float64) {
	for _, part := range parts {
		ns += part
	}
	return ns
}

// oldCost returns the total cost of the affected nodes before the placement, in ns. placer.costs caches the costs of
// nodes until a trial that affects them is accepted.
func (t *placementTrial) oldCost() (ns float64) {
	for _, n := range t.nodes {
		cost, known := t.placer.costs[n]
		if !known {
			cost = t.placer.nodeCost(n, nil, nil) // all parts are estimated
			t.placer.costs[n] = cost
		}
		ns += cost.sum()
	}
	return ns
}

// newCosts returns the costs of the affected nodes after the placement, and their total in ns.
func (t *placementTrial) newCosts() (costs []partialCosts, ns float64) {
	costs = make([]partialCosts, len(t.nodes))
	for i, n := range t.nodes {
		old := t.placer.costs[n]
		if i == 0 {
			old = nil // the layout of its result changes, and thereby all parts
		}
		costs[i] = t.placer.nodeCost(n, old, t.changesLayout)
		ns += costs[i].sum()
	}
	return costs, ns
}

// nodeCost returns the cost of a node at the current layouts. It estimates the parts of operands for which
// layoutChanged returns true, and takes the other parts from old. If old is nil, it estimates all.
func (placer *placer) nodeCost(n *graph.Node, old partialCosts,
	layoutChanged func(*graph.Value) bool) partialCosts {
	if placer.profile == nil {
		return nil
	}
	parts := make(partialCosts, 1+len(n.In))
	copy(parts, old)
	// k is the index of an operand, or -1 for the node's own work.
	mustEstimate := func(k int) bool { return old == nil || k >= 0 && layoutChanged(n.In[k].Value) }
	setPart := func(k int, work graph.Work) {
		parts[k+1] = float64(layout.PricePS(placer.profile, work)) / machine.PSPerNS
	}
	if hasWork := n.EachWork(mustEstimate, setPart); !hasWork {
		return nil
	}
	return parts
}
