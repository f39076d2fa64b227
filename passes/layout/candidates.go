package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/tensor"
)

// formFinder finds the forms of values, that is, the layouts that the model considers. The first forms are the layouts
// of the graph as written, row-major order, and the orders that pins, outputs and implementations request. From each
// form, formFinder derives forms of the operands and results of the nodes next to the value.
type formFinder struct {
	model        *Model
	queue        []addedForm    // forms from which no other forms were derived yet
	spreadByNode []spreadOrders // by index of the node
}

// spreadOrders has the orders that were already propagated through one node. It avoids quadratic work for nodes with
// many operands.
type spreadOrders struct {
	results []tensor.Order // orders propagated from operands to results
	all     []tensor.Order // orders propagated from a result to operands and other results
}

// addNew adds an order to a list and reports whether it is new.
func addNew(list *[]tensor.Order, order tensor.Order) bool {
	if slices.Contains(*list, order) {
		return false
	}
	*list = append(*list, order)
	return true
}

// addedForm is a form of variable x in the queue.
type addedForm struct {
	variable *variable
	form     int
}

// findForms finds the forms of all values.
func (m *Model) findForms() error {
	finder := &formFinder{model: m, spreadByNode: make([]spreadOrders, len(m.Problem.Graph.Nodes))}
	g := m.Problem.Graph
	// forms that certainly exist are added first, because the number of forms is limited
	for _, view := range m.viewNodes {
		if view != nil {
			x := m.variables.At(view.node.In[view.operand].Value)
			for i := range x.forms {
				finder.addViewForms(view, x, i)
			}
		}
	}
	finder.addPinned()
	finder.queue = nil
	for _, x := range m.variableList {
		for i := range x.forms {
			finder.queue = append(finder.queue, addedForm{x, i})
		}
	}
	for _, output := range g.Outputs {
		if pin := output.Demand(); pin.SetsLayout() {
			order, err := pin.For(output.Value.Meta.Rank())
			if err != nil {
				return g.FailOutput(output, err)
			}
			x := m.variables.At(output.Value)
			finder.addOrder(x, order)
			if x != nil && x.value.Meta.Numel() > 1 &&
				x.formOf(x.value.Meta.WithStrides(order.Strides(x.value.Meta.Shape))) < 0 {
				return g.FailOutput(output, fmt.Errorf("%q needs more than %d layouts", output.Value.Name, maxForms))
			}
		}
	}
	for i, n := range g.Nodes {
		if m.computedNodes[i] != nil {
			finder.addRequested(n)
		}
	}
	finder.propagateAll()
	// Row-major order is considered for each value.
	for _, x := range m.variableList {
		finder.addOrder(x, tensor.RowMajorOrder(x.value.Meta.Rank()))
	}
	finder.propagateAll()
	// Channels-last is considered for each image, because strategy ChannelsLast chooses this order.
	for _, x := range m.variableList {
		if x.value.Const == nil && m.Problem.Image(x.value) {
			finder.addOrder(x, lastOrder(x.value.Meta.Rank()))
		}
	}
	finder.propagateAll()
	return nil
}

