package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// formFinder finds the forms of values: the layouts that the model considers. The first forms are the layouts of the
// graph as written (the layouts before any choice, as in eager PyTorch), row-major order, and the orders that pins,
// outputs and implementations request. From each form of a value, formFinder derives forms of the operands and results
// of the nodes that compute or read the value.
//
// For example, in y = permute(x, [0, 2, 3, 1]) and z = conv(w, y), an implementation of conv requests the channels-last
// order of y. From the new form of y, formFinder derives a form of x: the permutation of this form is the new form of
// y. It also derives a form of each value that a pointwise node computes from y.
//
// Other files define these types:
//
//   - variable: a value with its forms, at most maxForms. Form 0 is the layout of the graph as written, form pin the
//     pinned layout (-1 without a pin). A form is either dense, with an order of dimensions, or has any strides.
//   - viewNode: a node whose results are views of one operand. Model.viewNodes has it by the index of the node, or nil;
//     for other nodes, Model.computedNodes is not nil. inferredForms is the mask of the operand forms for which
//     addViewForms was called.
//   - use: a reader of a value, as the index of the node and the index of the operand (Model.readers).
type formFinder struct {
	model      *Model
	queue      []formOfValue      // forms from which no other forms were derived yet
	propagated []propagatedOrders // by index of the node
}

// propagatedOrders has the orders that were already propagated through one node, so that no order is propagated twice.
// This avoids quadratic work for nodes with many operands.
type propagatedOrders struct {
	fromOperands []tensor.Order // orders propagated from operands to results
	fromResults  []tensor.Order // orders propagated from a result to operands and other results
}

// addNew adds an order to a list and reports whether it is new.
func addNew(list *[]tensor.Order, order tensor.Order) bool {
	if slices.Contains(*list, order) {
		return false
	}
	*list = append(*list, order)
	return true
}

// formOfValue is a form of a variable, by its index.
type formOfValue struct {
	variable *variable
	form     int
}

// findForms finds the forms of all values, and sets their shared forms if wish is not nil.
func (m *Model) findForms(wish Wish) error {
	finder := &formFinder{model: m, propagated: make([]propagatedOrders, len(m.Problem.Graph.Nodes))}
	g := m.Problem.Graph
	// The number of forms is limited, so forms that are certain to exist are added first.
	for _, view := range m.viewNodes {
		if view != nil {
			variable := m.variables.At(view.node.In[view.operand].Value)
			for i := range variable.forms {
				finder.addViewForms(view, variable, i)
			}
		}
	}
	finder.addPinned()
	for _, variable := range m.variableList {
		if wish == nil {
			break
		}
		if err := finder.setShared(variable, wish); err != nil {
			return err
		}
	}

	finder.queue = nil // the next loop queues all forms so far, in the order of the graph
	for _, variable := range m.variableList {
		for i := range variable.forms {
			finder.queue = append(finder.queue, formOfValue{variable, i})
		}
	}
	if err := finder.addPinnedOutputs(); err != nil {
		return err
	}
	for i, n := range g.Nodes {
		if m.computedNodes[i] != nil {
			finder.addRequested(n)
		}
	}
	finder.propagateAll()

	// Row-major order is considered for each value.
	for _, variable := range m.variableList {
		finder.addOrder(variable, tensor.RowMajorOrder(variable.value.Meta.Rank()))
	}
	finder.propagateAll()

	// Channels-last is considered for each image, because strategy ChannelsLast chooses this order.
	for _, variable := range m.variableList {
		if variable.value.Const == nil && m.Problem.Image(variable.value) {
			finder.addOrder(variable, channelsLastOrder(variable.value.Meta.Rank()))
		}
	}
	finder.propagateAll()
	return nil
}

// addPinnedOutputs adds the orders to which outputs are pinned.
func (finder *formFinder) addPinnedOutputs() error {
	g := finder.model.Problem.Graph
	for _, output := range g.Outputs {
		if pin := output.EffectivePin(); pin.SetsLayout() {
			order, err := pin.OrderFor(output.Value.Meta.Rank())
			if err != nil {
				return g.OutputError(output, err)
			}
			variable := finder.model.variables.At(output.Value)
			finder.addOrder(variable, order)
			// The form is missing if the value has maxForms forms already.
			if variable != nil && variable.value.Meta.Numel() > 1 &&
				variable.formOf(variable.value.Meta.WithStrides(order.Strides(variable.value.Meta.Shape))) < 0 {
				return g.OutputError(output, fmt.Errorf("value %q would need more than %d layouts", output.Value.Name, maxForms))
			}
		}
	}
	return nil
}

