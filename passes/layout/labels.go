package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// This file finds the labels of nodes. A label is one way to compute a node: an implementation, a walk (the order of
// its loops) and the forms of the results. A form is a layout that a value may have. See [Model].

// label finds the labels of a node that computes.
func (m *Model) label(i int, n *graph.Node) error {
	t, call := m.tasks[i], n.Call()
	if len(n.Op.Impls) == 0 {
		t.labels = m.inferred(n, call, nil, graph.Walk{})
		return nil
	}
	var orders []tensor.Order
	if len(n.Out) > 0 {
		orders = m.variables.At(n.Out[0]).orders()
	}
	supported := false
	for k := range n.Op.Impls {
		impl := &n.Op.Impls[k]
		if !m.Problem.Offers(n, impl) {
			continue
		}
		for _, w := range distinct(impl.Walks(call, orders), n.Out) {
			supported = true
			for _, l := range m.walk(n, call, impl, w) {
				switch k := slices.IndexFunc(t.labels, l.same); {
				case k < 0:
					t.labels = append(t.labels, l)
				case t.labels[k].walk.Inferred(): // a walk with explicit orders also applies to forms inside a concatenation
					t.labels[k] = l
				}
			}
		}
	}
	t.labels = preferPinned(t.labels, func(l *label) []int { return l.pinMisses })
	switch {
	case len(t.labels) > 0:
		return nil
	case n.Pin.Impl != "" && !supported:
		return m.Problem.refusedPin(n, call)
	}
	return errors.New("no kernel supports these operands")
}

// same reports whether two labels have equal forms and costs.
func (l label) same(o label) bool {
	return l.impl == o.impl && l.cost == o.cost && slices.Equal(l.out, o.out) && slices.Equal(l.form, o.form) &&
		slices.EqualFunc(l.read, o.read, slices.Equal[[]int64])
}

// distinct removes duplicate walks. It also removes the inferred walk if a listed order gives the same layout. This is
// certain only for a single dense result: a result with gaps has no order, and several results may differ in order.
func distinct(list []graph.Walk, results []*graph.Value) []graph.Walk {
	var out []graph.Walk
	covered := len(results) == 1 && len(list) > 1 && !list[1].Inferred() && results[0].Meta.IsNonOverlappingAndDense()
	for i, w := range list {
		again := covered && i == 0 && w.Inferred()
		for _, o := range out {
			again = again || sameWalk(o, w)
		}
		if !again {
			out = append(out, w)
		}
	}
	return out
}

// sameWalk reports whether two walks are equal.
func sameWalk(a, b graph.Walk) bool {
	if a.Order != b.Order || len(a.Out) != len(b.Out) {
		return false
	}
	for i := range a.Out {
		if a.Out[i] != b.Out[i] {
			return false
		}
	}
	return true
}

// walk returns the labels of a walk. There is one label if the walk determines the layouts of all results. Otherwise
// inference determines them: see inferred.
func (m *Model) walk(n *graph.Node, call *graph.Call, impl *graph.Impl, w graph.Walk) []label {
	out := make([]int, len(n.Out))
	for k, v := range n.Out {
		if k >= len(w.Out) || w.Out[k] == "" || w.Out[k].Rank() != v.Meta.Rank() {
			return m.inferred(n, call, impl, w)
		}
		if out[k] = m.variables.At(v).addOrder(w.Out[k]); out[k] < 0 {
			return nil
		}
	}
	at := *call
	at.Out = make([]tensor.Meta, len(n.Out))
	for k, v := range n.Out {
		at.Out[k] = w.Lay(k, v.Meta)
	}
	if l, ok := m.priced(n, &at, impl, w, out, nil); ok {
		return []label{l}
	}
	return nil
}

