package rowprog

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/loops"
)

// This file runs the compiled passes of a [Plan], tile by tile. The kept axes enumerate the rows, and the reduced axes
// the elements of a row. A tile is a range of rows. For a softmax, for example, pass 0 folds the maximum of each row of
// the tile, pass 1 the sum of the exponentials, and pass 2 stores the quotients. A loop has an inner and an outer
// dimension. The inner one is kept[0] if loops run along columns (alongColumns), else reduced[0]. p.axes has kept[0]
// (index firstKept), then the reduced axes.
//
// An object is memory that loops access: an output, an operand, or a buffer of the worker. Its index in Plan.objects
// identifies it. Methods pass addresses in the State: setTile sets tileBase, and setPtrs and setStrides set ptrs and
// strides for the next call of a loop. A fold is a reduction of a row: its result is an object, and so are its
// accumulators laneAccs and blockTotals. joinLoop combines two results of a fold.

// State holds the memory that a worker reuses between chunks. The zero value is ready to use. A State is for one
// goroutine at a time. It keeps no addresses of operands after Run.
type State struct {
	// Context, if set, cancels [Plan.Run] even within long rows. Run then returns the cause of Context.
	Context context.Context

	loops       loops.State
	tileBase    []unsafe.Pointer // by object: the address of the tile's first element
	ptrs        []unsafe.Pointer // addresses for the current loop: its outputs, operands and accumulators
	callPtrs    []unsafe.Pointer // a copy of ptrs, because loops modify their pointers
	strides     []int            // for each entry of ptrs: bytes between rows
	callStrides []int            // strides of callPtrs in an unrolled loop
	index       []int            // by axis: the current index
	fusedTiles  []fusedTile      // the tiles of fused passes
	rowBase     []unsafe.Pointer // in a pipeline: the value of tileBase for the first row
	piecePtrs   []unsafe.Pointer // addresses of outputs and operands for a chunk of [Pieces]
}

// tile is a range of positions along kept[0], the first kept axis, at one position along the other kept axes.
type tile struct {
	index     int // number of the tile
	positions int // number of positions
	// If rows are cut: the first position along the cut axis of the part that the chunk processes, and the number of
	// its positions. Otherwise 0.
	partBegin, partLen int
}

// Run runs a chunk of a phase. A chunk is a range of tiles. If rows are cut, a chunk of phase 0 folds one part of each
// row of a tile, and a chunk of phase 1 combines the results of the parts for all rows of a tile. ptrs are the
// addresses of the first elements of outputs and operands. The addresses are not checked. scratch and worker must have
// at least [Plan.Scratch] and [Plan.WorkerScratch] bytes. Run fails if the context ends or an argument is invalid.
func (p *Plan) Run(state *State, phase, chunk int, ptrs []unsafe.Pointer, scratch, worker []byte) (err error) {
	hasPhase := phase >= 0 && phase < p.Phases()
	switch {
	case !hasPhase || chunk < 0 || chunk >= p.Chunks(phase):
		return fmt.Errorf("rowprog: phase %d has no chunk %d", phase, chunk)
	case len(ptrs) < len(p.callerMetas()):
		return fmt.Errorf("rowprog: there are %d addresses for %d outputs and operands", len(ptrs), len(p.callerMetas()))
	case len(scratch) < p.scratchBytes || len(worker) < p.workerBytes:
		return fmt.Errorf("rowprog: scratch memory has %d bytes and worker memory %d: want at least %d and %d", len(scratch),
			len(worker), p.scratchBytes, p.workerBytes)
	}
	defer interrupt.Catch(&err)
	defer state.release()
	state.loops.Context = state.Context
	if p.needsStoreFence {
		defer loops.Fence() // completes the non-temporal stores before other goroutines read the outputs
	}
	// If rows are not cut, the chunk has the tiles begin to end-1.
	begin, end := chunk*p.tilesPerChunk, min((chunk+1)*p.tilesPerChunk, p.tileCount)
	switch {
	case p.rowsPerGroup > 0: // a pipeline of rows
		p.runAsPipeline(state, begin, end, ptrs, worker)
	case p.fused != nil: // one loop runs all passes, each over another tile
		p.runFusedTiles(state, begin, end, ptrs, worker)
	case p.partsPerRow == 1: // rows are not cut
		for tileIndex := begin; tileIndex < end; tileIndex++ {
			p.runTile(state, tileIndex, ptrs, worker)
		}
	case phase == 0: // a chunk is one part of each row of a tile
		p.foldPart(state, chunk%p.tileCount, chunk/p.tileCount, ptrs, scratch, worker)
	default: // phase 1: a chunk is a tile
		p.joinParts(state, chunk, ptrs, scratch, worker)
	}
	return nil
}