// addPinned adds the layouts that follow from pins: the layouts that inference derives from pinned inputs, and the
// layouts that pinned nodes write before their results are copied to the pinned layout.
func (finder *formFinder) addPinned() {
	layouts := map[*graph.Value]tensor.Meta{} // layouts that differ from the graph as written
	for _, v := range slices.Concat(finder.model.Problem.Graph.Inputs, finder.model.Problem.Graph.Constants) {
		// A pin to the layout of the graph as written has index 0 and changes nothing.
		if variable := finder.model.variables.At(v); variable.pin > 0 {
			layouts[v] = variable.forms[variable.pin].meta
		}
	}
	for _, n := range finder.model.Problem.Graph.Nodes {
		interrupt.Check(finder.model.Problem.Context())
		call := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
		mayDiffer := n.Pin.SetsLayout() // whether inference may give results other layouts than in the graph as written
		for k, arg := range n.In {
			if meta, operandDiffers := layouts[arg.Value]; operandDiffers {
				call.In[k], mayDiffer = callWith(n, k, meta).In[k], true // operand k in layout meta
			}
		}
		if !mayDiffer || n.Op.ReadsStorage {
			continue
		}
		for k, result := range inferCall(n, call) {
			meta := result.Meta()
			// Form 0 is the layout of the graph as written. The readers of a pinned result read its pinned layout.
			if i := finder.addForm(finder.model.variables.At(n.Out[k]), meta); i > 0 && !n.Pin.SetsLayout() {
				layouts[n.Out[k]] = meta
			}
		}
	}
}

// propagateAll propagates all forms in the queue.
func (finder *formFinder) propagateAll() {
	for len(finder.queue) > 0 {
		interrupt.Check(finder.model.Problem.Context())
		next := finder.queue[len(finder.queue)-1]
		finder.queue = finder.queue[:len(finder.queue)-1]
		finder.propagate(next.variable, next.form)
	}
}

// addForm adds a form on the host and queues it if it is new. It returns the form's index, or -1 if the value has too
// many forms.
func (finder *formFinder) addForm(variable *variable, meta tensor.Meta) int {
	return finder.addFormAt(variable, meta, tensor.Host)
}

// addFormAt is [formFinder.addForm] for any place, host or device.
func (finder *formFinder) addFormAt(variable *variable, meta tensor.Meta, place tensor.Place) int {
	if variable == nil {
		return -1
	}
	formCount := len(variable.forms)
	i := variable.addFormAt(meta, place)
	if len(variable.forms) > formCount {
		finder.queue = append(finder.queue, formOfValue{variable, i})
	}
	return i
}

// addOrder adds the dense form of an order.
func (finder *formFinder) addOrder(variable *variable, order tensor.Order) {
	if variable == nil {
		return
	}
	meta := variable.value.Meta
	if order.Rank() == meta.Rank() && meta.Numel() > 1 && variable.formWithOrder(order) < 0 {
		finder.addForm(variable, meta.WithStrides(order.Strides(meta.Shape)))
	}
}

// addRequested adds the orders that a node's implementations request.
func (finder *formFinder) addRequested(n *graph.Node) {
	if len(n.Op.Impls) == 0 || len(n.Op.Impls) == 1 && !n.Op.Impls[0].MayRejectLayouts() {
		return // a single implementation that reads all layouts requests none
	}
	call := n.Call()
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		if !finder.model.Problem.Permits(n, impl) {
			continue
		}
		for _, walk := range impl.Walks(call, nil) {
			finder.addWalk(n, call, impl, walk)
		}
	}
}

// addWalk adds the orders of the results of a walk (a loop order with layouts of the results). For each operand it adds
// the loop order or, if the implementation cannot read this order, row-major order.
func (finder *formFinder) addWalk(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) {
	for k, order := range walk.ResultOrders {
		if k < len(n.Out) && order != "" {
			finder.addOrder(finder.model.variables.At(n.Out[k]), order)
		}
	}
	readWork := impl.OperandWorkFunc(call, walk)
	for k, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		variable, meta := finder.model.variables.At(arg.Value), arg.Meta()
		for _, order := range []tensor.Order{walk.LoopOrder, tensor.RowMajorOrder(meta.Rank())} {
			if order.Rank() != meta.Rank() || order == "" {
				continue
			}
			if _, ok := readWork(k, meta.WithStrides(order.Strides(meta.Shape))); ok {
				finder.addOrder(variable, order)
				break
			}
		}
	}
}

