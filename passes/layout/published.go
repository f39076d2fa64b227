package layout

import (
	"cmp"
	"errors"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Published returns the strategies that reproduce the layout decisions of published optimizers. They exist for
// comparisons: command compare measures them only on request.
func Published() []Strategy { return []Strategy{NeoCPU, PBQP, OneDNN, Inductor, SmartMem} }

// NeoCPU chooses implementations by the method of Yizhi Liu, Yao Wang, Ruofei Yu, Mu Li, Vin Sharma and Yida Wang,
// "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019 (arXiv 1809.02697). The graph tuner of TVM implements
// this paper. The search chooses the implementations of convolutions and matrix products. All other nodes keep the
// layout of their first operand; other operands are converted to this layout. The cost of a plan is the time of the
// convolutions and products, and of the conversions on each edge. Dynamic programming over the graph in topological
// order finds the minimum. A table has one dimension for each visited node with unvisited readers. If the tables become
// too large, the solver of [PBQP] is used instead.
//
// The search counts a copy for each reader. In the resulting plan readers share copies, and [Model] gives its cost.
// Deviations: layouts are dense orders, not NCHW[x]c, so there is no choice of block sizes. The paper searches
// convolutions only, and considers for each convolution the candidates that were fastest in a separate search; here all
// implementations are candidates. Costs are predicted by the profile instead of measured. The paper limits the time of
// dynamic programming; here, as in TVM's tuner, the size of the tables is limited.
var NeoCPU Strategy = &perNode{name: "neocpu",
	doc: "chooses implementations of convolutions and products by dynamic programming that charges a copy to each " +
		"reader; other nodes follow their first operand, as in NeoCPU, ATC 2019",
	labels: func(m *Model) ([]int, error) {
		// In the edge model, each edge (one use of a value by a reader) has the cost of its copies. The label of a node
		// is its implementation and loop order. A node that is not compute-bound has no variable of its own: the
		// variable of its first operand determines its label.
		edges := newEdgeModel(m, notComputeBound)
		list, err := edges.solve(wcsp.InOrder(edges.lastReaderOrder()))
		if errors.Is(err, wcsp.ErrTooLarge) {
			return edges.solve(wcsp.PBQP)
		}
		return list, err
	}}

// lastReaderOrder returns an order of elimination: the variables, sorted by the greatest variable with which they share
// a factor. A factor is a table of costs over the labels of the variables in its Scope. Variables are numbered in
// topological order, so the greatest variable belongs to the last reader.
func (e *edgeModel) lastReaderOrder() []int {
	lastNeighbour, order := make([]int, len(e.problem.Variables)), make([]int, len(e.problem.Variables))
	for v := range lastNeighbour {
		lastNeighbour[v], order[v] = v, v
	}
	for _, f := range e.problem.Factors {
		for _, v := range f.Scope {
			lastNeighbour[v] = max(lastNeighbour[v], slices.Max(f.Scope))
		}
	}
	sorted.Func(order, func(a, b int) int { return cmp.Compare(lastNeighbour[a], lastNeighbour[b]) })
	return order
}

// PBQP chooses implementations by the method of Andrew Anderson and David Gregg, "Optimal DNN Primitive Selection with
// Partitioned Boolean Quadratic Programming", CGO 2018 (arXiv 1710.01079). Each layer is a node with the costs of its
// implementations. Each edge has a matrix of conversion costs: for each pair of layouts of its ends, the cost of the
// cheapest chain of conversions. The solver is by Hames and Scholz: reductions R0, RI and RII are exact; reduction RN,
// for nodes with three or more neighbours, is heuristic. See [wcsp.PBQP].
//
// As published, the method prices a conversion for each edge. In the resulting plan, readers share copies, and
// [Model] computes the cost of the plan. The choice may therefore differ from the optimum even without RN.
// Deviations: layouts are dense orders, not blocked formats. Costs are predicted by the profile instead of measured for
// each layer. All nodes are priced and have implementations to choose from. In the paper only convolutions have
// implementations; the other layers accept several layouts at no cost. If the heuristic ends in a forbidden
// combination, which cannot occur in the paper, the same problem is solved exactly.
var PBQP Strategy = &perNode{name: "pbqp",
	doc: "solves a partitioned Boolean quadratic problem with a copy for each reader, by exact reductions and the " +
		"heuristic RN, as in Anderson and Gregg, CGO 2018",
	labels: func(m *Model) ([]int, error) { return newEdgeModel(m, nil).solve(wcsp.PBQP) }} // one variable per node

// OneDNN propagates layouts like oneDNN (Intel, "Memory Format Propagation", oneDNN Developer Guide and Reference; pass
// layout_propagation of oneDNN Graph). A compute-bound node, such as a convolution or a product, is created with format
// "any" for its operands. It takes its fastest implementation, and operands in other layouts are reordered before the
// node. Every other node takes the layout in which its first operand is written; its other operands are reordered to
// this layout. Graph outputs keep their original layouts.
//
// Readers share the copies of the plan, while oneDNN Graph inserts a reorder for each reader. Deviations: layouts are
// dense orders, not blocked formats. Layouts propagate forwards only, in one pass in topological order; the pass of
// oneDNN Graph propagates in both directions, and repeats until no layout is "any", at most 9 times. The fastest
// implementation is the cheapest by the profile, while oneDNN has an order of preference in its code.
var OneDNN Strategy = &perNode{name: "onednn",
	doc: "takes the fastest implementation of convolutions and products, and copies their operands; other nodes follow " +
		"their first operand, as oneDNN propagates format \"any\"",
	labels: func(m *Model) ([]int, error) {
		// As for NeoCPU, each edge has costs, and a node that is not compute-bound is a follower: it has no variable of
		// its own, and the variable of its first operand determines its label.
		edges := newEdgeModel(m, notComputeBound)
		fastest, err := favouriteLabels(m)
		if err != nil {
			return nil, err
		}
		solution := make([]int, len(edges.labelCounts)) // by variable: its label
		for i, n := range edges.nodes {
			if n.labels != nil && !n.isFollower {
				solution[n.variable] = slices.Index(n.labels, fastest[i])
			}
		}
		return edges.labelsOf(solution), nil
	}}

// This part states the layout problem as published optimizers do: variables are nodes, and each edge from a node to a
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

// SmartMem chooses layouts by classes of operators: Wei Niu, Md Musfiqur Rahman Sanim, Zhihao Shu, Jiexiong Guan,
// Xipeng Shen, Miao Yin, Gagan Agrawal and Bin Ren, "SmartMem: Layout Transformation Elimination and Adaptation for
// Efficient DNN Execution on Mobile", ASPLOS 2024 (arXiv 2404.13528). Two properties of an operator determine its
// class: whether its speed depends on the layout of the input, and whether the layout of its output is variable or
// fixed.
//
//   - Dependent and variable (convolution, product, normalization): each operand gets the layout that suits the node.
//   - Independent and variable (element-wise, concatenation): the result and the operands get the layout that the
//     readers of the result want.
//   - Fixed (reshape, transpose, slice): the operator is eliminated; its readers read its operand and choose the layout
//     of the operand.
//
// Each producer writes one layout, which a local rule selects from the layouts that its readers want (their wishes).
// Readers that want another layout read copies. The pass runs backwards. In this implementation, the selected layout is
// the layout that the most readers want, and on a tie the layout that the first reader wants.
//
// Deviations from the paper:
//
//   - The layout that suits a node is the layout of its cheapest implementation by the profile. In the paper, the
//     reduced dimensions become contiguous.
//   - Both classes of fixed operators are eliminated alike.
//   - Memory has one dimension. The paper's texture memory has 2.5 dimensions, so that one layout can satisfy two
//     wishes.
//   - An operator is eliminated as a view, and copied if strides cannot express its result. The paper computes indices
//     instead.
//   - A dependent node writes a wanted layout only if this costs at most as much as a copy. In the paper it writes any
//     layout.
//   - A graph output with a prescribed layout counts as a reader.
var SmartMem Strategy = &perNode{name: "smartmem",
	doc: "visits nodes backwards; convolutions, products and normalizations want the layouts that suit them, other " +
		"nodes those that their readers want, as in SmartMem, ASPLOS 2024",
	labels: smartMemLabels}

// smartMemLabels returns the labels (implementations and walks) of strategy SmartMem, by index of the node. The field
// resultForms of a label has the form (layout) of each result, and readCosts the cost of reading each operand, by form.
func smartMemLabels(m *Model) ([]int, error) {
	g := m.Problem.Graph
	labels, wishes := make([]int, len(g.Nodes)), wishList{graph.NewByValue[[]int](g)}
	for _, output := range g.Outputs {
		wishes.add(output.Value, m.outputForm(m.variables.At(output.Value), output))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		interrupt.Check(g.Context())
		switch view := m.viewNodes[i]; {
		case view != nil:
			wishes.passWishesToOperand(view)
		// The speed depends on the layouts of operands. An op that only selects elements counts as independent.
		case isLayoutSensitive(g.Nodes[i]) && !g.Nodes[i].Op.SelectsElements:
			labels[i] = wishes.dependentLabel(m, m.computedNodes[i])
		default:
			labels[i] = wishes.independentLabel(m, m.computedNodes[i])
		}
	}
	return labels, nil
}

// wishList has, by value, one wanted form (layout) for each reader, the last reader first.
type wishList struct{ forms graph.ByValue[[]int] }

// add adds the wish of a reader.
func (w wishList) add(v *graph.Value, form int) { w.forms.Set(v, append(w.forms.At(v), form)) }

// mostWanted returns the form that most readers want and, on a tie, the form of the first such reader. It returns -1 if
// no reader wants a form.
func (w wishList) mostWanted(v *graph.Value) int {
	best, mostReaders := -1, 0
	readerCounts := map[int]int{}
	list := w.forms.At(v)
	for _, f := range list {
		readerCounts[f]++
	}
	for _, f := range list {
		if readerCounts[f] >= mostReaders { // on a tie the later form, because the first reader is last in the list
			best, mostReaders = f, readerCounts[f]
		}
	}
	return best
}

// passWishesToOperand adds the wishes for the results of a view to the wishes for its operand.
func (w wishList) passWishesToOperand(view *viewNode) {
	for k, out := range view.node.Out {
		wanted := w.mostWanted(out)
		if wanted < 0 {
			continue
		}
		if from := view.viewSource(k, wanted, view.allowed, 0); from >= 0 { // 0: no form of the operand has priority
			w.add(view.node.In[view.operand].Value, from)
		}
	}
}

// dependentLabel returns the label of a node whose speed depends on the layouts of its operands, and adds the wishes
// for the operands. Normally this is the cheapest label. But if that label does not write the wanted form, there may be
// other labels that read the same forms and write the wanted form. dependentLabel returns the cheapest of these other
// labels if its additional cost is at most the cost of a copy.
func (w wishList) dependentLabel(m *Model, computed *computedNode) int {
	best := computed.cheapest(nil)
	cheapest := &computed.labels[best]
	w.addOperands(m, computed, best)
	wanted := w.wantedResult(computed)
	if wanted < 0 || cheapest.resultForms[0] == wanted {
		return best
	}
	result := m.variables.At(computed.node.Out[0])
	reads := m.preferredForms(computed, cheapest)
	other := computed.cheapest(func(candidate *label) bool {
		return candidate.resultForms[0] == wanted && slices.Equal(m.preferredForms(computed, candidate), reads)
	})
	copyCost := m.copyCostMatrix(result)[cheapest.resultForms[0]*len(result.forms)+wanted]
	if other >= 0 && computed.labels[other].costAtPreferred() <= cheapest.costAtPreferred()+copyCost {
		return other
	}
	return best
}

// independentLabel returns the label of a node whose speed does not depend on layouts: the cheapest label that writes
// the wanted form. It adds the wishes for the operands only if a reader of the result wants a form.
func (w wishList) independentLabel(m *Model, computed *computedNode) int {
	wanted := w.wantedResult(computed)
	if wanted >= 0 {
		writesWanted := func(l *label) bool { return l.resultForms[0] == wanted }
		if chosen := computed.cheapest(writesWanted); chosen >= 0 {
			w.addOperands(m, computed, chosen)
			return chosen
		}
	}
	return computed.cheapest(nil)
}

// wantedResult returns the wanted form of the first result, or -1 if no form is wanted.
func (w wishList) wantedResult(computed *computedNode) int {
	if len(computed.node.Out) == 0 {
		return -1
	}
	return w.mostWanted(computed.node.Out[0])
}

// addOperands adds a wish for each operand for which the chosen label prefers a form.
func (w wishList) addOperands(m *Model, computed *computedNode, chosen int) {
	for k, f := range m.preferredForms(computed, &computed.labels[chosen]) {
		if f >= 0 {
			w.add(computed.node.In[k].Value, f)
		}
	}
}

// preferredForms returns, by operand, the form that label l reads at the least cost. The form is -1 for a constant. It
// is also -1 if there are several forms, and all forms with their own buffers cost the same.
func (m *Model) preferredForms(computed *computedNode, l *label) []int {
	forms := make([]int, len(l.readCosts))
	for k, costs := range l.readCosts {
		forms[k] = -1
		if costs == nil {
			continue
		}
		operand := m.variables.At(computed.node.In[k].Value)
		cheapest := slices.Index(costs, l.leastReadCost(k))
		isPreferred := len(costs) == 1
		for f, cost := range costs {
			hasOwnBuffer := operand.forms[f].ownBufferForm < 0 // else it is the index of another form
			isPreferred = isPreferred || hasOwnBuffer && cost != costs[cheapest]
		}
		if isPreferred {
			forms[k] = cheapest
		}
	}
	return forms
}
