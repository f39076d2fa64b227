package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// defaultView is the choice for a view node of the graph. From one form (layout) of its operand, the node makes one
// form of its results. Additional nodes with the same op make the other forms.
type defaultView struct {
	v    *viewed
	c    *Choice
	from *Copy       // the form of the operand that the node itself reads
	impl *graph.Impl // set if the node copies instead of making a view
}

// view decides from which forms of the operand the needed forms of a view's results are made: see defaultView.
func (r *decoder) view(v *viewed, c *Choice) {
	in := v.node.In[v.operand].Value
	x := r.m.variables.At(in)
	set := r.set(x) & v.allowed
	c.Drop = true
	s := &defaultView{v: v, c: c}
	for k, out := range v.node.Out {
		if r.needed.At(out) == 0 {
			continue
		}
		y := r.m.variables.At(out)
		w := r.recipe(y, v.shown(k, set), r.m.outside(v, k, set))
		for f := range y.forms {
			if w.used>>f&1 != 0 {
				from := r.refs.At(in)[v.source(k, f, set, r.needed.At(in))]
				r.ref(y, f, s.copyOf(r, out, from, nil, f))
			}
		}
		for _, st := range w.steps {
			if st.from >= 0 {
				continue
			}
			to := int(st.to)
			i, f := r.m.copied(v, k, to, set), y.forms[to]
			from := r.refs.At(in)[i]
			if r.m.outsideCopy(v, k, i, to).own {
				r.ref(y, to, s.copyOf(r, out, from, &v.node.Op.Impls[0], to))
				continue
			}
			own := &Copy{Value: out, Order: f.order, From: from, Why: fmt.Sprintf("%q needs a buffer of its own", out.Name)}
			if v.shows[i] {
				own.From = s.copyOf(r, out, from, nil, to)
			}
			if to == 0 {
				own.Strides = out.Meta.Strides
			}
			r.ref(y, to, own)
		}
		r.steps(y, w.steps)
	}
}

// copyOf returns the copy that has form `to` of a view's result. It applies the view's op to `from` instead of the
// operand. The copy is a view or, if impl is not nil, has a buffer of its own.
func (s *defaultView) copyOf(r *decoder, out *graph.Value, from *Copy, impl *graph.Impl, to int) *Copy {
	y := r.m.variables.At(out)
	f := y.forms[to]
	// The node stays if it carries a pin, or an output's strides in dimensions of size 1.
	stays := s.v.node.Pin.Lays() && y.pin == to || to == 0 && r.m.Problem.outputs[out] && ambiguous(out.Meta)
	switch {
	case s.v.same && impl == nil && !stays:
		return from
	case s.c.Drop:
		s.c.Drop, s.from, s.impl, s.c.Written = false, from, impl, true
		r.setInput(s.c, s.v.node, s.v.operand, from)
		if s.c.Impl = impl; impl != nil && s.v.node.Op.AnyOrder {
			s.c.Walk = s.v.node.Call().InOrder(f.order)
		}
		return &Copy{Value: out, Bare: true}
	case s.from == from && s.impl == nil && impl == nil:
		return &Copy{Value: out, Bare: true}
	}
	c := &Copy{Value: out, View: true, From: from, Why: fmt.Sprintf("%q in another layout", out.Name)}
	if f.meta.SameAddresses(out.Meta) {
		c.Strides = out.Meta.Strides
	}
	if impl != nil {
		c.Order, c.Why = f.order, fmt.Sprintf("%s cannot view %q in its layout", s.v.node.Name,
			s.v.node.In[s.v.operand].Value.Name)
	}
	return c
}

// ambiguous reports whether other strides give the same addresses. This is the case if a dimension has size 1 or there
// are no elements.
func ambiguous(m tensor.Meta) bool { return slices.Contains(m.Shape, 1) || m.Numel() == 0 }