// priced returns a label with its costs. It returns false if an operand cannot be read. only has, by operand, the only
// permitted form. Element -1, or a nil list, permits any form.
func (m *Model) priced(n *graph.Node, call *graph.Call, impl *graph.Impl, w graph.Walk, out, only []int) (label, bool) {
	l := label{impl: impl, walk: w, out: out, only: only, read: make([][]int64, len(n.In)), form: make([]int, len(n.In))}
	var read reader
	if impl != nil {
		l.cost, read = PS(m.Problem.Profile, impl.Work(call, w)), impl.Reader(call, w)
	}
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		x := m.variables.At(a.Value)
		byData := n.Op.RunDynamic != nil && a.Value.Const != nil // the op reads the data of the constant itself
		costs := m.readCosts(read, k, x, byData)
		if x.pin >= 0 && !byData && (only == nil || only[k] < 0 || only[k] == x.pin) {
			requirePinned(costs, x.pin)
		}
		m.priceOwnSlots(n, k, out, x, &l, costs)
		best := -1
		for i := range costs {
			if only != nil && only[k] >= 0 && only[k] != i && only[k] != x.forms[i].like {
				costs[i] = wcsp.Forbidden
			}
			if costs[i] < wcsp.Forbidden && (best < 0 || costs[i] < costs[best]) {
				best = i
			}
		}
		if x.pin >= 0 && !byData && best >= 0 && costs[x.pin] >= wcsp.Forbidden {
			l.pinMisses = append(l.pinMisses, k)
		}
		switch {
		case best < 0:
			return l, false
		case readsConstant(n, k):
			l.cost, l.form[k] = l.cost+costs[best], best
		default:
			l.read[k] = costs
		}
	}
	return l, true
}

// reader returns the work of reading operand i in a layout. It is [graph.Impl.Reader] of a call, or nil if there is no
// implementation.
type reader func(i int, meta tensor.Meta) (graph.Work, bool)

// requirePinned forbids all forms except the pinned form, if the pinned form can be read.
func requirePinned(costs []int64, pin int) {
	if costs[pin] >= wcsp.Forbidden {
		return
	}
	for i := range costs {
		if i != pin {
			costs[i] = wcsp.Forbidden
		}
	}
}

// preferPinned prefers ways that read pinned operands in their pinned forms. It removes a way if another way reads the
// same pinned operands and at least one additional operand in their pinned forms. pinMisses returns, in order, the
// pinned operands that a way reads in other forms.
func preferPinned[T any](ways []T, pinMisses func(*T) []int) []T {
	if !slices.ContainsFunc(ways, func(w T) bool { return len(pinMisses(&w)) > 0 }) {
		return ways
	}
	var out []T
	for i := range ways {
		of := pinMisses(&ways[i])
		better := slices.ContainsFunc(ways, func(w T) bool {
			other := pinMisses(&w)
			return len(other) < len(of) && !slices.ContainsFunc(other, func(k int) bool { return !slices.Contains(of, k) })
		})
		if !better {
			out = append(out, ways[i])
		}
	}
	return out
}

// readCosts returns, by form, the price of reading operand k. Values without elements can be read in any form.
func (m *Model) readCosts(read reader, k int, x *variable, byData bool) []int64 {
	costs := make([]int64, len(x.forms))
	for i := range x.forms {
		costs[i] = wcsp.Forbidden
		if read == nil {
			costs[i] = 0
		} else if work, ok := read(k, x.forms[i].meta); ok || x.value.Meta.Numel() == 0 {
			costs[i] = PS(m.Problem.Profile, work)
		}
		if byData && i > 0 {
			costs[i] = wcsp.Forbidden
		}
	}
	return costs
}

// inferred returns the labels of a walk that leaves the layouts of results to inference. Inferred layouts may depend on
// the layouts of some operands. In one label, these operands have their forms in the graph as written. In each other
// label, all these operands have the same order.
func (m *Model) inferred(n *graph.Node, call *graph.Call, impl *graph.Impl, w graph.Walk) []label {
	layoutDependent := m.layoutDependent(n)
	if !slices.Contains(layoutDependent, true) && !n.Pin.Lays() {
		if l, ok := m.inferredLabel(n, call, impl, w, nil, nil); ok {
			return []label{l}
		}
		return nil
	}
	var list []label
	seen := map[string]bool{}
	try := func(o tensor.Order, base func(*variable) int) {
		only := make([]int, len(n.In))
		in := &graph.Call{In: make([]graph.Arg, len(n.In)), Attrs: n.Attrs}
		for k, a := range n.In {
			in.In[k], only[k] = a, -1
			if !layoutDependent[k] {
				continue
			}
			x := m.variables.At(a.Value)
			only[k] = base(x)
			if o != "" && o.Rank() == a.Meta().Rank() {
				if only[k] = x.find(a.Meta().WithStrides(o.Strides(a.Meta().Shape))); only[k] < 0 {
					return
				}
			}
			in.In[k] = callWith(n, k, x.forms[only[k]].meta).In[k]
		}
		if key := fmt.Sprint(only); seen[key] {
			return
		} else {
			seen[key] = true
		}
		if l, ok := m.inferredLabel(n, call, impl, w, in, only); ok {
			list = append(list, l)
		}
	}
	written := func(*variable) int { return 0 }
	try("", (*variable).base)
	try("", written) // inference may reject the pinned form
	tried := map[tensor.Order]bool{}
	for k, a := range n.In {
		if !layoutDependent[k] {
			continue
		}
		for _, o := range m.variables.At(a.Value).orders() {
			if !tried[o] {
				tried[o] = true
				try(o, (*variable).base)
				try(o, written)
			}
		}
	}
	return list
}

