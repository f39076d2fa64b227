package layout

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// Model is a [Problem] stated exactly: everything that can be decided as variables with labels, and what it costs as
// tables over one or two of them, in picoseconds of one worker.
//
//   - A value's variable is the set of forms that it is materialised in: orders of its dimensions, or, of views, other
//     layouts that follow from those of what they view. Forms are told apart by where elements lie: strides of
//     dimensions of size 1 do not count. The first form has all strides of the graph as written, however it is made.
//   - The variable of a node that computes is its label: an implementation, a walk, and so the form of its results.
//   - A label costs its Work and, for each operand, the least Read over the forms that there are of it.
//   - A value costs the cheapest copies, of copies where that is cheaper, by which its forms are made of the one that
//     is written: an arborescence.
//   - A view has the forms of its operand, viewed, for nothing, and copies of these. What a reshape cannot view is
//     one copy into any order. A copy that the user wrote is a view that changes nothing, unless it is pinned: one that
//     is handed over is made, for it has memory of its own, but who reads it may read its operand.
//   - What a node puts together (concatenation) may be written where its result has it, in any order of that, by
//     whoever can write it so, and is read by whoever can read it so: then it is not copied. It is a form of the value,
//     which goes with labels of that order alone. Of several such nodes it is the last one. One whose operands all lie
//     side by side within another's result has its own there.
//   - Constants are converted when the graph is planned, for nothing, unless they are pinned.
//   - A pinned value always has its pinned form, and all its other forms are copies of that. A pinned operand is read
//     in its pinned form if any label of the node can read it.
//   - Outputs are among the forms of their values: as in the graph as written, or as they are pinned.
//
// Peak memory, and steps that run at the same time, are not in the costs. Labels of nodes whose results are laid out by
// inference alone fix the operands that inference looks at: as written, or all in one order.
type Model struct {
	Problem *Problem
	// WCSP is what is to be solved. Variables that have one label are left out of it.
	WCSP *wcsp.Problem

	copying   []bool // by factor: it is what copies cost
	variables graph.ByValue[*variable]
	values    []*variable // in the graph's order
	tasks     []*task     // by the place of the node; nil for what is viewed
	views     []*viewed   // by the place of the node; nil for what computes
	copier    *graph.Op
	readers   graph.ByValue[[]use]
	places    []int              // of nodes in the graph, by their numbers
	barred    map[*variable]uint // forms into which a value is not copied
	failed    graph.Errors
	losing    map[*graph.Value]bool // the results of nodes that are lost
	slots     *slots
}

// use is an operand of a node.
type use struct{ node, operand int }

// form is a layout in which a value may be materialised.
type form struct {
	meta  tensor.Meta
	order tensor.Order // of a dense one, else empty
	dense bool
	slot  *slot // where it lies within another value, if it does
	// like is, of what lies within another value and of views of that, the form that it would be alone; else -1.
	like int
}

// variable is a value, and the forms that there may be of it.
type variable struct {
	value *graph.Value
	forms []form // the first is that of the graph as written
	// pin is the form that a pin demands; -1 without one. All other forms of the value are copies of it, also one in which
	// the value is written: see [Model.enter].
	pin int
	// rigid says that nothing but a view leads to the first form: no copies are made into it.
	rigid   bool
	inside  uint           // forms that may begin elsewhere than the memory that they are in
	need    int            // forms that could be read at once
	outputs []graph.Output // what hands it over
	sets    []uint         // labels
	id      int            // in the WCSP; -1 where there is one label
	copy    []int64        // from form to form, row by row
}

// task is a node that computes.
type task struct {
	node   *graph.Node
	labels []label
	id     int // in the WCSP; -1 where there is one label
}

// label is a way to compute a node.
type label struct {
	impl *graph.Impl
	walk graph.Walk
	out  []int // the form of each result
	only []int // by operand: the form that must be read; -1, or nil, for any
	// strays marks the operands that are pinned to a layout that the label does not read.
	strays []int
	cost   int64     // Work, and reading constants
	read   [][]int64 // by operand and form of its value; nil for operands without a variable
	form   []int     // by operand: the form of a constant that is read
	slot   string    // the value within which it writes a result; empty for none
	// slots marks, by operand, the forms that lie where the result has them.
	slots []uint
}