// propagate derives forms of other values from one form of a value.
func (finder *formFinder) propagate(variable *variable, formIndex int) {
	form := variable.forms[formIndex]
	if n := variable.value.Node; n != nil {
		finder.addOperandForms(n, variable, form)
	}
	// The results of the nodes that read the value.
	strideOrder := form.order // dimensions by decreasing stride
	if !form.dense {
		strideOrder, _ = tensor.OrderOf(form.meta)
	}
	for _, operandUse := range finder.model.readers.At(variable.value) {
		n := finder.model.Problem.Graph.Nodes[operandUse.node]
		if view := finder.model.viewNodes[operandUse.node]; view != nil {
			if view.operand == operandUse.operand {
				finder.addViewForms(view, variable, formIndex)
			}
			continue
		}
		if !followsOperands(n) {
			continue
		}
		if hasExpandedDims(form.meta) {
			finder.addInferred(n, operandUse.operand, form.meta)
			continue
		}
		isPropagated := form.dense || formIndex > 0 // false for a layout as written that is not dense
		if isPropagated && addNew(&finder.propagated[operandUse.node].fromOperands, strideOrder) {
			for _, result := range n.Out {
				if result.Meta.Rank() == variable.value.Meta.Rank() {
					finder.addOrder(finder.model.variables.At(result), strideOrder)
				}
			}
		}
	}
}

// hasExpandedDims reports whether a layout has expanded dimensions (stride 0), so that its strides define no order.
func hasExpandedDims(meta tensor.Meta) bool {
	for dim, size := range meta.Shape {
		if size > 1 && meta.Strides[dim] == 0 {
			return true
		}
	}
	return false
}

// addInferred adds the orders that inference gives a node's results if the given operand has layout meta. All other
// operands have the layouts of the graph as written.
func (finder *formFinder) addInferred(n *graph.Node, operand int, meta tensor.Meta) {
	for k, result := range inferWith(n, operand, meta) {
		if order, dense := tensor.OrderOf(result.Meta()); dense && result.Alias == graph.NoAlias {
			finder.addOrder(finder.model.variables.At(n.Out[k]), order)
		}
	}
}

// followsOperands reports whether a node writes its results in the order of its operands, for any order.
func followsOperands(n *graph.Node) bool {
	return n.Op.Kind == graph.FollowsOperands || n.Op.WritesAnyDenseLayout || n.Op.ImageRole == graph.ImagePreserving
}

// addOperandForms adds the forms of a node's operands from which the node makes the given form of a result.
func (finder *formFinder) addOperandForms(n *graph.Node, result *variable, resultForm form) {
	nodeIndex := finder.model.nodeIndex[n.Number()]
	if view := finder.model.viewNodes[nodeIndex]; view != nil {
		operand := finder.model.variables.At(n.In[view.operand].Value)
		if meta, ok := view.operandLayoutFor(result, resultForm); ok && operand != nil && operand.value.Const == nil {
			finder.addForm(operand, meta)
		}
		return
	}
	if !resultForm.dense || !followsOperands(n) {
		return
	}
	if !addNew(&finder.propagated[nodeIndex].fromResults, resultForm.order) {
		return
	}
	for _, arg := range n.In {
		if arg.Kind == graph.TensorArg && arg.Value.Const == nil && arg.Value.Meta.Rank() == resultForm.meta.Rank() {
			finder.addOrder(finder.model.variables.At(arg.Value), resultForm.order)
		}
	}
	for _, v := range n.Out {
		if v != result.value && v.Meta.Rank() == resultForm.meta.Rank() {
			finder.addOrder(finder.model.variables.At(v), resultForm.order)
		}
	}
}

// addViewForms records the forms of a view's results for one form of the operand, and adds forms that are new.
// view.resultForm[k][i] is the form of result k that is a view of form i of the operand, or -1 if there is no view.
func (finder *formFinder) addViewForms(view *viewNode, operand *variable, operandForm int) {
	if hasForm(view.inferredForms, operandForm) { // already recorded
		return
	}
	view.inferredForms |= 1 << operandForm
	var metas []tensor.Meta
	if operandForm == 0 || !view.node.Op.ReadsStorage { // such an op needs the storage of the graph as written
		metas = view.results(operand.forms[operandForm].meta)
	}
	for k, out := range view.node.Out {
		for len(view.resultForm[k]) <= operandForm {
			view.resultForm[k] = append(view.resultForm[k], -1)
		}
		if metas == nil {
			continue
		}
		result := finder.model.variables.At(out)
		formCount := len(result.forms)
		resultForm := finder.addFormAt(result, metas[k], operand.forms[operandForm].place)
		isNew := resultForm == formCount
		// If a form is inside another value's buffer, its views are inside that buffer, too. ownBufferForm is the form
		// of the same order that has its own buffer.
		if ownBufferForm := operand.forms[operandForm].ownBufferForm; isNew && ownBufferForm >= 0 {
			result.forms[resultForm].ownBufferForm = view.resultForm[k][ownBufferForm]
		}
		view.resultForm[k][operandForm] = resultForm
	}
}

