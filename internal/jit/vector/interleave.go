package vector

// interleaver makes a second copy of a list of instructions, for later iterations.
type interleaver struct {
	g    *gen
	by   int   // number of iterations in the list
	vals []val // by val: its copy in the later iterations, or 0
}

// interleave doubles the number of iterations in a list, which has by iterations. Each instruction is followed by its
// copy for the later iterations, so that their latencies overlap.
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

// of returns, for a value v of the list, its value in the earlier (k is 0) or later (k is 1) iterations.
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
		x.acc = &accRef{fold: x.acc.fold, val: x.acc.val, copy: x.acc.copy + t.by}
	}
	y := t.g.newVal(x)
	t.vals[v] = y
	return y
}

// after returns the memory that a later iteration accesses; turns is the number of iterations.
func (m memory) after(turns int) memory {
	m.offset += int32(turns) * m.step
	return m
}

// tryInterleave interleaves two iterations, then four, unless that adds more than one memory access for six
// instructions. Below this limit, interleaving was faster: gelu with AVX-512 by a fifth, although not all of its
// constants then fit into registers. More than four iterations were not tried. Memory-bound bodies gain nothing from
// four.
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
