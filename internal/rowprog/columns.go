package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
)

// This file folds along columns: the inner loop runs along adjacent rows, which are then called columns, and the outer
// loop runs over the elements of a column. The accumulators of the columns are contiguous. An object is memory that
// loops access, and state.tileBase has the address of the current tile (a range of rows) in each object.

// foldBlock is the number of elements that are folded in a column before the result is added to a total
// (fold.blockTotals), which bounds the rounding error.
const foldBlock = 256

// foldColumns runs the loop of a pass along columns. It folds blocks of foldBlock elements of each column, and adds the
// result of each block to the totals of the folds.
func (p *Plan) foldColumns(state *State, current tile, pass *compiledPass) {
	elementsInBlock, hasTotals := 0, false // hasTotals: the totals have been initialized
	p.eachPosition(state, current, pass.pointerObjects, func(innerLen, outerLen int) {
		for outerLen > 0 {
			if elementsInBlock == foldBlock {
				interrupt.Check(state.Context)
				p.addBlock(state, current, pass, !hasTotals)
				elementsInBlock, hasTotals = 0, true
			}
			count := min(outerLen, foldBlock-elementsInBlock)
			p.runColumns(state, pass, innerLen, count)
			elementsInBlock += count
			if outerLen -= count; outerLen == 0 {
				return // do not advance the pointers beyond the memory
			}
			for k := range state.ptrs {
				if state.ptrs[k] != nil {
					state.ptrs[k] = unsafe.Add(state.ptrs[k], count*state.strides[k])
				}
			}
		}
	})
	if !hasTotals { // there is one block, whose result is in place
		return
	}
	const isFirst = false
	p.addBlock(state, current, pass, isFirst)
	for k := range pass.folds {
		rowFold := &pass.folds[k]
		bytes := current.positions * p.objects[rowFold.result].size
		blockTotals, result := state.tileBase[rowFold.blockTotals], state.tileBase[rowFold.result]
		copy(unsafe.Slice((*byte)(result), bytes), unsafe.Slice((*byte)(blockTotals), bytes))
	}
}

// addBlock adds the result of a block to the totals of each fold, and resets the result. For the first block, it
// initializes the totals.
func (p *Plan) addBlock(state *State, current tile, pass *compiledPass, isFirst bool) {
	for k := range pass.folds {
		rowFold := &pass.folds[k]
		if isFirst {
			p.setNeutral(state, rowFold, rowFold.blockTotals, current.positions)
		}
		blockTotals, result := state.tileBase[rowFold.blockTotals], state.tileBase[rowFold.result]
		// blockTotals = join(blockTotals, result), in one row of the loop
		p.runLoop(state, rowFold.joinLoop, []unsafe.Pointer{blockTotals, blockTotals, result}, []int{0, 0, 0},
			current.positions, 1)
		p.setNeutral(state, rowFold, rowFold.result, current.positions)
	}
}

// runColumns runs the unrolled loop over columns, and the loop without unrolling for the remaining elements.
func (p *Plan) runColumns(state *State, pass *compiledPass, innerLen, outerLen int) {
	unrolledEnd := 0 // number of elements of a column that the unrolled loop processes
	if pass.unrolled != nil {
		unrolledEnd = outerLen - outerLen%pass.unrollCount
	}
	if unrolledEnd > 0 {
		state.callPtrs, state.callStrides = state.callPtrs[:0], state.callStrides[:0]
		// A pointer starts at its element of the column, and its step is unrollCount elements.
		for _, pointer := range pass.unrolledPointers {
			stride := state.strides[pointer.base]
			state.callPtrs = append(state.callPtrs, unsafe.Add(state.ptrs[pointer.base], pointer.element*stride))
			state.callStrides = append(state.callStrides, pass.unrollCount*stride)
		}
		pass.unrolled.Run(&state.loops, state.callPtrs, state.callStrides, innerLen, unrolledEnd/pass.unrollCount)
	}
	if unrolledEnd == outerLen {
		return
	}
	state.callPtrs = state.callPtrs[:0]
	for k, ptr := range state.ptrs {
		state.callPtrs = append(state.callPtrs, unsafe.Add(ptr, unrolledEnd*state.strides[k]))
	}
	pass.loop.Run(&state.loops, state.callPtrs, state.strides, innerLen, outerLen-unrolledEnd)
}
