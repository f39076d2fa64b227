package layout

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the labels of the nodes of a [Model] and their costs. A label is one way to compute a node: an
// implementation, a walk (the order of the loops, and of the dimensions of the results) and the forms of the results. A
// form is a layout in which a value may exist. It is represented by its index in [variable.forms]; form 0 is the layout
// of the graph as written.
//
// For example, let add have two operands. Each operand and the result have the forms 0, (N,C,H,W), and 1, (N,H,W,C).
// The node has two labels, one for each form of the result:
//
//	resultForms  cost (work)  readCosts: of each operand, by form
//	[0]          10           [5 20] [5 20]
//	[1]          10           [20 5] [20 5]

// computedNode is a node that computes, in contrast to a view.
type computedNode struct {
	node   *graph.Node
	labels []label
	id     int // index of the variable in WCSP; noVariable if there is a single label
}

// label is one way to compute a node.
type label struct {
	impl          *graph.Impl // nil for an op without implementations
	walk          graph.Walk
	resultForms   []int     // by result: its form
	requiredForms []int     // by operand: the only form allowed, or -1 for any; nil allows any form of all operands
	pinMisses     []int     // the operands that are pinned to a layout that the label cannot read
	cost          int64     // cost of work, and of reading constants, in picoseconds
	readCosts     [][]int64 // by operand and form: cost of reading, in picoseconds; nil for constants and numbers
	constantForms []int     // by operand: the form in which the label reads a constant
	// The last fields are for concatenations: see slots.go.
	concatName  string // the concatenation's result, if the label writes its own result directly into it; else empty
	resultSlots []uint // of a concatenation, by operand: mask of the operand's forms that are inside the result
}

// computation is a node, an implementation and a walk. Together with forms of the results, it determines a label.
type computation struct {
	node *graph.Node
	call *graph.Call // call.Out has the layouts of the results in the graph as written, or in the forms of a label
	impl *graph.Impl // nil for an op without implementations
	walk graph.Walk
}

// findLabels finds the labels of node n, which has index i and computes its results.
func (m *Model) findLabels(i int, n *graph.Node) error {
	computed, call := m.computedNodes[i], n.Call()
	if len(n.Op.Impls) == 0 {
		computed.labels = m.inferredLabels(computation{node: n, call: call})
		return nil
	}
	var orders []tensor.Order
	if len(n.Out) > 0 {
		orders = m.variables.At(n.Out[0]).orders()
	}
	supportedOnDevice := m.addDeviceLabels(i, n)
	supportedOnHost := m.addHostLabels(computed, call, orders)
	computed.labels = preferPinned(computed.labels, func(candidate *label) []int { return candidate.pinMisses })
	isSupported := supportedOnDevice || supportedOnHost
	switch {
	case len(computed.labels) > 0:
		return nil
	case isPinnedToDevice(n) && !isSupported:
		return m.Problem.pinnedDeviceError(n)
	case n.Pin.Impl != "" && !isSupported:
		return m.Problem.pinnedImplError(n, call)
	}
	return errors.New("no kernel supports these operands")
}

// addHostLabels adds the labels of a node on the host. orders are the orders in which the first result may exist.
// addHostLabels reports whether a permitted implementation supports the call.
func (m *Model) addHostLabels(computed *computedNode, call *graph.Call, orders []tensor.Order) (supported bool) {
	n := computed.node
	for k := range n.Op.Impls {
		impl := &n.Op.Impls[k]
		if !m.Problem.Permits(n, impl) {
			continue
		}
		for _, walk := range distinctWalks(impl.Walks(call, orders), n.Out) {
			supported = true
			for _, added := range m.walkLabels(computation{n, call, impl, walk}) {
				computed.addDistinct(added)
			}
		}
	}
	return supported
}

// addDistinct adds a label if the node has no equivalent label. If the equivalent label has a walk with inferred
// layouts, the new label replaces it: addSlotLabels needs walks with explicit orders.
func (computed *computedNode) addDistinct(added label) {
	switch earlier := slices.IndexFunc(computed.labels, added.isEquivalent); {
	case earlier < 0:
		computed.labels = append(computed.labels, added)
	case computed.labels[earlier].walk.HasInferredLayouts():
		computed.labels[earlier] = added
	}
}

