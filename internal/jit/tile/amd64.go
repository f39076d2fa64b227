package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// integerTerm emits the multiplications of a term (see the package comment) of Bytes or Words on amd64. VPDPBUSD needs
// its unsigned operand in a register, so the element is broadcast first. For Words, VPMADDWD writes a temporary
// register, which is then added to the accumulator.
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
