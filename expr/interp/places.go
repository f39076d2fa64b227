package interp

import "github.com/graphrun/graphrun/expr"

// This file chooses the places of values: slots of outputs, cells and blocks ([Runner]).

// operandSlot, foldSlot and cellSlot return the slots of an operand, of the accumulators of a fold, and of a cell. The
// outputs precede the operands, and the temporary blocks follow the cells.
func (prep *preparer) operandSlot(operand expr.Value) int { return len(prep.code.Out) + int(operand) }
func (prep *preparer) foldSlot(fold int) int              { return len(prep.elementSize) + fold }
func (prep *preparer) cellSlot(v expr.Value) int          { return prep.foldSlot(prep.foldCount) + int(v) }
func (prep *preparer) firstBlockSlot() int                { return prep.cellSlot(expr.Value(len(prep.code.Insts))) }

// resultPlace returns the destination of an instruction: an output, the block of an operand that no later instruction
// reads, a free block, or a new block.
func (prep *preparer) resultPlace(v expr.Value) place {
	inst := prep.code.Insts[v]
	if output, ok := prep.outputPlace(v); ok {
		return output
	}
	for _, operand := range prep.values[v].operands {
		if prep.isLastUse(operand, v) && prep.code.Insts[operand].DType.Size() == inst.DType.Size() {
			prep.values[operand].lastReader = -1 // the block is reused, not free
			return prep.values[operand].place
		}
	}
	if freeCount := len(prep.freeSlots); freeCount > 0 {
		slot := prep.freeSlots[freeCount-1]
		prep.freeSlots = prep.freeSlots[:freeCount-1]
		return place{slot, 0, inst.DType.Size()}
	}
	newSlot := prep.firstBlockSlot() + prep.blockCount
	prep.blockCount++
	return place{newSlot, 0, inst.DType.Size()}
}

// outputPlace returns the place of the output to which instruction v can write its result, if there is one. Outputs may
// have the memory of operands, so an instruction writes to an output only if no later instruction reads operands.
func (prep *preparer) outputPlace(v expr.Value) (to place, ok bool) {
	inst := prep.code.Insts[v]
	if v < prep.lastOperandReader || inst.Op == expr.Load {
		return to, false
	}
	prep.eachOutput(func(stored expr.Value, output place) {
		isConversion := inst.Op == expr.Convert && len(prep.values[v].operands) == 1 // stores with any stride
		if stored == v && (output.stride == inst.DType.Size() || isConversion) {
			to, ok = output, true
		}
	})
	return to, ok
}

// isLastUse reports whether instruction v is the last to read an operand, and the operand is in a block.
func (prep *preparer) isLastUse(operand, v expr.Value) bool {
	return prep.values[operand].lastReader == int(v) && prep.values[operand].place.slot >= prep.firstBlockSlot()
}

// release frees the block of an operand if no instruction after v reads it.
func (prep *preparer) release(operand, v expr.Value) {
	if prep.isLastUse(operand, v) {
		prep.freeSlots = append(prep.freeSlots, prep.values[operand].place.slot)
		prep.values[operand].lastReader = -1
	}
}
