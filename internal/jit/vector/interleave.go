package vector

// interleaver duplicates a list of instructions.
type interleaver struct {
	g    *gen
	by   int   // number of iterations in the list
	vals []val // by val: its copy `by` iterations later, or 0
}

// interleave doubles the iterations in a list, with each instruction of a later iteration after that of the earlier
// one, to overlap their latencies.
func (g *gen) interleave(list []inst, by int) []inst {
	t := interleaver{g: g, vals: make([]val, len(g.vals)), by: by}
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

// of returns the value of the earlier (0) or later (1) iterations for a value of the list.
func (t *interleaver) of(k int, v val) val {
	x := t.g.vals[v]
	if k == 0 || v == 0 || x.invariant {
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

// after returns the address some iterations later.
func (m memory) after(turns int) memory {
	m.off += int32(turns) * m.step
	return m
}

// tryInterleave interleaves two iterations, then four, unless that adds more than one memory access per six
// instructions. Up to there it was faster: gelu with AVX-512, whose constants then do not all fit into registers, by a
// fifth. More was not tried. Memory-bound bodies gain nothing from four.
func (g *gen) tryInterleave(uses []val, slots int, cost float64, length int) {
	most := 4
	switch {
	case length > 150 || len(g.bounces) > 0:
		return
	case length <= shortBody:
		most = 2
	}
	if len(g.loop.Folds) > 0 {
		most = min(most, g.copies) // each iteration needs accumulators, which may take several instructions
	}
	for n := 2; n <= most; n *= 2 {
		before := g.frame
		for k := range g.lists {
			g.lists[k] = g.interleave(g.lists[k], n/2)
		}
		g.interleaved = n
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
