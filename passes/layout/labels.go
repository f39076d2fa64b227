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
// the loops) and the forms of the results. A form is a layout in which a value may exist. See [Model].

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
	supported := m.findDeviceLabels(i, n)
	for k := range n.Op.Impls {
		impl := &n.Op.Impls[k]
		if !m.Problem.Offers(n, impl) {
			continue
		}
		for _, walk := range distinctWalks(impl.Walks(call, orders), n.Out) {
			supported = true
			for _, l := range m.walkLabels(n, call, impl, walk) {
				switch k := slices.IndexFunc(computed.labels, l.equivalent); {
				case k < 0:
					computed.labels = append(computed.labels, l)
				case computed.labels[k].walk.HasInferredLayouts(): // writeSlot needs a walk with explicit orders
					computed.labels[k] = l
				}
			}
		}
	}
	computed.labels = preferPinned(computed.labels, func(l *label) []int { return l.pinMisses })
	switch {
	case len(computed.labels) > 0:
		return nil
	case pinnedToDevice(n) && !supported:
		return m.Problem.pinnedDeviceError(n)
	case n.Pin.Impl != "" && !supported:
		return m.Problem.pinnedImplError(n, call)
	}
	return errors.New("no kernel supports these operands")
}

// equivalent reports whether two labels have the same implementation, forms and costs.
func (l label) equivalent(o label) bool {
	return l.impl == o.impl && l.cost == o.cost && slices.Equal(l.resultForms, o.resultForms) &&
		slices.Equal(l.constantForms, o.constantForms) &&
		slices.EqualFunc(l.readCosts, o.readCosts, slices.Equal[[]int64])
}

// distinctWalks removes duplicate walks. If the node has a single dense result, it also removes the walk that leaves
// the layout of the result to inference: another walk then gives the same layout.
func distinctWalks(list []graph.Walk, results []*graph.Value) []graph.Walk {
	var out []graph.Walk
	covered := len(results) == 1 && len(list) > 1 && !list[1].HasInferredLayouts() &&
		results[0].Meta.IsNonOverlappingAndDense()
	for i, walk := range list {
		isDuplicate := covered && i == 0 && walk.HasInferredLayouts()
		for _, o := range out {
			isDuplicate = isDuplicate || sameWalk(o, walk)
		}
		if !isDuplicate {
			out = append(out, walk)
		}
	}
	return out
}

// sameWalk reports whether two walks are equal.
func sameWalk(a, b graph.Walk) bool {
	if a.Order != b.Order || len(a.Out) != len(b.Out) {
		return false
	}
	for i := range a.Out {
		if a.Out[i] != b.Out[i] {
			return false
		}
	}
	return true
}

