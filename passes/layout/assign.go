package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file converts a solution of the weighted constraint problem to an assignment. A form is a layout in which a
// value may exist. The label of a value's variable is a set of forms, as a bit mask. The label of a node's variable is
// an implementation and a walk (loop order), which determine the forms of the node's results. See [Model].

// Assignment returns the assignment for a label of each variable of WCSP. It omits forms that no node or output reads,
// so the assignment may cost less than the labels.
func (m *Model) Assignment(labels []int) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	decoder, err := m.newDecoder(labels)
	if err != nil {
		return nil, err
	}
	g := m.Problem.Graph
	decoder.assignment = &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs)),
		LostOutputs: make([]bool, len(g.Outputs)), Lost: map[*graph.Value]bool{}, Final: true}
	decoder.assignment.Failed = m.failed
	decoder.markReadForms()
	decoder.recordChoices()
	return decoder.assignment, nil
}

// decoder converts labels to an assignment. Method markReadForms finds the needed forms: the forms that nodes and
// outputs read. Method recordChoices then decides how each needed form is obtained.
type decoder struct {
	model      *Model
	labels     []int // by variable of WCSP
	assignment *Assignment
	needed     graph.ByValue[uint]      // by value: mask of the forms that are read
	formCopies graph.ByValue[[]*Copy]   // by value and form: the copy that has this form
	viewNodes  graph.ByValue[*viewNode] // by result of a view; used for an Outcome
}

// newDecoder returns the initial state. If labels are infeasible, the error names the forbidden combination.
func (m *Model) newDecoder(labels []int) (*decoder, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	cost, err := m.WCSP.Cost(labels)
	if err != nil {
		return nil, err
	}
	if cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("the labels are infeasible: %s", blame(m.WCSP, labels))
	}
	return &decoder{model: m, labels: labels, needed: graph.NewByValue[uint](m.Problem.Graph),
		formCopies: graph.NewByValue[[]*Copy](m.Problem.Graph)}, nil
}

// existingForms returns the mask of the forms in which a value exists. An unpinned constant has all forms.
func (decoder *decoder) existingForms(x *variable) uint {
	switch {
	case freeConstant(x.value):
		return 1<<len(x.forms) - 1
	case x.id < 0:
		return x.sets[0]
	}
	return x.sets[decoder.labels[x.id]]
}

// chosen returns the chosen label of a node.
func (decoder *decoder) chosen(computed *computedNode) *label {
	if computed.id < 0 {
		return &computed.labels[0]
	}
	return &computed.labels[decoder.labels[computed.id]]
}

// markNeeded adds a form to the needed forms of v.
func (decoder *decoder) markNeeded(v *graph.Value, form int) {
	decoder.needed.Set(v, decoder.needed.At(v)|1<<form)
}

// markReadForms visits the nodes in reverse order and marks the forms that they read.
func (decoder *decoder) markReadForms() {
	g := decoder.model.Problem.Graph
	for _, output := range g.Outputs {
		x := decoder.model.variables.At(output.Value)
		decoder.needed.Set(output.Value, decoder.needed.At(output.Value)|1<<decoder.model.outputForm(x, output))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if decoder.model.isLost(i) {
			continue
		}
		if view := decoder.model.viewNodes[i]; view != nil {
			in := n.In[view.operand].Value
			for k := range n.Out {
				decoder.eachOperandForm(view, k, func(form int) { decoder.markNeeded(in, form) })
			}
			continue
		}
		l := decoder.chosen(decoder.model.computedNodes[i])
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				f, _ := l.cheapestRead(k, decoder.existingForms(decoder.model.variables.At(a.Value)))
				decoder.markNeeded(a.Value, f)
			}
		}
	}
}

// recipe describes how the needed forms of one value are made.
type recipe struct {
	usedForms uint   // mask of the forms that exist without a copy and are used: read, or copied to other forms
	steps     []step // copies that make the other needed forms, in order
}

// recipe returns the recipe of the needed forms of x. roots and operandCopies are as in [Model.priceForms].
func (decoder *decoder) recipe(x *variable, roots uint, operandCopies []operandCopy) recipe {
	need := decoder.needed.At(x.value)
	var out recipe
	if need == 0 {
		return out
	}
	costs := decoder.model.priceForms(x, roots, operandCopies)
	existing := roots
	if x.pin >= 0 {
		existing = 1 << x.pin
		need |= existing
	}
	out.steps = slices.Concat(costs.pinSteps, costs.steps(costs.cheapest(need), existing))
	out.usedForms = need & existing & roots
	for _, s := range out.steps {
		if s.from >= 0 {
			out.usedForms |= 1 << s.from & roots
		}
	}
	return out
}