// isEquivalent reports whether two labels have the same implementation, forms and costs.
func (l label) isEquivalent(other label) bool {
	return l.impl == other.impl && l.cost == other.cost && slices.Equal(l.resultForms, other.resultForms) &&
		slices.Equal(l.constantForms, other.constantForms) &&
		slices.EqualFunc(l.readCosts, other.readCosts, slices.Equal[[]int64])
}

// distinctWalks removes duplicate walks. The first walk of a list may have inferred layouts. If the node has a single
// dense result, distinctWalks removes this walk, too, because another walk gives the same layout.
func distinctWalks(list []graph.Walk, results []*graph.Value) []graph.Walk {
	var distinct []graph.Walk
	hasSingleDense := len(results) == 1 && results[0].Meta.IsNonOverlappingAndDense()
	if hasSingleDense && len(list) > 1 && list[0].HasInferredLayouts() && !list[1].HasInferredLayouts() {
		list = list[1:]
	}
	for _, walk := range list {
		isDuplicate := slices.ContainsFunc(distinct, func(earlier graph.Walk) bool { return sameWalk(earlier, walk) })
		if !isDuplicate {
			distinct = append(distinct, walk)
		}
	}
	return distinct
}

// sameWalk reports whether two walks are equal.
func sameWalk(first, second graph.Walk) bool {
	return first.LoopOrder == second.LoopOrder && slices.Equal(first.ResultOrders, second.ResultOrders)
}

// walkLabels returns the labels of a computation. If the walk has an order for each result, there is at most one label.
// Otherwise inference determines the layouts of the results: see inferredLabels.
func (m *Model) walkLabels(c computation) []label {
	results := c.node.Out
	resultForms := make([]int, len(results))
	for k, v := range results {
		if c.infersLayout(k) {
			return m.inferredLabels(c)
		}
		result := m.variables.At(v)
		form := result.addOrder(c.walk.ResultOrders[k])
		if form >= 0 && c.impl.ResultPlace != tensor.Host { // the same layout on the device
			form = result.formInPlace(form, c.impl.ResultPlace)
		}
		if form < 0 {
			return nil
		}
		resultForms[k] = form
	}
	resultCall := *c.call
	resultCall.Out = make([]tensor.Meta, len(results))
	for k, v := range results {
		resultCall.Out[k] = c.walk.ResultLayout(k, v.Meta)
	}
	c.call = &resultCall
	if priced, ok := m.pricedLabel(c, resultForms, nil); ok {
		return []label{priced}
	}
	return nil
}

// infersLayout reports whether the walk has no order for result k, so that inference determines the layout.
func (c *computation) infersLayout(k int) bool {
	orders := c.walk.ResultOrders
	if k >= len(orders) || orders[k].Rank() != c.node.Out[k].Meta.Rank() {
		return true
	}
	// On the host, "" stands for the inferred layout. On a device, it is the order of a value of 0 dimensions.
	return orders[k] == "" && c.impl.ResultPlace == tensor.Host
}

// pricedLabel returns the label of a computation that writes the given forms of the results, with its costs.
// requiredForms has, by operand, the only form that the label may read, or -1 if it may read any form. A nil list
// permits any forms. pricedLabel returns false if an operand has no form that the label can read.
func (m *Model) pricedLabel(c computation, resultForms, requiredForms []int) (label, bool) {
	n := c.node
	priced := label{impl: c.impl, walk: c.walk, resultForms: resultForms, requiredForms: requiredForms,
		readCosts: make([][]int64, len(n.In)), constantForms: make([]int, len(n.In))}
	var readWork readWorkFunc
	if c.impl != nil { // a node without implementations costs nothing
		priced.cost = m.Problem.pricePS(c.impl, c.impl.Work(c.call, c.walk))
		readWork = c.impl.OperandWorkFunc(c.call, c.walk)
	}
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		required := -1
		if requiredForms != nil {
			required = requiredForms[k]
		}
		costs, cheapest := m.permittedReads(n, &priced, readWork, k, required)
		switch {
		case cheapest < 0:
			return priced, false
		case readsConstant(n, k):
			priced.cost, priced.constantForms[k] = priced.cost+costs[cheapest], cheapest
		default:
			priced.readCosts[k] = costs
		}
	}
	return priced, true
}
