package layout

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
)

// This file builds the weighted constraint problem of a [Model]. The label of a value's variable is a set of forms,
// that is, of layouts in which the value exists. The label of a node's variable is an implementation and a walk (a loop
// order with layouts of the results). A factor is a table of costs over one or two variables, either of work or of
// copies. A cost has two parts: cost.ps, picoseconds, is for WCSP; cost.weighted, which also counts copies and their
// bytes, is for Weighted.
//
// For example, y = conv(x) followed by z = relu(y) has the variables x, conv, y, relu and z. One factor has the work of
// each label of conv. Another factor has the cost of reading x for each pair of labels of x and conv. A third factor
// has the cost of the copies that make each set of forms of y from the form that a label of conv writes. There are such
// factors for relu, too. The labels with the least sum of costs are the solution.

// check returns an error for a model that was not made by [NewModel].
func (m *Model) check() error {
	if m == nil || m.WCSP == nil || m.Problem == nil || len(m.isCopyFactor) != len(m.WCSP.Factors) {
		return errors.New("the model was not made by NewModel")
	}
	return nil
}

// build sets WCSP and Weighted: it adds a variable for each value and node with several labels, and then all factors.
func (m *Model) build() error {
	m.WCSP, m.Weighted, m.isCopyFactor = &wcsp.Problem{Version: 1}, &wcsp.Problem{Version: 1}, nil
	builder := &builder{model: m, names: map[string][]string{}}
	for _, variable := range m.variableList { // free constants need no variable: each of their forms costs nothing
		if !isFreeConstant(variable.value) && len(variable.formSets) > 1 {
			variable.id = builder.addVariable("value "+variable.value.Name, builder.namesOfSets(variable))
		}
	}
	for _, computed := range m.computedNodes {
		if computed != nil && len(computed.labels) > 1 {
			names := make([]string, len(computed.labels))
			for i := range computed.labels {
				names[i] = computed.labels[i].text()
			}
			computed.id = builder.addVariable("node "+computed.node.Name, numberDuplicates(names))
		}
	}

	for variable := range m.inputVariables() { // the copies that make each set of forms from the form of the input
		costs := m.priceSets(variable, 1<<m.inputForm(variable), nil) // nil: the value is no view
		builder.addCopyFactor(variable.id, noVariable, len(variable.formSets), 1, func(i, _ int) cost {
			return costs.leastCost(variable.formSets[i])
		}, equalLabels)
	}
	for i, n := range m.Problem.Graph.Nodes {
		interrupt.Check(m.Problem.Context())
		switch view := m.viewNodes[i]; {
		case view != nil:
			builder.addViewFactors(view)
		default:
			builder.addNodeFactors(m.computedNodes[i], n)
		}
		if builder.err != nil {
			return m.Problem.Graph.NodeError(n, builder.err)
		}
	}
	builder.addConstantFactor()
	m.Weighted.Variables = m.WCSP.Variables
	return nil
}

// text returns the name of a label in messages and in the problem.
func (l *label) text() string {
	text := "inferred"
	if l.impl != nil {
		text = l.impl.Name
	}
	for _, order := range l.walk.ResultOrders {
		if order != "" {
			text += " " + order.String()
			break
		}
	}
	if l.concatName != "" {
		text += fmt.Sprintf(" within %q", l.concatName)
	}
	return text
}

// errIncompatible is the error for a factor whose costs are all forbidden.
var errIncompatible = errors.New("the node's operands and results have no compatible layouts")

// builder is the state of [Model.build].
type builder struct {
	model         *Model
	constantCosts [2]cost             // costs that depend on no variable, by kind
	err           error               // set if the problem is infeasible
	names         map[string][]string // cache of namesOfSets
}

// noVariable replaces the index of a variable in a problem, where there is no variable.
const noVariable = -1

// Kinds of factors: costs of work, and costs of copies.
const (
	workKind = iota
	copyKind
)

// namesOfSets returns the names of a value's sets of forms. Values whose forms have equal names share the list.
func (builder *builder) namesOfSets(variable *variable) []string {
	var key strings.Builder
	for i := range variable.forms {
		key.WriteString(variable.forms[i].text())
		key.WriteByte(0)
	}
	for _, set := range variable.formSets {
		key.WriteByte(byte(set)) // a mask of at most maxForms (8) bits
	}
	names, known := builder.names[key.String()]
	if !known {
		for _, set := range variable.formSets {
			names = append(names, variable.nameOfSet(set))
		}
		names = numberDuplicates(names)
		builder.names[key.String()] = names
	}
	return names
}

// numberDuplicates makes names distinct: it appends a number to each repetition of a name.
func numberDuplicates(names []string) []string {
	for i := range names {
		name, times := names[i], 1
		for _, other := range names[:i] {
			if other == name || strings.HasPrefix(other, name+" (") {
				times++
			}
		}
		if times > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, times)
		}
	}
	return names
}

// addVariable adds a variable and returns its index.
func (builder *builder) addVariable(name string, labels []string) int {
	problem := builder.model.WCSP
	problem.Variables = append(problem.Variables, wcsp.Variable{Name: name, Labels: labels})
	return len(problem.Variables) - 1
}

