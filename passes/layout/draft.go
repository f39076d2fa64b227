package layout

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/tensor"
)

// Draft is an assignment in the making. It takes the nodes one by one, in the graph's order, and knows
// how values are laid out under the choices so far: what was moved, and which copies stand for what.
type Draft struct {
	Problem *Problem
	a       *Assignment
	moved   map[*graph.Value]lying // values with another layout than in the graph as written
	instead map[*graph.Value]*Copy // copies for all readers
	copies  map[copyKey]*Copy

	// What is asked of a node that is laid out as written is built in the same memory for all of them.
	call graph.Call
	res  []graph.Result
	outs []tensor.Meta
}

// lying is how a value is laid out.
type lying struct {
	typ  tensor.Type
	meta tensor.Meta
	view bool
}

type copyKey struct {
	value   *graph.Value
	order   tensor.Order
	written bool
}

// NewDraft begins an assignment.
func NewDraft(p *Problem) *Draft {
	return &Draft{Problem: p, moved: map[*graph.Value]lying{}, instead: map[*graph.Value]*Copy{},
		copies: map[copyKey]*Copy{},
		a: &Assignment{Nodes: make([]Choice, len(p.Graph.Nodes)), Outputs: make([]*Copy, len(p.Graph.Outputs)),
			LostOutputs: make([]bool, len(p.Graph.Outputs)), Lost: map[*graph.Value]bool{}}}
}

// Meta returns how the value itself is laid out under the choices so far.
func (d *Draft) Meta(v *graph.Value) tensor.Meta {
	if v == nil {
		return tensor.Meta{}
	}
	if l, ok := d.moved[v]; ok {
		return l.meta
	}
	return v.Meta
}

// Copy returns a copy of a value in an order, one for all who ask for it. why is what users are told.
func (d *Draft) Copy(v *graph.Value, o tensor.Order, why string) *Copy {
	return d.copy(copyKey{value: v, order: o}, why)
}

func (d *Draft) copy(key copyKey, why string) *Copy {
	c := d.copies[key]
	if c == nil {
		c = &Copy{Value: key.value, Order: key.order, Why: why}
		if key.written {
			c.Strides = key.value.Meta.Strides
		}
		if pinned := d.instead[key.value]; pinned != nil && pinned.Pinned {
			c.From = pinned
		}
		d.copies[key] = c
	}
	return c
}

// lie is how a copy lies.
func (d *Draft) lie(c *Copy) tensor.Meta {
	return c.Lay(d.Meta(c.Value))
}

// reads is how what an operand reads lies, and what stands for it.
func (d *Draft) reads(v *graph.Value) (tensor.Meta, *Copy) {
	if c := d.instead[v]; c != nil {
		return d.lie(c), c
	}
	return d.Meta(v), nil
}

// Wish says in which order somebody wants a value that is not bound otherwise, and why; an empty order:
// as it comes.
type Wish func(v *graph.Value) (o tensor.Order, why string)

// Solve makes an assignment that grants a wish wherever nothing forbids it: every node takes the
// implementation that costs least with the copies that it takes to get what is wished, or inferred; values
// that come otherwise than wished are copied for all that read them. Nobody wishes anything where wish
// is nil.
func Solve(p *Problem, wish Wish) (*Assignment, error) {
	if p == nil || p.Graph == nil {
		return nil, errors.New("there is no problem to solve")
	}
	if wish == nil {
		wish = func(*graph.Value) (tensor.Order, string) { return "", "" }
	}
	d := NewDraft(p)
	for _, list := range [][]*graph.Value{p.Graph.Inputs, p.Graph.Constants} {
		for _, v := range list {
			c, err := d.settle(v, wish)
			if err != nil {
				return nil, err
			}
			if c != nil {
				d.a.Inputs = append(d.a.Inputs, c)
			}
		}
	}
	for i, n := range p.Graph.Nodes {
		if err := ends.Err(p.Context()); err != nil {
			return nil, err
		}
		if d.loses(n) {
			continue
		}
		if err := d.try(i, n, wish); err != nil {
			return nil, err
		}
	}
	for i := range p.Graph.Outputs {
		if err := d.output(i); err != nil {
			return nil, err
		}
	}
	return d.a, nil
}

// loses reports whether the node reads something lost, and loses it too.
func (d *Draft) loses(n *graph.Node) bool {
	if len(d.a.Lost) == 0 || !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return d.a.Lost[a.Value] }) {
		return false
	}
	for _, v := range n.Out {
		d.a.Lost[v] = true
	}
	return true
}

