package tile

import "github.com/graphrun/graphrun/internal/jit/target"

// integerTerm emits the multiplications of a term, one iteration of the k-loop, for Int8 or Int16 on amd64. inOffset is
// the offset of the term in the broadcast operand. VPDPBUSD needs its unsigned operand in a register, so the element is
// broadcast first. For Int16, VPMADDWD writes a temporary register, which is then added to the accumulator.
func (g *gen) integerTerm(run *Run, inOffset int) {
	last := g.spec.Vectors - 1
	for i := range g.spec.Rows {
		if g.rowMask(run)>>i&1 == 0 {
			continue
		}
		element := g.nextElementRegister()
		g.amd64.BroadcastInteger(g.rowAddr(i, inOffset), element)
		for vector := range g.spec.Vectors {
			if g.spec.Int8 {
				const isSigned = false // VPDPBUSD reads the broadcast operand as unsigned bytes
				g.Dot(target.Element{Reg: element}, g.vectorReg(vector), g.sumReg(i, vector), isSigned)
				continue
			}
			product := element // the last vector may overwrite the element; the others use another register
			for vector < last && product == element {
				product = g.nextElementRegister()
			}
			g.amd64.DotWords(g.vectorReg(vector), element, g.sumReg(i, vector), product)
		}
	}
}
