package layout

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/tensor"
)

// slot is a place within the result of a node that joins values ([graph.Op.Joins]), where that lies in an order: of one
// of its operands, or of what is made of several of them that lie side by side there.
type slot struct {
	join    int          // the node's place in the graph
	operand int          // of that node; -1 for what lies side by side
	order   tensor.Order // in which the result of that lies
	within  string       // the name of its result
}

// Place tells of a form of a value that it lies within another one, or views what does.
type Place struct {
	Like int // the form that it would be alone
	// Join is the node within whose result it lies, where that lies in the order; nil for a view. Operand is which of that
	// node's it is; -1 where it has several of them.
	Join    *graph.Node
	Operand int
	Order   tensor.Order
}

// Places tells, by form of [Model.Forms], which of them lie within other values: nil for others. The list is the
// caller's.
func (m *Model) Places(v *graph.Value) []*Place {
	list := make([]*Place, len(m.Forms(v)))
	for i := range list {
		f := &m.variables.At(v).forms[i]
		if f.like < 0 {
			continue
		}
		list[i] = &Place{Like: f.like, Operand: -1}
		if s := f.slot; s != nil {
			list[i].Join, list[i].Operand, list[i].Order = m.Problem.Graph.Nodes[s.join], s.operand, s.order
		}
	}
	return list
}

// slots is what is known of values while places are found.
type slots struct {
	own    graph.ByValue[bool]                    // by root: it must have memory of its own
	places map[int]map[tensor.Order][]tensor.Meta // by the place of a node that joins: where it has its operands
}

func (m *Model) newSlots() *slots {
	g := m.Problem.Graph
	s := &slots{own: graph.NewByValue[bool](g), places: map[int]map[tensor.Order][]tensor.Meta{}}
	for _, n := range g.Nodes {
		if !n.Op.Storage {
			continue
		}
		for _, a := range n.In {
			if a.Kind == graph.TensorArg {
				s.own.Set(m.shownBy(a.Value), true)
			}
		}
	}
	for _, o := range g.Outputs {
		s.own.Set(m.shownBy(o.Value), true)
	}
	return s
}

// shownBy is what a value shows, or may show where that lies otherwise than in the graph as written.
func (m *Model) shownBy(v *graph.Value) *graph.Value {
	for v.Node != nil {
		view := m.views[m.places[v.Node.Number()]]
		if view == nil {
			break
		}
		v = view.node.In[view.operand].Value
	}
	return v
}

// within gives the results of node i forms that lie within what another node makes of them, and labels that write
// these.
func (m *Model) within(i int, n *graph.Node) {
	if m.Problem.KeepGoing || n.Op.Eager != nil || n.Pin.Lays() || len(n.Op.Impls) == 0 {
		return
	}
	for k, v := range n.Out {
		if v.Alias != nil || v.Meta.Numel() == 0 || !numeric(v) {
			continue
		}
		if m.slots == nil {
			m.slots = m.newSlots()
		}
		if x := m.variables.At(v); !m.slots.own.At(v) && !m.Problem.Fixed(v) && !x.rigid {
			m.slotted(i, n, k, x)
			m.sideBySide(i, n, x)
		}
	}
}

func numeric(v *graph.Value) bool {
	_, known := v.Type.Meta()
	return known
}

// slotted adds the forms that result k of a node may have within that of the last node that joins it with others.
func (m *Model) slotted(i int, n *graph.Node, k int, x *variable) {
	join, operand := -1, 0
	for _, u := range m.readers.At(x.value) {
		if u.node > join && m.joins(u.node) {
			join, operand = u.node, u.operand
		}
	}
	if join < 0 {
		return
	}
	y := m.variables.At(m.Problem.Graph.Nodes[join].Out[0])
	if y.value.Meta.DType != x.value.Meta.DType || !numeric(y.value) {
		return
	}
	for _, o := range y.orders() {
		like, places := x.of(o), m.placesIn(join, y, o)
		if like < 0 || operand >= len(places) || places[operand].Rank() != x.value.Meta.Rank() {
			continue
		}
		place := lain(places[operand], x.forms[like].meta)
		if f := x.put(place, like, &slot{join, operand, o, y.value.Name}); f >= 0 {
			m.writeSlot(i, n, k, f)
		}
	}
}

