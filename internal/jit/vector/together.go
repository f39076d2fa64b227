package vector

// twins is a list of instructions being doubled.
type twins struct {
	g    *gen
	by   int   // turns that the list has
	vals []val // by val: that of so many turns later, or 0
}

// interleave gives a list of some turns twice, an instruction for the later turns after that for the earlier: a
// processor finds work in the one while results of the other wait for one another.
func (g *gen) interleave(list []inst, by int) []inst {
	t := twins{g: g, vals: make([]val, len(g.vals)), by: by}
	out := make([]inst, 0, 2*len(list))
	sources := 0
	for k := range list {
		sources += 2 * len(list[k].src)
	}
	src := make([]arg, 0, sources)
	for _, in := range list {
		for k := range 2 {
			c := in
			at := len(src)
			src = append(src, in.src...)
			c.src = src[at:len(src):len(src)]
			for n := range c.src {
				c.src[n].v = t.of(k, c.src[n].v)
			}
			c.dst, c.tied, c.mask = t.of(k, in.dst), t.of(k, in.tied), t.of(k, in.mask)
			if in.store != nil && k == 1 {
				m := in.store.after(by)
				c.store = &m
			}
			out = append(out, c)
		}
	}
	return out
}

// of returns the value that the earlier (0) or the later (1) turns have for one of the list.
func (t *twins) of(k int, v val) val {
	x := t.g.vals[v]
	if k == 0 || v == 0 || x.inv {
		return v
	}
	if y := t.vals[v]; y != 0 {
		return y
	}
	if x.rec != nil {
		r := *x.rec
		r.mem = r.mem.after(t.by)
		x.rec = &r
	}
	if x.acc != nil {
		x.acc = &accRef{fold: x.acc.fold, val: x.acc.val, turn: x.acc.turn + t.by}
	}
	y := t.g.newVal(x)
	t.vals[v] = y
	return y
}

// after is where memory is some turns later.
func (m memory) after(turns int) memory {
	m.off += int32(turns) * m.step
	return m
}

// tryTogether interleaves two turns, then four, unless that reads and writes much more memory: it was faster with an
// access more for six instructions (gelu with AVX-512, whose constants then do not all fit registers, by a fifth), and
// not tried beyond. Bodies of which memory is what takes time gain nothing from four.
func (g *gen) tryTogether(uses []val, slots int, cost float64, length int) {
	most := 4
	switch {
	case length > 150 || len(g.bounces) > 0:
		return
	case length <= shortBody:
		most = 2
	}
	if len(g.loop.Folds) > 0 {
		most = min(most, g.copies) // each has accumulators of its own, which may take several instructions
	}
	for n := 2; n <= most; n *= 2 {
		before := g.frame
		for k := range g.lists {
			g.lists[k] = g.interleave(g.lists[k], n/2)
		}
		g.together = n
		all, ok := g.search(uses, slots)
		if !ok {
			g.frame = before
			return
		}
		if all > float64(n)*(cost+float64(len(g.body))/6) {
			g.discard(&g.frame)
			g.frame = before
			return
		}
		g.discard(&before)
	}
}
