package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the labels of nodes. A label is one way to compute a node: an implementation, a walk (the order of
// the loops) and the forms of the results. A form is a layout in which a value may exist; form 0 is the layout of the
// graph as written. See [Model].
//
// For example, the addition of two values that may be stored in the orders (N,C,H,W) and (N,H,W,C) has a label for each
// order of the result. Each label has the cost of its work and, for each operand and form, the cost of reading:
//
//	result (N,C,H,W): work 10, reading an operand as (N,C,H,W) 5, as (N,H,W,C) 20
//	result (N,H,W,C): work 10, reading an operand as (N,C,H,W) 20, as (N,H,W,C) 5
//
// The last part of the file prices views: their forms cost nothing, or one copy.

// findLabels finds the labels of node n, which has index i and computes its results.
func (m *Model) findLabels(i int, n *graph.Node) error {
	computed, call := m.computedNodes[i], n.Call()
	if len(n.Op.Impls) == 0 {
		computed.labels = m.inferredLabels(n, call, nil, graph.Walk{})
		return nil
	}
	var orders []tensor.Order
	if len(n.Out) > 0 {
		orders = m.variables.At(n.Out[0]).orders()
	}
	supported := m.addDeviceLabels(i, n)
	for k := range n.Op.Impls {
		impl := &n.Op.Impls[k]
		if !m.Problem.Permits(n, impl) {
			continue
		}
		for _, walk := range distinctWalks(impl.Walks(call, orders), n.Out) {
			supported = true
			for _, candidate := range m.walkLabels(n, call, impl, walk) {
				switch earlier := slices.IndexFunc(computed.labels, candidate.isEquivalent); {
				case earlier < 0:
					computed.labels = append(computed.labels, candidate)
				case computed.labels[earlier].walk.HasInferredLayouts(): // prefer explicit orders: addSlotLabels needs them
					computed.labels[earlier] = candidate
				}
			}
		}
	}
	computed.labels = preferPinned(computed.labels, func(candidate *label) []int { return candidate.pinMisses })
	switch {
	case len(computed.labels) > 0:
		return nil
	case isPinnedToDevice(n) && !supported:
		return m.Problem.pinnedDeviceError(n)
	case n.Pin.Impl != "" && !supported:
		return m.Problem.pinnedImplError(n, call)
	}
	return errors.New("no kernel supports these operands")
}

// distinctWalks removes duplicate walks. If the node has a single dense result, it also removes the walk whose result
// layout is inferred: another walk then gives the same layout.
func distinctWalks(list []graph.Walk, results []*graph.Value) []graph.Walk {
	var distinct []graph.Walk
	// An implementation lists the walk with an inferred layout first, and then one walk for each order.
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

// walkLabels returns the labels of a walk. A walk that determines the layouts of all results has one label. For other
// walks, inference determines the layouts: see inferredLabels.
func (m *Model) walkLabels(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) []label {
	resultForms := make([]int, len(n.Out))
	for k, v := range n.Out {
		hasOrder := k < len(walk.ResultOrders) && walk.ResultOrders[k].Rank() == v.Meta.Rank()
		// On a device, "" is the order of a value of 0 dimensions; on the host, it stands for the inferred layout.
		if !hasOrder || walk.ResultOrders[k] == "" && impl.ResultPlace == tensor.Host {
			return m.inferredLabels(n, call, impl, walk)
		}
		result := m.variables.At(v)
		resultForms[k] = result.addOrder(walk.ResultOrders[k])
		if resultForms[k] >= 0 && impl.ResultPlace != tensor.Host {
			resultForms[k] = result.formInPlace(resultForms[k], impl.ResultPlace)
		}
		if resultForms[k] < 0 {
			return nil
		}
	}
	resultCall := *call
	resultCall.Out = make([]tensor.Meta, len(n.Out))
	for k, v := range n.Out {
		resultCall.Out[k] = walk.ResultLayout(k, v.Meta)
	}
	if priced, ok := m.pricedLabel(n, &resultCall, impl, walk, resultForms, nil); ok {
		return []label{priced}
	}
	return nil
}

// isEquivalent reports whether two labels have the same implementation, forms and costs.
func (l label) isEquivalent(other label) bool {
	return l.impl == other.impl && l.cost == other.cost && slices.Equal(l.resultForms, other.resultForms) &&
		slices.Equal(l.constantForms, other.constantForms) &&
		slices.EqualFunc(l.readCosts, other.readCosts, slices.Equal[[]int64])
}

// inferredLabels returns the labels of a walk whose result layouts are inferred. These layouts may depend on the
// layouts of some operands. One label is for the layouts of these operands in the graph as written, and one for their
// pinned layouts. There is a further label for each order that all these operands can have.
func (m *Model) inferredLabels(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) []label {
	layoutDependent := m.layoutDependent(n)
	if !slices.Contains(layoutDependent, true) && !n.Pin.SetsLayout() {
		if asWritten, ok := m.labelAsWritten(n, call, impl, walk); ok {
			return []label{asWritten}
		}
		return nil
	}
	var list []label
	tried := map[string]bool{} // by required forms
	formAsWritten := func(*variable) int { return 0 }
	for _, order := range m.operandOrders(n, layoutDependent) {
		// Inference may reject the pinned form of an operand, so the form as written is tried, too.
		for _, base := range []func(*variable) int{(*variable).baseForm, formAsWritten} {
			inferenceCall, requiredForms := m.callInOrder(n, layoutDependent, order, base)
			key := fmt.Sprint(requiredForms)
			if inferenceCall == nil || tried[key] {
				continue
			}
			tried[key] = true
			if inferred, ok := m.inferredLabel(n, call, impl, walk, inferenceCall, requiredForms); ok {
				list = append(list, inferred)
			}
		}
	}
	return list
}

// layoutDependent marks the operands whose layouts affect the inferred results, and the operands with a form that
// inference rejects. It marks all operands of an op whose result shapes depend on data.
func (m *Model) layoutDependent(n *graph.Node) []bool {
	dependent := make([]bool, len(n.In))
	for k, arg := range n.In {
		dependent[k] = arg.Kind == graph.TensorArg && (n.Op.RunDynamic != nil || m.affectsResults(n, k))
	}
	return dependent
}

// affectsResults reports whether a form of operand k changes the layouts of the inferred results, or is rejected.
func (m *Model) affectsResults(n *graph.Node, k int) bool {
	variable := m.variables.At(n.In[k].Value)
	for i := 1; i < len(variable.forms); i++ { // form 0 gives the results as written
		// The corresponding form with its own buffer on the host is tried instead.
		if variable.forms[i].ownBufferForm >= 0 || variable.forms[i].place != tensor.Host {
			continue
		}
		results, err := n.Op.Infer(callWith(n, k, variable.forms[i].meta))
		if err != nil || len(results) != len(n.Out) {
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

// operandOrders lists the orders of the layout-dependent operands, each once. The first is "", no order.
func (m *Model) operandOrders(n *graph.Node, layoutDependent []bool) []tensor.Order {
	list := []tensor.Order{""}
	for k, a := range n.In {
		if !layoutDependent[k] {
			continue
		}
		for _, order := range m.variables.At(a.Value).orders() {
			if !slices.Contains(list, order) {
				list = append(list, order)
			}
		}
	}
	return list
}

// callInOrder returns a node's call with an order for all layout-dependent operands, and the form of each operand.
// A layout-dependent operand has the form that base returns if the order is empty or has another rank. Other operands
// are unchanged, and their form is -1. The call is nil if the model does not consider the order for an
// operand.
func (m *Model) callInOrder(n *graph.Node, layoutDependent []bool, order tensor.Order,
	base func(*variable) int) (*graph.Call, []int) {
	forms := slices.Repeat([]int{-1}, len(n.In))
	call := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	for k, arg := range n.In {
		if !layoutDependent[k] {
			continue
		}
		variable := m.variables.At(arg.Value)
		forms[k] = base(variable)
		if order != "" && order.Rank() == arg.Meta().Rank() {
			if forms[k] = variable.formOf(arg.Meta().WithStrides(order.Strides(arg.Meta().Shape))); forms[k] < 0 {
				return nil, nil
			}
		}
		call.In[k] = callWith(n, k, variable.forms[forms[k]].meta).In[k]
	}
	return call, forms
}

// labelAsWritten returns the label whose results have the layouts of the graph as written, if the walk keeps them.
func (m *Model) labelAsWritten(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) (label, bool) {
	resultForms, resultCall := make([]int, len(n.Out)), *call
	for k, v := range n.Out {
		if v.Alias != nil {
			return label{}, false
		}
		if resultForms[k] = m.variables.At(v).addForm(walk.ResultLayout(k, v.Meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	return m.pricedLabel(n, &resultCall, impl, walk, resultForms, nil)
}

// inferredLabel returns the label whose results have the layouts that inference derives from inferenceCall.
func (m *Model) inferredLabel(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk,
	inferenceCall *graph.Call, requiredForms []int) (label, bool) {
	results, err := n.Op.Infer(inferenceCall)
	if err != nil || len(results) != len(n.Out) {
		return label{}, false
	}
	resultForms, resultCall := make([]int, len(n.Out)), *call
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
		if resultForms[k] = m.variables.At(n.Out[k]).addForm(walk.ResultLayout(k, meta)); resultForms[k] < 0 {
			return label{}, false
		}
	}
	return m.pricedLabel(n, &resultCall, impl, walk, resultForms, requiredForms)
}

// pricedLabel returns the label that writes the given forms of the results, with its costs. It returns false if an
// operand cannot be read. requiredForms has, by operand, the required form, or -1 if any form is permitted. A nil list
// permits any forms.
func (m *Model) pricedLabel(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk,
	resultForms, requiredForms []int) (label, bool) {
	priced := label{impl: impl, walk: walk, resultForms: resultForms, requiredForms: requiredForms,
		readCosts: make([][]int64, len(n.In)), constantForms: make([]int, len(n.In))}
	var readWork readWorkFunc
	if impl != nil { // a node without implementations costs nothing
		priced.cost, readWork = m.Problem.pricePS(impl, impl.Work(call, walk)), impl.OperandWorkFunc(call, walk)
	}
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		required := -1
		if requiredForms != nil {
			required = requiredForms[k]
		}
		costs, best := m.permittedReads(n, &priced, readWork, k, required)
		switch {
		case best < 0:
			return priced, false
		case readsConstant(n, k):
			priced.cost, priced.constantForms[k] = priced.cost+costs[best], best
		default:
			priced.readCosts[k] = costs
		}
	}
	return priced, true
}

// priceViewCopies computes the costs of copying the operand of a view to the forms of the results that cannot be views
// of it.
func (m *Model) priceViewCopies(view *viewNode) {
	n := view.node
	operand := m.variables.At(n.In[view.operand].Value)
	for operandForm := len(view.resultForm[0]); operandForm < len(operand.forms); operandForm++ { // forms added by labels
		(&formFinder{model: m}).addViewForms(view, operand, operandForm) // sets view.resultForm
	}
	m.findOutputCopies(view, operand)
	m.markInside(view, operand)
	m.setAllowed(view)
	if n.Op.ReadsStorage {
		return
	}
	view.canView, view.insertedCosts = make([]bool, len(operand.forms)), make([][]int64, len(operand.forms))
	view.copyCosts = make([][][]int64, len(n.Out))
	calls, results := m.inferView(view, operand)
	for operandForm, inferred := range results {
		if inferred != nil {
			m.priceCopiesOf(view, operand, operandForm, calls[operandForm], inferred)
		}
	}
}

// priceCopiesOf computes the costs of copies of one form of a view's operand. inferred lists the results that inference
// derives from this form.
func (m *Model) priceCopiesOf(view *viewNode, operand *variable, operandForm int, call *graph.Call,
	inferred []graph.Result) {
	from := &operand.forms[operandForm]
	view.canView[operandForm] = inferred[0].Alias != graph.NoAlias
	for k, result := range inferred {
		if view.viewOfForm(k, operandForm) >= 0 && view.outputCopies>>operandForm&1 == 0 {
			continue // the form is free
		}
		if view.copyCosts[k] == nil {
			view.copyCosts[k] = make([][]int64, len(operand.forms))
		}
		variable := m.variables.At(view.node.Out[k])
		if view.canView[operandForm] { // the layout of the view is no form of the result: an inserted step copies it
			view.copyCosts[k][operandForm] = m.copyCosts(variable, result.Meta(), from.place)
		} else if len(inferred) == 1 {
			view.copyCosts[k][operandForm] = m.reshapeCosts(view, call, variable, result.Meta(), from)
			if view.node.Op.Identity {
				view.insertedCosts[operandForm] = m.copyCosts(variable, from.meta, from.place)
			}
		}
	}
}

// findOutputCopies sets view.outputCopies, the forms of the operand that the node copies and does not view. It is for
// copy nodes whose result is an output or is pinned, and has its own memory in the graph as written.
func (m *Model) findOutputCopies(view *viewNode, operand *variable) {
	n := view.node
	needsBuffer := (m.Problem.outputs[n.Out[0]] || n.Pin.SetsLayout()) && n.Out[0].Alias == nil
	if !view.identity || !needsBuffer {
		return
	}
	for operandForm := range operand.forms {
		results, err := n.Op.Infer(callWith(n, view.operand, operand.forms[operandForm].meta))
		if err != nil || results[0].Alias == graph.NoAlias {
			view.outputCopies |= 1 << operandForm
		}
	}
}

// setAllowed sets view.allowed, the operand forms that a view may use. If the operand is pinned and the op accepts
// the pinned form, this form is allowed. The first form is then also allowed if a result needs the layout of the
// graph as written. For other operands, all forms are allowed.
func (m *Model) setAllowed(view *viewNode) {
	operand := m.variables.At(view.node.In[view.operand].Value)
	view.allowed = ^uint(0)
	if operand.pin < 0 {
		return
	}
	results, err := view.node.Op.Infer(callWith(view.node, view.operand, operand.forms[operand.pin].meta))
	if err == nil && len(results) == len(view.node.Out) || view.identity {
		view.allowed = 1 << operand.pin
	}
	if m.Problem.needsLayoutAsWritten(view.node) {
		view.allowed |= 1
	}
}

// inferView infers the results of a view for each form of its operand. calls and results are by operand form; an entry
// of results is nil if the op rejects the form. If the result must be a copy, its inferred layout is added to the forms
// of the result.
func (m *Model) inferView(view *viewNode, operand *variable) (calls []*graph.Call, results [][]graph.Result) {
	n := view.node
	calls, results = make([]*graph.Call, len(operand.forms)), make([][]graph.Result, len(operand.forms))
	for i := range operand.forms {
		if view.identity && view.outputCopies>>i&1 == 0 {
			results[i] = []graph.Result{{Type: operand.forms[i].meta.Type(), Alias: view.operand}}
			continue
		}
		calls[i] = callWith(n, view.operand, operand.forms[i].meta)
		inferred, err := n.Op.Infer(calls[i])
		if err != nil || len(inferred) != len(n.Out) {
			continue
		}
		results[i] = inferred
		if inferred[0].Alias == graph.NoAlias && operand.forms[i].place == tensor.Host {
			m.variables.At(n.Out[0]).addForm(inferred[0].Meta())
		}
	}
	return calls, results
}

// copyCosts returns, by form of a result, the cost of a copy from layout `from` within a place, in picoseconds.
func (m *Model) copyCosts(result *variable, from tensor.Meta, place tensor.Place) []int64 {
	costs := make([]int64, len(result.forms))
	for j, f := range result.forms {
		costs[j] = wcsp.Forbidden
		if result.canBeCopy(j) && f.place == place {
			costs[j] = m.formCopyCost(&form{meta: from, place: place}, &f)
		}
	}
	return costs
}

// reshapeCosts returns, by form of a result, the cost of the copy that the node of a view makes if it cannot make a
// view. Costs are in picoseconds. inferred is the layout that the node writes by default; from is the form of the
// operand. The node copies on the host only.
func (m *Model) reshapeCosts(view *viewNode, call *graph.Call, result *variable, inferred tensor.Meta,
	from *form) []int64 {
	call.Out = []tensor.Meta{inferred}
	costs, impl := make([]int64, len(result.forms)), &view.node.Op.Impls[0]
	for j, f := range result.forms {
		costs[j] = wcsp.Forbidden
		isDefault, isOnHost := f.meta.SameAddresses(inferred), f.place == tensor.Host && from.place == tensor.Host
		canWrite := isDefault || view.node.Op.WritesAnyDenseLayout
		if !canWrite || !isOnHost || !result.canBeCopy(j) {
			continue
		}
		walk := graph.Walk{}
		if !isDefault {
			walk = call.WalkInOrder(f.order)
		}
		work := impl.Work(call, walk)
		if read, ok := impl.Read(call, walk, view.operand, from.meta); ok {
			costs[j] = PricePS(m.Problem.Profile, work) + PricePS(m.Problem.Profile, read)
		}
	}
	return costs
}