// addWorkFactor adds a factor over two variables for the cost of work, in picoseconds. countA and countB are the
// numbers of their labels; ps is called with their labels and returns the cost and the ratio of its price. A variable
// with a single label is not part of the problem: its index is noVariable, its number of labels 1, and its label 0. A
// factor of one variable has noVariable as the second variable.
func (builder *builder) addWorkFactor(variableA, variableB, countA, countB int, ps func(i, j int) (int64,
	pricing.Ratio)) {
	timeWeight := builder.model.Weights.Time
	costOf := func(i, j int) cost {
		picoseconds, ratio := ps(i, j)
		if picoseconds >= wcsp.Forbidden {
			return forbidden
		}
		return copyCost(picoseconds, ratio, timeWeight, 0)
	}
	builder.addFactor(variableA, variableB, countA, countB, workKind, costOf, func(i, j, planI, planJ int) bool {
		if i != planI {
			return false
		}
		ofPlan, _ := ps(planI, planJ)
		picoseconds, _ := ps(i, j)
		return ofPlan == picoseconds // of one price
	})
}

// addCopyFactor adds a factor for the cost of copies: see addWorkFactor. hasPrice reports whether two pairs of labels
// have the same copies.
func (builder *builder) addCopyFactor(variableA, variableB, countA, countB int, costOf func(i, j int) cost,
	hasPrice samePrice) {
	builder.addFactor(variableA, variableB, countA, countB, copyKind, costOf, hasPrice)
}

// samePrice reports whether the labels i and j have the price of the labels planI and planJ.
type samePrice func(i, j, planI, planJ int) bool

// equalLabels is a samePrice for labels that share no prices.
func equalLabels(i, j, planI, planJ int) bool { return i == planI && j == planJ }

// labelOfPlan returns the label of a variable in the plan whose regret the problem bounds.
func (builder *builder) labelOfPlan(variable int) int {
	if variable < 0 || builder.model.against == nil {
		return 0
	}
	return builder.model.against[variable]
}

// addFactor adds a factor of a kind to WCSP and to Weighted. If the problem bounds the regret of a plan, the cost is the
// upper end of its interval where the labels have the price of the plan, and the lower end elsewhere.
func (builder *builder) addFactor(variableA, variableB, countA, countB, kind int, costOf func(i, j int) cost,
	hasPrice samePrice) {
	if countA == 1 && countB == 1 { // the common case of a graph without choices
		constant := costOf(0, 0)
		builder.constantCosts[kind] = builder.constantCosts[kind].plus(constant)
		if constant.weighted >= wcsp.Forbidden && builder.err == nil {
			builder.err = errIncompatible
		}
		return
	}
	factor := wcsp.Factor{Costs: make([]int64, 0, countA*countB)}
	weighted := wcsp.Factor{Costs: make([]int64, 0, countA*countB)}
	planA, planB := builder.labelOfPlan(variableA), builder.labelOfPlan(variableB)
	allZero, allForbidden := true, true
	for i := range countA {
		for j := range countB {
			entry := costOf(i, j)
			ps := entry.ps
			switch {
			case builder.model.against == nil:
			case hasPrice(i, j, planA, planB):
				ps = entry.high
			default:
				ps = entry.low
			}
			factor.Costs, weighted.Costs = append(factor.Costs, ps), append(weighted.Costs, entry.weighted)
			allZero, allForbidden = allZero && entry.weighted == 0, allForbidden && entry.weighted >= wcsp.Forbidden
		}
	}
	if allForbidden && builder.err == nil {
		builder.err = errIncompatible
	}
	if allZero { // the factor would have no effect
		return
	}
	for _, id := range []int{variableA, variableB} {
		if id >= 0 {
			factor.Scope = append(factor.Scope, id)
		}
	}
	weighted.Scope = factor.Scope
	builder.appendFactor(factor, weighted, kind)
}

// appendFactor adds a factor to the problem, and its weighted form to the weighted problem.
func (builder *builder) appendFactor(factor, weighted wcsp.Factor, kind int) {
	builder.model.WCSP.Factors = append(builder.model.WCSP.Factors, factor)
	builder.model.isCopyFactor = append(builder.model.isCopyFactor, kind == copyKind)
	builder.model.Weighted.Factors = append(builder.model.Weighted.Factors, weighted)
}

// addConstantFactor adds a factor for the costs that do not depend on labels.
func (builder *builder) addConstantFactor() {
	for kind, constant := range builder.constantCosts {
		if constant.weighted > 0 {
			ps := constant.ps
			if builder.model.against != nil {
				ps = constant.high
			}
			builder.appendFactor(wcsp.Factor{Scope: []int{}, Costs: []int64{ps}},
				wcsp.Factor{Scope: []int{}, Costs: []int64{constant.weighted}}, kind)
		}
	}
}

