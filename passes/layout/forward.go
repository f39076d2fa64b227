package layout

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// These strategies choose the label of one node at a time, by the costs of [Model]. A label is an implementation and a
// walk (an order of its loops), which determine the forms (layouts) of the node's results. label.readCosts has, by
// operand and form, the cost of reading; it is nil for a constant. A view node has no label: view.viewForms returns the
// forms of a result that are views of given operand forms. Sets of forms are bit masks. The cheapest copies for the
// chosen labels are then found exactly: they are the solution of a weighted constraint satisfaction problem (WCSP).
//
// Greedy visits the nodes in order and takes the label that is cheapest, including the copies of operands. Favourite
// takes the label that is fastest if every operand has its preferred layout. Push takes the same label as Favourite
// for layout-sensitive nodes (nodes whose implementations prefer certain layouts); any other node gets the dimension
// order of most of its operands. A transpose thus moves forward until it cancels against its inverse, as in ONNX
// Runtime's transpose optimizer.
var (
	Greedy Strategy = &perNode{name: "greedy", labels: greedyLabels,
		doc: "visits nodes in order and takes the implementation that costs least with the copies of its operands"}
	Favourite Strategy = &perNode{name: "favourite", labels: favouriteLabels,
		doc: "takes the fastest implementation of each node and copies its operands"}
	Push Strategy = &perNode{name: "push", labels: pushLabels,
		doc: "takes the fastest implementation of layout-sensitive nodes; other nodes follow the order of most of their " +
			"operands, so that a transpose moves forward until it cancels against its inverse, as in ONNX Runtime"}
)

// perNode is a strategy that chooses a label for each node and then the cheapest copies for these labels.
type perNode struct {
	name, doc string
	labels    func(*Model) ([]int, error) // chooses the labels, by index of the node
}

// Name implements [Strategy].
func (strategy *perNode) Name() string { return strategy.name }

// Doc describes the strategy in one sentence.
func (strategy *perNode) Doc() string { return strategy.doc }

// Choose implements [Strategy].
func (strategy *perNode) Choose(problem *Problem) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	model, err := NewModel(problem)
	if err != nil {
		return nil, err
	}
	labels, err := strategy.labels(model)
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", strategy.name, err)
	}
	chosen := map[int]int{} // by variable of WCSP: its label
	for i, label := range labels {
		if computed := model.computedNodes[i]; computed != nil && computed.id >= 0 {
			chosen[computed.id] = label
		}
	}
	solution, err := model.Solve(Changed{Fixed: chosen})
	if err != nil {
		return nil, fmt.Errorf("strategy %s: %w", strategy.name, err)
	}
	return model.Assignment(solution.Labels)
}

// favouriteLabels returns the labels that are cheapest if all operands have their preferred forms.
func favouriteLabels(model *Model) ([]int, error) {
	list := make([]int, len(model.computedNodes))
	for i, computed := range model.computedNodes {
		if computed == nil {
			continue
		}
		list[i] = computed.cheapest(nil)
	}
	return list, nil
}

// cheapest returns the permitted label that costs least if all operands have their preferred forms, or -1 if no label
// is permitted. A nil function permits all labels. Labels that write directly into a concatenation's result are
// excluded, because only the later pass "place" may choose them.
func (computed *computedNode) cheapest(permitted func(*label) bool) int {
	best, cost := -1, wcsp.Forbidden
	for k := range computed.labels {
		candidate := &computed.labels[k]
		if candidate.concatName != "" {
			continue
		}
		// The cost is tested first, because permitted may allocate memory.
		candidateCost := candidate.costAtPreferred()
		if candidateCost < cost && (permitted == nil || permitted(candidate)) {
			best, cost = k, candidateCost
		}
	}
	return best
}

// costAtPreferred returns the cost of a label if all operands have their preferred forms.
func (l *label) costAtPreferred() int64 {
	sum := l.cost
	for k := range l.readCosts {
		sum += l.leastReadCost(k)
	}
	return sum
}

