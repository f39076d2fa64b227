package vector

// interleaver copies a list of instructions. The copy computes the iterations after the iterations of the list.
type interleaver struct {
	g          *gen
	iterations int   // number of iterations in the list
	copyOf     []val // by val: its copy in the later iterations, or 0
}

// interleave doubles the number of iterations in a list, which has the given number of iterations. Each instruction is
// followed by its copy for the next iterations, so that the latencies of the two overlap.
func (g *gen) interleave(list []inst, iterations int) []inst {
	t := interleaver{g: g, copyOf: make([]val, len(g.vals)), iterations: iterations}
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
				c.src[n].v = t.valueIn(k, c.src[n].v)
			}
			c.dst, c.tied, c.mask = t.valueIn(k, in.dst), t.valueIn(k, in.tied), t.valueIn(k, in.mask)
			if in.store != nil && k == 1 {
				m := in.store.after(iterations)
				c.store = &m
			}
			out = append(out, c)
		}
	}
	return out
}

// valueIn returns the value that corresponds to v in the original iterations (k is 0) or in their copy (k is 1).
func (t *interleaver) valueIn(k int, v val) val {
	x := t.g.vals[v]
	if k == 0 || v == 0 || x.invariant {
		return v
	}
	if y := t.copyOf[v]; y != 0 {
		return y
	}
	if x.reload != nil {
		r := *x.reload
		r.mem = r.mem.after(t.iterations)
		x.reload = &r
	}
	if x.acc != nil {
		x.acc = &accRef{index: x.acc.index, val: x.acc.val, iteration: x.acc.iteration + t.iterations}
	}
	y := t.g.newVal(x)
	t.copyOf[v] = y
	return y
}

// after returns the memory that the same instruction accesses the given number of iterations later.
func (m memory) after(iterations int) memory {
	m.offset += int32(iterations) * m.step
	return m
}

// tryInterleave interleaves two iterations, and then four. It stops if a step adds more than one memory access per six
// instructions. Interleaved code below this limit was faster in measurements: gelu with AVX-512 took a fifth less time,
// although not all of its constants fit into registers. Memory-bound bodies gain nothing from four iterations. cost and
// length are the cost and the number of instructions of one iteration.
func (g *gen) tryInterleave(constants []val, slots int, cost float64, length int) {
	maxIterations := 4
	switch {
	case length > 150 || len(g.bounceVectors) > 0:
		return
	case length <= shortBody:
		maxIterations = 2
	}
	if len(g.loop.Folds) > 0 {
		maxIterations = min(maxIterations, g.accSets) // each iteration needs its own accumulators
	}
	for n := 2; n <= maxIterations; n *= 2 {
		before := g.frame
		for k := range g.bodyInsts {
			g.bodyInsts[k] = g.interleave(g.bodyInsts[k], n/2)
		}
		g.interleaved = n
		total, ok := g.search(constants, slots)
		if !ok {
			g.frame = before
			return
		}
		if total > float64(n)*(cost+float64(len(g.body))/6) {
			g.discard(&g.frame)
			g.frame = before
			return
		}
		g.discard(&before)
	}
}