// runTile runs all passes over a tile, one after another.
func (p *Plan) runTile(state *State, index int, ptrs []unsafe.Pointer, worker []byte) {
	current := p.setTile(state, index, ptrs, worker)
	p.stageIn(state, current) // copies operands that loops cannot read in place
	for k := range p.passes {
		p.runPass(state, current, &p.passes[k])
		p.combineColumnFolds(state, current, &p.passes[k]) // if splitRows has divided rows into columns
		p.runScans(state, current, &p.passes[k])
		p.runPerRow(state, current, &p.passes[k])
	}
	p.stageOut(state, current) // copies outputs that loops cannot write in place
}

// foldPart folds one part of the cut rows of a tile, and stores the results in scratch.
func (p *Plan) foldPart(state *State, index, part int, ptrs []unsafe.Pointer, scratch, worker []byte) {
	current := p.setTile(state, index, ptrs, worker)
	current.partBegin = part * p.partLen
	current.partLen = min(p.partLen, p.axes[p.cutAxis].length-current.partBegin)
	for i := range p.metas {
		state.tileBase[i] = unsafe.Add(state.tileBase[i], current.partBegin*p.axes[p.cutAxis].strides[i])
	}
	p.stageIn(state, current)
	p.runPass(state, current, &p.passes[0])
	p.stageOut(state, current)
	for k := range p.passes[0].folds {
		result, partial := p.passes[0].folds[k].result, p.partials[k]
		begin := partial.offset + (index*p.partsPerRow+part)*partial.size
		bytes := current.positions * p.objects[result].size
		copy(scratch[begin:begin+bytes], unsafe.Slice((*byte)(state.tileBase[result]), bytes))
	}
}

// joinParts combines the partial results of cut rows in the order of the parts, for all rows of a tile.
func (p *Plan) joinParts(state *State, index int, ptrs []unsafe.Pointer, scratch, worker []byte) {
	current := p.setTile(state, index, ptrs, worker)
	for _, staging := range p.stagedCopies { // the computation per row needs only operands with one element for each row
		if !staging.isWholeTile && !staging.isOutput {
			p.copyPerRow(state, current, staging)
		}
	}
	for k := range p.passes[0].folds {
		rowFold := &p.passes[0].folds[k]
		partial := p.partials[k]
		p.setNeutral(state, rowFold, rowFold.result, current.positions)
		results := unsafe.Pointer(&scratch[partial.offset+index*p.partsPerRow*partial.size])
		joined := state.tileBase[rowFold.result]
		// joined = join(joined, results) for each part. partial.size is the distance between the results of two parts.
		p.runLoop(state, rowFold.joinLoop, []unsafe.Pointer{joined, joined, results}, []int{0, 0, partial.size},
			current.positions, p.partsPerRow)
	}
	p.combineColumnFolds(state, current, &p.passes[0])
	p.runPerRow(state, current, &p.passes[0])
	for _, staging := range p.stagedCopies {
		if !staging.isWholeTile && staging.isOutput {
			p.copyPerRow(state, current, staging)
		}
	}
}

// runPass runs the loop of a pass over a tile, and combines the lane accumulators of each fold into one number per row.
func (p *Plan) runPass(state *State, current tile, pass *compiledPass) {
	if pass.loop == nil {
		return
	}
	for k := range pass.folds {
		rowFold := &pass.folds[k]
		switch {
		case p.alongColumns:
			p.setNeutral(state, rowFold, rowFold.result, current.positions)
		case rowFold.laneAccs >= 0:
			p.setNeutral(state, rowFold, rowFold.laneAccs, current.positions)
		}
	}
	p.setStrides(state, pass.pointerObjects, p.outerAxis())
	if p.alongColumns && len(pass.folds) > 0 {
		p.foldColumns(state, current, pass)
		return
	}
	p.eachPosition(state, current, pass.pointerObjects, func(innerLen, outerLen int) {
		pass.loop.Run(&state.loops, state.ptrs, state.strides, innerLen, outerLen)
	})
	for k := range pass.folds {
		rowFold := &pass.folds[k]
		if rowFold.laneAccs >= 0 {
			rowFold.combineLanes(state.tileBase[rowFold.result], state.tileBase[rowFold.laneAccs], current.positions)
		}
	}
}

// runPerRow runs the part of a pass that is computed once per row, after the loop of the pass.
func (p *Plan) runPerRow(state *State, current tile, pass *compiledPass) {
	if pass.perRow == nil {
		return
	}
	state.ptrs, state.strides = state.ptrs[:0], state.strides[:0]
	for _, objectIndex := range pass.perRowObjects {
		state.ptrs, state.strides = append(state.ptrs, state.tileBase[objectIndex]), append(state.strides, 0)
	}
	const loopRows = 1 // the rows of the tile are the elements of one row of this loop
	pass.perRow.Run(&state.loops, state.ptrs, state.strides, current.positions, loopRows)
}