// walkLabels returns the labels of a walk. A walk that determines the layouts of all results has one label. For other
// walks, inference determines the layouts: see inferredLabels.
func (m *Model) walkLabels(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) []label {
	resultForms := make([]int, len(n.Out))
	for k, v := range n.Out {
		if k >= len(walk.Out) || walk.Out[k] == "" || walk.Out[k].Rank() != v.Meta.Rank() {
			return m.inferredLabels(n, call, impl, walk)
		}
		if resultForms[k] = m.variables.At(v).addOrder(walk.Out[k]); resultForms[k] >= 0 && impl.Place != tensor.Host {
			resultForms[k] = m.variables.At(v).inPlace(resultForms[k], impl.Place)
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
	if l, ok := m.pricedLabel(n, &resultCall, impl, walk, resultForms, nil); ok {
		return []label{l}
	}
	return nil
}

// pricedLabel returns the label that writes the given forms of the results, with its costs. It returns false if an
// operand cannot be read. requiredForms has, by operand, the required form, or -1 if any form is permitted. A nil list
// permits any forms.
func (m *Model) pricedLabel(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk,
	resultForms, requiredForms []int) (label, bool) {
	l := label{impl: impl, walk: walk, resultForms: resultForms, requiredForms: requiredForms,
		readCosts: make([][]int64, len(n.In)), constantForms: make([]int, len(n.In))}
	var read reader
	if impl != nil {
		l.cost, read = m.Problem.price(impl, impl.Work(call, walk)), impl.Reader(call, walk)
	}
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x := m.variables.At(a.Value)
		isReadByInference := n.Op.RunDynamic != nil && a.Value.Const != nil
		costs, pin := m.readCosts(impl, read, k, x, isReadByInference), x.pin
		if pin >= 0 && impl.OnDevice() {
			pin = x.inPlace(pin, impl.Source)
		}
		if pin >= 0 && !isReadByInference && (requiredForms == nil || requiredForms[k] < 0 || requiredForms[k] == x.pin) {
			requirePinned(costs, pin)
		}
		m.priceOwnSlots(n, k, resultForms, x, &l, costs)
		best := -1
		for i := range costs {
			if requiredForms != nil && requiredForms[k] >= 0 && requiredForms[k] != i &&
				requiredForms[k] != x.forms[i].ownBufferForm {
				costs[i] = wcsp.Forbidden
			}
			if costs[i] < wcsp.Forbidden && (best < 0 || costs[i] < costs[best]) {
				best = i
			}
		}
		if x.pin >= 0 && !isReadByInference && best >= 0 && (pin < 0 || costs[pin] >= wcsp.Forbidden) {
			l.pinMisses = append(l.pinMisses, k)
		}
		switch {
		case best < 0:
			return l, false
		case readsConstant(n, k):
			l.cost, l.constantForms[k] = l.cost+costs[best], best
		default:
			l.readCosts[k] = costs
		}
	}
	return l, true
}

// reader returns the work of reading operand i in a layout, and false if the operand cannot be read: see
// [graph.Impl.Reader]. It is nil for an op without implementations.
type reader func(i int, meta tensor.Meta) (graph.Work, bool)

// requirePinned forbids all forms except the pinned form. It does nothing if the pinned form cannot be read.
func requirePinned(costs []int64, pin int) {
	if costs[pin] >= wcsp.Forbidden {
		return
	}
	for i := range costs {
		if i != pin {
			costs[i] = wcsp.Forbidden
		}
	}
}

// preferPinned keeps the alternatives that read the most pinned operands in their pinned forms. pinMisses returns the
// pinned operands that an alternative reads in other forms; an alternative is removed if its misses are a proper
// superset of those of another.
func preferPinned[T any](alternatives []T, pinMisses func(*T) []int) []T {
	if !slices.ContainsFunc(alternatives, func(a T) bool { return len(pinMisses(&a)) > 0 }) {
		return alternatives
	}
	var out []T
	for i := range alternatives {
		misses := pinMisses(&alternatives[i])
		better := slices.ContainsFunc(alternatives, func(a T) bool {
			otherMisses := pinMisses(&a)
			return len(otherMisses) < len(misses) &&
				!slices.ContainsFunc(otherMisses, func(k int) bool { return !slices.Contains(misses, k) })
		})
		if !better {
			out = append(out, alternatives[i])
		}
	}
	return out
}

// readCosts returns, by form, the price of reading operand k. A value without elements can be read in any form. If
// inference reads the data of the operand, which is then a constant, only the form as written is permitted.
func (m *Model) readCosts(impl *graph.Impl, read reader, k int, x *variable, isReadByInference bool) []int64 {
	costs := make([]int64, len(x.forms))
	for i := range x.forms {
		costs[i] = wcsp.Forbidden
		if !readsPlace(impl, &x.forms[i]) {
			continue
		}
		if read == nil {
			costs[i] = 0
		} else if work, ok := read(k, x.forms[i].meta); ok || x.value.Meta.Numel() == 0 {
			costs[i] = m.Problem.price(impl, work)
		}
		if isReadByInference && i > 0 {
			costs[i] = wcsp.Forbidden
		}
	}
	return costs
}

// inferredLabels returns the labels of a walk that leaves the layouts of results to inference. The inferred layouts may
// depend on the layouts of some operands. There is a label for the forms of these operands in the graph as written, a
// label for their pinned forms, and a label for each order that all of them can have.
func (m *Model) inferredLabels(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) []label {
	layoutDependent := m.layoutDependent(n)
	if !slices.Contains(layoutDependent, true) && !n.Pin.SetsLayout() {
		if l, ok := m.inferredLabel(n, call, impl, walk, nil, nil); ok {
			return []label{l}
		}
		return nil
	}
	var list []label
	seen := map[string]bool{}
	// try adds the label for an order of the operands.
	try := func(order tensor.Order, base func(*variable) int) {
		in, requiredForms := m.operandsInOrder(n, layoutDependent, order, base)
		key := fmt.Sprint(requiredForms)
		if in == nil || seen[key] {
			return
		}
		seen[key] = true
		if l, ok := m.inferredLabel(n, call, impl, walk, in, requiredForms); ok {
			list = append(list, l)
		}
	}
	asWritten := func(*variable) int { return 0 }
	try("", (*variable).baseForm)
	try("", asWritten) // inference may reject the pinned form
	tried := map[tensor.Order]bool{}
	for k, a := range n.In {
		if !layoutDependent[k] {
			continue
		}
		for _, order := range m.variables.At(a.Value).orders() {
			if !tried[order] {
				tried[order] = true
				try(order, (*variable).baseForm)
				try(order, asWritten)
			}
		}
	}
	return list
}

// operandsInOrder returns a node's call in which all layout-dependent operands have an order, and their forms. Operands
// of another rank have the form that base returns. All other operands are unchanged, and their form is -1. The call is
// nil if the model does not consider the order for an operand.
func (m *Model) operandsInOrder(n *graph.Node, layoutDependent []bool, order tensor.Order,
	base func(*variable) int) (*graph.Call, []int) {
	forms := slices.Repeat([]int{-1}, len(n.In))
	call := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	for k, a := range n.In {
		if !layoutDependent[k] {
			continue
		}
		x := m.variables.At(a.Value)
		forms[k] = base(x)
		if order != "" && order.Rank() == a.Meta().Rank() {
			if forms[k] = x.formOf(a.Meta().WithStrides(order.Strides(a.Meta().Shape))); forms[k] < 0 {
				return nil, nil
			}
		}
		call.In[k] = callWith(n, k, x.forms[forms[k]].meta).In[k]
	}
	return call, forms
}

// inferredLabel returns the label whose results have the layouts that inference derives from inferenceCall or, if it is
// nil, from the graph as written.
func (m *Model) inferredLabel(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk,
	inferenceCall *graph.Call, requiredForms []int) (label, bool) {
	resultForms, resultCall := make([]int, len(n.Out)), *call
	if inferenceCall == nil {
		for k, v := range n.Out {
			if v.Alias != nil {
				return label{}, false
			}
			if resultForms[k] = m.variables.At(v).addForm(walk.ResultLayout(k, v.Meta)); resultForms[k] < 0 {
				return label{}, false
			}
		}
		return m.pricedLabel(n, &resultCall, impl, walk, resultForms, requiredForms)
	}
	res, err := n.Op.Infer(inferenceCall)
	if err != nil || len(res) != len(n.Out) {
		return label{}, false
	}
	resultCall.Out = make([]tensor.Meta, len(res))
	for k, r := range res {
		if r.Alias != graph.Fresh {
			return label{}, false
		}
		resultCall.Out[k] = r.Meta()
		if n.Pin.SetsLayout() { // inference gives the layouts before the copy to the pinned layouts
			resultCall.Out[k] = n.Out[k].Meta.WithStrides(resultCall.Out[k].Strides)
		}
		if resultForms[k] = m.variables.At(n.Out[k]).addForm(walk.ResultLayout(k, resultCall.Out[k])); resultForms[k] < 0 {
			return label{}, false
		}
	}
	return m.pricedLabel(n, &resultCall, impl, walk, resultForms, requiredForms)
}

// layoutDependent marks the operands whose layouts affect the inferred results. It also marks operands with a form that
// inference rejects, and all operands of an op whose result shapes depend on data.
func (m *Model) layoutDependent(n *graph.Node) []bool {
	list := make([]bool, len(n.In))
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		if n.Op.RunDynamic != nil {
			list[k] = true
			continue
		}
		x := m.variables.At(a.Value)
		for i := 1; i < len(x.forms) && !list[k]; i++ {
			// the corresponding form with its own buffer, on the host, is tried instead
			if x.forms[i].ownBufferForm >= 0 || x.forms[i].place != tensor.Host {
				continue
			}
			res, err := n.Op.Infer(callWith(n, k, x.forms[i].meta))
			if err != nil || len(res) != len(n.Out) {
				list[k] = true
				break
			}
			for j, r := range res {
				if n.Pin.SetsLayout() {
					continue
				}
				list[k] = list[k] || r.Alias != graph.Fresh || !r.Meta().SameAddresses(n.Out[j].Meta)
			}
		}
	}
	return list
}