// lain is a place as what is put there has it: where only the offset differs from how that lies alone, its strides of
// dimensions of size 1 stay, of which prices may know.
func lain(place, alone tensor.Meta) tensor.Meta {
	if alone.SameAddresses(place) {
		place.Strides = alone.Strides
	}
	return place
}

// joins reports whether a node that computes puts its operands one after another.
func (m *Model) joins(i int) bool {
	n := m.Problem.Graph.Nodes[i]
	return m.tasks[i] != nil && n.Op.Joins != nil && len(n.Out) == 1 && n.Out[0].Meta.Numel() > 0
}

// placesIn is where a node that joins has its operands in its result, where that is dense in an order.
func (m *Model) placesIn(join int, y *variable, o tensor.Order) []tensor.Meta {
	known, ok := m.slots.places[join][o]
	if ok {
		return known
	}
	f := y.of(o)
	for _, t := range m.Problem.Graph.Nodes[join].PlacesIn(y.forms[f].meta.Type()) {
		p, _ := t.Meta()
		known = append(known, p)
	}
	if m.slots.places[join] == nil {
		m.slots.places[join] = map[tensor.Order][]tensor.Meta{}
	}
	m.slots.places[join][o] = known
	return known
}

// put adds a form that lies within another value; -1 where there is no room.
func (x *variable) put(meta tensor.Meta, like int, s *slot) int {
	if len(x.forms) == maxForms {
		return -1
	}
	x.forms = append(x.forms, form{meta: meta, like: like, slot: s})
	return len(x.forms) - 1
}

// writeSlot adds labels that write result k of a node in form f, which lies within another value, to those that write
// it the same in memory of its own, by implementations that can.
func (m *Model) writeSlot(i int, n *graph.Node, k, f int) {
	t, call := m.tasks[i], n.Call()
	x := m.variables.At(n.Out[k])
	lies := x.forms[f].meta
	lies.Offset = 0 // kernels are given addresses of first elements
	for _, l := range t.labels {
		if l.impl == nil || l.out[k] != x.forms[f].like || l.slot != "" {
			continue
		}
		at, out := *call, slices.Clone(l.out)
		at.Out = make([]tensor.Meta, len(n.Out))
		for j, v := range n.Out {
			at.Out[j] = m.variables.At(v).forms[l.out[j]].meta
		}
		at.Out[k], out[k] = lies, f
		dense := lies.IsNonOverlappingAndDense()
		if !dense && (l.impl.Writes == nil || !l.impl.Writes(&at, l.walk, k, lies)) {
			continue
		}
		if p, ok := m.priced(n, &at, l.impl, l.walk, out, l.only); ok {
			p.slot = x.forms[f].slot.within
			t.labels = append(t.labels, p)
		}
	}
}

// sideBySide adds, for a node that joins values, labels by which it does nothing: all its operands lie within the
// result of another one, side by side, and so does its own result.
func (m *Model) sideBySide(i int, n *graph.Node, y *variable) {
	if !m.joins(i) {
		return
	}
	first := slices.IndexFunc(n.In, func(a graph.Arg) bool { return a.Kind == graph.TensorArg && a.Meta().Numel() > 0 })
	if first < 0 {
		return
	}
	x := m.variables.At(n.In[first].Value)
	for _, f := range x.forms {
		if f.slot == nil || f.slot.join == i {
			continue
		}
		like := y.of(f.slot.order)
		if like < 0 || f.meta.Rank() != y.value.Meta.Rank() {
			continue
		}
		home := m.variables.At(m.Problem.Graph.Nodes[f.slot.join].Out[0])
		lies := y.value.Meta.WithStrides(home.forms[home.of(f.slot.order)].meta.Strides)
		lies.Offset = f.meta.Offset
		lies = lain(lies, y.forms[like].meta)
		in := m.lieIn(n, lies, f.slot)
		if in == nil {
			continue
		}
		at := y.put(lies, like, &slot{f.slot.join, -1, f.slot.order, f.slot.within})
		if at < 0 {
			return
		}
		m.shows(i, n, at, in)
	}
}