// addViewFactors adds the factors of a view: the costs of making each set of forms of a result from each set of forms
// of the operand. view.allowed is the mask of the operand forms that the view may use. viewForms returns the forms of
// the result that are views of given operand forms. priceSets returns the costs of making sets of forms.
func (builder *builder) addViewFactors(view *viewNode) {
	operand := builder.model.variables.At(view.node.In[view.operand].Value)
	for k, out := range view.node.Out {
		result := builder.model.variables.At(out)
		if isFreeConstant(operand.value) {
			costs := builder.model.priceSets(result, view.viewForms(k, view.allowed),
				builder.model.operandCopies(view, k, view.allowed))
			builder.addCopyFactor(result.id, noVariable, len(result.formSets), 1, func(i, _ int) cost {
				return costs.leastCost(result.formSets[i])
			}, equalLabels)
			continue
		}
		costs := make([]formCosts, len(operand.formSets))
		for i, set := range operand.formSets {
			available := set & view.allowed
			costs[i] = builder.model.priceSets(result, view.viewForms(k, available),
				builder.model.operandCopies(view, k, available))
		}
		builder.addCopyFactor(operand.id, result.id, len(operand.formSets), len(result.formSets), func(i, j int) cost {
			return costs[i].leastCost(result.formSets[j])
		}, equalLabels)
	}
}

// addNodeFactors adds the factors of a node that computes: for its work, for the copies of its results
// (addResultFactor), and for reading its operands (addReadFactor).
func (builder *builder) addNodeFactors(computed *computedNode, n *graph.Node) {
	builder.addWorkFactor(computed.id, noVariable, len(computed.labels), 1, func(i, _ int) (int64, pricing.Ratio) {
		return computed.labels[i].cost, computed.labels[i].ratio
	})
	for k := range n.Out {
		builder.addResultFactor(computed, n, k)
	}
	for k, arg := range n.In {
		if arg.Kind == graph.TensorArg && !readsConstant(n, k) && !builder.model.isEarlierOperand(n, k) {
			builder.addReadFactor(computed, n, k)
		}
	}
}

// addResultFactor adds the factor for the copies that make the forms of result k of a node. It adds none if the result
// has only the form that the node writes.
func (builder *builder) addResultFactor(computed *computedNode, n *graph.Node, k int) {
	result := builder.model.variables.At(n.Out[k])
	if len(computed.labels) == 1 && len(result.formSets) == 1 {
		writtenSet := uint(1) << computed.labels[0].resultForms[k]
		if hasOtherForms := result.formSets[0]&^writtenSet != 0; !hasOtherForms {
			return
		}
	}
	costs := map[int]*formCosts{} // by form that the node writes
	for _, candidate := range computed.labels {
		if costs[candidate.resultForms[k]] == nil {
			writtenCosts := builder.model.priceSets(result, 1<<candidate.resultForms[k], nil) // nil: no view
			costs[candidate.resultForms[k]] = &writtenCosts
		}
	}
	builder.addCopyFactor(computed.id, result.id, len(computed.labels), len(result.formSets), func(i, j int) cost {
		written := computed.labels[i].resultForms[k]
		slot := result.forms[written].slot
		isStoredInSlot := slot != nil && slot.operand >= 0
		if isStoredInSlot && !hasForm(result.formSets[j], written) {
			return forbidden // a value in a slot of another value (see slots.go) must be read from the slot
		}
		return costs[written].leastCost(result.formSets[j])
	}, func(i, j, planI, planJ int) bool {
		return j == planJ && computed.labels[i].resultForms[k] == computed.labels[planI].resultForms[k]
	})
}

// addReadFactor adds the factor for reading operand k of a node, and all later operands that are the same value.
func (builder *builder) addReadFactor(computed *computedNode, n *graph.Node, k int) {
	operand := builder.model.variables.At(n.In[k].Value)
	wrongSlots := builder.model.excludedSlots(computed, operand) // by label: mask of forms that contradict the label
	builder.addWorkFactor(computed.id, operand.id, len(computed.labels), len(operand.formSets), func(i, j int) (int64,
		pricing.Ratio) {
		if wrongSlots != nil && operand.formSets[j]&wrongSlots[i] != 0 {
			return wcsp.Forbidden, pricing.Ratio{}
		}
		var sum int64
		for other := k; other < len(n.In); other++ {
			if n.In[other].Kind == graph.TensorArg && n.In[other].Value == operand.value {
				_, readCost := computed.labels[i].cheapestRead(other, operand.formSets[j])
				sum = min(sum+readCost, wcsp.Forbidden)
			}
		}
		return sum, computed.labels[i].ratio
	})
}

// isEarlierOperand reports whether an operand of node n before operand k is the same value.
func (m *Model) isEarlierOperand(n *graph.Node, k int) bool {
	for other := range k {
		if n.In[other].Kind == graph.TensorArg && n.In[other].Value == n.In[k].Value {
			return true
		}
	}
	return false
}

// cheapestRead returns the form of operand k that the label reads at the least cost. It also returns this cost.
// existing is the mask of the forms that exist. The returned form is -1 if no existing form can be read.
func (l *label) cheapestRead(k int, existing uint) (int, int64) {
	best, cost := -1, int64(wcsp.Forbidden)
	for form, readCost := range l.readCosts[k] {
		if hasForm(existing, form) && readCost < cost {
			best, cost = form, readCost
		}
	}
	return best, cost
}