// inferredLabel returns the label whose results have the layouts that inference derives from the operands of call in.
// If in is nil, the operands have the layouts of the graph as written.
func (m *Model) inferredLabel(n *graph.Node, call *graph.Call, impl *graph.Impl, w graph.Walk, in *graph.Call,
	only []int) (label, bool) {
	out, at := make([]int, len(n.Out)), *call
	if in == nil {
		for k, v := range n.Out {
			if v.Alias != nil {
				return label{}, false
			}
			if out[k] = m.variables.At(v).add(w.Lay(k, v.Meta)); out[k] < 0 {
				return label{}, false
			}
		}
		return m.priced(n, &at, impl, w, out, only)
	}
	res, err := n.Op.Infer(in)
	if err != nil || len(res) != len(n.Out) {
		return label{}, false
	}
	at.Out = make([]tensor.Meta, len(res))
	for k, r := range res {
		if r.Alias != graph.Fresh {
			return label{}, false
		}
		at.Out[k] = r.Meta()
		if n.Pin.Lays() { // the graph has the pinned layouts
			at.Out[k] = n.Out[k].Meta.WithStrides(at.Out[k].Strides)
		}
		if out[k] = m.variables.At(n.Out[k]).add(w.Lay(k, at.Out[k])); out[k] < 0 {
			return label{}, false
		}
	}
	return m.priced(n, &at, impl, w, out, only)
}

// layoutDependent marks the operands whose layout affects the inferred results. It also marks all operands of ops whose
// shapes depend on data, and operands with a form that inference rejects.
func (m *Model) layoutDependent(n *graph.Node) []bool {
	list := make([]bool, len(n.In))
	for k, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		if n.Op.RunDynamic != nil {
			list[k] = true
			continue
		}
		x := m.variables.At(a.Value)
		for i := 1; i < len(x.forms) && !list[k]; i++ {
			if x.forms[i].like >= 0 { // the corresponding form was examined
				continue
			}
			res, err := n.Op.Infer(callWith(n, k, x.forms[i].meta))
			if err != nil || len(res) != len(n.Out) {
				list[k] = true
				break
			}
			for j, r := range res {
				if n.Pin.Lays() {
					continue
				}
				list[k] = list[k] || r.Alias != graph.Fresh || !r.Meta().SameAddresses(n.Out[j].Meta)
			}
		}
	}
	return list
}

