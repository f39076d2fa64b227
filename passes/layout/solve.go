package layout

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes an [Assignment] from preferred orders of values. The preferred order of a value is a form of its
// variable in a [Model]: the shared form, which all readers read if they can. The nodes are visited in order. Each gets
// the label that is cheapest, with the copies of its operands and results. The other forms are then excluded, and the
// model gives the cheapest copies.
//
// For example, let the graph be y = conv(x), z = relu(y), with the output z, and let the preferred order of all values
// be channels-last. The assignment has a copy of x to channels-last and the cheapest implementation of conv with a
// channels-last result. The relu reads and writes channels-last, and the output is a copy of z to its layout as
// written.

// Wish returns the preferred order of a value and the reason. The order has the rank of the value. An empty order means
// no preference.
type Wish func(v *graph.Value) (order tensor.Order, why string)

// Solve makes an assignment from preferences. Every node gets the implementation that is cheapest, including copies,
// for the preferred layout of its result or, without a preference, for the layout that inference gives it. A value that
// does not have its preferred order is copied for all readers. A nil wish means no preferences.
func Solve(problem *Problem, wish Wish) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	if problem == nil || problem.Graph == nil {
		return nil, errors.New("the problem is nil")
	}
	if wish == nil {
		wish = func(*graph.Value) (tensor.Order, string) { return "", "" }
	}
	for _, n := range problem.Graph.Nodes {
		if isPinnedToDevice(n) {
			return nil, problem.Graph.NodeError(n, devicePinError(n,
				"this strategy does not use devices; use strategy optimal, which does"))
		}
	}
	onHost := *problem
	onHost.Device = nil
	model, err := newModel(&onHost, wish)
	if err != nil {
		return nil, err
	}
	preferences := &preferenceState{forwardState: newForwardState(model), readForm: graph.NewByValue[int](problem.Graph),
		written: graph.NewByValue[uint](problem.Graph), added: map[int]wcsp.Costs{}}
	preferences.copiesIfNeeded = true
	preferences.chooseLabels()
	solution, err := model.Solve(Changed{Added: preferences.added})
	if err != nil {
		if _, noCopyOp := problem.Graph.CopyOp(); noCopyOp != nil {
			return nil, noCopyOp
		}
		return nil, err
	}
	return model.Assignment(solution.Labels)
}

// setShared sets the shared form of a value, and the reason. The shared form of a value that must keep its layout, and
// of an output that no node reads, is the form as written.
func (finder *formFinder) setShared(variable *variable, wish Wish) error {
	v, problem := variable.value, finder.model.Problem
	isUnreadOutput := problem.outputs[v] && problem.readers[v] == 0
	switch {
	case variable.pin >= 0:
		return nil
	case problem.MustKeepLayout(v) || isUnreadOutput:
		variable.shared = 0
		return nil
	}
	order, why := wish(v)
	if order != "" && order.Rank() != v.Meta.Rank() {
		err := fmt.Errorf("the preferred order (%v) of %q has %d dimensions, but the value has %d", order, v.Name,
			order.Rank(), v.Meta.Rank())
		if v.Node != nil {
			return problem.Graph.NodeError(v.Node, err)
		}
		return err
	}
	if order != "" {
		finder.addOrder(variable, order)
		variable.shared, variable.whyShared = variable.formOf(v.Meta.WithStrides(order.Strides(v.Meta.Shape))), why
	}
	return nil
}

// preferenceState is a traversal of the nodes that follows the shared forms of values.
type preferenceState struct {
	*forwardState
	readForm graph.ByValue[int] // by value: the form from which inference derives the layouts of its readers' results
	// written has, by value, a mask of forms that exist without a copy. Labels are priced as if the readers of a value
	// with a shared form read this form, but they may read another one at less cost.
	written graph.ByValue[uint]
	added   map[int]wcsp.Costs // by variable of WCSP: costs that forbid the labels that are not chosen
}