// viewed is a node whose results show its operand, or copy it where they cannot.
type viewed struct {
	node    *graph.Node
	operand int
	same    bool        // a copy that changes nothing: its result is the operand, in all forms
	own     uint        // forms of the operand of which that makes a copy in its first form, since it is handed over
	seen    uint        // forms of the operand for which that is known:
	to      [][]int     // by result and form of the operand: the form of the result; -1: it is copied
	copies  [][][]int64 // by result, form of the operand, and of the result: what it costs to copy one into the other
	shows   []bool      // by form of the operand: it is viewed, and where there are copies that is copied
	plain   []uint      // by form of the operand: the forms of the result into which it is copied as others are
	allowed uint        // forms of the operand that may be viewed or copied
}

// Forms returns the layouts in which a value may be materialised, the first as in the graph as written; nil for a value
// of another graph. The list is the caller's.
func (m *Model) Forms(v *graph.Value) []tensor.Meta {
	if m == nil {
		return nil
	}
	x := m.variables.At(v)
	if x == nil || x.value != v {
		return nil
	}
	list := make([]tensor.Meta, len(x.forms))
	for i, f := range x.forms {
		list[i] = f.meta
	}
	return list
}

// NewModel states a problem. The error says which node has no way to be computed.
func NewModel(p *Problem) (_ *Model, err error) {
	defer ends.Catch(&err)
	if p == nil || p.Graph == nil {
		return nil, errors.New("there is no problem to state")
	}
	g := p.Graph
	m := &Model{Problem: p, variables: graph.NewByValue[*variable](g), readers: graph.NewByValue[[]use](g),
		tasks: make([]*task, len(g.Nodes)), views: make([]*viewed, len(g.Nodes))}
	op, err := g.CopyOp()
	if err != nil {
		return nil, err
	}
	m.copier = op
	if err := m.declare(); err != nil {
		return nil, err
	}
	if err := m.grow(); err != nil {
		return nil, err
	}
	for i, n := range g.Nodes {
		ends.Look(p.Context())
		if err := m.decide(i, n); err != nil {
			return nil, err
		}
	}
	m.count()
	if err := m.state(); err != nil {
		return nil, err
	}
	return m, nil
}

// decide finds what can be decided of a node. Where planning keeps going, one for which there is nothing is lost, and
// so is what depends on it.
func (m *Model) decide(i int, n *graph.Node) (err error) {
	if m.Problem.KeepGoing {
		if slices.ContainsFunc(n.In, func(a graph.Arg) bool { return m.losing[a.Value] }) {
			m.lose(i)
			return nil
		}
		defer func() {
			if x := recover(); x != nil {
				err = m.Problem.Graph.Fail(n, fmt.Errorf("internal error: %v\n%s", x, debug.Stack()))
			}
			var at *graph.Error
			if errors.As(err, &at) {
				m.failed = append(m.failed, at)
				m.lose(i)
				err = nil
			}
		}()
	}
	if v := m.views[i]; v != nil {
		m.reshapes(v)
		return nil
	}
	if err := m.label(i, n); err != nil {
		return m.Problem.Graph.Fail(n, err)
	}
	m.within(i, n)
	return nil
}

func (m *Model) lose(i int) {
	if m.losing == nil {
		m.losing = map[*graph.Value]bool{}
	}
	m.views[i], m.tasks[i] = nil, nil
	for _, v := range m.Problem.Graph.Nodes[i].Out {
		m.losing[v] = true
	}
}

// lost reports whether there is nothing for a node.
func (m *Model) lost(i int) bool { return m.views[i] == nil && m.tasks[i] == nil }

// declare makes a variable of each value, with the form that it has in the graph as written, and tells views from nodes
// that compute.
func (m *Model) declare() error {
	g := m.Problem.Graph
	var err error
	g.Values(func(v *graph.Value) {
		if err == nil {
			err = m.variable(v)
		}
	})
	if err != nil {
		return err
	}
	for i, n := range g.Nodes {
		for len(m.places) <= n.Number() {
			m.places = append(m.places, -1)
		}
		m.places[n.Number()] = i
		for k, a := range n.In {
			if a.Kind == graph.TensorArg {
				m.readers.Set(a.Value, append(m.readers.At(a.Value), use{i, k}))
			}
		}
		if k := viewedOperand(n); k >= 0 {
			m.views[i] = &viewed{node: n, operand: k, same: m.changesNothing(n), to: make([][]int, len(n.Out))}
		} else {
			m.tasks[i] = &task{node: n, id: -1}
		}
	}
	return nil
}

func (m *Model) variable(v *graph.Value) error {
	ends.Look(m.Problem.Context())
	x := &variable{value: v, id: -1, pin: -1}
	x.add(v.Meta)
	x.rigid = m.Problem.storage[v] && v.Alias != nil
	if pin := v.Demand(); pin.Lays() {
		o, err := pin.For(v.Meta.Rank())
		if err != nil {
			if v.Node != nil {
				return m.Problem.Graph.Fail(v.Node, err)
			}
			return fmt.Errorf("%q: %w", v.Name, err)
		}
		x.pin = x.add(v.Meta.WithStrides(o.Strides(v.Meta.Shape)))
	}
	m.variables.Set(v, x)
	m.values = append(m.values, x)
	return nil
}