// try decides one node. Where planning keeps going, a node that fails is noted and lost;
// that a rule panics on it is a mistake in the rule, and of this node alone.
func (d *Draft) try(i int, n *graph.Node, wish Wish) (err error) {
	if !d.Problem.KeepGoing {
		return d.node(i, n, wish)
	}
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("internal error: %v\n%s", x, debug.Stack())
		}
		if err == nil {
			return
		}
		var at *graph.Error
		if !errors.As(err, &at) {
			at = d.Problem.Graph.Fail(n, err)
		}
		d.a.Failed = append(d.a.Failed, at)
		for _, v := range n.Out {
			d.a.Lost[v] = true
		}
		err = nil
	}()
	return d.node(i, n, wish)
}

// node decides one node.
func (d *Draft) node(i int, n *graph.Node, wish Wish) error {
	choice := &d.a.Nodes[i]
	call, res, err := d.infer(n, choice)
	if err != nil {
		return d.Problem.Graph.Fail(n, err)
	}
	if len(res) == 0 || res[0].Alias == graph.Fresh {
		if res, err = d.choose(n, choice, call, res, wish); err != nil {
			return err
		}
	}
	for k, v := range n.Out {
		d.laid(v, choice, res[k], k)
		c, err := d.settle(v, wish)
		if err != nil {
			return d.Problem.Graph.Fail(n, err)
		}
		if c != nil {
			choice.After = append(choice.After, c)
		}
	}
	return nil
}

// infer returns what the op infers of the operands in their layouts under the choices so far. A view that
// was possible in the layout as written may be impossible now; then its operand is copied into
// row-major order or, if the view needs it, into the layout as written.
func (d *Draft) infer(n *graph.Node, choice *Choice) (*graph.Call, []graph.Result, error) {
	call := &d.call
	*call = graph.Call{In: n.In, Attrs: n.Attrs}
	stale := false
	for k, a := range n.In {
		if a.Kind != graph.TensorArg || n.Op.Eager != nil && a.Value.Const != nil {
			continue // an op that decides shapes by data sees those of a constant, and not of a copy
		}
		m, c := d.reads(a.Value)
		if c != nil && c.Pinned && d.Problem.bares(n) && a.Value.Meta.IsNonOverlappingAndDense() {
			c = d.written(a.Value, fmt.Sprintf("%s shows %q as it was written", n.Name, a.Value.Name))
			m = d.lie(c)
		}
		if _, moved := d.moved[a.Value]; moved || c != nil {
			if !stale {
				call.In, stale = slices.Clone(n.In), true
			}
			d.replace(choice, call, k, a.Value, m, c)
		}
	}
	if !stale && !n.Pin.Lays() {
		d.res, d.outs = d.res[:0], d.outs[:0]
		for _, v := range n.Out {
			r := graph.Result{Type: v.Type, Alias: graph.Fresh}
			if v.Alias != nil {
				r.Alias = slices.IndexFunc(n.In, func(a graph.Arg) bool { return a.Value == v.Alias })
			}
			d.res, d.outs = append(d.res, r), append(d.outs, v.Meta)
		}
		call.Out = d.outs
		return call, d.res, nil
	}
	res, err := n.Op.Infer(call)
	if err != nil && n.Op.Kind == graph.View && n.In[0].Kind == graph.TensorArg {
		call.In = slices.Clone(call.In)
		for _, c := range d.viewable(n) {
			if choice.In != nil {
				choice.In[0] = nil
			}
			v := n.In[0].Value
			m := d.Meta(v)
			if c != nil {
				m = d.lie(c)
			}
			d.replace(choice, call, 0, v, m, c)
			if res, err = n.Op.Infer(call); err == nil {
				break
			}
		}
	}
	for _, r := range res {
		call.Out = append(call.Out, r.Meta())
	}
	return call, res, err
}

// viewable returns copies of the operand of a view, one of which it can view: row-major, and as written, where strides
// of the view do not exceed the limit on strides. nil stands for the operand itself.
func (d *Draft) viewable(n *graph.Node) []*Copy {
	v, why := n.In[0].Value, fmt.Sprintf("%s cannot view the chosen layout", n.Name)
	list := []*Copy{d.Copy(v, tensor.RowMajorOrder(v.Meta.Rank()), why)}
	if _, moved := d.moved[v]; !moved && !v.Demand().Lays() {
		return append(list, nil)
	}
	return append(list, d.written(v, why))
}

