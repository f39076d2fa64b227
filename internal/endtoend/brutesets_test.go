package endtoend_test

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// addSets adds every possible set of forms of a value. Forms in roots are free, and outside has the cost of other forms
// if they are made from the operand of a view, or -1.
func (b *brute) addSets(v *graph.Value, roots uint, outside []int64, add func(int64, ...uint)) {
	key := fmt.Sprint(v.Number(), roots, outside)
	list, ok := b.setsOf[key]
	p := b.pinnedForm(v)
	_, read := b.lastReader[v]
	enter := int64(0)
	if p >= 0 && read && !ok {
		if enter, roots = b.pinnedFormCost(v, p, roots, outside), 1<<p; enter < 0 {
			return
		}
		outside = nil
	}
	if !ok {
		for s := range uint(1) << len(b.forms(v)) {
			if s&b.required[v] != b.required[v] || v.Node == nil && p < 0 && s&1 == 0 || !b.isPlacedOnce(v, s) ||
				p >= 0 && read && s>>p&1 == 0 {
				continue
			}
			if cost, ok := b.leastCostOfSet(v, s, roots, outside); ok {
				list = append(list, bruteSet{s, enter + cost})
			}
		}
		b.setsOf[key] = list
	}
	for _, s := range list {
		add(s.cost, s.set)
	}
}

// pinnedFormCost returns the least cost to make the pinned form p of a value, from which all other forms are copied, or
// -1 if no node can write it.
func (b *brute) pinnedFormCost(v *graph.Value, p int, roots uint, outside []int64) int64 {
	if roots>>p&1 != 0 {
		return 0
	}
	least := int64(-1)
	for s := range uint(1) << len(b.forms(v)) {
		if s>>p&1 == 0 || s&roots != roots {
			continue
		}
		if c, ok := b.leastCostOfSet(v, s, roots, outside); ok && (least < 0 || c < least) {
			least = c
		}
	}
	return least
}

// leastCostOfSet returns the least cost of a set of forms. Each form that is not a root is copied from another form of
// the set, without cycles, or made from outside.
func (b *brute) leastCostOfSet(v *graph.Value, set, roots uint, outside []int64) (int64, bool) {
	var make []int
	for f := range b.forms(v) {
		if set>>f&1 != 0 && roots>>f&1 == 0 {
			make = append(make, f)
		}
	}
	best, found := int64(math.MaxInt64), false
	parent := map[int]int{}
	var choose func(i int, sum int64)
	choose = func(i int, sum int64) {
		if found && sum >= best {
			return
		}
		if i == len(make) {
			for _, f := range make {
				steps := 0
				for at, ok := f, true; ok; steps++ {
					if at, ok = parent[at]; steps > len(make) {
						return // a cycle
					}
				}
			}
			best, found = sum, true
			return
		}
		f := make[i]
		if outside != nil && outside[f] >= 0 {
			delete(parent, f)
			choose(i+1, sum+outside[f])
		}
		for from := range b.forms(v) {
			if set>>from&1 == 0 || from == f {
				continue
			}
			if c, ok := b.copyCost(v, b.forms(v)[from], f); ok {
				parent[f] = from
				choose(i+1, sum+c)
				delete(parent, f)
			}
		}
	}
	choose(0, 0)
	return best, found
}

// addView extends the states by all sets of forms of a view's results.
func (b *brute) addView(i int, n *graph.Node) {
	x := n.In[0].Value
	type made struct {
		roots   uint
		outside []int64
	}
	known := map[[2]uint]made{}
	b.extend(n.Out, i, func(sets map[*graph.Value]uint, add func(int64, ...uint)) {
		set := sets[x]
		if bruteConst(x) {
			set = 1<<len(b.forms(x)) - 1
		}
		var masks func(k int, sum int64, before []uint)
		masks = func(k int, sum int64, before []uint) {
			if b.tries++; b.tries > bruteTries { // a view with many results
				b.exceedsLimit = true
				return
			}
			if k == len(n.Out) {
				add(sum, before...)
				return
			}
			w, ok := known[[2]uint{uint(k), set}]
			if !ok {
				w.roots, w.outside = b.viewForms(n, k, set)
				known[[2]uint{uint(k), set}] = w
			}
			b.addSets(n.Out[k], w.roots, w.outside, func(cost int64, s ...uint) {
				masks(k+1, sum+cost, append(slices.Clone(before), s[0]))
			})
		}
		masks(0, 0, nil)
	})
}

