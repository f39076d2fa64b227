package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// integerTerm emits the multiplications of a term of bytes or words on amd64. VPDPBUSD reads its unsigned operand from
// a register, so the element is broadcast first. There is no dot product of words that adds to an accumulator without a
// temporary register.
func (g *gen) integerTerm(r *Run, inOffset int) {
	last := g.s.Vectors - 1
	for i := range g.s.Rows {
		if g.rowMask(r)>>i&1 == 0 {
			continue
		}
		x := g.nextElement()
		g.amd64.BroadcastInteger(g.row(i, inOffset), x)
		for v := range g.s.Vectors {
			if g.s.Bytes {
				g.Dot(target.Element{Reg: x}, g.vector(v), g.sum(i, v), false)
				continue
			}
			to := x // free after the last vector
			for v < last && to == x {
				to = g.nextElement()
			}
			g.amd64.DotWords(g.vector(v), x, g.sum(i, v), to)
		}
	}
}