// leastReadCost returns the least cost of reading operand k. If the node is a concatenation, it excludes the forms in
// which the operand is already a slice of the result (l.resultSlots). It returns 0 for constants and for operands that
// are not tensors.
func (l *label) leastReadCost(k int) int64 {
	if l.readCosts[k] == nil {
		return 0
	}
	least := int64(wcsp.Forbidden)
	for i, readCost := range l.readCosts[k] {
		if k >= len(l.resultSlots) || !hasForm(l.resultSlots[k], i) {
			least = min(least, readCost)
		}
	}
	return least
}

// greedyLabels returns the labels of strategy Greedy.
func greedyLabels(model *Model) ([]int, error) {
	return labelsInOrder(model, func(state *forwardState, computed *computedNode, candidate *label) int64 {
		sum := candidate.cost
		for k, arg := range computed.node.In {
			if candidate.readCosts[k] != nil {
				_, readCost := state.cheapestRead(candidate, k, arg.Value)
				sum = min(sum+readCost, wcsp.Forbidden)
			}
		}
		return sum
	})
}

// pushLabels returns the labels of strategy Push. A node that is not layout-sensitive follows the order of most of its
// operands. It gets the label for which the copied operands have the fewest dimensions in total. Dimensions of size 1
// do not count.
func pushLabels(model *Model) ([]int, error) {
	return labelsInOrder(model, func(state *forwardState, computed *computedNode, candidate *label) int64 {
		if isLayoutSensitive(computed.node) {
			return candidate.costAtPreferred()
		}
		copiedRank := int64(0)
		for k, arg := range computed.node.In {
			if candidate.readCosts[k] == nil {
				continue
			}
			if form, _ := state.cheapestRead(candidate, k, arg.Value); form < 0 {
				return wcsp.Forbidden
			}
			if state.inPreferredForm(candidate, k, arg.Value) {
				continue
			}
			for _, size := range arg.Value.Meta.Shape {
				if size > 1 {
					copiedRank++
				}
			}
		}
		return copiedRank
	})
}

// isLayoutSensitive reports whether implementations of the node prefer certain layouts.
func isLayoutSensitive(n *graph.Node) bool {
	// Several implementations usually prefer different layouts.
	return len(n.Op.Impls) > 1 || len(n.Op.Impls) == 1 && n.Op.Impls[0].MayRejectLayouts()
}

// forwardState is the state of a traversal of the nodes in the order of the graph. It has the forms that exist so far.
type forwardState struct {
	model         *Model
	existingForms graph.ByValue[uint] // by value: mask of the forms that exist so far
	// by result of a view and form: the copy of the view's operand that makes the form
	operandCopies  graph.ByValue[[]operandCopy]
	copiesIfNeeded bool // whether an operand is copied only if a label can read no form that exists
}

// newForwardState returns the state before the first node: the forms of inputs and constants.
func newForwardState(model *Model) *forwardState {
	g := model.Problem.Graph
	state := &forwardState{model: model, existingForms: graph.NewByValue[uint](g),
		operandCopies: graph.NewByValue[[]operandCopy](g)}
	for _, v := range g.Inputs {
		state.setForms(model.variables.At(v), 1<<0, nil) // the layout of the graph as written
	}
	for _, v := range g.Constants {
		state.setForms(model.variables.At(v), 1<<len(model.variables.At(v).forms)-1, nil) // all forms
	}
	return state
}

// labelsInOrder visits the nodes in order and chooses the label with the least cost for each. labelCost returns the
// cost of a label. labelsInOrder returns the labels by index of the node; the label is 0 if every cost is
// [wcsp.Forbidden].
func labelsInOrder(model *Model,
	labelCost func(state *forwardState, computed *computedNode, candidate *label) int64) ([]int, error) {
	g, state := model.Problem.Graph, newForwardState(model)
	labels := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		switch view, computed := model.viewNodes[i], model.computedNodes[i]; {
		case view != nil:
			state.recordView(view)
		default:
			best := int64(wcsp.Forbidden)
			for k := range computed.labels {
				candidate := &computed.labels[k]
				if candidate.concatName != "" { // the pass named place does this later
					continue
				}
				if candidateCost := labelCost(state, computed, candidate); candidateCost < best {
					labels[i], best = k, candidateCost
				}
			}
			state.recordLabel(n, &computed.labels[labels[i]])
		}
	}
	return labels, nil
}

