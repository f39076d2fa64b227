package layout

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// This file prices the forms of a value, that is, the layouts in which the value may exist. A set of forms is a bit
// mask. Each form of a set is either written by the node of the value or made by a copy from another form.

// countReads counts, for each value, the different forms that its readers could need, and lists the useful sets of its
// forms.
func (m *Model) countReads() {
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
			if a.Kind == graph.TensorArg && !readsConstant(n, k) {
				x := m.variables.At(a.Value)
				x.need = min(x.need+1, maxForms)
			}
		}
	}
	for _, x := range m.values {
		m.sets(x)
	}
}

// sets lists the useful sets of forms of a value. Every set contains the forms of outputs and pins. Sets with more
// forms than readers are omitted, because the cost of a copy includes forms that are only intermediate sources of the
// copy.
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
		must |= 1 << m.outputForm(x, o)
	}
	for s := uint(1); s < 1<<len(x.forms); s++ {
		if s&must == must && bits.OnesCount(s) <= x.most(must) && x.placedOnce(s) {
			x.sets = append(x.sets, s)
		}
	}
}

// most returns the largest useful number of forms in a set, given the mask of forms that must exist.
func (x *variable) most(must uint) int {
	if x.pin < 0 {
		return max(x.need, bits.OnesCount(must))
	}
	return min(x.need+bits.OnesCount(must), maxForms) // the pinned form may exist without a reader
}

// sources iterates over inputs and pinned constants.
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

// inputForm returns the form of an input. A pinned constant is converted while planning.
func (m *Model) inputForm(x *variable) int {
	if x.value.Const != nil {
		return x.base()
	}
	if o, otherwise := m.Problem.inputOrders[x.value]; otherwise {
		return max(0, x.find(x.value.Meta.WithStrides(o.Strides(x.value.Meta.Shape))))
	}
	return 0
}

// outputForm returns the form of an output.
func (m *Model) outputForm(x *variable, o graph.Output) int {
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
	return max(0, x.addOrder(order)) // grow has added the form
}

// copies returns the costs of copying a value from one form to another, as a row-major matrix. The row is the source.
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

// formCosts has the cheapest ways to make sets of forms of a value from existing forms. Ways are compared by their
// weighted cost ([Weights]).
type formCosts struct {
	pinSteps []step  // steps that make the pinned form, from which all others are copied
	pinned   cost    // cost of pinSteps
	made     []cost  // by set
	superset []uint8 // by set: its cheapest superset
	last     []step  // by set: the last step of the cheapest way to make the set
}

// cost is a cost in picoseconds, and the weighted cost that the solver minimizes: see [Weights].
type cost struct{ weighted, ps int64 }

// forbidden is the cost of an impossible combination.
var forbidden = cost{wcsp.Forbidden, wcsp.Forbidden}

// plus returns the sum of two costs.
func (c cost) plus(d cost) cost {
	if c.weighted >= wcsp.Forbidden || d.weighted >= wcsp.Forbidden {
		return forbidden
	}
	return cost{min(c.weighted+d.weighted, wcsp.Forbidden), min(c.ps+d.ps, wcsp.Forbidden)}
}

// step makes form `to` as a copy of form `from`. A from of -1 means outside: the form is made from another value, the
// operand of a view.
type step struct{ from, to int8 }

// least returns the cost of the cheapest way to make all forms of a set, and possibly others.
func (w *formCosts) least(set uint) cost { return w.made[w.superset[set]].plus(w.pinned) }

// priceForms prices the sets of forms of x. The forms in roots exist already; outside, if not nil, has the costs of
// making forms from outside. If x is pinned, the pinned form is made first, and all other forms are copies of it.
func (m *Model) priceForms(x *variable, roots uint, outside []outsideCopy) formCosts {
	if x.pin < 0 || x.need == 0 {
		return m.arborescences(x, roots, outside)
	}
	enter, paid := m.makePinned(x, roots, outside)
	w := m.arborescences(x, 1<<x.pin, nil)
	w.pinSteps, w.pinned = enter, paid
	return w
}

// makePinned returns the steps that make the pinned form of a value from roots or from outside, and their cost.
func (m *Model) makePinned(x *variable, roots uint, outside []outsideCopy) (steps []step, paid cost) {
	if roots>>x.pin&1 != 0 {
		return nil, cost{}
	}
	w := m.arborescences(x, roots, outside)
	if paid = w.least(1 << x.pin); paid.weighted < wcsp.Forbidden {
		steps = w.steps(w.cheapest(1<<x.pin), roots)
	}
	return steps, paid
}