// chooseLabels chooses the label of each node and the forms of values, and sets added.
func (s *preferenceState) chooseLabels() {
	g := s.model.Problem.Graph
	for _, variable := range s.model.variableList {
		s.readForm.Set(variable.value, max(0, variable.shared))
		if variable.value.Node == nil {
			s.written.Set(variable.value, 1<<0)
		}
	}
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		switch view, computed := s.model.viewNodes[i], s.model.computedNodes[i]; {
		case view != nil:
			s.recordView(view)
			for k, form := range s.inferredForms(n) {
				s.written.Set(n.Out[k], view.viewForms(k, s.written.At(n.In[view.operand].Value)&view.allowed))
				if result := s.model.variables.At(n.Out[k]); result.shared < 0 {
					s.setReadForm(result, form)
				}
			}
		case computed != nil:
			chosen := s.bestLabel(computed)
			s.excludeLabels(computed, chosen)
			s.recordLabel(n, chosen)
			for k, form := range chosen.resultForms {
				s.written.Set(n.Out[k], 1<<form)
				if result := s.model.variables.At(n.Out[k]); result.shared < 0 {
					s.setReadForm(result, form)
				}
			}
		}
	}
	s.excludeForms()
}

// setReadForm records the form that readers of a value read by default. If the form is not known (-1), this is the
// first form that exists.
func (s *preferenceState) setReadForm(variable *variable, form int) {
	existing := s.existingForms.At(variable.value)
	if form < 0 && existing != 0 {
		form = bits.TrailingZeros(existing)
	}
	if form >= 0 {
		s.readForm.Set(variable.value, form)
		s.addForm(variable.value, form)
	}
}

// inferredForms returns the forms of a node's results that inference derives from the forms of its operands. A form is
// -1 if the model does not have it, or if inference fails.
func (s *preferenceState) inferredForms(n *graph.Node) []int {
	forms := make([]int, len(n.Out))
	call, isChanged := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}, n.Pin.SetsLayout()
	for k, arg := range n.In {
		isReadByInference := n.Op.RunDynamic != nil && arg.Kind == graph.TensorArg && arg.Value.Const != nil
		if arg.Kind != graph.TensorArg || isReadByInference || s.readForm.At(arg.Value) == 0 {
			continue
		}
		call.In[k] = callWith(n, k, s.model.variables.At(arg.Value).forms[s.readForm.At(arg.Value)].meta).In[k]
		isChanged = true
	}
	if !isChanged { // the forms as written
		return forms
	}
	forms = slices.Repeat([]int{-1}, len(n.Out))
	for k, result := range inferCall(n, call) {
		forms[k] = s.model.variables.At(n.Out[k]).formOf(result.Meta())
	}
	return forms
}

// costTolerance is the relative difference up to which costs count as equal, because they are estimates.
const costTolerance = 0.02

// bestLabel returns the cheapest of the labels of a node that deviate least: see price. Among labels of equal cost, it
// returns the first.
func (s *preferenceState) bestLabel(computed *computedNode) *label {
	best, leastCost, least := &computed.labels[0], int64(wcsp.Forbidden), math.MaxInt
	inferred := s.inferredForms(computed.node)
	for i := range computed.labels {
		cost, deviation := s.price(computed, &computed.labels[i], inferred)
		if computed.labels[i].concatName != "" || cost >= wcsp.Forbidden {
			continue
		}
		isCheaper := float64(cost) < float64(leastCost)*(1-costTolerance)
		if deviation < least || deviation == least && isCheaper {
			best, leastCost, least = &computed.labels[i], cost, deviation
		}
	}
	return best
}