// eachOperandForm calls visit for each form of the view's operand from which a needed form of result k is made.
func (decoder *decoder) eachOperandForm(view *viewNode, k int, visit func(form int)) {
	in := view.node.In[view.operand].Value
	available := decoder.existingForms(decoder.model.variables.At(in)) & view.allowed
	y := decoder.model.variables.At(view.node.Out[k])
	if decoder.needed.At(y.value) == 0 {
		return
	}
	recipe := decoder.recipe(y, view.viewForms(k, available), decoder.model.operandCopies(view, k, available))
	for f := range y.forms {
		if recipe.usedForms>>f&1 != 0 {
			visit(view.source(k, f, available, decoder.needed.At(in)))
		}
	}
	for _, s := range recipe.steps {
		if s.from < 0 {
			visit(decoder.model.copySource(view, k, int(s.to), available))
		}
	}
}

// source returns a form of the operand, from the mask available, whose view is form f of result k. It prefers forms in
// the mask needed, which other nodes read. It returns -1 if no available form has such a view.
func (view *viewNode) source(k, f int, available, needed uint) int {
	source := -1
	for i := range view.resultForm[k] {
		if view.viewedForm(k, i) == f && available>>i&1 != 0 && (source < 0 || needed>>i&1 != 0 && needed>>source&1 == 0) {
			source = i
		}
	}
	return source
}

// copySource returns the form of the operand, from the mask available, that can be copied to form f of result k at the
// least weighted cost. It returns -1 if no available form can be copied.
func (m *Model) copySource(view *viewNode, k, f int, available uint) int {
	source, best := -1, forbidden.weighted
	for i, costs := range view.copyCosts[k] {
		if available>>i&1 == 0 || costs == nil {
			continue
		}
		if c := m.operandCopy(view, k, i, f); source < 0 || c.weighted < best {
			source, best = i, c.weighted
		}
	}
	return source
}

// recordChoices visits the nodes in order, records their choices, and records the copies that make the needed forms.
func (decoder *decoder) recordChoices() {
	g := decoder.model.Problem.Graph
	for _, v := range g.Constants {
		x := decoder.model.variables.At(v)
		if !freeConstant(v) {
			continue
		}
		for f := range x.forms {
			decoder.setFormCopy(x, f, decoder.constantCopy(x, f))
		}
	}
	for x := range decoder.model.inputVariables() {
		v := x.value
		decoder.setFormCopy(x, 0, &Copy{Value: v, Original: true})
		roots := uint(1)
		if v.Const != nil { // a pinned constant is converted while planning
			roots = 1 << x.pin
			decoder.setFormCopy(x, x.pin, decoder.constantCopy(x, x.pin))
		}
		decoder.recordSteps(x, decoder.recipe(x, roots, nil).steps)
		if c := decoder.formCopies.At(v)[x.baseForm()]; v.Pin.SetsLayout() && c != nil && !c.Original {
			c.Pinned, c.Why = true, whyPinned(v)
			decoder.assignment.Inputs = append(decoder.assignment.Inputs, c)
		}
	}
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		if decoder.model.isLost(i) {
			for _, v := range n.Out {
				decoder.assignment.Lost[v] = true
			}
			continue
		}
		if view := decoder.model.viewNodes[i]; view != nil {
			decoder.viewChoice(view, &decoder.assignment.Nodes[i])
		} else {
			decoder.computedChoice(decoder.model.computedNodes[i], &decoder.assignment.Nodes[i])
		}
		decoder.addPinnedCopies(n, &decoder.assignment.Nodes[i])
	}
	for i, output := range g.Outputs {
		if decoder.assignment.LostOutputs[i] = decoder.assignment.Lost[output.Value]; decoder.assignment.LostOutputs[i] {
			continue
		}
		x := decoder.model.variables.At(output.Value)
		decoder.assignment.Outputs[i] = decoder.copyOrNil(output.Value,
			decoder.formCopies.At(output.Value)[decoder.model.outputForm(x, output)])
	}
}

