package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file converts a solution of the weighted constraint problem to an assignment. A form is a layout in which a
// value may exist. The label of a value's variable is a set of forms, as a bit mask. The label of a node's variable is
// an implementation and a walk, which determine the forms of the node's results. See [Model].

// Assignment returns the assignment for a label of each variable of WCSP. It omits forms that no node or output reads,
// so the assignment may cost less than the labels.
func (m *Model) Assignment(labels []int) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	r, err := m.newDecoder(labels)
	if err != nil {
		return nil, err
	}
	g := m.Problem.Graph
	r.assignment = &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs)),
		LostOutputs: make([]bool, len(g.Outputs)), Lost: map[*graph.Value]bool{}, Final: true}
	r.assignment.Failed = m.failed
	r.backward()
	r.forward()
	return r.assignment, nil
}

// decoder converts labels to an assignment. Method backward finds the needed forms: the forms that nodes and outputs
// read. Method forward then decides how each needed form is made.
type decoder struct {
	m          *Model
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
	return &decoder{m: m, labels: labels, needed: graph.NewByValue[uint](m.Problem.Graph),
		formCopies: graph.NewByValue[[]*Copy](m.Problem.Graph)}, nil
}

// existingForms returns the mask of the forms in which a value exists. An unpinned constant has all forms.
func (r *decoder) existingForms(x *variable) uint {
	switch {
	case freeConstant(x.value):
		return 1<<len(x.forms) - 1
	case x.id < 0:
		return x.sets[0]
	}
	return x.sets[r.labels[x.id]]
}

// chosen returns the chosen label of a node.
func (r *decoder) chosen(t *computedNode) *label {
	if t.id < 0 {
		return &t.labels[0]
	}
	return &t.labels[r.labels[t.id]]
}

// markNeeded adds a form to the needed forms of v.
func (r *decoder) markNeeded(v *graph.Value, form int) { r.needed.Set(v, r.needed.At(v)|1<<form) }

// backward visits the nodes in reverse order and marks the forms that they read.
func (r *decoder) backward() {
	g := r.m.Problem.Graph
	for _, o := range g.Outputs {
		x := r.m.variables.At(o.Value)
		r.needed.Set(o.Value, r.needed.At(o.Value)|1<<r.m.outputForm(x, o))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if r.m.isLost(i) {
			continue
		}
		if v := r.m.viewNodes[i]; v != nil {
			in := n.In[v.operand].Value
			for k := range n.Out {
				r.eachSource(v, k, func(form int) { r.markNeeded(in, form) })
			}
			continue
		}
		l := r.chosen(r.m.computedNodes[i])
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				f, _ := l.cheapestRead(k, r.existingForms(r.m.variables.At(a.Value)))
				r.markNeeded(a.Value, f)
			}
		}
	}
}

// recipe describes how the needed forms of one value are made.
type recipe struct {
	usedForms uint   // mask of the forms that exist without a copy and are read or copied
	steps     []step // copies that make the other needed forms, in order
}

// recipe returns the recipe of the needed forms of x. roots is the mask of the forms that exist without a copy. For the
// result of a view, operandCopies has, by form, the cost of making the form from the view's operand: see
// [Model.priceForms].
func (r *decoder) recipe(x *variable, roots uint, operandCopies []operandCopy) recipe {
	need := r.needed.At(x.value)
	var out recipe
	if need == 0 {
		return out
	}
	w := r.m.priceForms(x, roots, operandCopies)
	existing := roots
	if x.pin >= 0 {
		existing = 1 << x.pin
		need |= existing
	}
	out.steps = slices.Concat(w.pinSteps, w.steps(w.cheapest(need), existing))
	out.usedForms = need & existing & roots
	for _, s := range out.steps {
		if s.from >= 0 {
			out.usedForms |= 1 << s.from & roots
		}
	}
	return out
}

// eachSource calls needs for each form of the view's operand from which a needed form of result k is made.
func (r *decoder) eachSource(v *viewNode, k int, needs func(form int)) {
	in := v.node.In[v.operand].Value
	set := r.existingForms(r.m.variables.At(in)) & v.allowed
	y := r.m.variables.At(v.node.Out[k])
	if r.needed.At(y.value) == 0 {
		return
	}
	w := r.recipe(y, v.viewForms(k, set), r.m.operandCopies(v, k, set))
	for f := range y.forms {
		if w.usedForms>>f&1 != 0 {
			needs(v.source(k, f, set, r.needed.At(in)))
		}
	}
	for _, s := range w.steps {
		if s.from < 0 {
			needs(r.m.copySource(v, k, int(s.to), set))
		}
	}
}

// source returns a form of the operand, from the mask set, whose view is form f of result k. It prefers forms in the
// mask needed, which other nodes read. It returns -1 if set has no such form.
func (v *viewNode) source(k, f int, set, needed uint) int {
	source := -1
	for i := range v.resultForm[k] {
		if v.viewedForm(k, i) == f && set>>i&1 != 0 && (source < 0 || needed>>i&1 != 0 && needed>>source&1 == 0) {
			source = i
		}
	}
	return source
}