// price returns the cost of a label with the copies of operands that it cannot read, and of results to their shared
// forms. If the inferred form of a result is the preferred one, or none is preferred, a label deviates if it writes
// another form, or, to a lesser extent, if it needs a copy of an operand.
func (s *preferenceState) price(computed *computedNode, candidate *label, inferred []int) (cost int64, deviation int) {
	cost, readsCopy := candidate.cost, 0
	for k, arg := range computed.node.In {
		if candidate.readCosts[k] != nil {
			form, readCost := s.cheapestRead(candidate, k, arg.Value)
			cost = min(cost+readCost, wcsp.Forbidden)
			if form >= 0 && !hasForm(s.existingForms.At(arg.Value), form) {
				readsCopy = 1
			}
		}
	}
	for k, form := range candidate.resultForms {
		result := s.model.variables.At(computed.node.Out[k])
		switch {
		case result.shared >= 0 && (result.pin >= 0 || result.shared != inferred[k]):
			cost = min(cost+s.model.copyCostMatrix(result)[form*len(result.forms)+result.shared], wcsp.Forbidden)
		case inferred[k] >= 0 && form != inferred[k]:
			deviation = 2
		default:
			deviation = max(deviation, readsCopy)
		}
	}
	return cost, deviation
}

// excludeLabels excludes the labels of a node that have another implementation or other forms of results than the
// chosen label.
func (s *preferenceState) excludeLabels(computed *computedNode, chosen *label) {
	s.add(computed.id, len(computed.labels), func(i int) int64 {
		other := &computed.labels[i]
		if other.impl != chosen.impl || !slices.Equal(other.resultForms, chosen.resultForms) {
			return wcsp.Forbidden
		}
		return 0
	})
}

// excludeForms excludes all forms of values except those that the traversal recorded and those of outputs. Of solutions
// with equal costs, it prefers those in which values have their inferred or shared forms, so that a copy stays where
// the graph as written has it.
func (s *preferenceState) excludeForms() {
	for _, variable := range s.model.variableList {
		permitted := s.existingForms.At(variable.value) | s.written.At(variable.value)
		for _, output := range variable.outputs {
			permitted |= 1 << s.model.outputForm(variable, output)
		}
		s.add(variable.id, len(variable.formSets), func(i int) int64 {
			switch set := variable.formSets[i]; {
			case set&^permitted != 0:
				return wcsp.Forbidden
			case !hasForm(set, s.readForm.At(variable.value)):
				return 1
			}
			return 0
		})
	}
}

// add adds costs to the labels of a variable of WCSP.
func (s *preferenceState) add(variable, labelCount int, cost func(label int) int64) {
	if variable < 0 { // a single label
		return
	}
	costs := make(wcsp.Costs, labelCount)
	for i := range costs {
		costs[i] = cost(i)
	}
	s.added[variable] = costs
}

// pinnedImplError returns the error for a node whose pinned implementation cannot compute it.
func (p *Problem) pinnedImplError(n *graph.Node, call *graph.Call) error {
	impl, err := n.Op.Impl(n.Pin.Impl)
	if err == nil && p.Exact && impl.Inexact {
		err = fmt.Errorf("the implementation is inexact, and the plan must be exact: %s", p.supportingImpls(n, call))
	} else {
		err = fmt.Errorf("the implementation does not support these operands: %s", p.supportingImpls(n, call))
	}
	return &graph.PinError{Name: pinnedName(n), Pin: graph.Pin{Impl: n.Pin.Impl}, Err: err}
}

// devicePinError returns the error for a node whose pinned device cannot compute it.
func devicePinError(n *graph.Node, format string, args ...any) error {
	return &graph.PinError{Name: pinnedName(n), Pin: graph.Pin{Device: n.Pin.Device}, Err: fmt.Errorf(format, args...)}
}

// pinnedName returns the user's name of a pinned node: of the first part of a fused node.
func pinnedName(n *graph.Node) string {
	if fused, ok := n.Attrs.(interface{ Names() []string }); ok && len(fused.Names()) > 0 {
		return fused.Names()[0]
	}
	return n.Name
}

// supportingImpls lists the implementations that support a call.
func (p *Problem) supportingImpls(n *graph.Node, call *graph.Call) string {
	var names []string
	for i := range n.Op.Impls {
		if impl := &n.Op.Impls[i]; !(p.Exact && impl.Inexact) && len(impl.Walks(call, nil)) > 0 {
			names = append(names, impl.Name)
		}
	}
	if names == nil {
		return "no implementation supports them"
	}
	return "use " + strings.Join(names, " or ")
}