// priceViewCopies prices the copies to forms of a view's results that cannot be views of the operand.
func (m *Model) priceViewCopies(view *viewNode) {
	n := view.node
	x := m.variables.At(n.In[view.operand].Value)
	for i := len(view.resultForm[0]); i < len(x.forms); i++ { // forms added by labels
		(&formFinder{model: m}).addViewForms(view, x, i)
	}
	if view.identity && (m.Problem.outputs[n.Out[0]] || n.Pin.SetsLayout()) && n.Out[0].Alias == nil {
		for i := range x.forms {
			if res, err := n.Op.Infer(callWith(n, view.operand, x.forms[i].meta)); err != nil || res[0].Alias == graph.Fresh {
				view.outputCopies |= 1 << i
			}
		}
	}
	m.markInside(view, x)
	m.setAllowed(view)
	if n.Op.ReadsStorage {
		return
	}
	view.canView, view.insertedCosts = make([]bool, len(x.forms)), make([][]int64, len(x.forms))
	view.copyCosts = make([][][]int64, len(n.Out))
	calls, results := m.inferView(view, x)
	for i, res := range results {
		if res == nil {
			continue
		}
		view.canView[i] = res[0].Alias != graph.Fresh
		for k, r := range res {
			if view.viewedForm(k, i) >= 0 && view.outputCopies>>i&1 == 0 {
				continue
			}
			if view.copyCosts[k] == nil {
				view.copyCosts[k] = make([][]int64, len(x.forms))
			}
			y := m.variables.At(n.Out[k])
			if view.canView[i] { // the op makes a view, but not one of the result's forms: an inserted step copies it
				view.copyCosts[k][i] = m.copyCosts(y, r.Meta(), x.forms[i].place)
			} else if len(res) == 1 {
				view.copyCosts[k][i] = m.reshapeCosts(view, calls[i], y, r.Meta(), &x.forms[i])
				if n.Op.Identity {
					view.insertedCosts[i] = m.copyCosts(y, x.forms[i].meta, x.forms[i].place)
				}
			}
		}
	}
}

