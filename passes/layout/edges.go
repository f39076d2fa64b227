package layout

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file states the layout problem as published optimizers do: variables are nodes, and each edge from a node to a
// reader has the cost of the copies for this reader. In a [Model], by contrast, the readers of a value share copies. As
// in a Model, a form is a layout in which a value may exist. A label of a node is an implementation and a walk (loop
// order), which determine the forms of the node's results.
//
// The cost of a plan is a sum over nodes and edges. An edge is one use of a value by a reader:
//
//	sum over nodes of work(label of the node)
//	+ sum over edges of the least make(label of the producer, form) + read(label of the reader, form) over all forms
//
// make is the cost of the cheapest chain of copies from the form that the producer writes ([formSource]). Two readers
// that need the same copy both pay for it; the plan that is made from the labels shares it nevertheless. For example,
// let a convolution write (N,H,W,C), let two readers need (N,C,H,W), and let this copy cost 7. Each of the two edges
// has the cost 7, so that the problem counts 14. A Model counts 7.

// edgeModel is a layout problem with costs for each edge. Its labels are the labels of a [Model].
type edgeModel struct {
	model       *Model
	problem     *wcsp.Problem
	labelCounts []int                     // by variable: number of labels
	sources     graph.ByValue[formSource] // by value
	nodes       []edgeNode                // by index of the node
}

// edgeNode is a node and the variable that determines its label.
type edgeNode struct {
	variable   int   // index in edgeModel.problem; noVariable (-1) if the node has only the label labels[0]
	labels     []int // by label of the variable: the node's label in the Model
	isFollower bool  // whether the variable belongs to another node
}

// formSource has the costs of making each form (layout) of a value. The costs depend on the label of one variable.
type formSource struct {
	variable  int       // index in edgeModel.problem; noVariable if makeCosts has one row
	makeCosts [][]int64 // a row for each label of the variable; a row has, by form, the cost of making the form
}

// newEdgeModel states the problem. A node for which follows returns true has no variable of its own. It gets the label
// that reads the first operand at the least cost, including copies of this operand but without the cost of work. If
// follows is nil, each node has a variable.
func newEdgeModel(model *Model, follows func(*graph.Node) bool) *edgeModel {
	g := model.Problem.Graph
	edges := &edgeModel{model: model, problem: &wcsp.Problem{Version: wcsp.Version},
		sources: graph.NewByValue[formSource](g),
		nodes:   make([]edgeNode, len(g.Nodes))}
	edges.addInputs()
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		switch view := model.viewNodes[i]; {
		case model.isLost(i): // the node failed or depends on a failed node
		case view != nil:
			edges.addView(view)
		case follows != nil && follows(n) && firstRead(model.computedNodes[i]) >= 0:
			edges.addFollower(i, model.computedNodes[i])
		default:
			edges.addNode(i, model.computedNodes[i])
		}
	}
	edges.addOutputs()
	return edges
}

// addInputs sets the sources of inputs and constants.
func (e *edgeModel) addInputs() {
	for _, v := range e.model.Problem.Graph.Constants {
		if isFreeConstant(v) {
			free := make([]int64, len(e.model.variables.At(v).forms))
			e.sources.Set(v, formSource{variable: noVariable, makeCosts: [][]int64{free}})
		}
	}
	for variable := range e.model.inputVariables() {
		row := e.costsFromWritten(variable, e.model.inputForm(variable))
		e.sources.Set(variable.value, formSource{variable: noVariable, makeCosts: [][]int64{row}})
	}
}

// addView sets the sources of a view's results. A view node has no label.
func (e *edgeModel) addView(view *viewNode) {
	operandSource := e.sources.At(view.node.In[view.operand].Value)
	for resultIndex, out := range view.node.Out {
		resultSource := formSource{variable: operandSource.variable}
		for _, operandRow := range operandSource.makeCosts {
			row := e.costsFromOperand(view, resultIndex, operandRow)
			resultSource.makeCosts = append(resultSource.makeCosts, row)
		}
		e.sources.Set(out, resultSource)
	}
}

