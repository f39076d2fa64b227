package layout

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// want is the order that the node's first result should have; empty: as inference gives it.
func (d *Draft) want(n *graph.Node, m tensor.Meta, wish Wish) (tensor.Order, error) {
	v := n.Out[0]
	switch {
	case n.Pin.Lays():
		return n.Pin.For(m.Rank())
	case d.Problem.Fixed(v) || d.only(v):
		if written, dense := tensor.OrderOf(v.Meta); dense && !written.Holds(m) {
			return written, nil
		}
		return "", nil
	}
	o, _ := wish(v)
	if o.Rank() != m.Rank() || o.Holds(m) {
		return "", nil
	}
	return o, nil
}

// choose takes the implementation and the walk that give the wanted order, else the layout inferred, with
// the fewest bytes copied. Where as many are copied, copies into row-major order come first, then the
// order in which the op lists its implementations.
func (d *Draft) choose(n *graph.Node, choice *Choice, call *graph.Call, res []graph.Result, wish Wish) error {
	if len(n.Op.Impls) == 0 || len(res) == 0 {
		return nil
	}
	want, err := d.want(n, call.Out[0], wish)
	if err != nil {
		return d.Problem.Graph.Fail(n, err)
	}
	choice.Written = d.Problem.Fixed(n.Out[0]) || d.only(n.Out[0])
	if m := &n.Op.Impls[0]; len(n.Op.Impls) == 1 && want == "" && !m.Selective() && n.Pin.Impl == "" {
		if walks := m.Walks(call, nil); len(walks) > 0 {
			choice.Impl, choice.Walk = m, walks[0]
			return nil
		}
	}
	best, err := d.best(n, choice, call, want)
	if err != nil {
		return d.Problem.Graph.Fail(n, err)
	}
	choice.Impl, choice.Walk = best.impl, best.walk
	for k, o := range best.copies {
		v := n.In[k].Value
		c := d.Copy(v, o, whyCopy(n, call, k, best))
		d.replace(choice, call, k, v, d.lie(c), c)
	}
	return nil
}

// offer is a way to compute a node, and what has to be copied for it.
type offer struct {
	impl   *graph.Impl
	walk   graph.Walk
	copies map[int]tensor.Order
	off    bool // the results do not lie as wanted
	bytes  int  // copied
	turned int  // of these, into another order than row-major
}

func (o *offer) before(p *offer) bool {
	switch {
	case o.off != p.off:
		return !o.off
	case o.bytes != p.bytes:
		return o.bytes < p.bytes
	}
	return o.turned < p.turned
}

func (d *Draft) best(n *graph.Node, choice *Choice, call *graph.Call, want tensor.Order) (*offer, error) {
	var best *offer
	var orders []tensor.Order
	if want != "" {
		orders = append(orders, want)
	}
	served := false
	for i := range n.Op.Impls {
		m := &n.Op.Impls[i]
		if n.Pin.Impl != "" && m.Name != n.Pin.Impl {
			continue
		}
		for _, w := range m.Walks(call, orders) {
			served = true
			o := &offer{impl: m, walk: w, off: isOff(call, w, want)}
			if o.price(call) && (best == nil || o.before(best)) {
				best = o
			}
		}
	}
	switch {
	case best != nil:
		return best, nil
	case n.Pin.Impl != "" && !served:
		return nil, fmt.Errorf("it is pinned to implementation %q, which does not serve these operands: %s",
			n.Pin.Impl, servedBy(n, call))
	}
	return nil, errors.New("no kernel serves these operands")
}

// servedBy lists the implementations that serve a call.
func servedBy(n *graph.Node, call *graph.Call) string {
	text := "none does"
	for i := range n.Op.Impls {
		if m := &n.Op.Impls[i]; len(m.Walks(call, nil)) > 0 {
			if text == "none does" {
				text = m.Name
			} else {
				text += " and " + m.Name
			}
		}
	}
	if text != "none does" {
		text = "want " + text
	}
	return text
}

// isOff reports whether a walk gives another layout than is wanted, or than is inferred where nothing
// is wanted.
func isOff(call *graph.Call, w graph.Walk, want tensor.Order) bool {
	for k, m := range call.Out {
		lies := w.Lay(k, m)
		if want != "" && want.Rank() == m.Rank() {
			if !want.Holds(lies) {
				return true
			}
		} else if !lies.SameLayout(m) {
			return true
		}
	}
	return false
}

// price finds what has to be copied for the offer; false where some operand cannot be read in any
// order that there is reason to try.
func (o *offer) price(call *graph.Call) bool {
	if !o.impl.Selective() {
		return true
	}
	for k, a := range call.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		m := a.Meta()
		if _, ok := o.impl.Read(call, o.walk, k, m); ok {
			continue
		}
		order, ok := o.readable(call, k, m)
		if !ok {
			return false
		}
		if o.copies == nil {
			o.copies = map[int]tensor.Order{}
		}
		o.copies[k] = order
		o.bytes += m.Bytes()
		if !order.IsRowMajor() {
			o.turned += m.Bytes()
		}
	}
	return true
}

// readable is an order in which the implementation reads an operand: that of its walk, else row-major.
func (o *offer) readable(call *graph.Call, k int, m tensor.Meta) (tensor.Order, bool) {
	for _, order := range []tensor.Order{o.walk.Order, tensor.RowMajorOrder(m.Rank())} {
		if order.Rank() != m.Rank() {
			continue
		}
		if _, ok := o.impl.Read(call, o.walk, k, m.WithStrides(order.Strides(m.Shape))); ok {
			return order, true
		}
	}
	return "", false
}

func whyCopy(n *graph.Node, call *graph.Call, operand int, o *offer) string {
	m := call.In[operand].Meta()
	is := "strided"
	switch {
	case m.IsContiguous():
		is = "contiguous"
	case m.IsChannelsLast() || m.IsChannelsLast3d():
		is = "channels-last"
	}
	return fmt.Sprintf("%s (%s) makes %v output by %s and needs operand %d, %q, %v; it is %s",
		n.Name, n.Op.Name, o.walk.Order, o.impl.Name, operand, n.In[operand].Value.Name, o.copies[operand], is)
}