// inferView infers the results of a view for each form of its operand x. An entry of results is nil if the op rejects
// the form. If the result must be a copy, its inferred layout is added to the forms of the result.
func (m *Model) inferView(view *viewNode, x *variable) (calls []*graph.Call, results [][]graph.Result) {
	n := view.node
	calls, results = make([]*graph.Call, len(x.forms)), make([][]graph.Result, len(x.forms))
	for i := range x.forms {
		if view.identity && view.outputCopies>>i&1 == 0 {
			results[i] = []graph.Result{{Type: x.forms[i].meta.Type(), Alias: view.operand}}
			continue
		}
		calls[i] = callWith(n, view.operand, x.forms[i].meta)
		res, err := n.Op.Infer(calls[i])
		if err != nil || len(res) != len(n.Out) {
			continue
		}
		results[i] = res
		if res[0].Alias == graph.Fresh && x.forms[i].place == tensor.Host {
			m.variables.At(n.Out[0]).addForm(res[0].Meta())
		}
	}
	return calls, results
}

// setAllowed sets v.allowed, the operand forms that a view may use. If the operand is pinned and the op accepts the
// pinned form, only this form is allowed, and the form as written if results need the layout of the graph as written.
// For other operands, all forms are allowed.
func (m *Model) setAllowed(view *viewNode) {
	x := m.variables.At(view.node.In[view.operand].Value)
	view.allowed = ^uint(0)
	if x.pin < 0 {
		return
	}
	res, err := view.node.Op.Infer(callWith(view.node, view.operand, x.forms[x.pin].meta))
	if err == nil && len(res) == len(view.node.Out) || view.identity {
		view.allowed = 1 << x.pin
	}
	if m.Problem.needsWritten(view.node) {
		view.allowed |= 1
	}
}

// copyCosts returns, by form of y, the price of a copy from layout `from` within a place.
func (m *Model) copyCosts(y *variable, from tensor.Meta, place tensor.Place) []int64 {
	costs := make([]int64, len(y.forms))
	for j, f := range y.forms {
		costs[j] = wcsp.Forbidden
		if f.dense && !(y.firstIsView && j == 0) && f.place == place {
			costs[j] = m.moveCost(&form{meta: from, place: place}, &f)
		}
	}
	return costs
}

// reshapeCosts returns, by form of result y, the price of the copy that the node of a view makes if it cannot make a
// view. inferred is the layout that the node writes by default, from is the form of the operand. The node copies on the
// host only.
func (m *Model) reshapeCosts(view *viewNode, call *graph.Call, y *variable, inferred tensor.Meta, from *form) []int64 {
	call.Out = []tensor.Meta{inferred}
	costs, impl := make([]int64, len(y.forms)), &view.node.Op.Impls[0]
	for j, f := range y.forms {
		costs[j] = wcsp.Forbidden
		if !f.dense || y.firstIsView && j == 0 || !f.meta.SameAddresses(inferred) && !view.node.Op.AnyOrder ||
			f.place != tensor.Host || from.place != tensor.Host {
			continue
		}
		walk := graph.Walk{}
		if !f.meta.SameAddresses(inferred) {
			walk = call.InOrder(f.order)
		}
		work := impl.Work(call, walk)
		if read, ok := impl.Read(call, walk, view.operand, from.meta); ok {
			costs[j] = PS(m.Problem.Profile, work) + PS(m.Problem.Profile, read)
		}
	}
	return costs
}