// arborescences prices every set of forms by dynamic programming over subsets: forms are added one by one, each as a
// copy of a form in the set or from outside.
func (m *Model) arborescences(x *variable, roots uint, outside []outsideCopy) formCosts {
	k := len(x.forms)
	w := formCosts{made: make([]cost, 1<<k), last: make([]step, 1<<k)}
	for s := range w.made {
		w.made[s] = forbidden
	}
	w.made[roots] = cost{}
	var copies []int64
	one := m.Weights.copyOf(x.value.Meta.Bytes())
	for s := roots; s < 1<<k; s++ {
		if s&roots != roots || w.made[s].weighted >= wcsp.Forbidden {
			continue
		}
		for to := range k {
			if s>>to&1 != 0 || m.forbiddenCopies[x]>>to&1 != 0 {
				continue
			}
			if copies == nil {
				copies = m.copies(x)
			}
			ps, from := wcsp.Forbidden, -1
			for f := range k {
				if s>>f&1 != 0 && copies[f*k+to] < ps {
					ps, from = copies[f*k+to], f
				}
			}
			c := forbidden
			if ps < wcsp.Forbidden {
				c = cost{m.Weights.Time*ps + one, ps}
			}
			if outside != nil && outside[to].weighted <= c.weighted {
				c, from = outside[to].cost, -1
			}
			if c.weighted >= wcsp.Forbidden {
				continue
			}
			all := s | 1<<to
			if c = w.made[s].plus(c); c.weighted < w.made[all].weighted {
				w.made[all], w.last[all] = c, step{int8(from), int8(to)}
			}
		}
	}
	w.findSupersets(k)
	return w
}

// findSupersets sets superset; the first of equally cheap ones.
func (w *formCosts) findSupersets(k int) {
	w.superset = make([]uint8, 1<<k)
	for s := range w.superset {
		w.superset[s] = uint8(s)
	}
	for f := range k {
		for s := range w.superset {
			if s>>f&1 != 0 {
				continue
			}
			a, b := w.superset[s], w.superset[s|1<<f]
			if ca, cb := w.made[a].weighted, w.made[b].weighted; cb < ca || cb == ca && b < a {
				w.superset[s] = b
			}
		}
	}
}

// steps returns the steps that make the given set of forms if the forms of the set `there` exist already.
func (w *formCosts) steps(set, there uint) (list []step) {
	for set != there {
		s := w.last[set]
		list = append(list, s)
		set &^= 1 << s.to
	}
	slices.Reverse(list)
	return list
}

// cheapest returns the cheapest superset of a set.
func (w *formCosts) cheapest(set uint) uint { return uint(w.superset[set]) }

// outsideCopy is a copy of a view's operand into a form of the result. own means that the node of the view makes it, so
// that no copy is inserted.
type outsideCopy struct {
	cost
	own bool
}

// outside returns, by form of result k of a view, the cheapest copy of an operand form that cannot be viewed. set is
// the mask of the existing operand forms. outside returns nil if all of them can be viewed.
func (m *Model) outside(v *viewed, k int, set uint) []outsideCopy {
	if v.copies == nil {
		return nil
	}
	var out []outsideCopy
	for i, costs := range v.copies[k] {
		if set>>i&1 == 0 || costs == nil {
			continue
		}
		first := out == nil
		if first {
			out = make([]outsideCopy, len(costs))
		}
		for j := range costs {
			if c := m.outsideCopy(v, k, i, j); first || c.weighted < out[j].weighted {
				out[j] = c
			}
		}
	}
	return out
}

// outsideCopy prices the copy of form i of a view's operand into form j of result k.
func (m *Model) outsideCopy(v *viewed, k, i, j int) outsideCopy {
	w := m.Weights
	units := w.UnitsOf(v.node.Out[k].Meta.Bytes())
	best := outsideCopy{cost: forbidden}
	if ps := v.copies[k][i][j]; ps < wcsp.Forbidden && v.shows[i] {
		best.cost = cost{w.Time*ps + w.Copy + units, ps}
	} else if ps < wcsp.Forbidden {
		best = outsideCopy{cost{w.Time*ps + units, ps}, true}
	}
	if plain := v.plain[i]; plain != nil && plain[j] < wcsp.Forbidden {
		if c := (cost{w.Time*plain[j] + w.Copy + units, plain[j]}); c.weighted < best.weighted {
			best = outsideCopy{cost: c}
		}
	}
	return best
}

// shown returns the forms of result k that are views of a set of forms of the operand.
func (v *viewed) shown(k int, set uint) (roots uint) {
	for i := range v.to[k] {
		if to := v.view(k, i); set>>i&1 != 0 && to >= 0 {
			roots |= 1 << to
		}
	}
	return roots
}

// view returns the form of result k that is a view of operand form i, or -1.
func (v *viewed) view(k, i int) int {
	if to := v.to[k][i]; to != 0 || v.own>>i&1 == 0 {
		return to
	}
	return -1
}
