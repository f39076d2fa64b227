package amd64

import (
	"github.com/graphrun/graphrun/internal/jit/target/amd64/asm"
	"github.com/graphrun/graphrun/tensor"
)

// General registers. The spill area is scratch memory in jit.Args.
const (
	regArgs        = asm.DI
	regSpill       = asm.BX // the spill area
	regIndex       = asm.CX // number of elements of the row that are already computed
	regLimit       = asm.DX // the last regIndex at which an iteration may start; in tails, the remaining elements
	regTemp        = asm.AX // a temporary, which nearly all methods that write code may change
	regDoubleIndex = asm.SI // 2*regIndex, for elements of 16 bytes
)

// bases are the registers for pointers.
var bases = []asm.Reg{asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// This file assigns registers and memory to pointers, the addresses that the code keeps. Pointers are numbered: first
// the addresses of outputs, then of operands, then of the accumulators of folds (reductions of the row), as in
// loop.Ptrs. The last pointer is the row counter. A pointer without a register is in the spill area: pointer k is word
// k, and a vector has eight words.

// rowCounter returns the number of the pointer that counts the remaining rows.
func (g *generator) rowCounter() int { return len(g.loop.Ptrs) }

// layOutPointers assigns registers to pointers, first to the pointers that advance along rows. It reserves the vectors
// of the spill area that hold pointers without a register.
func (g *generator) layOutPointers() {
	free := bases
	g.pointerRegisters = make([]asm.Reg, g.rowCounter()+1)
	for _, advances := range []bool{true, false} {
		for k := range g.pointerRegisters {
			switch {
			case g.advances[k] != advances:
			case len(free) > 0:
				g.pointerRegisters[k], free = free[0], free[1:]
			default:
				g.pointerRegisters[k] = regTemp
				g.reservedSlots = max(g.reservedSlots, k/8+1)
			}
		}
	}
	for k, ptr := range g.loop.Ptrs {
		g.hasWideElements = g.hasWideElements || ptr.DType == tensor.Complex128 && g.advances[k]
	}
}

// layOutBounceVectors assigns vectors of the spill area to the pointers whose tails cannot be masked.
func (g *generator) layOutBounceVectors() {
	g.bounceVectors = map[int]int{}
	for k, ptr := range g.loop.Ptrs {
		if !g.avx512 && g.advances[k] && (ptr.DType.Size() < 4 || ptr.DType.IsComplex()) {
			g.bounceVectors[k] = g.reservedSlots
			g.reservedSlots++
		}
	}
}

// hasComplex reports whether an output or an operand that advances along rows is complex.
func (g *generator) hasComplex() bool {
	for k, ptr := range g.loop.Ptrs {
		if ptr.DType.IsComplex() && g.advances[k] {
			return true
		}
	}
	return false
}

// pointerWord returns the word of the spill area that holds pointer k.
func (g *generator) pointerWord(k int) asm.Mem { return asm.Mem{Base: regSpill, Disp: int32(8 * k)} }

// loadPointer returns a register with pointer k. If the pointer is in the spill area, loadPointer loads it to regTemp.
func (g *generator) loadPointer(k int) asm.Reg {
	register := g.pointerRegisters[k]
	if register == regTemp {
		g.asm.Emit("MOVQ", g.pointerWord(k), register)
	}
	return register
}

// savePointer stores pointer k, if it is in the spill area, from the register that loadPointer returned.
func (g *generator) savePointer(k int) {
	if g.pointerRegisters[k] == regTemp {
		g.asm.Emit("MOVQ", regTemp, g.pointerWord(k))
	}
}
