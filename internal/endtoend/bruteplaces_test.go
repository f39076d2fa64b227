package endtoend_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// placeWithin returns the place of form f within another value, or nil if the form has its own memory.
func (b *brute) placeWithin(v *graph.Value, f int) *layout.Place {
	b.forms(v)
	if p := b.placesOf[v][f]; p != nil && p.Concat != nil {
		return p
	}
	return nil
}

// inferredForm returns the form that inference sees for form f: that with its own memory.
func (b *brute) inferredForm(v *graph.Value, f int) int {
	b.forms(v)
	if p := b.placesOf[v][f]; p != nil {
		return p.OwnBufferForm
	}
	return f
}

// isPlacedOnce reports whether at most one form of a set lies within another value, and the same form with its own
// memory is not in the set.
func (b *brute) isPlacedOnce(v *graph.Value, set uint) bool {
	placed := 0
	for f := range b.forms(v) {
		if p := b.placeWithin(v, f); p != nil && set>>f&1 != 0 {
			if placed++; set>>p.OwnBufferForm&1 != 0 {
				return false
			}
		}
	}
	return placed < 2
}

// hasOwnBufferInOrder reports whether form f of the result of a concatenation has its own memory and order o. Only then
// can operands lie within the result.
func (b *brute) hasOwnBufferInOrder(n *graph.Node, f int, o tensor.Order) bool {
	lies, dense := tensor.OrderOf(b.forms(n.Out[0])[f])
	return b.placeWithin(n.Out[0], f) == nil && dense && lies == o
}

// placesHaveResultOrder reports whether the forms of v that lie within the result of node n have the order of the
// result.
func (b *brute) placesHaveResultOrder(n *graph.Node, w bruteWay, v *graph.Value, set uint) bool {
	for f := range b.forms(v) {
		p := b.placeWithin(v, f)
		if set>>f&1 != 0 && p != nil && p.Concat == n && !b.hasOwnBufferInOrder(n, w.out[0], p.Order) {
			return false
		}
	}
	return true
}

// setInPlace sets InPlace for the operands that lie within the result, and reports whether their order is that of the
// result.
func (b *brute) setInPlace(n *graph.Node, c *graph.Call, w bruteWay) bool {
	if n.Op.ConcatDim == nil {
		return true
	}
	c.InPlace = make([]bool, len(n.In))
	for k, f := range w.in {
		if f < 0 {
			continue
		}
		p := b.placeWithin(n.In[k].Value, f)
		if p == nil || p.Concat != n {
			continue
		}
		if !b.hasOwnBufferInOrder(n, w.out[0], p.Order) {
			return false
		}
		place, _ := n.PlacesIn(b.forms(n.Out[0])[w.out[0]].Type())[k].Meta()
		lies := b.forms(n.In[k].Value)[f]
		c.InPlace[k] = lies.SameAddresses(place) && lies.Offset == place.Offset
	}
	return true
}

// waysWithPlaces lists a way, and the same way with results that are written within other values.
func (b *brute) waysWithPlaces(n *graph.Node, impl *graph.Impl, w graph.Walk, way bruteWay) []bruteWay {
	list := []bruteWay{way}
	for k, v := range n.Out {
		for f, lies := range b.forms(v) {
			p := b.placeWithin(v, f)
			if p == nil || p.OwnBufferForm != way.out[k] {
				continue
			}
			require.NotEqual(b.t, n, p.Concat)
			c := b.callWithForms(n, way.in)
			for j, o := range n.Out {
				c.Out = append(c.Out, b.forms(o)[way.out[j]])
			}
			lies.Offset = 0
			c.Out[k] = lies
			if !lies.IsNonOverlappingAndDense() && (impl.Writes == nil || !impl.Writes(c, w, k, lies)) {
				continue
			}
			at := bruteWay{in: way.in, out: slices.Clone(way.out)}
			if at.out[k] = f; !b.setInPlace(n, c, at) {
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

// waysWithoutWork lists the ways in which a concatenation does nothing: all its operands lie side by side within the
// result of another concatenation.
func (b *brute) waysWithoutWork(n *graph.Node, combos [][]int) (list []bruteWay) {
	if n.Op.ConcatDim == nil {
		return nil
	}
	y := n.Out[0]
	for out, lies := range b.forms(y) {
		p := b.placeWithin(y, out)
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
				s, m := b.placeWithin(n.In[k].Value, f), b.forms(n.In[k].Value)[f]
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
