package layout

import (
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file states the layout problem as published optimizers do: variables are nodes, and each edge from a node to a
// reader has the cost of the copies for this reader. In a [Model], by contrast, the readers of a value share copies.

// edgeModel is a layout problem with costs for each edge. Its labels are the labels of a [Model].
type edgeModel struct {
	model   *Model
	problem *wcsp.Problem
	sizes   []int                 // by variable: number of labels
	sources graph.ByValue[source] // by value
	nodes   []edgeNode            // by index of the node
}

// edgeNode is a node and the variable that determines its label.
type edgeNode struct {
	variable int   // index in edgeModel.problem; -1 if the node has only the label labels[0]
	labels   []int // by label of the variable: the node's label in the Model
	follows  bool  // whether the variable belongs to another node
}

// source has the costs of making each form (layout) of a value. The costs depend on the label of one variable.
type source struct {
	variable int       // index in edgeModel.problem; -1 if there is one row
	rows     [][]int64 // by label of the variable and form of the value: cost of making the form
}

// newEdgeModel states the problem. A node for which follows returns true has no variable of its own: its label is the
// label that reads its first operand at the least cost, including copies of this operand but without the cost of work.
// If follows is nil, each node has a variable.
func newEdgeModel(m *Model, follows func(*graph.Node) bool) *edgeModel {
	g := m.Problem.Graph
	e := &edgeModel{model: m, problem: &wcsp.Problem{Version: wcsp.Version}, sources: graph.NewByValue[source](g),
		nodes: make([]edgeNode, len(g.Nodes))}
	for _, v := range g.Constants {
		x := m.variables.At(v)
		if row := make([]int64, len(x.forms)); freeConstant(v) {
			e.sources.Set(v, source{-1, [][]int64{row}})
		}
	}
	for x := range m.inputVariables() {
		e.sources.Set(x.value, source{-1, [][]int64{e.costsFromWritten(x, m.inputForm(x))}})
	}
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		switch view := m.viewNodes[i]; {
		case m.isLost(i):
		case view != nil:
			e.addView(view)
		case follows != nil && follows(n) && firstRead(m.computedNodes[i]) >= 0:
			e.addFollower(i, m.computedNodes[i])
		default:
			e.addDecided(i, m.computedNodes[i])
		}
	}
	for _, output := range g.Outputs {
		x := m.variables.At(output.Value)
		if s := e.sources.At(output.Value); s.rows != nil {
			form := m.outputForm(x, output)
			e.addFactor(s.variable, -1, func(i, _ int) int64 { return s.rows[i][form] })
		}
	}
	return e
}

// notComputeBound reports whether a node is neither a convolution nor a matrix product, nor fused with either.
func notComputeBound(n *graph.Node) bool { return n.Op.Flops == nil }

// firstRead returns the index of the first operand that is not a constant, or -1 if all operands are constants.
func firstRead(computed *computedNode) int {
	return slices.IndexFunc(computed.labels[0].readCosts, func(costs []int64) bool { return costs != nil })
}

// costsFromWritten returns, by form, the cost of making the form if the value is written in form f.
func (e *edgeModel) costsFromWritten(x *variable, f int) []int64 {
	row := slices.Repeat([]int64{wcsp.Forbidden}, len(x.forms))
	row[f] = 0
	return e.withPinnedCopyChains(x, row)
}

// withPinnedCopyChains is withCopyChains with the constraint that, if the value is pinned, each chain contains the
// pinned form.
func (e *edgeModel) withPinnedCopyChains(x *variable, row []int64) []int64 {
	if x.pin < 0 {
		return e.withCopyChains(x, row)
	}
	pinned := slices.Repeat([]int64{wcsp.Forbidden}, len(row))
	pinned[x.pin] = e.withCopyChains(x, row)[x.pin]
	return e.withCopyChains(x, pinned)
}

// withCopyChains replaces the cost of each form by that of the cheapest chain of copies that ends in the form
// (Bellman-Ford).
func (e *edgeModel) withCopyChains(x *variable, row []int64) []int64 {
	k := len(row)
	if k == 1 {
		return row
	}
	copies := e.model.copyCostMatrix(x)
	for changed := true; changed; {
		changed = false
		for from, c := range row {
			for to := range row {
				if s := min(c+copies[from*k+to], wcsp.Forbidden); s < row[to] {
					row[to], changed = s, true
				}
			}
		}
	}
	return row
}

// addView sets the sources of a view's results. A view node has no label.
func (e *edgeModel) addView(view *viewNode) {
	in := e.sources.At(view.node.In[view.operand].Value)
	for k, out := range view.node.Out {
		y := e.model.variables.At(out)
		s := source{variable: in.variable}
		for _, costs := range in.rows {
			row := slices.Repeat([]int64{wcsp.Forbidden}, len(y.forms))
			for i, c := range costs {
				if view.allowed>>i&1 == 0 {
					continue
				}
				if i < len(view.resultForm[k]) {
					if to := view.viewedForm(k, i); to >= 0 {
						row[to] = min(row[to], c)
					}
				}
				for to, copied := range e.model.operandCopies(view, k, 1<<i) {
					row[to] = min(row[to], c+copied.ps)
				}
			}
			s.rows = append(s.rows, e.withPinnedCopyChains(y, row))
		}
		e.sources.Set(out, s)
	}
}