// markInside sets insideBuffer of a view's results: the mask of the forms that may begin inside a buffer, not at its
// start. If an op reads the storage of a result, markInside also removes the views in form 0 that would change this
// storage. A result that is a view in the graph as written may only be a view of form 0 of the operand. A result with
// its own buffer in the graph as written may only be a view that begins at the start of a buffer.
func (m *Model) markInside(view *viewNode, operand *variable) {
	if len(m.Problem.readAsStorage) == 0 {
		return
	}
	inferred := make([][]tensor.Meta, len(operand.forms)) // by form; nil until needed
	metas := func(operandForm int) []tensor.Meta {
		if inferred[operandForm] == nil {
			inferred[operandForm] = view.results(operand.forms[operandForm].meta)
		}
		return inferred[operandForm]
	}
	for resultIndex, out := range view.node.Out {
		result, isReadAsStorage := m.variables.At(out), m.Problem.readAsStorage[out]
		for operandForm, resultForm := range view.resultForm[resultIndex] {
			if view.viewOfForm(resultIndex, operandForm) < 0 {
				continue
			}
			isInside := m.isInsideBuffer(operand, operandForm) || metas(operandForm)[resultIndex].Offset != 0
			changesStorage := isInside              // for a result with its own buffer in the graph as written
			if isView := out.Alias != nil; isView { // form 0 of the operand gives the view of the graph as written
				changesStorage = operandForm > 0
			}
			if resultForm == 0 && isReadAsStorage && changesStorage {
				view.resultForm[resultIndex][operandForm] = -1
			} else if isInside {
				result.insideBuffer |= 1 << resultForm
			}
		}
	}
}

// isInsideBuffer reports whether the first element of form i of a variable may not be at the start of its buffer.
func (m *Model) isInsideBuffer(variable *variable, i int) bool {
	form := &variable.forms[i]
	// A slot is the position of a value in the result of a concatenation.
	return hasForm(variable.insideBuffer, i) || form.slot != nil || variable.value.Node == nil && form.meta.Offset != 0
}

// results returns the layouts of a view's results for a layout of the operand, or nil if the operand must be copied.
func (view *viewNode) results(meta tensor.Meta) []tensor.Meta {
	if view.identity { // a copy node, which can be omitted: its result is then the operand
		return []tensor.Meta{meta}
	}
	results := inferWith(view.node, view.operand, meta)
	if results == nil {
		return nil
	}
	list := make([]tensor.Meta, len(results))
	for k, result := range results {
		if result.Alias != view.operand {
			return nil
		}
		list[k] = result.Meta()
	}
	return list
}

// inferCall returns the results that inference gives a call of a node, or nil if inference fails.
func inferCall(n *graph.Node, call *graph.Call) []graph.Result {
	results, err := n.Op.Infer(call)
	if err != nil || len(results) != len(n.Out) {
		return nil
	}
	return results
}

// inferWith is inferCall for one operand with another layout.
func inferWith(n *graph.Node, operand int, meta tensor.Meta) []graph.Result {
	return inferCall(n, callWith(n, operand, meta))
}

// callWith returns a node's call in which one operand has another layout.
func callWith(n *graph.Node, operand int, meta tensor.Meta) *graph.Call {
	call := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	if v := n.In[operand].Value; !v.Meta.SameLayout(meta) || v.Meta.Offset != meta.Offset {
		call.In[operand] = graph.ArgOf(&graph.Value{Name: v.Name, Node: v.Node, Index: v.Index, Meta: meta,
			Type: meta.Type()})
	}
	return call
}

// operandLayoutFor returns a layout of the operand with which the view's result has the given form. It returns false if
// it finds none.
func (view *viewNode) operandLayoutFor(result *variable, form form) (tensor.Meta, bool) {
	operand := view.node.In[view.operand].Meta()
	if !form.dense || operand.Numel() < 2 {
		return operand, false
	}
	n := view.node
	switch {
	case view.identity:
		return operand.WithStrides(form.meta.Strides), true
	case n.Op.Permutes != nil: // dimension i of the result is dimension dim of the operand
		strides := make([]int, operand.Rank())
		for i, dim := range n.Op.Permutes(n.Call()) {
			strides[dim] = form.meta.Strides[i]
		}
		return operand.WithStrides(strides), true
	case operand.Numel() == form.meta.Numel() && !slices.Equal(operand.Shape, form.meta.Shape): // a reshape
		meta, err := form.meta.View(operand.Shape)
		if err != nil || !meta.IsNonOverlappingAndDense() {
			return operand, false
		}
		results := view.results(meta)
		return meta, results != nil && results[result.value.Index].SameAddresses(form.meta)
	case operand.Rank() == form.meta.Rank(): // the result is a slice of the operand, or the whole operand
		return operand.WithStrides(form.order.Strides(operand.Shape)), true
	}
	return operand, false
}
