package layout

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file prices the forms of the results of a view. A form is a layout in which a value may exist. It is represented
// by its index in [variable.forms]; form 0 is the layout of the graph as written. A form also has a place, the host or
// the device. A value is pinned to a form if the user demands it. A form of the operand gives a form of a result in one
// of four ways:
//
//   - The op makes a view in the result form. It is free (resultForm).
//   - The op makes a view in another layout, and an inserted step copies the view (copyCosts).
//   - The op cannot make a view, so the node itself copies the operand (copyCosts).
//   - The node only copies its operand, and an inserted step copies the operand in its place (insertedCosts).
//
// For example, y = reshape(x) merges dimensions of x (2,3,4) to y (6,4). If x has the strides (12,4,1), y is a view
// with the strides (4,1). An inserted step can then copy y to column-major order, with the strides (1,6). If x is
// column-major, with the strides (1,2,6), no view has the elements of y. The node copies x to either order of y.

// viewNode is a node whose results are views of its operand, or copies if a view is impossible.
type viewNode struct {
	node          *graph.Node
	operand       int     // index of the viewed operand
	identity      bool    // whether the node copies its operand unchanged, so that the copy can be omitted
	inferredForms uint    // mask of operand forms for which resultForm is set
	resultForm    [][]int // by result and operand form: form of the result that is a view; -1 if a copy is needed

	// Set by [Model.priceViewCopies]. Costs are in picoseconds, and [wcsp.Forbidden] if the copy is impossible.
	allowed      uint        // mask of operand forms that the view may use
	outputCopies uint        // mask of operand forms that the node copies to form 0: see findOutputCopies
	canView      []bool      // by operand form: whether the op can make a view
	copyCosts    [][][]int64 // by result, operand form and result form: cost of a copy, inserted if canView is set
	// insertedCosts has, by operand form and result form, the cost of an inserted copy in place of the node. The list
	// of an operand form is nil if no copy can replace the node.
	insertedCosts [][]int64
}

