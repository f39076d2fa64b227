package layout

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// count finds how many forms of each value could be read at once, and the sets that are worth a label.
func (m *Model) count() {
	g := m.Problem.Graph
	for _, o := range g.Outputs {
		x := m.variables.At(o.Value)
		x.need++
		x.outputs = append(x.outputs, o)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if m.lost(i) {
			continue
		}
		if v := m.views[i]; v != nil {
			x := m.variables.At(n.In[v.operand].Value)
			for _, out := range n.Out {
				x.need += m.variables.At(out).need
			}
			x.need = min(x.need, maxForms)
			continue
		}
		for k, a := range n.In {
			if a.Kind == graph.TensorArg && !unmoved(n, k) {
				x := m.variables.At(a.Value)
				x.need = min(x.need+1, maxForms)
			}
		}
	}
	for _, x := range m.values {
		m.sets(x)
	}
}

// sets lists the sets of forms that are worth a label: a form that nobody reads is not, unless copies are made of it,
// which their cost knows. Outputs have what is handed over.
func (m *Model) sets(x *variable) {
	if x.need == 0 {
		x.sets = []uint{0}
		return
	}
	must := uint(0)
	if x.pin >= 0 {
		must = 1 << x.pin
	}
	for _, o := range x.outputs {
		must |= 1 << m.handed(x, o)
	}
	for s := uint(1); s < 1<<len(x.forms); s++ {
		if s&must == must && bits.OnesCount(s) <= x.most(must) && x.placedOnce(s) {
			x.sets = append(x.sets, s)
		}
	}
}

// most bounds the forms of a value that are useful together, given those that must exist.
func (x *variable) most(must uint) int {
	if x.pin < 0 {
		return max(x.need, bits.OnesCount(must))
	}
	return min(x.need+bits.OnesCount(must), maxForms) // the pinned form need not be read itself
}

// sources are the inputs, and the constants that are pinned.
func (m *Model) sources() iter.Seq[*variable] {
	return func(yield func(*variable) bool) {
		for _, v := range m.Problem.Graph.Inputs {
			if !yield(m.variables.At(v)) {
				return
			}
		}
		for _, v := range m.Problem.Graph.Constants {
			if !constant(v) && !yield(m.variables.At(v)) {
				return
			}
		}
	}
}

// comes is the form in which an input comes. A pinned constant is brought into its form when the graph is planned.
func (m *Model) comes(x *variable) int {
	if x.value.Const != nil {
		return x.base()
	}
	if o, otherwise := m.Problem.comes[x.value]; otherwise {
		return max(0, x.find(x.value.Meta.WithStrides(o.Strides(x.value.Meta.Shape))))
	}
	return 0
}

// handed is the form in which an output is handed over.
func (m *Model) handed(x *variable, o graph.Output) int {
	pin := o.Demand()
	if !pin.Lays() {
		return 0
	}
	order, _ := pin.For(x.value.Meta.Rank())
	for i, f := range x.forms {
		if pin.Holds(f.meta) {
			return i
		}
	}
	return max(0, x.addOrder(order)) // there is room: see grow
}

// copies returns what it costs to copy a value from form to form, row by row.
func (m *Model) copies(x *variable) []int64 {
	if x.copy == nil {
		k := len(x.forms)
		x.copy = make([]int64, k*k)
		for i := range k {
			for j, f := range x.forms {
				switch {
				case i == j:
				case constant(x.value):
				case x.rigid && j == 0 || !f.dense:
					x.copy[i*k+j] = wcsp.Forbidden
				default:
					x.copy[i*k+j] = m.copyCost(x.forms[i].meta, f.meta, f.order)
				}
			}
		}
	}
	return x.copy
}

// made is the cheapest way to make forms of a value: how much each set costs, and the last step of the
// way to it.
type made struct {
	enter []step  // the steps that make the pinned form, the source of all others
	cost  []int64 // by set
	least []int64 // by set: of what has at least its forms
	last  []step
}

// step makes form to: a copy of form from, or, where that is -1, of what is outside, by its own price.
type step struct{ from, to int8 }