// replace makes operand k of a call, and of the choice, what has layout m: a copy, or the value moved.
func (d *Draft) replace(choice *Choice, call *graph.Call, k int, v *graph.Value, m tensor.Meta, c *Copy) {
	w := &graph.Value{Name: v.Name, Node: v.Node, Index: v.Index, Meta: m, Type: m.Type()}
	call.In[k] = graph.Arg{Kind: graph.TensorArg, Value: w}
	if c == nil {
		return
	}
	if choice.In == nil {
		choice.In = make([]*Copy, len(call.In))
	}
	choice.In[k] = c
}

// laid notes how a result lies.
func (d *Draft) laid(v *graph.Value, choice *Choice, r graph.Result, k int) {
	view := r.Alias >= 0
	m := r.Meta()
	if view && m.SameAddresses(v.Meta) {
		m.Strides = v.Meta.Strides // also those of dimensions of size 1
	}
	if !view {
		m = choice.Walk.Lay(k, m)
		if choice.Written && m.SameAddresses(v.Meta) && !m.SameLayout(v.Meta) {
			// Dimensions of size 1 have other strides: those that were written are chosen.
			m = v.Meta
			o, _ := tensor.OrderOf(m)
			choice.Walk.Out = append(slices.Clone(choice.Walk.Out), make([]tensor.Order, max(0, k+1-len(choice.Walk.Out)))...)
			choice.Walk.Out[k] = o
		}
	}
	if view != (v.Alias != nil) || !m.SameLayout(v.Meta) || m.Offset != v.Meta.Offset {
		d.moved[v] = lying{m.Type(), m, view}
	}
}

// settle returns the copy that all readers of a value take, where it is not laid out as it is pinned or
// else wished; nil where it does.
func (d *Draft) settle(v *graph.Value, wish Wish) (*Copy, error) {
	m := d.Meta(v)
	if pin := v.Demand(); pin.Lays() {
		if pin.Holds(m) {
			return nil, nil
		}
		o, err := pin.For(m.Rank())
		if err != nil {
			return nil, err
		}
		c := d.copy(copyKey{v, o, pin.Holds(v.Meta)}, whyPinned(v))
		c.Pinned = true
		d.instead[v] = c
		return c, nil
	}
	if d.Problem.Fixed(v) {
		l, moved := d.moved[v]
		if !moved || l.view && v.Alias != nil || !l.view && l.meta.SameAddresses(v.Meta) {
			return nil, nil
		}
		d.instead[v] = d.written(v, fmt.Sprintf("%q is read as it was written", v.Name))
		return d.instead[v], nil
	}
	o, why := wish(v)
	if o == "" || o.Rank() != m.Rank() || o.Holds(m) || d.only(v) {
		return nil, nil
	}
	d.instead[v] = d.Copy(v, o, why)
	return d.instead[v], nil
}

// written returns a copy with the strides of the graph as written.
func (d *Draft) written(v *graph.Value, why string) *Copy {
	o, _ := tensor.OrderOf(v.Meta)
	return d.copy(copyKey{v, o, true}, why)
}

// only reports whether nobody reads a value, which is handed over as it was written.
func (d *Draft) only(v *graph.Value) bool {
	return d.Problem.outputs[v] && d.Problem.readers[v] == 0
}

// output decides what is handed over.
func (d *Draft) output(i int) error {
	g := d.Problem.Graph
	o := g.Outputs[i]
	v := o.Value
	if d.a.Lost[v] {
		d.a.LostOutputs[i] = true
		return nil
	}
	pin := o.Demand()
	if !pin.Lays() {
		if m := d.Meta(v); m.SameLayout(v.Meta) {
			return nil
		}
		if c := d.instead[v]; c != nil && d.lie(c).SameLayout(v.Meta) {
			d.a.Outputs[i] = c
			return nil
		}
		d.a.Outputs[i] = d.written(v, fmt.Sprintf("output %q is handed over as it was written", o.Name))
		return nil
	}
	m, c := d.reads(v)
	if d.a.Outputs[i] = c; pin.Holds(m) {
		return nil
	}
	order, err := pin.For(m.Rank())
	if err != nil {
		if !d.Problem.KeepGoing {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		d.a.LostOutputs[i] = true
		d.a.Failed = append(d.a.Failed, g.FailOutput(o, err))
		return nil
	}
	d.a.Outputs[i] = d.Copy(v, order, fmt.Sprintf("output %q is pinned to %v", o.Name, pin))
	return nil
}
