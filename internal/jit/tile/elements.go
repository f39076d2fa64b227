package tile

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// elements tracks the elements of the broadcast operand that are in registers. On NEON, a load reads several elements:
// consecutive terms of a row, or one term of several rows that are adjacent in memory. A term is one step of the sum
// over the inner dimension (k): see spec.go. With loads of four elements, the element of row i at term k is for example
//
//	in lane k%4 of a register of row i, if the terms of a row are adjacent; a load serves four terms
//	in lane i%4 of a register of rows i/4*4 to i/4*4+3, if the rows are adjacent; a load serves one term of four rows
type elements struct {
	registerCount int // number of registers for elements; they follow the registers of sums, vectors and zero points
	nextRegister  int // index, among the registers for elements, of the register for the next load

	byRow      [32]target.Element // by row: the element of the current term
	loadedRows uint32             // bit mask of the rows whose elements are loaded
	termsAhead int                // further terms whose elements are already loaded, in the next lanes of the registers
}

// elementRegisters returns the maximum number of registers for elements. If a load reads several elements, each row may
// need a register of its own.
func elementRegisters(cpu machine.Features) int {
	const leastBytes = 4 // of an element; a load then has the most elements
	if target.MaxLoadedElements(cpu, leastBytes) > 1 {
		return len(elements{}.byRow)
	}
	return 3 // consecutive loads use different registers
}

// elementsFromMemory reports whether no register is left for elements, so that multiplications read them from memory.
func (g *gen) elementsFromMemory() bool { return g.elements.registerCount <= 0 }

// nextElementRegister returns the register for the next load, in rotation.
func (g *gen) nextElementRegister() target.VReg {
	reg := target.VReg(g.sumCount + g.spec.vectorsPerTerm() + g.spec.zeroPointVectors() + g.elements.nextRegister)
	g.elements.nextRegister = (g.elements.nextRegister + 1) % g.elements.registerCount
	return reg
}

// beginTerm is called before each term. If an earlier load has the elements of the term, beginTerm selects their lanes.
// Otherwise it loads the elements of several terms at once, if they are adjacent in memory, each row has a register,
// and at least two terms remain. termsRemaining counts this term too.
func (g *gen) beginTerm(run *Run, inOffset, termsRemaining int) {
	state := &g.elements
	rowsOfRun := g.rowMask(run) // bit mask of the rows that have the terms
	if state.termsAhead > 0 {
		for i := range state.byRow {
			state.byRow[i].Lane++
		}
		state.termsAhead--
		return
	}
	state.loadedRows = 0
	count := target.MaxLoadedElements(g.cpu, g.spec.ElemBytes) // terms of one load
	for count > termsRemaining {
		count /= 2
	}
	areTermsAdjacent := run.InStep == g.spec.ElemBytes
	hasRegisterPerRow := bits.OnesCount32(rowsOfRun) <= state.registerCount
	if count < 2 || !areTermsAdjacent || !hasRegisterPerRow {
		return
	}
	for i := range g.spec.Rows {
		if rowsOfRun>>i&1 != 0 {
			state.byRow[i] = target.Element{Reg: g.nextElementRegister()}
			g.LoadElements(g.rowAddr(i, inOffset), count, state.byRow[i].Reg)
		}
	}
	state.loadedRows, state.termsAhead = rowsOfRun, count-1
}

// element returns the element of row i at the current term, whose offset is inOffset. If it is not loaded, element
// loads it, together with the elements of the next rows if they are adjacent in memory.
func (g *gen) element(run *Run, i, inOffset int) target.Element {
	state := &g.elements
	if state.loadedRows>>i&1 == 0 {
		count := target.MaxLoadedElements(g.cpu, g.spec.ElemBytes) // rows of one load
		for count > 1 && !g.areAdjacent(g.rowMask(run), i, count) {
			count /= 2
		}
		reg := g.nextElementRegister()
		g.LoadElements(g.rowAddr(i, inOffset), count, reg)
		for k := range count {
			state.byRow[i+k] = target.Element{Reg: reg, Lane: k}
			state.loadedRows |= 1 << (i + k)
		}
	}
	return state.byRow[i]
}

// areAdjacent reports whether rows i to i+count-1 are in the mask and their elements are adjacent in memory.
func (g *gen) areAdjacent(mask uint32, i, count int) bool {
	if g.spec.In == nil || i+count > g.spec.Rows {
		return false
	}
	for k := range count {
		isInMask := mask>>(i+k)&1 != 0
		if !isInMask || g.spec.In[i+k] != g.spec.In[i]+k*g.spec.ElemBytes {
			return false
		}
	}
	return true
}
