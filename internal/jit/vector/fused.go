package vector

import "math"

// allocateFused adds a fused multiply-add. The result overwrites the register of one source, preferably of a source
// without further uses. One of the other two sources may be in memory. The choice determines the form of the
// instruction: 132, 213 or 231.
func (a *allocator) allocateFused(in *inst) {
	x, y, c := in.src[0], in.src[1], in.src[2]
	dies := func(s arg) bool {
		return a.registerOf[s.v] >= 0 && a.nextUseOf(s.v) == math.MaxInt32 && a.registers.permanent[in.dst] < 0
	}
	absent := func(s arg) bool { return a.lookup(s.v) < 0 && a.g.vals[s.v].acc == nil }
	tied := c
	switch {
	case dies(c):
	case dies(x):
		tied = x
	case dies(y):
		tied, x, y = y, y, x
	case absent(c):
	case absent(x):
		tied = x
	case absent(y):
		tied, x, y = y, y, x
	}
	// A source in memory must be the first of the other two sources.
	form, p, q := "213", c, y
	if tied.v == c.v {
		form, p, q = "231", x, y
	}
	folded, ok := a.foldable(p, in.lane)
	if !ok {
		if m, other := a.foldable(q, in.lane); other {
			folded, ok = m, true
			p, q = q, p
			if form == "213" {
				form = "132"
			}
		}
	}
	if p.v == q.v || p.v == tied.v || !ok {
		folded = nil
	}
	first := folded
	if first == nil {
		first = a.operand(p)
	}
	second := a.operand(q)
	dst := a.result(&inst{src: in.src, dst: in.dst, tied: tied.v})
	a.put(in.name+form+in.fmaSuffix, first, second, dst)
	a.finish(in)
}
