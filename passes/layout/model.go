package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Model states a [Problem] exactly as a weighted constraint problem: one variable for each value and node with a
// choice, and costs that depend on one or two of them, in picoseconds of one worker.
//
//   - The variable of a value is the set of forms in which the value exists. A form is a layout: a dimension order
//     or, for views, a layout derived from a form of the operand. Forms differ in the addresses of elements; strides of
//     dimensions of size 1 do not count. The first form has the exact strides of the graph as written.
//   - The label of a node that computes is an implementation and a walk (loop order), which determine the forms of its
//     results.
//   - The cost of a label is its Work plus, for each operand, the least cost of reading (Read) an existing form.
//   - The cost of a set of forms is the cost of the cheapest copies that make the set from the form that the node
//     writes. The copies form a tree: each form is copied from one other form.
//   - The result of a view exists for free in each form that is a view of an existing form of the operand. Other forms
//     are copies of these free forms. A reshape that cannot be a view costs one copy, to any order. A copy node in the
//     graph as written is an identity view unless it is pinned. A copy node whose result is an output has its own
//     buffer, but readers of the result may read the operand of the copy node.
//   - An operand of a concatenation may be written directly into the result, in any order of the result, if its
//     producer can write and its readers can read the strided layout. This is another form of the operand. It is
//     compatible only with labels of the concatenation that write this order. If several concatenations read a value,
//     only the last concatenation is considered. If all operands of a concatenation are already adjacent in the result
//     of another concatenation, the inner concatenation copies nothing.
//   - Constants are converted for free, while planning, unless they are pinned.
//   - With a device ([Problem.Device]), a form also has a place. Dense forms of values next to nodes that the device
//     can compute exist in both places. A node reads its operands where it computes; it reads an operand with 0
//     dimensions from the host, too. A transfer is a copy to the same layout in the other place. Inputs and outputs are
//     on the host.
//   - A pinned value always has its pinned form, and all other forms are copies of it. Operands are read in the pinned
//     form if any label of the node can read it.
//   - The set of forms of an output contains the returned form: the layout of the graph as written, or the pinned form.
//
// For example, let a relu be the only reader of the input x, an image in the order (N,C,H,W). The variable of x has two
// labels, the sets {(N,C,H,W)}, which costs nothing, and {(N,H,W,C)}, which costs one copy. The variable of the relu
// has two labels, too: it writes (N,C,H,W) or (N,H,W,C). A cost table of both variables has the four costs of reading.
//
// The model does not consider peak memory or concurrency of steps. For some nodes, inference derives the layouts of
// results from the layouts of operands. In each label of such a node, these operands either all have the form as
// written, or all have the same order.
type Model struct {
	Problem *Problem
	// WCSP is the problem, with costs in picoseconds. Variables with a single label are omitted.
	WCSP *wcsp.Problem
	// Weighted is WCSP with costs that also count copies and their bytes: see [Weights]. It has the same variables, and
	// a factor for each factor of WCSP.
	Weighted *wcsp.Problem
	Weights  Weights // the weights of Weighted; set by NewModel and WithWeights

	planBounds    planBounds               // bounds for weights
	isCopyFactor  []bool                   // by factor: whether it has costs of copies
	variables     graph.ByValue[*variable] // by value
	variableList  []*variable              // in the order of the graph
	computedNodes []*computedNode          // by index of the node; nil for views
	viewNodes     []*viewNode              // by index of the node; nil unless the node is a view
	copyOp        *graph.Op                // the op that copies values; nil if the catalogue has none
	readers       graph.ByValue[[]use]     // by value: its uses as an operand
	nodeIndex     []int                    // by [graph.Node.Number]: index of the node in the graph
	noCopy        formOfValue              // the form of Changed.NoCopy
	otherInput    formOfValue              // the form of Changed.Input
	against       []int                    // labels: WCSP then bounds the regret of their plan, see [Model.Regret]
	deviceWalks   [][]graph.Walk           // by index of the node: its walks on the device
	mayBeOnDevice graph.ByValue[bool]      // by value: whether it may be on the device
	deviceCopies  map[tensor.DType]bool    // by dtype: whether the device has a kernel that copies its elements
	slots         *slots                   // see slots.go; nil until it is needed
	// keepsCopyNodes is whether a copy node of the graph makes a copy that is needed, rather than an inserted one.
	keepsCopyNodes bool
}

// use is a use of a value as an operand: the index of the node in the graph, and the index of the operand.
type use struct{ node, operand int }

// Forms returns the possible layouts of a value. The first is the layout of the graph as written. It returns nil for a
// value of another graph. The caller owns the list.
func (m *Model) Forms(v *graph.Value) []tensor.Meta {
	if m == nil {
		return nil
	}
	variable := m.variables.At(v)
	if variable == nil || variable.value != v {
		return nil
	}
	list := make([]tensor.Meta, len(variable.forms))
	for i, possible := range variable.forms {
		list[i] = possible.meta
	}
	return list
}

// NewModel states a problem. If a node cannot be computed, it returns an error that names the node.
func NewModel(problem *Problem) (*Model, error) { return newModel(problem, nil) }

