package rowprog

import "github.com/graphrun/graphrun/internal/strided"

// stagedCopy is for an operand or output that loops cannot use in place. They use a buffer of the worker instead. An
// operand is copied to the buffer before the passes, and an output is copied from it after the passes.
type stagedCopy struct {
	isOutput    bool         // copies an output; otherwise an operand
	isWholeTile bool         // copies all elements of the tile; otherwise one element for each row
	argument    int          // the object of the operand or output
	staged      int          // the object of the buffer
	elem        strided.Elem // the copy of one element
}

// stageIn copies staged operands to the worker's memory.
func (p *Plan) stageIn(state *State, current tile) {
	for _, staging := range p.stagedCopies {
		switch {
		case staging.isOutput:
		case staging.isWholeTile:
			p.copyElements(state, current, staging)
		default:
			p.copyPerRow(state, current, staging)
		}
	}
}

// stageOut copies staged outputs from the worker's memory.
func (p *Plan) stageOut(state *State, current tile) {
	for _, staging := range p.stagedCopies {
		switch {
		case !staging.isOutput:
		case staging.isWholeTile:
			p.copyElements(state, current, staging)
		case p.partsPerRow == 1:
			p.copyPerRow(state, current, staging)
		}
	}
}

// copyPerRow copies one element per row: from the operand to its staged copy, or from the staged copy to the output.
func (p *Plan) copyPerRow(state *State, current tile, staging stagedCopy) {
	argument, staged := &p.objects[staging.argument], &p.objects[staging.staged]
	rows := strided.Axis{N: current.positions, Dst: staged.strides[firstKept], Src: argument.strides[firstKept]}
	oneElement := strided.Axis{N: 1}
	argumentPtr, stagedPtr := state.tileBase[staging.argument], state.tileBase[staging.staged]
	if staging.isOutput {
		staging.elem.CopyBlock(argumentPtr, stagedPtr, rows.Swapped(), oneElement)
		return
	}
	staging.elem.CopyBlock(stagedPtr, argumentPtr, rows, oneElement)
}

// copyElements copies all elements of a tile: from the operand to its staged copy, or from the staged copy to the
// output.
func (p *Plan) copyElements(state *State, current tile, staging stagedCopy) {
	argument, staged := &p.objects[staging.argument], &p.objects[staging.staged]
	inner, outer := p.innerAxis(), p.outerAxis()
	p.eachPosition(state, current, []int{staging.argument, staging.staged}, func(innerLen, outerLen int) {
		innerAxis := strided.Axis{N: innerLen, Dst: staged.strides[inner], Src: argument.strides[inner]}
		outerAxis := strided.Axis{N: outerLen, Dst: staged.strides[outer], Src: argument.strides[outer]}
		argumentPtr, stagedPtr := state.ptrs[0], state.ptrs[1]
		if staging.isOutput {
			staging.elem.CopyBlock(argumentPtr, stagedPtr, innerAxis.Swapped(), outerAxis.Swapped())
			return
		}
		staging.elem.CopyBlock(stagedPtr, argumentPtr, innerAxis, outerAxis)
	})
}
