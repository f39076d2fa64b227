package endtoend_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// slot returns the place of form f within another value, or nil if the form has its own memory.
func (b *brute) slot(v *graph.Value, f int) *layout.Place {
	b.forms(v)
	if p := b.within[v][f]; p != nil && p.Concat != nil {
		return p
	}
	return nil
}

// like returns the form that inference sees for form f: that with its own memory.
func (b *brute) like(v *graph.Value, f int) int {
	b.forms(v)
	if p := b.within[v][f]; p != nil {
		return p.OwnBufferForm
	}
	return f
}

// once reports whether at most one form of a set lies within another value, and the same form with its own memory is
// not in the set.
func (b *brute) once(v *graph.Value, set uint) bool {
	placed := 0
	for f := range b.forms(v) {
		if p := b.slot(v, f); p != nil && set>>f&1 != 0 {
			if placed++; set>>p.OwnBufferForm&1 != 0 {
				return false
			}
		}
	}
	return placed < 2
}

// home reports whether form f of the result of a concatenation has its own memory and order o. Only then can operands
// lie within the result.
func (b *brute) home(n *graph.Node, f int, o tensor.Order) bool {
	lies, dense := tensor.OrderOf(b.forms(n.Out[0])[f])
	return b.slot(n.Out[0], f) == nil && dense && lies == o
}

// agrees reports whether the forms of v that lie within the result of node n have the order of the result.
func (b *brute) agrees(n *graph.Node, w bruteWay, v *graph.Value, set uint) bool {
	for f := range b.forms(v) {
		if p := b.slot(v, f); set>>f&1 != 0 && p != nil && p.Concat == n && !b.home(n, w.out[0], p.Order) {
			return false
		}
	}
	return true
}

// joined sets InPlace for the operands that lie within the result, and reports whether their order is that of the
// result.
func (b *brute) joined(n *graph.Node, c *graph.Call, w bruteWay) bool {
	if n.Op.ConcatDim == nil {
		return true
	}
	c.InPlace = make([]bool, len(n.In))
	for k, f := range w.in {
		if f < 0 {
			continue
		}
		p := b.slot(n.In[k].Value, f)
		if p == nil || p.Concat != n {
			continue
		}
		if !b.home(n, w.out[0], p.Order) {
			return false
		}
		place, _ := n.PlacesIn(b.forms(n.Out[0])[w.out[0]].Type())[k].Meta()
		lies := b.forms(n.In[k].Value)[f]
		c.InPlace[k] = lies.SameAddresses(place) && lies.Offset == place.Offset
	}
	return true
}

// places lists a way, and the same way with results that are written within other values.
func (b *brute) places(n *graph.Node, impl *graph.Impl, w graph.Walk, way bruteWay) []bruteWay {
	list := []bruteWay{way}
	for k, v := range n.Out {
		for f, lies := range b.forms(v) {
			p := b.slot(v, f)
			if p == nil || p.OwnBufferForm != way.out[k] {
				continue
			}
			require.NotEqual(b.t, n, p.Concat)
			c := b.with(n, way.in)
			for j, o := range n.Out {
				c.Out = append(c.Out, b.forms(o)[way.out[j]])
			}
			lies.Offset = 0
			c.Out[k] = lies
			if !lies.IsNonOverlappingAndDense() && (impl.Writes == nil || !impl.Writes(c, w, k, lies)) {
				continue
			}
			at := bruteWay{in: way.in, out: slices.Clone(way.out)}
			if at.out[k] = f; !b.joined(n, c, at) {
				continue
			}
			if cost, ok := b.price(impl, c, w); ok {
				at.cost = cost
				list = append(list, at)
			}
		}
	}
	return list
}

// sideBySide lists the ways in which a concatenation does nothing: all its operands lie side by side within the result
// of another concatenation.
func (b *brute) sideBySide(n *graph.Node, combos [][]int) (list []bruteWay) {
	if n.Op.ConcatDim == nil {
		return nil
	}
	y := n.Out[0]
	for out, lies := range b.forms(y) {
		p := b.slot(y, out)
		if p == nil || p.Operand >= 0 {
			continue
		}
		places := n.PlacesIn(lies.Type())
		for _, in := range combos {
			all := true
			for k, f := range in {
				place, _ := places[k].Meta()
				if f < 0 || n.In[k].Meta().Numel() == 0 {
					continue
				}
				s, m := b.slot(n.In[k].Value, f), b.forms(n.In[k].Value)[f]
				all = all && s != nil && s.Concat == p.Concat && s.Order == p.Order &&
					m.SameAddresses(place) && m.Offset == place.Offset
			}
			if all {
				list = append(list, bruteWay{in: in, out: []int{out}})
			}
		}
	}
	return list
}