// viewedOperand is the operand that a node's results show, or would where they can; -1 for a node that computes.
func viewedOperand(n *graph.Node) int {
	if len(n.Out) == 0 || len(n.In) == 0 || n.Op.Eager != nil {
		return -1
	}
	for k, a := range n.In {
		if a.Kind == graph.TensorArg && a.Value == n.Out[0].Alias {
			return k
		}
	}
	if n.Pin.Lays() && n.Op.Kind == graph.View { // pinned, its results show nothing in the graph as written
		if res, err := n.Op.Infer(n.Call()); err == nil && len(res) > 0 && res[0].Alias >= 0 {
			return res[0].Alias
		}
	}
	copies := n.Op.Identity && n.In[0].Kind == graph.TensorArg && n.In[0].Meta().DType == n.Out[0].Meta.DType
	if (n.Op.Kind == graph.View || copies) && n.In[0].Kind == graph.TensorArg && len(n.Out) == 1 &&
		n.In[0].Meta().DType == n.Out[0].Meta.DType {
		return 0
	}
	return -1
}

// changesNothing reports whether a node is a copy for which its operand can stand.
func (m *Model) changesNothing(n *graph.Node) bool {
	v := n.Out[0]
	return n.Op.Identity && n.In[0].Kind == graph.TensorArg && len(n.Out) == 1 &&
		n.In[0].Meta().DType == v.Meta.DType && slices.Equal(n.In[0].Value.Meta.Shape, v.Meta.Shape)
}

// maxForms bounds the forms of a value: the table of its sets has a label for each set of them.
const maxForms = 8

// add returns the place of a layout among the forms, where it is added if it is new; -1 where there is no room.
func (x *variable) add(meta tensor.Meta) int {
	if i := x.find(meta); i >= 0 || len(x.forms) == maxForms {
		return i
	}
	o, dense := tensor.OrderOf(meta)
	if !dense {
		o = ""
	}
	x.forms = append(x.forms, form{meta: meta, order: o, dense: dense, like: -1})
	return len(x.forms) - 1
}

// find returns the place of a layout among the forms; -1 if it is none of them.
func (x *variable) find(meta tensor.Meta) int {
	for i := range x.forms {
		if x.forms[i].slot == nil && x.forms[i].meta.SameAddresses(meta) {
			return i
		}
	}
	return -1
}

// of is the place of a form that is known to be of an order; -1 for none.
func (x *variable) of(o tensor.Order) int {
	return slices.IndexFunc(x.forms, func(f form) bool { return f.dense && f.order == o })
}

// addOrder is add for a dense layout.
func (x *variable) addOrder(o tensor.Order) int {
	if o.Rank() != x.value.Meta.Rank() {
		return -1
	}
	if i := x.of(o); i >= 0 {
		return i
	}
	return x.add(x.value.Meta.WithStrides(o.Strides(x.value.Meta.Shape)))
}

// orders are the orders of the dense forms.
func (x *variable) orders() []tensor.Order {
	var list []tensor.Order
	for _, f := range x.forms {
		if f.dense {
			list = append(list, f.order)
		}
	}
	return list
}

// base is the form of a value by its pin alone: the pinned form, else that of the graph as written.
func (x *variable) base() int { return max(0, x.pin) }

// constant reports whether a value is converted when the graph is planned, for nothing: a constant that is not pinned.
func constant(v *graph.Value) bool { return v.Const != nil && !v.Pin.Lays() }

// unmoved reports whether operand k of a node is a constant, which is read in any form, or by its data.
func unmoved(n *graph.Node, k int) bool {
	v := n.In[k].Value
	return constant(v) || v.Const != nil && n.Op.Eager != nil
}

// text names a form for users.
func (f *form) text() string {
	switch {
	case f.dense:
		return f.order.String()
	case f.slot != nil:
		return f.slot.order.String()
	}
	return "as it lies " + tensor.ListString(f.meta.Strides)
}

// set names a set of forms.
func (x *variable) set(mask uint) string {
	var list []string
	for i := range x.forms {
		if mask>>i&1 == 0 {
			continue
		}
		text := x.forms[i].text()
		if s := x.forms[i].slot; s != nil {
			text += fmt.Sprintf(" within %q", s.within)
		}
		list = append(list, text)
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, " + ")
}
