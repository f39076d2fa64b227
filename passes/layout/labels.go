package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
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
	resultForms   []int         // by result: its form
	requiredForms []int         // by operand: the only form allowed, or -1 for any; nil allows any form of all operands
	pinMisses     []int         // the operands that are pinned to a layout that the label cannot read
	cost          int64         // cost of work, and of reading constants, in picoseconds
	readCosts     [][]int64     // by operand and form: cost of reading, in picoseconds; nil for constants and numbers
	constantForms []int         // by operand: the form in which the label reads a constant
	ratio         pricing.Ratio // of cost and readCosts to their predictions
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
	computed.labels = preferPinned(computed.labels)
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
// result and another walk writes it in its order as written, distinctWalks removes the first walk, too.
func distinctWalks(list []graph.Walk, results []*graph.Value) []graph.Walk {
	var distinct []graph.Walk
	if len(results) == 1 && len(list) > 1 && list[0].HasInferredLayouts() {
		order, dense := tensor.OrderOf(results[0].Meta)
		if dense && slices.ContainsFunc(list[1:], func(walk graph.Walk) bool {
			return len(walk.ResultOrders) > 0 && walk.ResultOrders[0] == order
		}) {
			list = list[1:]
		}
	}
	for _, walk := range list {
		isDuplicate := slices.ContainsFunc(distinct, walk.Equal)
		if !isDuplicate {
			distinct = append(distinct, walk)
		}
	}
	return distinct
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
	priced.ratio = m.Problem.ratio(n.Name, n.Op, c.impl, c.call.Out)
	priced.cost = scaled(priced.cost, priced.ratio.Price)
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		required := -1
		if requiredForms != nil {
			required = requiredForms[k]
		}
		costs, cheapest := m.permittedReads(n, &priced, readWork, k, required)
		if priced.ratio.Price != 1 {
			costs = slices.Clone(costs)
			for i := range costs {
				costs[i] = scaled(costs[i], priced.ratio.Price)
			}
		}
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

// This part finds the labels of a [computation] whose walk has no order for a result. Inference ([graph.Op.Infer]) then
// determines the layouts of the results, possibly from the layouts of operands. A label is one way to compute a node.
// It has a form (a layout of a value) for each result, and may require forms of operands. See labels.go.
//
// For example, let relu read x, which has the forms 0, (N,C,H,W), and 1, (N,H,W,C). Inference gives the result the
// order of x. The node has two labels. The first requires form 0 of x and writes (N,C,H,W), and the second requires
// form 1 and writes (N,H,W,C).

// inferredLabels returns the labels of a computation whose result layouts are inferred. An operand is affecting if the
// inferred layouts depend on its layout. There is a label for the layouts of the affecting operands in the graph as
// written, a label for their pinned layouts, and a label for each order that all of them can have.
func (m *Model) inferredLabels(c computation) []label {
	n := c.node
	affecting := m.affectingOperands(n)
	if !slices.Contains(affecting, true) && !n.Pin.SetsLayout() {
		if asWritten, ok := m.labelAsWritten(c); ok {
			return []label{asWritten}
		}
		return nil
	}
	var list []label
	tried := map[string]bool{} // by required forms
	formAsWritten := func(*variable) int { return 0 }
	for _, order := range m.operandOrders(n, affecting) {
		// Inference may reject the pinned form of an operand, so the form as written is tried, too.
		for _, defaultForm := range []func(*variable) int{(*variable).baseForm, formAsWritten} {
			inferenceCall, requiredForms := m.callInOrder(n, affecting, order, defaultForm)
			key := fmt.Sprint(requiredForms)
			if inferenceCall == nil || tried[key] {
				continue
			}
			tried[key] = true
			if inferred, ok := m.inferredLabel(c, inferenceCall, requiredForms); ok {
				list = append(list, inferred)
			}
		}
	}
	return list
}

// affectingOperands marks the affecting operands, and the operands with a form that inference rejects. It marks all
// operands of an op whose result shapes depend on data.
func (m *Model) affectingOperands(n *graph.Node) []bool {
	affecting := make([]bool, len(n.In))
	for k, arg := range n.In {
		affecting[k] = arg.Kind == graph.TensorArg && (n.Op.RunDynamic != nil || m.affectsResults(n, k))
	}
	return affecting
}

// affectsResults reports whether a form of operand k changes the layouts of the inferred results, or is rejected.
func (m *Model) affectsResults(n *graph.Node, k int) bool {
	variable := m.variables.At(n.In[k].Value)
	for i := 1; i < len(variable.forms); i++ { // form 0 gives the results as written
		operandForm := &variable.forms[i]
		if operandForm.ownBufferForm >= 0 || operandForm.place != tensor.Host {
			continue // the form of the same order in its own buffer on the host is tried instead
		}
		results := inferWith(n, k, operandForm.meta)
		if results == nil {
			return true
		}
		if n.Pin.SetsLayout() { // the layouts of the results are fixed
			continue
		}
		for j, result := range results {
			if result.Alias != graph.NoAlias || !result.Meta().SameAddresses(n.Out[j].Meta) {
				return true
			}
		}
	}
	return false
}

// operandOrders lists the orders of the affecting operands, each once. The first is "", no order.
func (m *Model) operandOrders(n *graph.Node, affecting []bool) []tensor.Order {
	list := []tensor.Order{""}
	for k, arg := range n.In {
		if !affecting[k] {
			continue
		}
		for _, order := range m.variables.At(arg.Value).orders() {
			if !slices.Contains(list, order) {
				list = append(list, order)
			}
		}
	}
	return list
}

// callInOrder returns a node's call in which all affecting operands have an order, and the form of each operand. If the
// order is empty or has another rank than an affecting operand, the operand has the form that defaultForm returns.
// Other operands are unchanged, and their form is -1. The call is nil if an affecting operand has no form of the order.
func (m *Model) callInOrder(n *graph.Node, affecting []bool, order tensor.Order,
	defaultForm func(*variable) int) (call *graph.Call, forms []int) {
	forms = slices.Repeat([]int{-1}, len(n.In))
	call = &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	for k, arg := range n.In {
		if !affecting[k] {
			continue
		}
		variable, meta := m.variables.At(arg.Value), arg.Meta()
		forms[k] = defaultForm(variable)
		if order != "" && order.Rank() == meta.Rank() {
			if forms[k] = variable.formOf(meta.WithStrides(order.Strides(meta.Shape))); forms[k] < 0 {
				return nil, nil
			}
		}
		call.In[k] = callWith(n, k, variable.forms[forms[k]].meta).In[k]
	}
	return call, forms
}

// labelAsWritten returns the label whose results have the layouts of the graph as written, in the order of the walk. It
// returns false if a result is a view.
func (m *Model) labelAsWritten(c computation) (label, bool) {
	resultForms, resultCall := make([]int, len(c.node.Out)), *c.call
	for k, v := range c.node.Out {
		if v.Alias != nil {
			return label{}, false
		}
		if resultForms[k] = m.variables.At(v).addForm(c.walk.ResultLayout(k, v.Meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	c.call = &resultCall
	return m.pricedLabel(c, resultForms, nil) // nil: operands may have any forms
}

// inferredLabel returns the label whose results have the layouts that inference derives from inferenceCall. It returns
// false if inference fails or makes a view.
func (m *Model) inferredLabel(c computation, inferenceCall *graph.Call, requiredForms []int) (label, bool) {
	n := c.node
	results := inferCall(n, inferenceCall)
	if results == nil {
		return label{}, false
	}
	resultForms, resultCall := make([]int, len(n.Out)), *c.call
	resultCall.Out = make([]tensor.Meta, len(results))
	for k, result := range results {
		if result.Alias != graph.NoAlias {
			return label{}, false
		}
		meta := result.Meta()
		if n.Pin.SetsLayout() { // inference gives the layouts before the copy to the pinned layouts
			meta = n.Out[k].Meta.WithStrides(meta.Strides)
		}
		resultCall.Out[k] = meta
		if resultForms[k] = m.variables.At(n.Out[k]).addForm(c.walk.ResultLayout(k, meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	c.call = &resultCall
	return m.pricedLabel(c, resultForms, requiredForms)
}

// This part computes the costs of reading operands. A form is a layout in which a value may exist. A variable is a
// value with its forms. A label is one way to compute a node, whose implementation can read some forms. The pinned form
// of a value is the form that the user demands.

// permittedReads returns, for each form of operand k, the cost at which label l reads it. best is the form that is
// cheapest to read, or -1 if the label can read no form. required is the only permitted form, or -1 if any form is
// permitted. If the label cannot read the pinned form, permittedReads adds k to the label's pinMisses.
//
// For an operand with the forms row-major, channels-last and packed, the costs of a label that reads the first two are
// for example [900, 700, Forbidden], and best is 1. If the operand is pinned to row-major, they are [900, Forbidden,
// Forbidden].
func (m *Model) permittedReads(n *graph.Node, l *label, readWork readWorkFunc, k, required int) (costs []int64,
	best int) {
	operand := m.variables.At(n.In[k].Value)
	isReadByInference := n.Op.RunDynamic != nil && operand.value.Const != nil // result shapes may depend on its data
	costs = m.readCosts(l.impl, readWork, k, operand, isReadByInference)
	isPinned := operand.pin >= 0 && !isReadByInference
	pinned := operand.pin // the pinned form in the place (host or device) from which the label reads; -1 if there is none
	if isPinned && l.impl.OnDevice() {
		pinned = operand.formInPlace(pinned, l.impl.OperandPlace)
	}
	if isPinned && pinned >= 0 && (required < 0 || required == operand.pin) { // another required form replaces the pin
		requirePinned(costs, pinned)
	}
	m.priceResultSlots(n, k, l.resultForms, operand, l, costs) // changes the costs of forms inside the result of n
	if required >= 0 {
		requireForm(costs, operand, required)
	}
	best = cheapestForm(costs)
	missesPin := isPinned && (pinned < 0 || costs[pinned] >= wcsp.Forbidden)
	if missesPin && best >= 0 {
		l.pinMisses = append(l.pinMisses, k)
	}
	return costs, best
}

// readWorkFunc returns the work of reading operand i in a layout, and false if the operand cannot be read: see
// [graph.Impl.OperandWorkFunc]. It is nil for an op without implementations.
type readWorkFunc func(i int, meta tensor.Meta) (pricing.Work, bool)

// readCosts returns, by form, the cost of reading operand k in picoseconds. A value without elements can be read in any
// form. If inference reads the data of the operand, which is then a constant, only the form as written is permitted.
func (m *Model) readCosts(impl *graph.Impl, readWork readWorkFunc, k int, variable *variable,
	isReadByInference bool) []int64 {
	costs := make([]int64, len(variable.forms))
	for i := range variable.forms {
		costs[i] = wcsp.Forbidden
		if !readsPlace(impl, &variable.forms[i]) {
			continue
		}
		if readWork == nil {
			costs[i] = 0
		} else if work, ok := readWork(k, variable.forms[i].meta); ok || variable.value.Meta.Numel() == 0 {
			costs[i] = m.Problem.pricePS(impl, work)
		}
		if isReadByInference && i > 0 {
			costs[i] = wcsp.Forbidden
		}
	}
	return costs
}

// requirePinned forbids all forms except the pinned form. It does nothing if the pinned form cannot be read.
func requirePinned(costs []int64, pinned int) {
	if costs[pinned] >= wcsp.Forbidden {
		return
	}
	for i := range costs {
		if i != pinned {
			costs[i] = wcsp.Forbidden
		}
	}
}

// requireForm forbids all forms except the required form and the forms of the same order that are inside the result of
// a concatenation.
func requireForm(costs []int64, operand *variable, required int) {
	for i := range costs {
		if i != required && operand.forms[i].ownBufferForm != required {
			costs[i] = wcsp.Forbidden
		}
	}
}

// cheapestForm returns the first form of least cost, or -1 if all are forbidden.
func cheapestForm(costs []int64) int {
	best := -1
	for i, cost := range costs {
		if cost < wcsp.Forbidden && (best < 0 || cost < costs[best]) {
			best = i
		}
	}
	return best
}

// preferPinned removes labels that disregard pins without need: labels whose pinMisses are a proper superset of another
// label's pinMisses.
func preferPinned(labels []label) []label {
	if !slices.ContainsFunc(labels, func(l label) bool { return len(l.pinMisses) > 0 }) {
		return labels
	}
	var preferred []label
	for _, candidate := range labels {
		hasBetter := slices.ContainsFunc(labels, func(other label) bool {
			hasNewMiss := slices.ContainsFunc(other.pinMisses, func(k int) bool {
				return !slices.Contains(candidate.pinMisses, k)
			})
			return len(other.pinMisses) < len(candidate.pinMisses) && !hasNewMiss
		})
		if !hasBetter {
			preferred = append(preferred, candidate)
		}
	}
	return preferred
}
