package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file decodes a solution of the weighted constraint problem. A form is a layout in which a value may exist. The
// label of a value's variable is a set of forms, a bit mask. The label of a node is an implementation and a walk, which
// determine the forms of its results. See [Model].

// Assignment returns the assignment that the labels of WCSP's variables describe. It does not make forms that no node
// or output reads, so it may cost less than the labels.
func (m *Model) Assignment(labels []int) (_ *Assignment, err error) {
	defer interrupt.Catch(&err)
	r, err := m.decoder(labels)
	if err != nil {
		return nil, err
	}
	g := m.Problem.Graph
	r.a = &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs)),
		LostOutputs: make([]bool, len(g.Outputs)), Lost: map[*graph.Value]bool{}, Final: true}
	r.a.Failed = m.failed
	r.backward()
	r.forward()
	return r.a, nil
}

// decoder converts labels to an assignment. Its method backward finds the forms that are read. Its method forward then
// decides how each of these forms is made.
type decoder struct {
	m      *Model
	labels []int // by variable
	a      *Assignment
	needed graph.ByValue[uint]    // by value: mask of the forms that are read
	refs   graph.ByValue[[]*Copy] // by value and form: the copy that has this form
	views  graph.ByValue[*viewed] // by result of a view; used for an Outcome
}

// decoder starts decoding. If the labels are infeasible, the error names them.
func (m *Model) decoder(labels []int) (*decoder, error) {
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
		refs: graph.NewByValue[[]*Copy](m.Problem.Graph)}, nil
}

// set returns the set of forms that the label of a value's variable describes. An unpinned constant has all forms.
func (r *decoder) set(x *variable) uint {
	switch {
	case constant(x.value):
		return 1<<len(x.forms) - 1
	case x.id < 0:
		return x.sets[0]
	}
	return x.sets[r.labels[x.id]]
}

// chosen returns the chosen label of a node.
func (r *decoder) chosen(t *task) *label {
	if t.id < 0 {
		return &t.labels[0]
	}
	return &t.labels[r.labels[t.id]]
}

// need marks a form as read.
func (r *decoder) need(v *graph.Value, form int) { r.needed.Set(v, r.needed.At(v)|1<<form) }

// backward visits the nodes in reverse order and marks the forms that they read.
func (r *decoder) backward() {
	g := r.m.Problem.Graph
	for _, o := range g.Outputs {
		x := r.m.variables.At(o.Value)
		r.needed.Set(o.Value, r.needed.At(o.Value)|1<<r.m.outputForm(x, o))
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if r.m.lost(i) {
			continue
		}
		if v := r.m.views[i]; v != nil {
			in := n.In[v.operand].Value
			for k := range n.Out {
				r.sources(v, k, func(form int) { r.need(in, form) })
			}
			continue
		}
		l := r.chosen(r.m.tasks[i])
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				f, _ := l.reads(k, r.set(r.m.variables.At(a.Value)))
				r.need(a.Value, f)
			}
		}
	}
}

// recipe describes how the needed forms of a value are made.
type recipe struct {
	used  uint   // mask of the existing forms that are read or copied
	steps []step // copies that make the other forms
}

// recipe returns the recipe of the needed forms of x. The forms in roots exist already. outside has the costs of making
// forms from other values: see [Model.priceForms].
func (r *decoder) recipe(x *variable, roots uint, outside []outsideCopy) recipe {
	need := r.needed.At(x.value)
	var out recipe
	if need == 0 {
		return out
	}
	w := r.m.priceForms(x, roots, outside)
	have := roots
	if x.pin >= 0 {
		have = 1 << x.pin
		need |= have
	}
	out.steps = slices.Concat(w.pinSteps, w.steps(w.cheapest(need), have))
	out.used = need & have & roots
	for _, s := range out.steps {
		if s.from >= 0 {
			out.used |= 1 << s.from & roots
		}
	}
	return out
}

// sources calls needs for each form of the view's operand that is a source of a needed form of result k.
func (r *decoder) sources(v *viewed, k int, needs func(form int)) {
	in := v.node.In[v.operand].Value
	set := r.set(r.m.variables.At(in)) & v.allowed
	y := r.m.variables.At(v.node.Out[k])
	if r.needed.At(y.value) == 0 {
		return
	}
	w := r.recipe(y, v.shown(k, set), r.m.outside(v, k, set))
	for f := range y.forms {
		if w.used>>f&1 != 0 {
			needs(v.source(k, f, set, r.needed.At(in)))
		}
	}
	for _, s := range w.steps {
		if s.from < 0 {
			needs(r.m.copied(v, k, int(s.to), set))
		}
	}
}

// source returns a form of the operand, within set, such that form f of result k is a view of it. It prefers the forms
// in needed, which other nodes read. It returns -1 if there is no such form.
func (v *viewed) source(k, f int, set, needed uint) int {
	at := -1
	for i := range v.to[k] {
		if v.view(k, i) == f && set>>i&1 != 0 && (at < 0 || needed>>i&1 != 0 && needed>>at&1 == 0) {
			at = i
		}
	}
	return at
}

// copied returns the form of the operand, within set, from which form f of result k is copied at the least weighted
// cost. It returns -1 if there is no such form.
func (m *Model) copied(v *viewed, k, f int, set uint) int {
	at, best := -1, forbidden.weighted
	for i, costs := range v.copies[k] {
		if set>>i&1 == 0 || costs == nil {
			continue
		}
		if c := m.outsideCopy(v, k, i, f); at < 0 || c.weighted < best {
			at, best = i, c.weighted
		}
	}
	return at
}

