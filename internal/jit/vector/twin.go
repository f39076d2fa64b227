package vector

import "slices"

// twins is a list of instructions being doubled.
type twins struct {
	g    *gen
	vals map[val]val // by val: that of the second turn
}

// interleave gives the body of two turns, an instruction of the one after that of the other: a processor finds work in
// the one while results of the other wait for one another.
func (g *gen) interleave(list []inst) []inst {
	t := twins{g: g, vals: map[val]val{}}
	out := make([]inst, 0, 2*len(list))
	for _, in := range list {
		for k := range 2 {
			c := in
			c.src = slices.Clone(in.src)
			for n := range c.src {
				c.src[n].v = t.of(k, c.src[n].v)
			}
			c.dst, c.tied, c.mask = t.of(k, in.dst), t.of(k, in.tied), t.of(k, in.mask)
			if in.store != nil && k == 1 {
				m := in.store.next()
				c.store = &m
			}
			out = append(out, c)
		}
	}
	return out
}

// of returns the value that turn k has for one of the body.
func (t *twins) of(k int, v val) val {
	x := t.g.vals[v]
	if k == 0 || v == 0 || x.inv {
		return v
	}
	y, ok := t.vals[v]
	if ok {
		return y
	}
	if x.rec != nil {
		r := *x.rec
		r.mem = r.mem.next()
		x.rec = &r
	}
	if x.acc != nil {
		x.acc = &accRef{fold: x.acc.fold, val: x.acc.val, turn: 1}
	}
	y = t.g.newVal(x)
	t.vals[v] = y
	return y
}

// next is where memory is in the turn after this.
func (m memory) next() memory {
	m.off += m.step
	return m
}

// tryTwins interleaves turns if that takes no more of memory.
func (g *gen) tryTwins() {
	if g.together = 1; g.unroll < 2 {
		return
	}
	turn := g.allocate(&g.main, g.interleave(g.turnList()), false, false, nil)
	if g.err == nil && turn.top <= spillSlots && turn.cost <= 2*g.turn.cost {
		g.turn, g.together = turn, 2
	}
	g.err = nil
}