// recordLabel records the forms of operands that the chosen label of a node reads, and the forms of results that it
// writes.
func (s *forwardState) recordLabel(n *graph.Node, chosen *label) {
	for k, arg := range n.In {
		if chosen.readCosts[k] != nil {
			if form, _ := s.cheapestRead(chosen, k, arg.Value); form >= 0 {
				s.addForm(arg.Value, form)
			}
		}
	}
	for k, v := range n.Out {
		s.setForms(s.model.variables.At(v), 1<<chosen.resultForms[k], nil)
	}
}

// addForm records that a form of a value exists, because a copy makes it.
func (s *forwardState) addForm(v *graph.Value, form int) {
	s.existingForms.Set(v, s.existingForms.At(v)|1<<form)
}

// setForms records the existing forms of a value. For the result of a view, operandCopies has the costs of making forms
// from the view's operand. A value with a shared form has only this form.
func (s *forwardState) setForms(variable *variable, forms uint, operandCopies []operandCopy) {
	if variable.shared >= 0 && !isFreeConstant(variable.value) {
		forms, operandCopies = 1<<variable.shared, nil
	}
	s.existingForms.Set(variable.value, forms)
	s.operandCopies.Set(variable.value, operandCopies)
}

// recordView records the forms that the result of a view has. If no existing form of the operand can be viewed, it
// first makes the cheapest form of the operand that can be viewed.
func (s *forwardState) recordView(view *viewNode) {
	operandValue := view.node.In[view.operand].Value
	operand := s.model.variables.At(operandValue)
	existing := s.existingForms.At(operandValue) & view.allowed
	for k, out := range view.node.Out {
		forms, operandCopies := view.viewForms(k, existing), s.model.operandCopies(view, k, existing)
		if forms == 0 && operandCopies == nil {
			if source := s.cheapestViewable(view, k, operand); source >= 0 {
				existing |= 1 << source
				s.addForm(operandValue, source)
				forms = view.viewForms(k, existing)
			}
		}
		s.setForms(s.model.variables.At(out), forms, operandCopies)
	}
}

// cheapestViewable returns the form of a view's operand that is the cheapest to make among the forms that result k can
// view. It returns -1 if there is none.
func (s *forwardState) cheapestViewable(view *viewNode, k int, operand *variable) int {
	best, source := int64(wcsp.Forbidden), -1
	for form := range operand.forms {
		isViewable := hasForm(view.allowed, form) && view.viewForms(k, 1<<form) != 0
		if cost := s.makeCost(operand, form); isViewable && cost < best {
			best, source = cost, form
		}
	}
	return source
}

// makeCost returns the cost of making a form of a value from its existing forms. It is 0 if the form exists.
func (s *forwardState) makeCost(variable *variable, form int) int64 {
	existing := s.existingForms.At(variable.value)
	if hasForm(existing, form) {
		return 0
	}
	cost := int64(wcsp.Forbidden)
	if operandCopies := s.operandCopies.At(variable.value); operandCopies != nil {
		cost = operandCopies[form].ps
	}
	copies := s.model.copyCostMatrix(variable)
	for i := range variable.forms {
		if hasForm(existing, i) {
			cost = min(cost, copies[i*len(variable.forms)+form])
		}
	}
	return cost
}

// cheapestRead returns the cheapest form of operand k for a label, and the cost of reading it, including a copy. The
// form is -1 if no form can be read.
func (s *forwardState) cheapestRead(candidate *label, k int, v *graph.Value) (form int, cost int64) {
	variable := s.model.variables.At(v)
	if form, cost = candidate.cheapestRead(k, s.existingForms.At(v)); form >= 0 && s.copiesIfNeeded {
		return form, cost
	}
	form, cost = -1, wcsp.Forbidden
	for i, readCost := range candidate.readCosts[k] {
		total := min(readCost+s.makeCost(variable, i), wcsp.Forbidden) // the sum saturates at Forbidden
		if total < cost {
			form, cost = i, total
		}
	}
	return form, cost
}

// inPreferredForm reports whether operand k already exists in a form that the label reads at the least cost.
func (s *forwardState) inPreferredForm(candidate *label, k int, v *graph.Value) bool {
	existing, best := s.existingForms.At(v), candidate.leastReadCost(k)
	for form, readCost := range candidate.readCosts[k] {
		if hasForm(existing, form) && readCost == best {
			return true
		}
	}
	return false
}