// forward visits the nodes in order and records the copies that make the needed forms.
func (r *decoder) forward() {
	g := r.m.Problem.Graph
	for _, v := range g.Constants {
		x := r.m.variables.At(v)
		if !constant(v) {
			continue
		}
		for f := range x.forms {
			r.ref(x, f, r.ofConstant(x, f))
		}
	}
	for x := range r.m.sources() {
		v := x.value
		r.ref(x, 0, &Copy{Value: v, Bare: true})
		roots := uint(1)
		if v.Const != nil { // the constant is converted while planning
			roots = 1 << x.pin
			r.ref(x, x.pin, r.ofConstant(x, x.pin))
		}
		r.steps(x, r.recipe(x, roots, nil).steps)
		if c := r.refs.At(v)[x.base()]; v.Pin.Lays() && c != nil && !c.Bare {
			c.Pinned, c.Why = true, whyPinned(v)
			r.a.Inputs = append(r.a.Inputs, c)
		}
	}
	for i, n := range g.Nodes {
		interrupt.Check(g.Context())
		if r.m.lost(i) {
			for _, v := range n.Out {
				r.a.Lost[v] = true
			}
			continue
		}
		if v := r.m.views[i]; v != nil {
			r.view(v, &r.a.Nodes[i])
		} else {
			r.task(r.m.tasks[i], &r.a.Nodes[i])
		}
		r.pin(n, &r.a.Nodes[i])
	}
	for i, o := range g.Outputs {
		if r.a.LostOutputs[i] = r.a.Lost[o.Value]; r.a.LostOutputs[i] {
			continue
		}
		x := r.m.variables.At(o.Value)
		r.a.Outputs[i] = r.operand(o.Value, r.refs.At(o.Value)[r.m.outputForm(x, o)])
	}
}

// pin inserts the pinned copies of a node's results after the node. The copies take over the names of the results.
func (r *decoder) pin(n *graph.Node, c *Choice) {
	if !n.Pin.Lays() {
		return
	}
	for _, v := range n.Out {
		x := r.m.variables.At(v)
		list := r.refs.At(v)
		if list == nil {
			continue
		}
		if list[x.pin] == nil { // the value has no reader
			list[x.pin] = &Copy{Value: v, Order: x.forms[x.pin].order}
		}
		if p := list[x.pin]; !p.Bare {
			p.Pinned, p.Why = true, whyPinned(v)
			c.After = append(c.After, p)
		}
	}
}

// whyPinned returns the reason for a pinned copy.
func whyPinned(v *graph.Value) string {
	pin := v.Demand()
	return fmt.Sprintf("%q is pinned to %v", v.Name, graph.Pin{Format: pin.Format, Order: pin.Order})
}

// ofConstant returns the copy that has form f of a constant.
func (r *decoder) ofConstant(x *variable, f int) *Copy {
	if f == 0 {
		return &Copy{Value: x.value, Bare: true}
	}
	return &Copy{Value: x.value, Order: x.forms[f].order, Why: "constants are converted while planning"}
}

// ref records the copy that has a form of a value.
func (r *decoder) ref(x *variable, form int, c *Copy) {
	list := r.refs.At(x.value)
	if list == nil {
		list = make([]*Copy, len(x.forms))
		r.refs.Set(x.value, list)
	}
	list[form] = c
}

// steps records the copies that a list of steps makes.
func (r *decoder) steps(x *variable, list []step) {
	for _, s := range list {
		if s.from < 0 {
			continue
		}
		from := r.refs.At(x.value)[s.from]
		c := &Copy{Value: x.value, Order: x.forms[s.to].order, From: from}
		if s.to == 0 {
			c.Strides = x.value.Meta.Strides
		}
		c.Why = ReaderNeeds
		r.ref(x, int(s.to), c)
	}
}

// operand returns the copy for an operand, or nil if v itself is read.
func (r *decoder) operand(v *graph.Value, c *Copy) *Copy {
	if c == nil || c.Bare && c.Value == v {
		return nil
	}
	return c
}

// task records the choice for a node that computes, and the copies of its results.
func (r *decoder) task(t *task, c *Choice) {
	l, n := r.chosen(t), t.node
	c.Impl, c.Walk = l.impl, l.walk
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x, f := r.m.variables.At(a.Value), l.form[k]
		if !readsConstant(n, k) {
			f, _ = l.reads(k, r.set(x))
		}
		r.setInput(c, n, k, r.refs.At(a.Value)[f])
	}
	c.Written = true
	for k, v := range n.Out {
		x := r.m.variables.At(v)
		r.ref(x, l.out[k], &Copy{Value: v, Bare: true})
		r.steps(x, r.recipe(x, 1<<l.out[k], nil).steps)
		if x.forms[l.out[k]].slot != nil {
			r.a.Within = append(r.a.Within, v)
		}
	}
}

// setInput sets operand k of a node's choice.
func (r *decoder) setInput(c *Choice, n *graph.Node, k int, from *Copy) {
	if from = r.operand(n.In[k].Value, from); from == nil {
		return
	}
	if c.In == nil {
		c.In = make([]*Copy, len(n.In))
	}
	c.In[k] = from
}