// readFrom returns the least cost of making and reading operand k. row has, by form, the cost of making the operand.
func (l *label) readFrom(k int, row []int64) int64 {
	best := wcsp.Forbidden
	for f, c := range l.readCosts[k] {
		best = min(best, c+row[f])
	}
	return best
}

// addDecided adds a node with its own variable. It omits labels that write directly into a concatenation's result: pass
// place does this later, for all strategies.
func (e *edgeModel) addDecided(i int, computed *computedNode) {
	var labels []int
	for k := range computed.labels {
		if computed.labels[k].concatName == "" {
			labels = append(labels, k)
		}
	}
	v := len(e.problem.Variables)
	x := wcsp.Variable{Name: computed.node.Name}
	for _, l := range labels {
		x.Labels = append(x.Labels, computed.labels[l].text())
	}
	e.problem.Variables = append(e.problem.Variables, x)
	e.sizes = append(e.sizes, len(labels))
	e.nodes[i] = edgeNode{variable: v, labels: labels}
	e.addFactor(v, -1, func(k, _ int) int64 { return computed.labels[labels[k]].cost })
	e.addReads(i, computed, -1)
}

// addReads adds the costs of the operands of node i, except operand `excluded`, and sets the sources of its results.
func (e *edgeModel) addReads(i int, computed *computedNode, excluded int) {
	n := e.nodes[i]
	for k, a := range computed.node.In {
		if computed.labels[0].readCosts[k] == nil || k == excluded {
			continue
		}
		s := e.sources.At(a.Value)
		e.addFactor(n.variable, s.variable, func(j, from int) int64 {
			return computed.labels[n.labels[j]].readFrom(k, s.rows[from])
		})
	}
	for k, out := range computed.node.Out {
		s := source{variable: n.variable}
		for _, l := range n.labels {
			s.rows = append(s.rows, e.costsFromWritten(e.model.variables.At(out), computed.labels[l].resultForms[k]))
		}
		e.sources.Set(out, s)
	}
}

// addFollower adds a node that follows its first operand.
func (e *edgeModel) addFollower(i int, computed *computedNode) {
	first := firstRead(computed)
	s := e.sources.At(computed.node.In[first].Value)
	n := edgeNode{variable: s.variable, follows: true}
	var costs []int64
	for _, row := range s.rows {
		l, cost := computed.followingLabel(first, row)
		n.labels, costs = append(n.labels, l), append(costs, cost)
	}
	e.nodes[i] = n
	e.addFactor(n.variable, -1, func(j, _ int) int64 { return costs[j] })
	e.addReads(i, computed, first)
}

// followingLabel returns the label that reads operand k at the least cost, and this cost. row has, by form, the cost of
// making the operand. Of labels with equal read costs, it returns the label that costs least if all operands have their
// preferred forms.
func (computed *computedNode) followingLabel(k int, row []int64) (chosen int, cost int64) {
	cost = wcsp.Forbidden
	var work int64
	for i := range computed.labels {
		l := &computed.labels[i]
		if l.concatName != "" {
			continue
		}
		if c, w := l.readFrom(k, row), l.costAtPreferred(); c < cost || c == cost && c < wcsp.Forbidden && w < work {
			chosen, cost, work = i, c, w
		}
	}
	return chosen, cost
}

// addFactor adds costs that depend on the labels of two variables. Index -1 means no variable, that is, label 0.
func (e *edgeModel) addFactor(variableA, variableB int, cost func(i, j int) int64) {
	size := func(v int) int {
		if v < 0 {
			return 1
		}
		return e.sizes[v]
	}
	f := wcsp.Factor{Scope: []int{}}
	for _, v := range []int{variableA, variableB} {
		if v >= 0 && !slices.Contains(f.Scope, v) {
			f.Scope = append(f.Scope, v)
		}
	}
	for i := range size(variableA) {
		if variableA == variableB && variableA >= 0 { // both ends of the edge depend on the same variable
			f.Costs = append(f.Costs, cost(i, i))
			continue
		}
		for j := range size(variableB) {
			f.Costs = append(f.Costs, cost(i, j))
		}
	}
	if slices.ContainsFunc(f.Costs, func(c int64) bool { return c > 0 }) {
		e.problem.Factors = append(e.problem.Factors, f)
	}
}

// chosen returns the label of each node for a solution of the problem.
func (e *edgeModel) chosen(solution []int) []int {
	list := make([]int, len(e.nodes))
	for i, n := range e.nodes {
		switch {
		case n.labels == nil:
		case n.variable < 0:
			list[i] = n.labels[0]
		default:
			list[i] = n.labels[solution[n.variable]]
		}
	}
	return list
}

// solve returns the label of each node that a solution of the problem determines. If a heuristic solver finds no
// permitted solution, the exact solver solves the problem.
func (e *edgeModel) solve(s wcsp.Solver) ([]int, error) {
	sol, err := s.Solve(e.problem, e.model.Problem.options())
	if errors.Is(err, wcsp.ErrNotFound) {
		sol, err = wcsp.Exact.Solve(e.problem, e.model.Problem.options())
	}
	if err != nil {
		return nil, err
	}
	return e.chosen(sol.Labels), nil
}