// viewForms returns the forms of a view's result that are free, and the costs of the forms that are made from the
// operand, or -1.
func (b *brute) viewForms(n *graph.Node, k int, set uint) (roots uint, outside []int64) {
	x, y := n.In[0].Value, n.Out[k]
	outside = slices.Repeat([]int64{-1}, len(b.forms(y)))
	least := func(f int, cost int64) {
		if outside[f] < 0 || cost < outside[f] {
			outside[f] = cost
		}
	}
	for i, m := range b.forms(x) {
		if set>>i&1 == 0 || !b.mayView(n, i) || n.Op.ReadsStorage && i > 0 {
			continue
		}
		c := b.callWithForms(n, []int{i})
		res, err := n.Op.Infer(c)
		own := b.mustCopy(n, err) && res[k].Alias == graph.NoAlias
		for f := range outside {
			if cost, ok := b.copyCost(y, m, f); own && ok {
				least(f, cost)
			}
			if own {
				if cost, ok := b.copyByNodeCost(n, c, res[k].Meta(), y, f); ok {
					least(f, cost)
				}
			}
		}
		switch {
		case b.isReplaceableCopy(n):
		case err != nil:
			continue
		case res[k].Alias == graph.NoAlias:
			for f := range outside {
				if cost, ok := b.copyByNodeCost(n, c, res[k].Meta(), y, f); ok {
					least(f, cost)
				}
				if cost, ok := b.copyCost(y, m, f); ok && n.Op.Identity {
					least(f, cost)
				}
			}
			continue
		default:
			m = res[k].Meta()
		}
		if f := b.formWithOwnBuffer(y, m); f >= 0 && (f > 0 || !own && b.hasSameStorage(x, y, i, m)) {
			roots |= 1 << f
		}
		for f := range outside {
			if cost, ok := b.copyCost(y, m, f); ok {
				least(f, cost)
			}
		}
	}
	return roots, outside
}

// hasSameStorage reports whether a view of form i of its operand has the same storage as in the graph, if an op reads
// the storage. A result with its own memory in the graph must be a whole copy from the start of its memory.
func (b *brute) hasSameStorage(x, y *graph.Value, i int, m tensor.Meta) bool {
	return i == 0 && y.Alias != nil || !b.storageIsRead[y] || y.Alias == nil && m.Offset == 0 && b.startsAtBuffer(x, i)
}

// startsAtBuffer reports whether a form of a value starts at the start of its memory, whichever way it is made.
func (b *brute) startsAtBuffer(v *graph.Value, f int) bool {
	form := b.forms(v)[f]
	if v.Node == nil || !bruteView(v.Node) {
		return b.placeWithin(v, f) == nil && (v.Node != nil || form.Offset == 0)
	}
	for i, m := range b.viewLayouts(v) {
		if m.SameAddresses(form) && (m.Offset != 0 || !b.startsAtBuffer(v.Node.In[0].Value, i)) {
			return false
		}
	}
	return true
}

// viewLayouts yields the form of the operand and the layout of a view's result, for each form that permits a view.
func (b *brute) viewLayouts(v *graph.Value) iter.Seq2[int, tensor.Meta] {
	return func(yield func(int, tensor.Meta) bool) {
		for i, m := range b.forms(v.Node.In[0].Value) {
			if v.Node.Op.ReadsStorage && i > 0 {
				continue
			}
			res, err := v.Node.Op.Infer(b.callWithForms(v.Node, []int{i}))
			fresh := err != nil || res[v.Index].Alias == graph.NoAlias
			switch {
			case !b.isReplaceableCopy(v.Node) && fresh || b.mustCopy(v.Node, err) && fresh && b.formWithOwnBuffer(v, m) == 0:
				continue
			case !b.isReplaceableCopy(v.Node):
				m = res[v.Index].Meta()
			}
			if !yield(i, m) {
				return
			}
		}
	}
}

// mustCopy reports whether a copy that is an output or pinned must be made because it is a copy in the graph.
func (b *brute) mustCopy(n *graph.Node, refused error) bool {
	y := n.Out[0]
	return b.isReplaceableCopy(n) && (b.problem.Output(y) || n.Pin.SetsLayout()) && y.Alias == nil && refused == nil
}

// isReplaceableCopy reports whether a node is a copy that its operand can replace.
func (b *brute) isReplaceableCopy(n *graph.Node) bool {
	return n.Op.Identity
}

// copyByNodeCost returns the cost if the view's node copies its operand to form f of its result, or false.
func (b *brute) copyByNodeCost(n *graph.Node, c *graph.Call, inferred tensor.Meta, y *graph.Value, f int) (int64,
	bool) {
	to := b.forms(y)[f]
	o, dense := tensor.OrderOf(to)
	if !dense || b.keepsOperandLayout(y) && f == 0 {
		return 0, false
	}
	at, w := &graph.Call{In: c.In, Attrs: c.Attrs, Out: []tensor.Meta{to}}, graph.Walk{}
	if !to.SameAddresses(inferred) {
		if !n.Op.WritesAnyDenseLayout {
			return 0, false
		}
		w = at.WalkInOrder(o)
	}
	cost, ok := b.price(&n.Op.Impls[0], at, w)
	return cost + b.weights.UnitsOf(to.Bytes()), ok
}