// costsFromOperand returns, by form of a view's result, the cost of making the form. The result is a view or a copy of
// a form of the operand, or a copy of another form of the result. operandRow has the costs of making the operand's
// forms.
func (e *edgeModel) costsFromOperand(view *viewNode, resultIndex int, operandRow []int64) []int64 {
	result := e.model.variables.At(view.node.Out[resultIndex])
	row := slices.Repeat([]int64{wcsp.Forbidden}, len(result.forms))
	for operandForm, cost := range operandRow {
		if !hasForm(view.allowed, operandForm) {
			continue
		}
		if operandForm < len(view.resultForm[resultIndex]) { // forms that were added later have no view
			if resultForm := view.viewOfForm(resultIndex, operandForm); resultForm >= 0 {
				row[resultForm] = min(row[resultForm], cost)
			}
		}
		for resultForm, copied := range e.model.operandCopies(view, resultIndex, 1<<operandForm) {
			row[resultForm] = min(row[resultForm], cost+copied.ps)
		}
	}
	return e.withPinnedCopyChains(result, row)
}

// addFollower adds the node of index i, which has the variable of its first operand (see firstRead).
func (e *edgeModel) addFollower(i int, computed *computedNode) {
	first := firstRead(computed)
	operandSource := e.sources.At(computed.node.In[first].Value)
	follower := edgeNode{variable: operandSource.variable, isFollower: true}
	var costs []int64 // by label of the variable: cost of making and reading the first operand
	for _, row := range operandSource.makeCosts {
		chosen, cost := computed.followingLabel(first, row)
		follower.labels, costs = append(follower.labels, chosen), append(costs, cost)
	}
	e.nodes[i] = follower
	e.addFactor(follower.variable, noVariable, func(j, _ int) int64 { return costs[j] })
	e.addReads(i, computed, first)
}

// firstRead returns the index of the first operand that is not a constant, or -1 if all operands are constants.
func firstRead(computed *computedNode) int {
	return slices.IndexFunc(computed.labels[0].readCosts, func(costs []int64) bool { return costs != nil })
}

// followingLabel returns the label with which operand k is made and read at the least cost, and this cost. row has, by
// form, the cost of making the operand. Among labels with equal costs, it returns the label that costs least if all
// operands have their preferred forms.
func (computed *computedNode) followingLabel(k int, row []int64) (chosen int, cost int64) {
	cost = wcsp.Forbidden
	var preferredCost int64
	for i := range computed.labels {
		candidate := &computed.labels[i]
		if candidate.concatName != "" {
			continue
		}
		candidateCost, preferred := candidate.makeAndReadCost(k, row), candidate.costAtPreferred()
		isEqual := candidateCost == cost && candidateCost < wcsp.Forbidden
		if candidateCost < cost || isEqual && preferred < preferredCost {
			chosen, cost, preferredCost = i, candidateCost, preferred
		}
	}
	return chosen, cost
}

// addNode adds a node with its own variable. i is the index of the node in the graph. It omits labels that write
// directly into a concatenation's result (concatName). For these strategies, the later pass "place" decides about such
// writes.
func (e *edgeModel) addNode(i int, computed *computedNode) {
	var labels []int // by label of the variable
	variableIndex, variable := len(e.problem.Variables), wcsp.Variable{Name: computed.node.Name}
	for k := range computed.labels {
		if computed.labels[k].concatName == "" {
			labels = append(labels, k)
			variable.Labels = append(variable.Labels, computed.labels[k].text())
		}
	}
	e.problem.Variables = append(e.problem.Variables, variable)
	e.labelCounts = append(e.labelCounts, len(labels))
	e.nodes[i] = edgeNode{variable: variableIndex, labels: labels}
	e.addFactor(variableIndex, noVariable, func(k, _ int) int64 { return computed.labels[labels[k]].cost })
	e.addReads(i, computed, noOperand)
}

// noOperand replaces the index of an operand that addReads excludes.
const noOperand = -1

// addReads adds the costs of making and reading the operands of node i, except operand `excluded`, and sets the sources
// of the node's results.
func (e *edgeModel) addReads(i int, computed *computedNode, excluded int) {
	reader := e.nodes[i]
	for k, arg := range computed.node.In {
		if computed.labels[0].readCosts[k] == nil || k == excluded { // nil: a constant or a number
			continue
		}
		operandSource := e.sources.At(arg.Value)
		e.addFactor(reader.variable, operandSource.variable, func(j, from int) int64 {
			return computed.labels[reader.labels[j]].makeAndReadCost(k, operandSource.makeCosts[from])
		})
	}
	for k, out := range computed.node.Out {
		resultSource := formSource{variable: reader.variable}
		for _, chosen := range reader.labels {
			row := e.costsFromWritten(e.model.variables.At(out), computed.labels[chosen].resultForms[k])
			resultSource.makeCosts = append(resultSource.makeCosts, row)
		}
		e.sources.Set(out, resultSource)
	}
}