// reshapes prices the copies for forms of a view's results that cannot be views.
func (m *Model) reshapes(v *viewed) {
	n := v.node
	x := m.variables.At(n.In[v.operand].Value)
	for i := len(v.to[0]); i < len(x.forms); i++ { // forms added by labels
		(&formFinder{m: m}).through(v, x, i)
	}
	if v.same && (m.Problem.outputs[n.Out[0]] || n.Pin.Lays()) && n.Out[0].Alias == nil {
		for i := range x.forms {
			if res, err := n.Op.Infer(callWith(n, v.operand, x.forms[i].meta)); err != nil || res[0].Alias == graph.Fresh {
				v.own |= 1 << i
			}
		}
	}
	m.markInside(v, x)
	m.setAllowed(v)
	if n.Op.ReadsStorage {
		return
	}
	v.shows, v.plain, v.copies = make([]bool, len(x.forms)), make([][]int64, len(x.forms)), make([][][]int64, len(n.Out))
	calls, results := make([]*graph.Call, len(x.forms)), make([][]graph.Result, len(x.forms))
	for i := range x.forms {
		if v.same && v.own>>i&1 == 0 {
			results[i] = []graph.Result{{Type: x.forms[i].meta.Type(), Alias: v.operand}}
			continue
		}
		calls[i] = callWith(n, v.operand, x.forms[i].meta)
		res, err := n.Op.Infer(calls[i])
		if err != nil || len(res) != len(n.Out) {
			continue // the view is impossible
		}
		results[i] = res
		if res[0].Alias == graph.Fresh {
			m.variables.At(n.Out[0]).add(res[0].Meta())
		}
	}
	for i, res := range results {
		if res == nil {
			continue
		}
		v.shows[i] = res[0].Alias != graph.Fresh
		for k, r := range res {
			if v.view(k, i) >= 0 && v.own>>i&1 == 0 {
				continue
			}
			if v.copies[k] == nil {
				v.copies[k] = make([][]int64, len(x.forms))
			}
			y := m.variables.At(n.Out[k])
			if v.shows[i] { // the view exists but must not be used, or its form exceeded the limit: the view is copied
				v.copies[k][i] = m.copyCosts(y, r.Meta())
			} else if len(res) == 1 {
				v.copies[k][i] = m.reshape(v, calls[i], y, r.Meta(), x.forms[i].meta)
				if n.Op.Identity {
					v.plain[i] = m.copyCosts(y, x.forms[i].meta)
				}
			}
		}
	}
}

// setAllowed determines the operand forms that a view may use. If the operand is pinned and the op accepts the pinned
// form, only the pinned form may be used. Otherwise any form may be used. If results must have the layout of the graph
// as written, the operand's form in that graph is allowed, too.
func (m *Model) setAllowed(v *viewed) {
	x := m.variables.At(v.node.In[v.operand].Value)
	v.allowed = ^uint(0)
	if x.pin < 0 {
		return
	}
	res, err := v.node.Op.Infer(callWith(v.node, v.operand, x.forms[x.pin].meta))
	if err == nil && len(res) == len(v.node.Out) || v.same {
		v.allowed = 1 << x.pin
	}
	if m.Problem.needsWritten(v.node) {
		v.allowed |= 1
	}
}

// copyCosts prices copies from a layout into the forms of a value.
func (m *Model) copyCosts(y *variable, from tensor.Meta) []int64 {
	costs := make([]int64, len(y.forms))
	for j, f := range y.forms {
		costs[j] = wcsp.Forbidden
		if f.dense && !(y.rigid && j == 0) {
			costs[j] = m.copyCost(from, f.meta, f.order)
		}
	}
	return costs
}

// reshape prices a copy by a view's node into the forms of its result.
func (m *Model) reshape(v *viewed, call *graph.Call, y *variable, inferred, from tensor.Meta) []int64 {
	call.Out = []tensor.Meta{inferred}
	costs, impl := make([]int64, len(y.forms)), &v.node.Op.Impls[0]
	for j, f := range y.forms {
		costs[j] = wcsp.Forbidden
		if !f.dense || y.rigid && j == 0 || !f.meta.SameAddresses(inferred) && !v.node.Op.AnyOrder {
			continue
		}
		w := graph.Walk{}
		if !f.meta.SameAddresses(inferred) {
			w = call.InOrder(f.order)
		}
		work := impl.Work(call, w)
		if read, ok := impl.Read(call, w, v.operand, from); ok {
			costs[j] = PS(m.Problem.Profile, work) + PS(m.Problem.Profile, read)
		}
	}
	return costs
}

// copyCost returns the cost of copying a value from one layout to another.
func (m *Model) copyCost(from, to tensor.Meta, o tensor.Order) int64 {
	v := &graph.Value{Meta: from, Type: from.Type()}
	call := &graph.Call{In: []graph.Arg{graph.Of(v)}, Out: []tensor.Meta{to}}
	impl, w := &m.copyOp.Impls[0], graph.Walk{}
	w = call.InOrder(o)
	work := impl.Work(call, w)
	read, ok := impl.Read(call, w, 0, from)
	if !ok {
		return wcsp.Forbidden
	}
	return PS(m.Problem.Profile, work) + PS(m.Problem.Profile, read)
}
