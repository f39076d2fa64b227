package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// Assignment returns what labels of the variables of WCSP mean. Forms that nobody reads are not made, so it may cost
// less than the labels do.
func (m *Model) Assignment(labels []int) (_ *Assignment, err error) {
	defer ends.Catch(&err)
	r, err := m.reading(labels)
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

// reading turns labels into an assignment: backward it finds what is read, forward how that is made.
type reading struct {
	m      *Model
	labels []int
	a      *Assignment
	needed graph.ByValue[uint]
	refs   graph.ByValue[[]*Copy] // by form
	views  graph.ByValue[*viewed] // by result, for an outcome
}

// reading begins to read labels. The error says which of them cannot be.
func (m *Model) reading(labels []int) (*reading, error) {
	if err := m.stated(); err != nil {
		return nil, err
	}
	cost, err := m.WCSP.Cost(labels)
	if err != nil {
		return nil, err
	}
	if cost >= wcsp.Forbidden {
		return nil, fmt.Errorf("the labels ask for what cannot be: %s", blame(m.WCSP, labels))
	}
	return &reading{m: m, labels: labels, needed: graph.NewByValue[uint](m.Problem.Graph),
		refs: graph.NewByValue[[]*Copy](m.Problem.Graph)}, nil
}

func (r *reading) set(x *variable) uint {
	switch {
	case constant(x.value):
		return 1<<len(x.forms) - 1
	case x.id < 0:
		return x.sets[0]
	}
	return x.sets[r.labels[x.id]]
}

func (r *reading) chosen(t *task) *label {
	if t.id < 0 {
		return &t.labels[0]
	}
	return &t.labels[r.labels[t.id]]
}

func (r *reading) need(v *graph.Value, form int) { r.needed.Set(v, r.needed.At(v)|1<<form) }

func (r *reading) backward() {
	g := r.m.Problem.Graph
	for _, o := range g.Outputs {
		x := r.m.variables.At(o.Value)
		r.needed.Set(o.Value, r.needed.At(o.Value)|1<<r.m.handed(x, o))
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
			if a.Kind == graph.TensorArg && !unmoved(n, k) {
				f, _ := l.reads(k, r.set(r.m.variables.At(a.Value)))
				r.need(a.Value, f)
			}
		}
	}
}

// way is how the forms of a value that are needed are made: which are there already and used, and the steps to others.
type way struct {
	used  uint
	steps []step
}

// way finds how to make what is needed of x.
func (r *reading) way(x *variable, roots uint, outside []int64) way {
	need := r.needed.At(x.value)
	var out way
	if need == 0 {
		return out
	}
	w := r.m.make(x, roots, outside)
	have := roots
	if x.pin >= 0 {
		have = 1 << x.pin
		need |= have
	}
	out.steps = slices.Concat(w.enter, w.steps(w.of(need), have))
	out.used = need & have & roots
	for _, s := range out.steps {
		if s.from >= 0 {
			out.used |= 1 << s.from & roots
		}
	}
	return out
}

// sources tells which forms of its operand a view needs for those of result k.
func (r *reading) sources(v *viewed, k int, needs func(form int)) {
	in := v.node.In[v.operand].Value
	set := r.set(r.m.variables.At(in)) & v.allowed
	y := r.m.variables.At(v.node.Out[k])
	if r.needed.At(y.value) == 0 {
		return
	}
	w := r.way(y, v.shown(k, set), v.outside(k, set))
	for f := range y.forms {
		if w.used>>f&1 != 0 {
			needs(v.source(k, f, set, r.needed.At(in)))
		}
	}
	for _, s := range w.steps {
		if s.from < 0 {
			needs(v.copied(k, int(s.to), set))
		}
	}
}

// source is the form of the operand, of a set, that result k shows in form f: one of those that others need, if any.
func (v *viewed) source(k, f int, set, needed uint) int {
	at := -1
	for i := range v.to[k] {
		if v.view(k, i) == f && set>>i&1 != 0 && (at < 0 || needed>>i&1 != 0 && needed>>at&1 == 0) {
			at = i
		}
	}
	return at
}

