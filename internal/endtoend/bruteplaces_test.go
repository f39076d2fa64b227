package endtoend_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// slot tells where form f of a value lies within another; nil where it does not.
func (b *brute) slot(v *graph.Value, f int) *layout.Place {
	b.forms(v)
	if p := b.within[v][f]; p != nil && p.Concat != nil {
		return p
	}
	return nil
}

// like is the form as which inference knows form f: itself, or what it would be alone.
func (b *brute) like(v *graph.Value, f int) int {
	b.forms(v)
	if p := b.within[v][f]; p != nil {
		return p.OwnBufferForm
	}
	return f
}

// once reports whether of a set of forms one lies within another value at most, and is not there alone besides.
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

// home reports whether the result of a node that joins values has memory of its own in a form, in an order: else
// nothing lies within it there.
func (b *brute) home(n *graph.Node, f int, o tensor.Order) bool {
	lies, dense := tensor.OrderOf(b.forms(n.Out[0])[f])
	return b.slot(n.Out[0], f) == nil && dense && lies == o
}

// agrees reports whether what a node joins lies within its result in no other order than the result does.
func (b *brute) agrees(n *graph.Node, w bruteWay, v *graph.Value, set uint) bool {
	for f := range b.forms(v) {
		if p := b.slot(v, f); set>>f&1 != 0 && p != nil && p.Concat == n && !b.home(n, w.out[0], p.Order) {
			return false
		}
	}
	return true
}

// joined marks the operands that lie where a node's result has them, of which it says so itself where they must be.
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

// places lists a way, and those that do the same and write results within other values.
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

// sideBySide lists the ways in which a node has nothing to do, since all that it joins lies side by side in what
// another one makes of it.
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