// addPinned adds the layouts that follow from pins: the layouts that inference derives from pinned inputs, and the
// layouts that pinned nodes write before their results are copied to the pinned layout.
func (finder *formFinder) addPinned() {
	layouts := map[*graph.Value]tensor.Meta{}
	for _, v := range slices.Concat(finder.model.Problem.Graph.Inputs, finder.model.Problem.Graph.Constants) {
		if x := finder.model.variables.At(v); x.pin > 0 {
			layouts[v] = x.forms[x.pin].meta
		}
	}
	for _, n := range finder.model.Problem.Graph.Nodes {
		interrupt.Check(finder.model.Problem.Context())
		c, changed := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}, n.Pin.SetsLayout()
		for k, a := range n.In {
			if meta, isChanged := layouts[a.Value]; isChanged {
				c.In[k], changed = callWith(n, k, meta).In[k], true
			}
		}
		if !changed || n.Op.ReadsStorage {
			continue
		}
		res, err := n.Op.Infer(c)
		if err != nil || len(res) != len(n.Out) {
			continue
		}
		for k, r := range res {
			meta := r.Meta()
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

// addForm adds a form and queues it if it is new.
func (finder *formFinder) addForm(x *variable, meta tensor.Meta) int {
	return finder.addFormAt(x, meta, tensor.Host)
}

// addFormAt is [formFinder.addForm] for any place.
func (finder *formFinder) addFormAt(x *variable, meta tensor.Meta, place tensor.Place) int {
	if x == nil {
		return -1
	}
	n := len(x.forms)
	i := x.addFormAt(meta, place)
	if len(x.forms) > n {
		finder.queue = append(finder.queue, addedForm{x, i})
	}
	return i
}

// addOrder adds the dense form of an order.
func (finder *formFinder) addOrder(x *variable, order tensor.Order) {
	if x != nil && order.Rank() == x.value.Meta.Rank() && x.value.Meta.Numel() > 1 && x.formWithOrder(order) < 0 {
		finder.addForm(x, x.value.Meta.WithStrides(order.Strides(x.value.Meta.Shape)))
	}
}

// addRequested adds the orders that a node's implementations request.
func (finder *formFinder) addRequested(n *graph.Node) {
	if len(n.Op.Impls) == 0 || len(n.Op.Impls) == 1 && !n.Op.Impls[0].MayRejectLayouts() {
		return
	}
	call := n.Call()
	for i := range n.Op.Impls {
		impl := &n.Op.Impls[i]
		if !finder.model.Problem.Offers(n, impl) {
			continue
		}
		for _, walk := range impl.Walks(call, nil) {
			finder.addWalk(n, call, impl, walk)
		}
	}
}

// addWalk adds the orders of a walk's results. For each operand it adds the first of two orders that the implementation
// can read: the walk's order, or row-major order.
func (finder *formFinder) addWalk(n *graph.Node, call *graph.Call, impl *graph.Impl, walk graph.Walk) {
	for k, order := range walk.Out {
		if k < len(n.Out) && order != "" {
			finder.addOrder(finder.model.variables.At(n.Out[k]), order)
		}
	}
	read := impl.Reader(call, walk)
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x, meta := finder.model.variables.At(a.Value), a.Meta()
		for _, order := range []tensor.Order{walk.Order, tensor.RowMajorOrder(meta.Rank())} {
			if order.Rank() != meta.Rank() || order == "" {
				continue
			}
			if _, ok := read(k, meta.WithStrides(order.Strides(meta.Shape))); ok {
				finder.addOrder(x, order)
				break
			}
		}
	}
}

// propagate derives forms of other values from form i of x.
func (finder *formFinder) propagate(x *variable, i int) {
	f := x.forms[i]
	if n := x.value.Node; n != nil {
		finder.addOperandForms(n, x, f)
	}
	strideOrder := f.order
	if !f.dense {
		strideOrder, _ = tensor.OrderOf(f.meta)
	}
	for _, u := range finder.model.readers.At(x.value) {
		n := finder.model.Problem.Graph.Nodes[u.node]
		if view := finder.model.viewNodes[u.node]; view != nil {
			if view.operand == u.operand {
				finder.addViewForms(view, x, i)
			}
			continue
		}
		if !followsOperands(n) {
			continue
		}
		if hasExpandedDims(f.meta) {
			finder.addInferred(n, u.operand, f.meta)
		} else if (f.dense || i > 0) && addNew(&finder.spreadByNode[u.node].results, strideOrder) {
			for _, out := range n.Out {
				if out.Meta.Rank() == x.value.Meta.Rank() {
					finder.addOrder(finder.model.variables.At(out), strideOrder)
				}
			}
		}
	}
}

// hasExpandedDims reports whether a layout has expanded dimensions (stride 0), so that its strides define no order.
func hasExpandedDims(meta tensor.Meta) bool {
	for d, n := range meta.Shape {
		if n > 1 && meta.Strides[d] == 0 {
			return true
		}
	}
	return false
}

// addInferred adds the orders that inference gives a node's results if the given operand has layout meta and all other
// operands have the layouts of the graph as written.
func (finder *formFinder) addInferred(n *graph.Node, operand int, meta tensor.Meta) {
	res, err := n.Op.Infer(callWith(n, operand, meta))
	if err != nil || len(res) != len(n.Out) {
		return
	}
	for k, r := range res {
		if order, dense := tensor.OrderOf(r.Meta()); dense && r.Alias == graph.Fresh {
			finder.addOrder(finder.model.variables.At(n.Out[k]), order)
		}
	}
}

// followsOperands reports whether a node writes its results in the order of its operands, for any order.
func followsOperands(n *graph.Node) bool {
	return n.Op.Kind == graph.FollowsOperands || n.Op.AnyOrder || n.Op.ImageRole == graph.ImagePreserving
}

// addOperandForms adds the forms of a node's operands from which the node makes form f of its result y.
func (finder *formFinder) addOperandForms(n *graph.Node, y *variable, f form) {
	if view := finder.model.viewNodes[finder.model.nodeIndex[n.Number()]]; view != nil {
		x := finder.model.variables.At(n.In[view.operand].Value)
		if meta, ok := view.inverse(y, f); ok && x != nil && x.value.Const == nil {
			finder.addForm(x, meta)
		}
		return
	}
	if !f.dense || !followsOperands(n) || !addNew(&finder.spreadByNode[finder.model.nodeIndex[n.Number()]].all, f.order) {
		return
	}
	for _, a := range n.In {
		if a.Kind == graph.TensorArg && a.Value.Const == nil && a.Value.Meta.Rank() == f.meta.Rank() {
			finder.addOrder(finder.model.variables.At(a.Value), f.order)
		}
	}
	for _, v := range n.Out {
		if v != y.value && v.Meta.Rank() == f.meta.Rank() {
			finder.addOrder(finder.model.variables.At(v), f.order)
		}
	}
}

// addViewForms records the forms of a view's results for form i of the operand x, and adds new forms.
func (finder *formFinder) addViewForms(view *viewNode, x *variable, i int) {
	if view.inferredForms>>i&1 != 0 {
		return
	}
	view.inferredForms |= 1 << i
	var metas []tensor.Meta
	if i == 0 || !view.node.Op.ReadsStorage {
		metas = view.results(x.forms[i].meta)
	}
	for k, out := range view.node.Out {
		for len(view.resultForm[k]) <= i {
			view.resultForm[k] = append(view.resultForm[k], -1)
		}
		if metas == nil {
			continue
		}
		y := finder.model.variables.At(out)
		forms := len(y.forms)
		resultForm := finder.addFormAt(y, metas[k], x.forms[i].place)
		if l := x.forms[i].ownBufferForm; resultForm == forms && l >= 0 {
			y.forms[resultForm].ownBufferForm = view.resultForm[k][l]
		}
		view.resultForm[k][i] = resultForm
	}
}

// markInside sets insideBuffer of a view's results. If an op reads the storage of a result, markInside also removes
// views that would change this storage. Such a result must be the same view as in the graph as written or, if it has
// its own buffer there, a view that begins at the start of a buffer.
func (m *Model) markInside(view *viewNode, x *variable) {
	if len(m.Problem.readAsStorage) == 0 {
		return
	}
	inferred := make([][]tensor.Meta, len(x.forms)) // by form; nil until needed
	metas := func(i int) []tensor.Meta {
		if inferred[i] == nil {
			inferred[i] = view.results(x.forms[i].meta)
		}
		return inferred[i]
	}
	for k, out := range view.node.Out {
		y, stored := m.variables.At(out), m.Problem.readAsStorage[out]
		for i, to := range view.resultForm[k] {
			if view.viewedForm(k, i) < 0 {
				continue
			}
			inside := m.isInsideBuffer(x, i) || metas(i)[k].Offset != 0
			changesStorage := inside
			if out.Alias != nil {
				changesStorage = i > 0
			}
			if to == 0 && stored && changesStorage {
				view.resultForm[k][i] = -1
			} else if inside {
				y.insideBuffer |= 1 << to
			}
		}
	}
}

// isInsideBuffer reports whether the first element of a form may not be at the start of its buffer.
func (m *Model) isInsideBuffer(x *variable, i int) bool {
	return x.insideBuffer>>i&1 != 0 || x.forms[i].slot != nil || x.value.Node == nil && x.forms[i].meta.Offset != 0
}

// results returns the layouts of a view's results for a layout of the operand, or nil if the operand must be copied.
func (view *viewNode) results(meta tensor.Meta) []tensor.Meta {
	if view.identity {
		return []tensor.Meta{meta}
	}
	res, err := view.node.Op.Infer(callWith(view.node, view.operand, meta))
	if err != nil || len(res) != len(view.node.Out) {
		return nil
	}
	list := make([]tensor.Meta, len(res))
	for k, r := range res {
		if r.Alias != view.operand {
			return nil
		}
		list[k] = r.Meta()
	}
	return list
}

// callWith returns a node's call in which one operand has another layout.
func callWith(n *graph.Node, operand int, meta tensor.Meta) *graph.Call {
	c := &graph.Call{In: slices.Clone(n.In), Attrs: n.Attrs}
	if a := n.In[operand]; !a.Value.Meta.SameLayout(meta) || a.Value.Meta.Offset != meta.Offset {
		c.In[operand] = graph.Of(&graph.Value{Name: a.Value.Name, Node: a.Value.Node, Index: a.Value.Index, Meta: meta,
			Type: meta.Type()})
	}
	return c
}

// inverse returns a layout of the operand that gives the view's result y form f. It returns false if it finds none.
func (view *viewNode) inverse(y *variable, f form) (tensor.Meta, bool) {
	x := view.node.In[view.operand].Meta()
	if !f.dense || x.Numel() < 2 {
		return x, false
	}
	n := view.node
	switch {
	case view.identity:
		return x.WithStrides(f.meta.Strides), true
	case n.Op.Permutes != nil:
		b := make([]int, x.Rank())
		for i, d := range n.Op.Permutes(n.Call()) {
			b[d] = f.meta.Strides[i]
		}
		return x.WithStrides(b), true
	case x.Numel() == f.meta.Numel() && !slices.Equal(x.Shape, f.meta.Shape):
		meta, err := f.meta.View(x.Shape)
		if err != nil || !meta.IsNonOverlappingAndDense() {
			return x, false
		}
		results := view.results(meta)
		return meta, results != nil && results[y.value.Index].SameAddresses(f.meta)
	case x.Rank() == f.meta.Rank(): // the result is a slice of the operand, or all of it
		return x.WithStrides(f.order.Strides(x.Shape)), true
	}
	return x, false
}