// newModel states a problem. If wish is not nil, the forms of values include their preferred orders ([Wish]).
func newModel(problem *Problem, wish Wish) (_ *Model, err error) {
	defer interrupt.Catch(&err)
	if problem == nil || problem.Graph == nil {
		return nil, errors.New("the problem is nil")
	}
	g := problem.Graph
	model := &Model{Problem: problem, keepsCopyNodes: wish != nil,
		variables: graph.NewByValue[*variable](g), readers: graph.NewByValue[[]use](g),
		computedNodes: make([]*computedNode, len(g.Nodes)), viewNodes: make([]*viewNode, len(g.Nodes))}
	if model.copyOp, err = g.CopyOp(); err != nil && wish == nil { // preferences may need no copy
		return nil, err
	}
	if err := model.makeVariables(); err != nil {
		return nil, err
	}
	if problem.Device != nil {
		model.findDeviceNodes()
	}
	if err := model.findForms(wish); err != nil {
		return nil, err
	}
	if problem.Device != nil {
		model.addDeviceForms()
	}
	for i, n := range g.Nodes {
		interrupt.Check(problem.Context())
		if err := model.priceNode(i, n); err != nil {
			return nil, err
		}
	}
	model.findFormSets()
	model.findPlanBounds()
	model.Weights = model.lexicographicWeights()
	if err := model.build(); err != nil {
		return nil, err
	}
	return model, nil
}

// priceNode finds and prices the labels of node i or, if it is a view, the copies to the forms of its results.
func (m *Model) priceNode(i int, n *graph.Node) (err error) {
	defer func() { // of a panic of the op
		if panicked := recover(); panicked != nil {
			err = m.Problem.Graph.NodeError(n, panics.Error(panicked))
		}
	}()
	if view := m.viewNodes[i]; view != nil {
		m.priceViewCopies(view)
		return nil
	}
	if err := m.findLabels(i, n); err != nil {
		return m.Problem.Graph.NodeError(n, err)
	}
	m.addSlots(i, n)
	return nil
}

// makeVariables makes the variables of values, with their forms in the graph as written. It also separates views from
// nodes that compute, and sets readers and nodeIndex.
func (m *Model) makeVariables() error {
	g := m.Problem.Graph
	var err error
	g.Values(func(v *graph.Value) {
		if err == nil {
			err = m.makeVariable(v)
		}
	})
	if err != nil {
		return err
	}
	for i, n := range g.Nodes {
		for len(m.nodeIndex) <= n.Number() {
			m.nodeIndex = append(m.nodeIndex, -1)
		}
		m.nodeIndex[n.Number()] = i
		for operand, arg := range n.In {
			if arg.Kind == graph.TensorArg {
				m.readers.Set(arg.Value, append(m.readers.At(arg.Value), use{i, operand}))
			}
		}
		if operand := viewedOperand(n); operand >= 0 {
			m.viewNodes[i] = &viewNode{node: n, operand: operand, identity: m.isIdentityCopy(n),
				resultForm: make([][]int, len(n.Out))}
		} else {
			m.computedNodes[i] = &computedNode{node: n, id: noVariable}
		}
	}
	return nil
}

// makeVariable makes the variable of a value, with its form in the graph as written and its pinned form.
func (m *Model) makeVariable(v *graph.Value) error {
	interrupt.Check(m.Problem.Context())
	created := &variable{value: v, id: noVariable, pin: -1, shared: -1, maxHostForms: maxForms}
	created.addForm(v.Meta)
	created.firstFormMustBeView = m.Problem.readAsStorage[v] && v.Alias != nil
	if pin := v.EffectivePin(); pin.SetsLayout() {
		order, err := pin.OrderFor(v.Meta.Rank())
		if err != nil {
			if v.Node != nil {
				return m.Problem.Graph.NodeError(v.Node, err)
			}
			return fmt.Errorf("%q: %w", v.Name, err)
		}
		created.pin = created.addForm(v.Meta.WithStrides(order.Strides(v.Meta.Shape)))
		created.shared = created.pin
	}
	m.variables.Set(v, created)
	m.variableList = append(m.variableList, created)
	return nil
}

// viewedOperand returns the index of the operand that a node's results view, in the graph as written or in other
// layouts. It returns -1 for a node that computes.
func viewedOperand(n *graph.Node) int {
	if len(n.Out) == 0 || len(n.In) == 0 || n.Op.RunDynamic != nil && n.Op.Kind != graph.View {
		return -1
	}
	for k, arg := range n.In {
		if arg.Kind == graph.TensorArg && arg.Value == n.Out[0].Alias {
			return k // in the graph as written, the results are views
		}
	}
	if n.Pin.SetsLayout() && n.Op.Kind == graph.View { // pinned results are copies in the graph as written
		if results, err := n.Op.Infer(n.Call()); err == nil && len(results) > 0 && results[0].Alias >= 0 {
			return results[0].Alias
		}
	}
	isViewOrCopy := n.Op.Kind == graph.View || n.Op.Identity
	if isViewOrCopy && len(n.Out) == 1 && n.In[0].Kind == graph.TensorArg && n.In[0].Meta().DType == n.Out[0].Meta.DType {
		return 0 // in the graph as written, the result is a copy
	}
	return -1
}

// isIdentityCopy reports whether a node copies its operand without a change of shape or dtype.
func (m *Model) isIdentityCopy(n *graph.Node) bool {
	v := n.Out[0]
	return n.Op.Identity && n.In[0].Kind == graph.TensorArg && len(n.Out) == 1 &&
		n.In[0].Meta().DType == v.Meta.DType && slices.Equal(n.In[0].Value.Meta.Shape, v.Meta.Shape)
}

// isFreeConstant reports whether a value is an unpinned constant, which is converted for free while planning.
func isFreeConstant(v *graph.Value) bool { return v.Const != nil && !v.Pin.SetsLayout() }

// readsConstant reports whether operand k needs no copy because it is a constant: any form of an unpinned constant is
// free, and inference of some ops reads the data of a constant.
func readsConstant(n *graph.Node, k int) bool {
	v := n.In[k].Value
	return isFreeConstant(v) || v.Const != nil && n.Op.RunDynamic != nil
}