// make prices the sets of forms where the forms of roots are there already, and others can also be made from outside,
// for what outside says; nil: none can. The pinned form of a pinned value is made first, and all others are copies of
// it.
func (m *Model) make(x *variable, roots uint, outside []int64) made {
	if x.pin < 0 || x.need == 0 {
		return m.arborescences(x, roots, outside)
	}
	enter, cost := m.enter(x, roots, outside)
	w := m.arborescences(x, 1<<x.pin, nil)
	w.enter = enter
	for s := range w.cost {
		w.cost[s], w.least[s] = min(w.cost[s]+cost, wcsp.Forbidden), min(w.least[s]+cost, wcsp.Forbidden)
	}
	return w
}

// enter returns the steps that make the pinned form of a value from roots or from outside, and their cost.
func (m *Model) enter(x *variable, roots uint, outside []int64) (steps []step, cost int64) {
	if roots>>x.pin&1 != 0 {
		return nil, 0
	}
	w := m.arborescences(x, roots, outside)
	if cost = w.least[1<<x.pin]; cost < wcsp.Forbidden {
		steps = w.steps(w.of(1<<x.pin), roots)
	}
	return steps, cost
}

// arborescences prices all ways to add one form after another, each a copy of an existing one.
func (m *Model) arborescences(x *variable, roots uint, outside []int64) made {
	k := len(x.forms)
	w := made{cost: make([]int64, 1<<k), last: make([]step, 1<<k)}
	for s := range w.cost {
		w.cost[s] = wcsp.Forbidden
	}
	w.cost[roots] = 0
	var copies []int64
	for s := roots; s < 1<<k; s++ {
		if s&roots != roots || w.cost[s] >= wcsp.Forbidden {
			continue
		}
		for to := range k {
			if s>>to&1 != 0 || m.barred[x]>>to&1 != 0 {
				continue
			}
			if copies == nil {
				copies = m.copies(x)
			}
			cost, from := wcsp.Forbidden, -1
			if outside != nil {
				cost = outside[to]
			}
			for f := range k {
				if s>>f&1 != 0 && copies[f*k+to] < cost {
					cost, from = copies[f*k+to], f
				}
			}
			if all := s | 1<<to; cost < wcsp.Forbidden && w.cost[s]+cost < w.cost[all] {
				w.cost[all], w.last[all] = w.cost[s]+cost, step{int8(from), int8(to)}
			}
		}
	}
	w.least = slices.Clone(w.cost)
	for f := range k {
		for s := range w.least {
			if s>>f&1 == 0 {
				w.least[s] = min(w.least[s], w.least[s|1<<f])
			}
		}
	}
	return w
}

// steps returns the steps that make a set from an existing one.
func (w *made) steps(set, there uint) (list []step) {
	for set != there {
		s := w.last[set]
		list = append(list, s)
		set &^= 1 << s.to
	}
	slices.Reverse(list)
	return list
}

// of is the set that is made where at least the forms of a set are wanted.
func (w *made) of(set uint) uint {
	for s := set; s < uint(len(w.cost)); s++ {
		if s&set == set && w.cost[s] == w.least[set] {
			return s
		}
	}
	return set
}

// outside is what it costs to make the forms of result k of a view from those of a set of its operand's that it cannot
// show; nil where there are none.
func (v *viewed) outside(k int, set uint) []int64 {
	if v.copies == nil {
		return nil
	}
	var out []int64
	for i, costs := range v.copies[k] {
		if set>>i&1 == 0 || costs == nil {
			continue
		}
		if out == nil {
			out = append(out, costs...)
			continue
		}
		for j, c := range costs {
			out[j] = min(out[j], c)
		}
	}
	return out
}

// shown is the set of forms of result k that views of a set of the operand's have.
func (v *viewed) shown(k int, set uint) (roots uint) {
	for i := range v.to[k] {
		if to := v.view(k, i); set>>i&1 != 0 && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// view is the form of result k that shows form i of the operand; -1 for none.
func (v *viewed) view(k, i int) int {
	if to := v.to[k][i]; to != 0 || v.own>>i&1 == 0 {
		return to
	}
	return -1
}