// makeAndReadCost returns the least cost of making and reading operand k. row has, by form, the cost of making it.
func (l *label) makeAndReadCost(k int, row []int64) int64 {
	best := wcsp.Forbidden
	for form, readCost := range l.readCosts[k] {
		best = min(best, readCost+row[form])
	}
	return best
}

// costsFromWritten returns, by form, the cost of making the form if the value is written in the given form.
func (e *edgeModel) costsFromWritten(variable *variable, written int) []int64 {
	row := slices.Repeat([]int64{wcsp.Forbidden}, len(variable.forms))
	row[written] = 0
	return e.withPinnedCopyChains(variable, row)
}

// withPinnedCopyChains is withCopyChains for values that may be pinned: each chain then contains the pinned form.
func (e *edgeModel) withPinnedCopyChains(variable *variable, row []int64) []int64 {
	if variable.pin < 0 {
		return e.withCopyChains(variable, row)
	}
	pinned := slices.Repeat([]int64{wcsp.Forbidden}, len(row))
	pinned[variable.pin] = e.withCopyChains(variable, row)[variable.pin]
	return e.withCopyChains(variable, pinned)
}

// withCopyChains replaces the cost of each form by the cost of the cheapest chain of copies that ends in the form
// (Bellman-Ford).
func (e *edgeModel) withCopyChains(variable *variable, row []int64) []int64 {
	formCount := len(row)
	if formCount == 1 {
		return row
	}
	copies := e.model.copyCostMatrix(variable) // row-major; the row is the source
	for changed := true; changed; {
		changed = false
		for from, cost := range row {
			for to := range row {
				if chainCost := min(cost+copies[from*formCount+to], wcsp.Forbidden); chainCost < row[to] {
					row[to], changed = chainCost, true
				}
			}
		}
	}
	return row
}

// addOutputs adds the costs of making the forms that outputs return.
func (e *edgeModel) addOutputs() {
	for _, output := range e.model.Problem.Graph.Outputs {
		variable := e.model.variables.At(output.Value)
		if source := e.sources.At(output.Value); source.makeCosts != nil {
			form := e.model.outputForm(variable, output)
			e.addFactor(source.variable, noVariable, func(i, _ int) int64 { return source.makeCosts[i][form] })
		}
	}
}

// addFactor adds costs that depend on the labels of two variables. noVariable stands for a variable whose label is 0.
func (e *edgeModel) addFactor(variableA, variableB int, cost func(i, j int) int64) {
	labelCount := func(variable int) int {
		if variable < 0 {
			return 1
		}
		return e.labelCounts[variable]
	}
	factor := wcsp.Factor{Scope: []int{}}
	for _, variable := range []int{variableA, variableB} {
		if variable >= 0 && !slices.Contains(factor.Scope, variable) {
			factor.Scope = append(factor.Scope, variable)
		}
	}
	for i := range labelCount(variableA) {
		if variableA == variableB && variableA >= 0 { // both ends of the edge depend on the same variable
			factor.Costs = append(factor.Costs, cost(i, i))
			continue
		}
		for j := range labelCount(variableB) {
			factor.Costs = append(factor.Costs, cost(i, j))
		}
	}
	if slices.ContainsFunc(factor.Costs, func(entry int64) bool { return entry > 0 }) {
		e.problem.Factors = append(e.problem.Factors, factor)
	}
}

// solve returns the label of each node that a solution of the problem determines. If a heuristic solver finds no
// permitted solution, the exact solver solves the problem.
func (e *edgeModel) solve(solver wcsp.Solver) ([]int, error) {
	solution, err := solver.Solve(e.problem, e.model.Problem.options())
	if errors.Is(err, wcsp.ErrNotFound) {
		solution, err = wcsp.Exact.Solve(e.problem, e.model.Problem.options())
	}
	if err != nil {
		return nil, err
	}
	return e.labelsOf(solution.Labels), nil
}

// labelsOf returns the label of each node for a solution of the problem.
func (e *edgeModel) labelsOf(solution []int) []int {
	list := make([]int, len(e.nodes))
	for i, node := range e.nodes {
		switch {
		case node.labels == nil: // a view, or a node that failed
		case node.variable < 0:
			list[i] = node.labels[0]
		default:
			list[i] = node.labels[solution[node.variable]]
		}
	}
	return list
}

// notComputeBound reports whether a node computes no convolution and no matrix product, not even as a part of a fused
// node.
func notComputeBound(n *graph.Node) bool { return n.Op.Flops == nil }