// lieIn returns which forms of the operands of a node that joins them lie where its result has them, if that lies
// within another value; nil where one has no such form.
func (m *Model) lieIn(n *graph.Node, lies tensor.Meta, s *slot) []int {
	in := slices.Repeat([]int{-1}, len(n.In))
	for k, t := range n.PlacesIn(lies.Type()) {
		if n.In[k].Meta().Numel() == 0 {
			continue
		}
		place, _ := t.Meta()
		in[k] = slices.IndexFunc(m.variables.At(n.In[k].Value).forms, func(f form) bool {
			return f.slot != nil && f.slot.join == s.join && f.slot.order == s.order && f.meta.Offset == place.Offset &&
				f.meta.SameAddresses(place)
		})
		if in[k] < 0 || n.In[k].Value.Const != nil {
			return nil
		}
	}
	return in
}

// shows adds the label by which a node that joins values finds all of them, in these forms, where its result lies.
func (m *Model) shows(i int, n *graph.Node, out int, in []int) {
	t, call, impl := m.tasks[i], n.Call(), &n.Op.Impls[0]
	y := m.variables.At(n.Out[0])
	call.InPlace = make([]bool, len(n.In))
	for k := range n.In {
		call.InPlace[k] = in[k] >= 0
	}
	call.Out[0] = y.forms[y.forms[out].like].meta
	l := label{impl: impl, walk: call.InOrder(y.forms[out].slot.order), out: []int{out}, read: make([][]int64, len(n.In)),
		form: make([]int, len(n.In)), slot: y.forms[out].slot.within, slots: make([]uint, len(n.In))}
	l.cost = PS(m.Problem.Profile, impl.Work(call, l.walk))
	for k, a := range n.In {
		if a.Kind != graph.TensorArg || a.Value.Const != nil {
			continue
		}
		costs := make([]int64, len(m.variables.At(a.Value).forms))
		for f := range costs {
			if in[k] >= 0 && f != in[k] {
				costs[f] = wcsp.Forbidden
			}
		}
		l.read[k] = costs
	}
	t.labels = append(t.labels, l)
}

// ownSlots prices the forms of operand k that lie within a node's own result, whose forms are out: nothing. Where that
// lies within another value itself they are elsewhere.
func (m *Model) ownSlots(n *graph.Node, k int, out []int, x *variable, l *label, costs []int64) {
	if n.Op.Joins == nil || len(out) != 1 {
		return
	}
	i, f := m.places[n.Number()], &m.variables.At(n.Out[0]).forms[out[0]]
	for at := range x.forms {
		s := x.forms[at].slot
		if s == nil || s.join != i {
			continue
		}
		if l.slots == nil {
			l.slots = make([]uint, len(n.In))
		}
		l.slots[k] |= 1 << at
		switch {
		case f.slot != nil || s.order != f.order:
			costs[at] = wcsp.Forbidden
		case s.operand == k:
			costs[at] = 0
		}
	}
}

// amiss marks, by label of a node that joins values, the forms of an operand that lie within its result otherwise than
// the label has that; nil where there are none.
func (m *Model) amiss(t *task, x *variable) (list []uint) {
	if t.node.Op.Joins == nil {
		return nil
	}
	y := m.variables.At(t.node.Out[0])
	for f := range x.forms {
		s := x.forms[f].slot
		if s == nil || s.join != m.places[t.node.Number()] {
			continue
		}
		if list == nil {
			list = make([]uint, len(t.labels))
		}
		for i := range t.labels {
			if lies := &y.forms[t.labels[i].out[0]]; lies.slot != nil || lies.order != s.order {
				list[i] |= 1 << f
			}
		}
	}
	return list
}

// placedOnce reports whether a set has at most one form that lies within another value, and not the same one alone.
func (x *variable) placedOnce(set uint) bool {
	placed := -1
	for f := range x.forms {
		if set>>f&1 != 0 && x.forms[f].slot != nil {
			if placed >= 0 {
				return false
			}
			placed = f
		}
	}
	return placed < 0 || set>>x.forms[placed].like&1 == 0
}
