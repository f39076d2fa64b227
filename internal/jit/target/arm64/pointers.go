package arm64

import (
	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file assigns registers and memory to pointers. The generated code has these pointers, in this order:
//
//	the pointers of the loop
//	for each fold of a loop with totals, a pointer to the accumulators
//	the row counter, which is the number of remaining rows instead of an address
//
// In a loop with totals, the lanes of the accumulators of a fold are combined (lane.Loop.CombinesLanes) into one number
// for each row, its total. The accumulators are then in the spill area. In other loops, they are in the memory of the
// caller.

// pointer is an address that the generated code keeps. writer.pointerRegisters has its register.
type pointer struct {
	step      int  // bytes from one element of a row to the next; 0 if the pointer does not advance along rows
	isAcc     bool // points to accumulators: passes of the main loop do not advance it
	accOffset int  // byte offset of the accumulators in the spill area, if the pointer points to such accumulators
}

// accPointer returns, for a loop with totals, the number of the pointer to the accumulators of fold k.
func (g *generator) accPointer(k int) int { return len(g.loop.Ptrs) + k }

// rowCounter returns the number of the row counter.
func (g *generator) rowCounter() int { return len(g.pointers) - 1 }

// layOutPointers lists the pointers, and assigns registers and the first slots of the spill area to them. With totals,
// the next slots are for the accumulators.
func (g *generator) layOutPointers() {
	for _, ptr := range g.loop.Ptrs {
		isTotal := ptr.Kind == lane.Accumulator && g.loop.CombinesLanes // its accumulators get a pointer below
		isUnused := ptr.DType == tensor.Invalid                         // an output that is not stored
		if ptr.Kind == lane.RowOperand || isTotal || isUnused {
			g.pointers = append(g.pointers, pointer{}) // to one element per row, or to no memory
		} else {
			g.pointers = append(g.pointers, pointer{step: ptr.DType.Size(), isAcc: ptr.Kind == lane.Accumulator})
		}
	}
	if g.loop.CombinesLanes {
		for _, fold := range g.loop.Folds {
			g.pointers = append(g.pointers, pointer{step: g.loop.Type(fold.Value).Size(), isAcc: true})
		}
	}
	g.pointers = append(g.pointers, pointer{}) // the row counter
	g.assignPointerRegisters()
	for k := len(g.loop.Ptrs); k < g.rowCounter(); k++ { // the accumulators of totals
		g.pointers[k].accOffset = vectorBytes * g.slotCount
		g.slotCount += lane.FoldLanes * g.pointers[k].step / vectorBytes
	}
}

// assignPointerRegisters assigns the registers `bases`, first to the pointers that advance along rows. A pointer for
// which no register is free stays in the spill area. The code loads it to regPointer where it uses it.
func (g *generator) assignPointerRegisters() {
	free := bases
	g.out.pointerRegisters = make([]asm.Reg, len(g.pointers))
	for _, advances := range []bool{true, false} {
		for k, ptr := range g.pointers {
			switch {
			case (ptr.step > 0) != advances:
			case len(free) > 0:
				g.out.pointerRegisters[k], free = free[0], free[1:]
			default: // pointer k is word k of the spill area, even if lower pointers have registers
				g.out.pointerRegisters[k] = regPointer
				g.slotCount = max(g.slotCount, k/2+1) // a slot has two words
			}
		}
	}
}