// copySource returns the form of the operand, from the mask set, that can be copied to form f of result k at the least
// weighted cost. It returns -1 if set has no such form.
func (m *Model) copySource(v *viewNode, k, f int, set uint) int {
	source, best := -1, forbidden.weighted
	for i, costs := range v.copyCosts[k] {
		if set>>i&1 == 0 || costs == nil {
			continue
		}
		if c := m.operandCopy(v, k, i, f); source < 0 || c.weighted < best {
			source, best = i, c.weighted
		}
	}
	return source
}

// forward visits the nodes in order, records their choices, and records the copies that make the needed forms.
func (r *decoder) forward() {
	g := r.m.Problem.Graph
	for _, v := range g.Constants {
		x := r.m.variables.At(v)
		if !freeConstant(v) {
			continue
		}
		for f := range x.forms {
			r.setFormCopy(x, f, r.constantCopy(x, f))
		}
	}
	for x := range r.m.inputVariables() {
		v := x.value
		r.setFormCopy(x, 0, &Copy{Value: v, Original: true})
		roots := uint(1)
		if v.Const != nil { // a pinned constant is converted while planning
			roots = 1 << x.pin
			r.setFormCopy(x, x.pin, r.constantCopy(x, x.pin))
		}
		r.recordSteps(x, r.recipe(x, roots, nil).steps)
		if c := r.formCopies.At(v)[x.baseForm()]; v.Pin.SetsLayout() && c != nil && !c.Original {
			c.Pinned, c.Why = true, whyPinned(v)
			r.assignment.Inputs = append(r.assignment.Inputs, c)
		}
	}
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		if r.m.isLost(i) {
			for _, v := range n.Out {
				r.assignment.Lost[v] = true
			}
			continue
		}
		if v := r.m.viewNodes[i]; v != nil {
			r.viewChoice(v, &r.assignment.Nodes[i])
		} else {
			r.computedChoice(r.m.computedNodes[i], &r.assignment.Nodes[i])
		}
		r.addPinnedCopies(n, &r.assignment.Nodes[i])
	}
	for i, o := range g.Outputs {
		if r.assignment.LostOutputs[i] = r.assignment.Lost[o.Value]; r.assignment.LostOutputs[i] {
			continue
		}
		x := r.m.variables.At(o.Value)
		r.assignment.Outputs[i] = r.copyOrNil(o.Value, r.formCopies.At(o.Value)[r.m.outputForm(x, o)])
	}
}

// addPinnedCopies adds the pinned copies of a node's results to c.ResultCopies. These copies take over the names of the
// results.
func (r *decoder) addPinnedCopies(n *graph.Node, c *Choice) {
	if !n.Pin.SetsLayout() {
		return
	}
	for _, v := range n.Out {
		x := r.m.variables.At(v)
		list := r.formCopies.At(v)
		if list == nil {
			continue
		}
		if list[x.pin] == nil { // the value has no reader
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
func (r *decoder) constantCopy(x *variable, f int) *Copy {
	if f == 0 {
		return &Copy{Value: x.value, Original: true}
	}
	return &Copy{Value: x.value, Order: x.forms[f].order, Why: "constants are converted while planning"}
}

// setFormCopy records c as the copy that has the given form of x.
func (r *decoder) setFormCopy(x *variable, form int, c *Copy) {
	list := r.formCopies.At(x.value)
	if list == nil {
		list = make([]*Copy, len(x.forms))
		r.formCopies.Set(x.value, list)
	}
	list[form] = c
}

// recordSteps records the copies of a list of steps. Steps that copy from a view's operand are recorded by viewChoice.
func (r *decoder) recordSteps(x *variable, list []step) {
	for _, s := range list {
		if s.from < 0 {
			continue
		}
		from := r.formCopies.At(x.value)[s.from]
		c := &Copy{Value: x.value, Order: x.forms[s.to].order, From: from}
		if s.to == 0 {
			c.Strides = x.value.Meta.Strides
		}
		c.Why = ReaderNeeds
		r.setFormCopy(x, int(s.to), c)
	}
}

// copyOrNil returns c, or nil if c stands for v itself.
func (r *decoder) copyOrNil(v *graph.Value, c *Copy) *Copy {
	if c == nil || c.Original && c.Value == v {
		return nil
	}
	return c
}

// computedChoice records the choice for a node that computes, and the copies of its results.
func (r *decoder) computedChoice(t *computedNode, c *Choice) {
	l, n := r.chosen(t), t.node
	c.Impl, c.Walk = l.impl, l.walk
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x, f := r.m.variables.At(a.Value), l.constantForms[k]
		if !readsConstant(n, k) {
			f, _ = l.cheapestRead(k, r.existingForms(x))
		}
		r.setInput(c, n, k, r.formCopies.At(a.Value)[f])
	}
	c.ExactStrides = true
	for k, v := range n.Out {
		x := r.m.variables.At(v)
		r.setFormCopy(x, l.resultForms[k], &Copy{Value: v, Original: true})
		r.recordSteps(x, r.recipe(x, 1<<l.resultForms[k], nil).steps)
		if x.forms[l.resultForms[k]].slot != nil {
			r.assignment.Placed = append(r.assignment.Placed, v)
		}
	}
}

// setInput makes operand k of a choice read copy from.
func (r *decoder) setInput(c *Choice, n *graph.Node, k int, from *Copy) {
	if from = r.copyOrNil(n.In[k].Value, from); from == nil {
		return
	}
	if c.In == nil {
		c.In = make([]*Copy, len(n.In))
	}
	c.In[k] = from
}