// addPinnedCopies adds the pinned copies of a node's results to c.ResultCopies. These copies get the names of the
// results.
func (decoder *decoder) addPinnedCopies(n *graph.Node, c *Choice) {
	if !n.Pin.SetsLayout() {
		return
	}
	for _, v := range n.Out {
		x := decoder.model.variables.At(v)
		list := decoder.formCopies.At(v)
		if list == nil {
			continue
		}
		if list[x.pin] == nil { // no node reads the value
			list[x.pin] = &Copy{Value: v, Order: x.forms[x.pin].order}
		}
		if p := list[x.pin]; !p.Original {
			p.Pinned, p.Why = true, whyPinned(v)
			c.ResultCopies = append(c.ResultCopies, p)
		}
	}
}

// whyPinned returns the reason for a pinned copy.
func whyPinned(v *graph.Value) string {
	pin := v.Demand()
	return fmt.Sprintf("%q is pinned to %v", v.Name, graph.Pin{Format: pin.Format, Order: pin.Order})
}

// constantCopy returns the copy that has form f of a constant.
func (decoder *decoder) constantCopy(x *variable, f int) *Copy {
	switch form := &x.forms[f]; {
	case f == 0:
		return &Copy{Value: x.value, Original: true}
	case form.place != tensor.Host:
		c := &Copy{Value: x.value, Order: form.order, Place: form.place, Why: "constants are uploaded once"}
		if from := decoder.constantCopy(x, x.inPlace(f, tensor.Host)); !from.Original {
			c.From = from
		}
		return c
	}
	return &Copy{Value: x.value, Order: x.forms[f].order, Why: "constants are converted while planning"}
}

// setFormCopy records c as the copy that has the given form of x.
func (decoder *decoder) setFormCopy(x *variable, form int, c *Copy) {
	list := decoder.formCopies.At(x.value)
	if list == nil {
		list = make([]*Copy, len(x.forms))
		decoder.formCopies.Set(x.value, list)
	}
	list[form] = c
}

// recordSteps records the copies of a list of steps. Steps that copy from a view's operand are recorded by viewChoice.
func (decoder *decoder) recordSteps(x *variable, list []step) {
	for _, s := range list {
		if s.from < 0 {
			continue
		}
		from := decoder.formCopies.At(x.value)[s.from]
		c := &Copy{Value: x.value, Order: x.forms[s.to].order, Place: x.forms[s.to].place, From: from}
		if s.to == 0 {
			c.Strides = x.value.Meta.Strides
		}
		c.Why = ReaderNeeds
		switch {
		case x.forms[s.to].place == x.forms[s.from].place:
		case c.Place == tensor.Host:
			c.Why = NeededOnHost
		default:
			c.Why = NeededOnDevice
		}
		decoder.setFormCopy(x, int(s.to), c)
	}
}

// copyOrNil returns c, or nil if c stands for v itself.
func (decoder *decoder) copyOrNil(v *graph.Value, c *Copy) *Copy {
	if c == nil || c.Original && c.Value == v {
		return nil
	}
	return c
}

// computedChoice records the choice for a node that computes, and the copies of its results.
func (decoder *decoder) computedChoice(computed *computedNode, c *Choice) {
	l, n := decoder.chosen(computed), computed.node
	c.Impl, c.Walk = l.impl, l.walk
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x, f := decoder.model.variables.At(a.Value), l.constantForms[k]
		if !readsConstant(n, k) {
			f, _ = l.cheapestRead(k, decoder.existingForms(x))
		}
		decoder.setInput(c, n, k, decoder.formCopies.At(a.Value)[f])
	}
	c.ExactStrides = true
	for k, v := range n.Out {
		x := decoder.model.variables.At(v)
		decoder.setFormCopy(x, l.resultForms[k], &Copy{Value: v, Original: true})
		decoder.recordSteps(x, decoder.recipe(x, 1<<l.resultForms[k], nil).steps)
		if x.forms[l.resultForms[k]].slot != nil {
			decoder.assignment.Placed = append(decoder.assignment.Placed, v)
		}
	}
}

// setInput makes operand k of a choice read copy from.
func (decoder *decoder) setInput(c *Choice, n *graph.Node, k int, from *Copy) {
	if from = decoder.copyOrNil(n.In[k].Value, from); from == nil {
		return
	}
	if c.In == nil {
		c.In = make([]*Copy, len(n.In))
	}
	c.In[k] = from
}