// copied is the form of the operand, of a set, of which form f of result k is copied most cheaply.
func (v *viewed) copied(k, f int, set uint) int {
	at := -1
	for i, costs := range v.copies[k] {
		if set>>i&1 != 0 && costs != nil && (at < 0 || costs[f] < v.copies[k][at][f]) {
			at = i
		}
	}
	return at
}

func (r *reading) forward() {
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
		if v.Const != nil { // it is brought into its form when the graph is planned
			roots = 1 << x.pin
			r.ref(x, x.pin, r.ofConstant(x, x.pin))
		}
		r.steps(x, r.way(x, roots, nil).steps)
		if c := r.refs.At(v)[x.base()]; v.Pin.Lays() && c != nil && !c.Bare {
			c.Pinned, c.Why = true, whyPinned(v)
			r.a.Inputs = append(r.a.Inputs, c)
		}
	}
	for i, n := range g.Nodes {
		ends.Look(g.Context())
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
		r.a.Outputs[i] = r.operand(o.Value, r.refs.At(o.Value)[r.m.handed(x, o)])
	}
}

// pin has the copies that make the pinned forms of a node's results follow it, and take over their names.
func (r *reading) pin(n *graph.Node, c *Choice) {
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

// whyPinned says why there is a copy of a value that is pinned.
func whyPinned(v *graph.Value) string {
	pin := v.Demand()
	return fmt.Sprintf("%q is pinned to %v", v.Name, graph.Pin{Format: pin.Format, Order: pin.Order})
}

func (r *reading) ofConstant(x *variable, f int) *Copy {
	if f == 0 {
		return &Copy{Value: x.value, Bare: true}
	}
	return &Copy{Value: x.value, Order: x.forms[f].order, Why: "constants are converted when the graph is planned"}
}

// ref notes what stands for a form of a value.
func (r *reading) ref(x *variable, form int, c *Copy) {
	list := r.refs.At(x.value)
	if list == nil {
		list = make([]*Copy, len(x.forms))
		r.refs.Set(x.value, list)
	}
	list[form] = c
}

// steps makes copies.
func (r *reading) steps(x *variable, list []step) {
	for _, s := range list {
		if s.from < 0 {
			continue
		}
		from := r.refs.At(x.value)[s.from]
		c := &Copy{Value: x.value, Order: x.forms[s.to].order, From: from}
		if s.to == 0 {
			c.Strides = x.value.Meta.Strides
		}
		c.Why = r.why(x, int(s.from), int(s.to))
		r.ref(x, int(s.to), c)
	}
}

// operand is what stands for an operand that reads v: nil for v itself.
func (r *reading) operand(v *graph.Value, c *Copy) *Copy {
	if c == nil || c.Bare && c.Value == v {
		return nil
	}
	return c
}

func (r *reading) task(t *task, c *Choice) {
	l, n := r.chosen(t), t.node
	c.Impl, c.Walk = l.impl, l.walk
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x, f := r.m.variables.At(a.Value), l.form[k]
		if !unmoved(n, k) {
			f, _ = l.reads(k, r.set(x))
		}
		r.in(c, n, k, r.refs.At(a.Value)[f])
	}
	c.Written = true
	for k, v := range n.Out {
		x := r.m.variables.At(v)
		r.ref(x, l.out[k], &Copy{Value: v, Bare: true})
		r.steps(x, r.way(x, 1<<l.out[k], nil).steps)
		if x.forms[l.out[k]].slot != nil {
			r.a.Within = append(r.a.Within, v)
		}
	}
}

// in makes operand k of a node's choice what stands for it.
func (r *reading) in(c *Choice, n *graph.Node, k int, from *Copy) {
	if from = r.operand(n.In[k].Value, from); from == nil {
		return
	}
	if c.In == nil {
		c.In = make([]*Copy, len(n.In))
	}
	c.In[k] = from
}