// viewForms returns the mask of the forms of result k that are views of an operand form in the mask `available`.
func (view *viewNode) viewForms(k int, available uint) (roots uint) {
	for i := range view.resultForm[k] {
		if to := view.viewOfForm(k, i); hasForm(available, i) && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// viewOfForm returns the form of result k that is a view of an operand form, or -1 if there is none. The node copies an
// operand form in outputCopies to form 0, so that form 0 is not a view of it.
func (view *viewNode) viewOfForm(k, operandForm int) int {
	if to := view.resultForm[k][operandForm]; to != 0 || !view.isOutputCopy(operandForm) {
		return to
	}
	return -1
}

// isOutputCopy reports whether the node copies an operand form to form 0: see outputCopies.
func (view *viewNode) isOutputCopy(operandForm int) bool {
	return hasForm(view.outputCopies, operandForm)
}

// priceViewCopies prices the copies of a view node. First it completes the fields on which the prices depend.
func (m *Model) priceViewCopies(view *viewNode) {
	n := view.node
	operand := m.variables.At(n.In[view.operand].Value)
	// Earlier nodes have added forms of the operand, for which addViewForms has not been called.
	for operandForm := len(view.resultForm[0]); operandForm < len(operand.forms); operandForm++ {
		(&formFinder{model: m}).addViewForms(view, operand, operandForm) // sets view.resultForm
	}
	m.findOutputCopies(view, operand)
	m.markInside(view, operand) // forms of the results that may begin inside a buffer
	m.setAllowed(view, operand)
	if n.Op.ReadsStorage { // it has views of form 0 only, and no copies
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

// findOutputCopies sets outputCopies of an identity node that must write its result into separate memory. This is
// necessary if the result has its own memory in the graph as written, and is an output or pinned. outputCopies has the
// operand forms that the op rejects or copies.
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

// setAllowed sets the mask of allowed operand forms. If the operand is pinned and the op accepts the pinned form, the
// pinned form is allowed. Form 0 is then also allowed if the operand must have the layout of the graph as written.
// Otherwise all forms are allowed.
func (m *Model) setAllowed(view *viewNode, operand *variable) {
	view.allowed = ^uint(0)
	if operand.pin < 0 {
		return
	}
	results, err := view.node.Op.Infer(callWith(view.node, view.operand, operand.forms[operand.pin].meta))
	if err == nil && len(results) == len(view.node.Out) || view.identity {
		view.allowed = 1 << operand.pin
	}
	if m.Problem.needsLayoutAsWritten(view.node) {
		view.allowed |= 1 << 0 // form 0
	}
}

// inferView infers the results of a view for each form of its operand. calls and results are by operand form; an entry
// of results is nil if the op rejects the form. If inference gives a copy, inferView adds its layout to the forms of
// the result.
func (m *Model) inferView(view *viewNode, operand *variable) (calls []*graph.Call, results [][]graph.Result) {
	n := view.node
	calls, results = make([]*graph.Call, len(operand.forms)), make([][]graph.Result, len(operand.forms))
	for i := range operand.forms {
		operandForm := &operand.forms[i]
		if view.identity && !view.isOutputCopy(i) {
			results[i] = []graph.Result{{Type: operandForm.meta.Type(), Alias: view.operand}}
			continue
		}
		calls[i] = callWith(n, view.operand, operandForm.meta)
		inferred, err := n.Op.Infer(calls[i])
		if err != nil || len(inferred) != len(n.Out) {
			continue
		}
		results[i] = inferred
		// The node copies only on the host.
		if inferred[0].Alias == graph.NoAlias && operandForm.place == tensor.Host {
			m.variables.At(n.Out[0]).addForm(inferred[0].Meta())
		}
	}
	return calls, results
}

// priceCopiesOf prices the copies of one form of a view's operand. inferred lists the results of a call with this form.
func (m *Model) priceCopiesOf(view *viewNode, operand *variable, operandForm int, call *graph.Call,
	inferred []graph.Result) {
	from := &operand.forms[operandForm]
	view.canView[operandForm] = inferred[0].Alias != graph.NoAlias
	for k, inferredResult := range inferred {
		// An operand form in outputCopies is also copied to form 0, even if it has a view in another form.
		isFreeView := view.viewOfForm(k, operandForm) >= 0 && !view.isOutputCopy(operandForm)
		if isFreeView {
			continue
		}
		if view.copyCosts[k] == nil {
			view.copyCosts[k] = make([][]int64, len(operand.forms))
		}
		result := m.variables.At(view.node.Out[k])
		switch {
		case view.canView[operandForm]: // the view's layout is no form of the result: an inserted step copies it
			view.copyCosts[k][operandForm] = m.insertedCopyCosts(result, inferredResult.Meta(), from.place)
		case len(inferred) == 1: // the node copies the operand, or an inserted step does so in place of the node
			view.copyCosts[k][operandForm] = m.nodeCopyCosts(view, call, result, inferredResult.Meta(), from)
			if view.node.Op.Identity {
				view.insertedCosts[operandForm] = m.insertedCopyCosts(result, from.meta, from.place)
			}
		}
	}
}

// insertedCopyCosts returns, by form of a result, the cost of an inserted copy from layout `from` within a place, in
// picoseconds.
func (m *Model) insertedCopyCosts(result *variable, from tensor.Meta, place tensor.Place) []int64 {
	costs := make([]int64, len(result.forms))
	for j, target := range result.forms {
		costs[j] = wcsp.Forbidden
		if result.canBeCopy(j) && target.place == place {
			costs[j] = m.formCopyCost(&form{meta: from, place: place}, &target)
		}
	}
	return costs
}

// nodeCopyCosts returns, by form of a result, the cost of the copy that the node itself makes, in picoseconds. `from`
// is the form of the operand. inferred is the layout that the node writes by default. The node copies only on the host.
func (m *Model) nodeCopyCosts(view *viewNode, call *graph.Call, result *variable, inferred tensor.Meta,
	from *form) []int64 {
	call.Out = []tensor.Meta{inferred}
	costs, impl := make([]int64, len(result.forms)), &view.node.Op.Impls[0]
	for j, target := range result.forms {
		costs[j] = wcsp.Forbidden
		isDefault := target.meta.SameAddresses(inferred)
		isOnHost := target.place == tensor.Host && from.place == tensor.Host
		canWrite := isDefault || view.node.Op.WritesAnyDenseLayout
		if !canWrite || !isOnHost || !result.canBeCopy(j) {
			continue
		}
		walk := graph.Walk{} // loop order and result layouts; the zero Walk writes the inferred layout
		if !isDefault {
			walk = call.WalkInOrder(target.order)
		}
		work := impl.Work(call, walk)
		// impl.Read returns the additional work for the operand in this layout, or false if the node cannot read it.
		if read, ok := impl.Read(call, walk, view.operand, from.meta); ok {
			costs[j] = PricePS(m.Problem.Profile, work) + PricePS(m.Problem.Profile, read)
		}
	}
	return costs
}

// operandCopy is a copy of a form of a view's operand into a form of a result.
type operandCopy struct {
	cost        // in picoseconds, and weighted with weights for copies and bytes
	byNode bool // whether the node itself makes the copy, so that no step is inserted
}

// operandCopies returns, by form of result k of a view, the cheapest copy from an operand form. It considers the
// operand forms in the mask `available` that result k cannot view. It returns nil if there are none.
func (m *Model) operandCopies(view *viewNode, k int, available uint) []operandCopy {
	if view.copyCosts == nil {
		return nil
	}
	var cheapest []operandCopy
	for operandForm, costs := range view.copyCosts[k] {
		if !hasForm(available, operandForm) || costs == nil {
			continue
		}
		isFirst := cheapest == nil
		if isFirst {
			cheapest = make([]operandCopy, len(costs))
		}
		for resultForm := range costs {
			candidate := m.operandCopy(view, k, operandForm, resultForm)
			if isFirst || candidate.weighted < cheapest[resultForm].weighted {
				cheapest[resultForm] = candidate
			}
		}
	}
	return cheapest
}

// operandCopy returns the cheapest copy of a form of a view's operand into a form of result k.
func (m *Model) operandCopy(view *viewNode, k, operandForm, resultForm int) operandCopy {
	byteWeight := m.Weights.UnitsOf(view.node.Out[k].Meta.Bytes())
	// Only inserted copies count as copies, with the weight Weights.Copy.
	insertedCopy := func(ps int64) operandCopy {
		return operandCopy{cost: cost{weighted: m.Weights.Time*ps + m.Weights.Copy + byteWeight, ps: ps}}
	}
	copyByNode := func(ps int64) operandCopy {
		return operandCopy{cost: cost{weighted: m.Weights.Time*ps + byteWeight, ps: ps}, byNode: true}
	}
	best := operandCopy{cost: forbidden}
	switch ps := view.copyCosts[k][operandForm][resultForm]; {
	case ps >= wcsp.Forbidden: // best stays forbidden
	case view.canView[operandForm]:
		best = insertedCopy(ps)
	default:
		best = copyByNode(ps)
	}
	if inserted := view.insertedCosts[operandForm]; inserted != nil && inserted[resultForm] < wcsp.Forbidden {
		if candidate := insertedCopy(inserted[resultForm]); candidate.weighted < best.weighted {
			best = candidate
		}
	}
	return best
}
