package tile

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// elements tracks which elements of the broadcast operand are in registers. A load reads one element. On some targets
// it reads several: consecutive terms of a row, or one term of several rows that are adjacent in memory.
type elements struct {
	registers int // number of registers, after those of the vectors
	next      int // index of the next register in rotation

	row    [32]target.Element // by row: the element of the current term
	loaded uint32             // bit mask of the rows whose elements are loaded
	terms  int                // number of further terms whose elements are already in the next lanes of the same registers
}

// elementRegisters returns the maximum number of registers for elements. If a load reads several elements, each row may
// use a register.
func elementRegisters(cpu machine.Features) int {
	if target.ElementsPerVector(cpu, 4) > 1 {
		return len(elements{}.row)
	}
	return 3
}

// elementsFromMemory reports whether multiplications read elements from memory, because no register is left for
// elements.
func (g *gen) elementsFromMemory() bool { return g.elements.registers <= 0 }

// nextElement returns the register for the next load, in rotation.
func (g *gen) nextElement() target.VReg {
	x := target.VReg(g.sumCount + g.s.termVectors() + g.s.zeroVectors() + g.elements.next)
	g.elements.next = (g.elements.next + 1) % g.elements.registers
	return x
}

// beginTerm is called before each term. It loads the elements of several terms at once if these are adjacent in memory,
// there is a register for each row, and at least two terms are left.
func (g *gen) beginTerm(r *Run, inOffset, termsLeft int) {
	e, mask := &g.elements, g.rowMask(r)
	if e.terms > 0 {
		for i := range e.row {
			e.row[i].Lane++
		}
		e.terms--
		return
	}
	e.loaded = 0
	n := target.ElementsPerVector(g.cpu, g.s.Size)
	for n > termsLeft {
		n /= 2
	}
	if n < 2 || r.InStep != g.s.Size || bits.OnesCount32(mask) > e.registers {
		return
	}
	for i := range g.s.Rows {
		if mask>>i&1 != 0 {
			e.row[i] = target.Element{Reg: g.nextElement()}
			g.Elements(g.row(i, inOffset), n, e.row[i].Reg)
		}
	}
	e.loaded, e.terms = mask, n-1
}

// element returns the element of a row. If necessary, it loads the element, and those of the next rows if adjacent.
func (g *gen) element(r *Run, i, inOffset int) target.Element {
	e := &g.elements
	if e.loaded>>i&1 == 0 {
		n := target.ElementsPerVector(g.cpu, g.s.Size)
		for n > 1 && !g.areAdjacent(g.rowMask(r), i, n) {
			n /= 2
		}
		x := g.nextElement()
		g.Elements(g.row(i, inOffset), n, x)
		for k := range n {
			e.row[i+k] = target.Element{Reg: x, Lane: k}
			e.loaded |= 1 << (i + k)
		}
	}
	return e.row[i]
}

// areAdjacent reports whether rows i to i+n-1 are in the mask and their elements are adjacent in memory.
func (g *gen) areAdjacent(mask uint32, i, n int) bool {
	if g.s.In == nil || i+n > g.s.Rows {
		return false
	}
	for k := range n {
		if mask>>(i+k)&1 == 0 || g.s.In[i+k] != g.s.In[i]+k*g.s.Size {
			return false
		}
	}
	return true
}
