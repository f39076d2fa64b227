package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// defaultView is the choice for a view node of the graph. The node itself makes one form (layout) of its results from
// one form of its operand. Additional nodes with the same op make the other needed forms.
type defaultView struct {
	view   *viewNode
	choice *Choice
	from   *Copy       // the operand that the node itself reads
	impl   *graph.Impl // the implementation that copies; nil if the node makes a view
}

// viewChoice records the choice for a view node: from which forms of the operand the needed forms of the results are
// made.
func (r *decoder) viewChoice(v *viewNode, c *Choice) {
	in := v.node.In[v.operand].Value
	set := r.existingForms(r.m.variables.At(in)) & v.allowed
	c.Drop = true
	d := &defaultView{view: v, choice: c}
	for k, out := range v.node.Out {
		if r.needed.At(out) == 0 {
			continue
		}
		y := r.m.variables.At(out)
		w := r.recipe(y, v.viewForms(k, set), r.m.operandCopies(v, k, set))
		for f := range y.forms {
			if w.usedForms>>f&1 != 0 {
				from := r.formCopies.At(in)[v.source(k, f, set, r.needed.At(in))]
				r.setFormCopy(y, f, d.copyOf(r, out, from, nil, f))
			}
		}
		for _, s := range w.steps {
			if to := int(s.to); s.from < 0 {
				r.setFormCopy(y, to, d.copyFromOperand(r, k, r.m.copySource(v, k, to, set), to))
			}
		}
		r.recordSteps(y, w.steps)
	}
}

// copyFromOperand returns the copy that makes form `to` of result k from the given form of the operand.
func (d *defaultView) copyFromOperand(r *decoder, k, operandForm, to int) *Copy {
	v, out := d.view, d.view.node.Out[k]
	from := r.formCopies.At(v.node.In[v.operand].Value)[operandForm]
	if r.m.operandCopy(v, k, operandForm, to).byNode {
		return d.copyOf(r, out, from, &v.node.Op.Impls[0], to)
	}
	c := &Copy{Value: out, Order: r.m.variables.At(out).forms[to].order, From: from,
		Why: fmt.Sprintf("%q needs a buffer of its own", out.Name)}
	if v.canView[operandForm] {
		c.From = d.copyOf(r, out, from, nil, to)
	}
	if to == 0 {
		c.Strides = out.Meta.Strides
	}
	return c
}

// copyOf returns the copy that has form `to` of result out. The view's op is applied to `from` instead of the operand.
// The copy is a view or, if impl is not nil, has its own buffer.
func (d *defaultView) copyOf(r *decoder, out *graph.Value, from *Copy, impl *graph.Impl, to int) *Copy {
	y := r.m.variables.At(out)
	f := y.forms[to]
	// The node is not removed if it is pinned, or if an output needs its strides in dimensions of size 1.
	mustStay := d.view.node.Pin.SetsLayout() && y.pin == to || to == 0 && r.m.Problem.outputs[out] && ambiguous(out.Meta)
	switch {
	case d.view.identity && impl == nil && !mustStay:
		return from
	case d.choice.Drop:
		d.choice.Drop, d.from, d.impl, d.choice.ExactStrides = false, from, impl, true
		r.setInput(d.choice, d.view.node, d.view.operand, from)
		if d.choice.Impl = impl; impl != nil && d.view.node.Op.AnyOrder {
			d.choice.Walk = d.view.node.Call().InOrder(f.order)
		}
		return &Copy{Value: out, Original: true}
	case d.from == from && d.impl == nil && impl == nil:
		return &Copy{Value: out, Original: true}
	}
	c := &Copy{Value: out, View: true, From: from, Why: fmt.Sprintf("%q in another layout", out.Name)}
	if f.meta.SameAddresses(out.Meta) {
		c.Strides = out.Meta.Strides
	}
	if impl != nil {
		c.Order, c.Why = f.order, fmt.Sprintf("%s cannot view %q in its layout", d.view.node.Name,
			d.view.node.In[d.view.operand].Value.Name)
	}
	return c
}

// ambiguous reports whether other strides of the same shape give the same addresses.
func ambiguous(m tensor.Meta) bool { return slices.Contains(m.Shape, 1) || m.Numel() == 0 }
