package layout

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
)

// seen is a view's node while it is read: what its default stands on.
type seen struct {
	v    *viewed
	c    *Choice
	from *Copy
	impl *graph.Impl
}

// view finds from which forms of its operand a view is made: by the node itself from the first, by others like it from
// others.
func (r *reading) view(v *viewed, c *Choice) {
	in := v.node.In[v.operand].Value
	x := r.m.variables.At(in)
	set := r.set(x) & v.allowed
	c.Drop = true
	s := &seen{v: v, c: c}
	for k, out := range v.node.Out {
		if r.needed.At(out) == 0 {
			continue
		}
		y := r.m.variables.At(out)
		w := r.way(y, v.shown(k, set), v.outside(k, set))
		for f := range y.forms {
			if w.used>>f&1 != 0 {
				from := r.refs.At(in)[v.source(k, f, set, r.needed.At(in))]
				r.ref(y, f, s.of(r, out, from, nil, y.forms[f]))
			}
		}
		for _, st := range w.steps {
			if st.from >= 0 {
				continue
			}
			i, f := v.copied(k, int(st.to), set), y.forms[st.to]
			from := r.refs.At(in)[i]
			plain := v.plain[i]>>st.to&1 != 0
			if !v.shows[i] && !plain {
				r.ref(y, int(st.to), s.of(r, out, from, &v.node.Op.Impls[0], f))
				continue
			}
			own := &Copy{Value: out, Order: f.order, From: from, Why: fmt.Sprintf("%q has memory of its own", out.Name)}
			if !plain {
				own.From = s.of(r, out, from, nil, f)
			} else if v.node.Pin.Lays() { // the copy takes its name over, and it goes as dead
				s.of(r, out, from, &v.node.Op.Impls[0], y.forms[0])
			}
			if st.to == 0 {
				own.Strides = out.Meta.Strides
			}
			r.ref(y, int(st.to), own)
		}
		r.steps(y, w.steps)
	}
}

// of is what stands for a form of a view's result: it shows, or by impl copies, what stands for its operand.
func (s *seen) of(r *reading, out *graph.Value, from *Copy, impl *graph.Impl, f form) *Copy {
	switch {
	case s.v.same && impl == nil:
		return from
	case s.c.Drop:
		s.c.Drop, s.from, s.impl, s.c.Written = false, from, impl, true
		r.in(s.c, s.v.node, s.v.operand, from)
		if s.c.Impl = impl; impl != nil && s.v.node.Op.AnyOrder {
			s.c.Walk = s.v.node.Call().InOrder(f.order)
		}
		return &Copy{Value: out, Bare: true}
	case s.from == from && s.impl == nil && impl == nil:
		return &Copy{Value: out, Bare: true}
	}
	c := &Copy{Value: out, View: true, From: from, Why: fmt.Sprintf("%q in another layout", out.Name)}
	if impl != nil {
		if f.meta.SameAddresses(out.Meta) {
			c.Strides = out.Meta.Strides
		}
		c.Order, c.Why = f.order, fmt.Sprintf("%s cannot view %q in the layout that it has", s.v.node.Name,
			s.v.node.In[s.v.operand].Value.Name)
	}
	return c
}

// why tells of a copy who writes the value otherwise, and who reads it so.
func (r *reading) why(x *variable, from, to int) string {
	var who []string
	for _, u := range r.m.readers.At(x.value) {
		n := r.m.Problem.Graph.Nodes[u.node]
		if t := r.m.tasks[u.node]; t == nil {
			who = append(who, fmt.Sprintf("%s (%s) shows it", n.Name, n.Op.Name))
		} else if f, _ := r.chosen(t).reads(u.operand, r.set(x)); f == to {
			l := r.chosen(t)
			who = append(who, fmt.Sprintf("%s (%s) reads it by %s", n.Name, n.Op.Name, l.text()))
		}
	}
	for _, o := range x.outputs {
		if r.m.handed(x, o) == to {
			who = append(who, fmt.Sprintf("output %q is handed over so", o.Name))
		}
	}
	if len(who) > 3 {
		who = append(who[:2], fmt.Sprintf("%d more", len(who)-2))
	}
	return fmt.Sprintf("%q is there %s, and wanted %s: %s", x.value.Name, x.forms[from].text(), x.forms[to].text(),
		strings.Join(who, ", "))
}