// setTile returns the tile with an index, and sets state.tileBase to the addresses of the tile in all objects.
func (p *Plan) setTile(state *State, index int, ptrs []unsafe.Pointer, worker []byte) tile {
	first := index % p.tilesAlongFirstKept * p.tileLen
	result := tile{index: index, positions: min(p.tileLen, p.kept[0].length-first)}
	state.tileBase = state.tileBase[:0]
	for i := range p.objects {
		obj := &p.objects[i]
		if obj.argument < 0 { // a buffer of the worker
			// Consecutive tiles use the copies in rotation.
			state.tileBase = append(state.tileBase, unsafe.Pointer(&worker[obj.offset+index%obj.copies*obj.copyStride]))
			continue
		}
		// The tile is at one position along the kept axes after kept[0]. The first of these axes is the fastest. obj
		// has strides by axis, and dim has strides by object.
		offset, outerPosition := first*obj.strides[firstKept], index/p.tilesAlongFirstKept
		for axisIndex := range p.kept[1:] {
			dim := &p.kept[1+axisIndex]
			offset += outerPosition % dim.length * dim.strides[i]
			outerPosition /= dim.length
		}
		address := p.address(ptrs, obj.argument)
		if address != nil {
			address = unsafe.Add(address, offset)
		}
		state.tileBase = append(state.tileBase, address)
	}
	return result
}

// eachPosition calls visit for each position along the axes that are neither the inner nor the outer dimension of
// loops. innerLen and outerLen are the lengths of these two dimensions. During the call, state.ptrs has the addresses
// of the given objects, and nil for object -1. visit may modify state.ptrs.
func (p *Plan) eachPosition(state *State, current tile, objects []int, visit func(innerLen, outerLen int)) {
	innerLen, outerLen := p.length(current, p.innerAxis()), p.length(current, p.outerAxis())
	if p.rowLen == 0 {
		return
	}
	state.index = state.index[:0]
	for range p.axes {
		state.index = append(state.index, 0)
	}
	for {
		p.setPtrs(state, objects)
		visit(innerLen, outerLen)
		if !p.advanceIndex(state, current) {
			return
		}
		interrupt.Check(state.Context)
	}
}

// setPtrs sets state.ptrs to the addresses of the given objects at state.index, and to nil for object -1.
func (p *Plan) setPtrs(state *State, objects []int) {
	state.ptrs = state.ptrs[:0]
	for _, objectIndex := range objects {
		if objectIndex < 0 {
			state.ptrs = append(state.ptrs, nil)
			continue
		}
		offset := 0
		for d := p.firstOtherAxis(); d < len(p.axes); d++ {
			offset += state.index[d] * p.objects[objectIndex].strides[d]
		}
		state.ptrs = append(state.ptrs, unsafe.Add(state.tileBase[objectIndex], offset))
	}
}

// advanceIndex moves state.index to the next position along the axes that are neither the inner nor the outer dimension
// of loops, the first of these axes fastest. It returns false after the last position.
func (p *Plan) advanceIndex(state *State, current tile) bool {
	for d := p.firstOtherAxis(); d < len(p.axes); d++ {
		if state.index[d]++; state.index[d] < p.length(current, d) {
			return true
		}
		state.index[d] = 0
	}
	return false
}

// length returns the number of positions along an axis in a tile.
func (p *Plan) length(current tile, axisIndex int) int {
	switch {
	case axisIndex == firstKept:
		return current.positions
	case axisIndex == p.cutAxis && current.partLen > 0:
		return current.partLen
	}
	return p.axes[axisIndex].length
}

// setStrides sets state.strides to the strides of the given objects along an axis.
func (p *Plan) setStrides(state *State, objects []int, axisIndex int) {
	state.strides = state.strides[:0]
	for _, object := range objects {
		stride := 0
		if object >= 0 {
			stride = p.objects[object].strides[axisIndex]
		}
		state.strides = append(state.strides, stride)
	}
}

// setNeutral fills the accumulators of a fold for a number of rows with the fold's neutral element. An accumulator has
// one element or [expr.FoldLanes] elements.
func (p *Plan) setNeutral(state *State, rowFold *fold, objectIndex, rows int) {
	memory := unsafe.Slice((*byte)(state.tileBase[objectIndex]), rows*p.objects[objectIndex].strides[firstKept])
	for len(memory) > 0 {
		memory = memory[copy(memory, rowFold.neutral[:]):]
	}
}

// runLoop runs a loop on a copy of ptrs, because the loop modifies its pointers.
func (p *Plan) runLoop(state *State, loop *loops.Loop, ptrs []unsafe.Pointer, strides []int, innerLen, outerLen int) {
	state.callPtrs = append(state.callPtrs[:0], ptrs...)
	loop.Run(&state.loops, state.callPtrs, strides, innerLen, outerLen)
}

// release removes all addresses and the context from the state, so that the garbage collector can free the operands.
func (s *State) release() {
	s.Context = nil
	clear(s.tileBase)
	for k := range s.fusedTiles {
		clear(s.fusedTiles[k].base)
	}
	clear(s.rowBase)
	clear(s.ptrs)
	clear(s.callPtrs)
	s.loops.Release()
}
