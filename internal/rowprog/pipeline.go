package rowprog

import "unsafe"

// This file runs the passes of a plan as a pipeline: a fused loop (fused.go) in which each pass lags behind the
// previous pass by a group of one or two rows. A row has the elements along the reduced axes. There is a row for each
// position along the other axes, the kept axes. A tile has up to tileLen rows along kept[0]. An object is memory that a
// loop accesses: an output, an operand or a buffer.
//
// A chunk has adjacent tiles. One call of the loop processes almost all of its rows. Only the first and the last steps,
// in which some passes have no group, need separate loops. For three passes and four groups:
//
//	step    pass 0     pass 1     pass 2
//	0       group 0                          separate loops
//	1       group 1    group 0               separate loops
//	2       group 2    group 1    group 0    the fused loop
//	3       group 3    group 2    group 1    the fused loop, in the same call
//	4                  group 3    group 2    separate loops
//	5                             group 3    separate loops

// minPipelinedRow is the minimum length of a row, in elements, for a pipeline. In measurements, no row of at least
// this length was slower with a pipeline.
const minPipelinedRow = 512

// canPipeline reports whether passes that can be fused (canFuse) can be a pipeline. Rows must be long, because the
// computations once per row are called for each row separately. On Emerald Rapids, softmax of 4096x4096 takes 4.2 ms
// instead of 5 ms with tiles, and layer_norm of 8192x2048 takes 3.8 ms instead of 4.9 ms.
func (p *Plan) canPipeline(groupRows int) bool {
	for k := range p.program.Rows { // rows that a pass stores and a later pass reads
		out := p.program.Rows[k].Out
		// A row that is not an output is in worker memory. So is a row of an output with non-temporal stores, which
		// bypass the cache.
		isInWorkerMemory := out < 0 || p.hasNonTemporalStores(out)
		// In a pipeline, this memory has space for one row. More space is needed if a pass after the next one reads the
		// row, or if a group has two rows.
		if isInWorkerMemory && (p.rowCopies(k) > 1 || groupRows > 1) {
			return false
		}
	}
	return p.rowLen >= minPipelinedRow
}

// runAsPipeline runs all passes over the tiles begin to end-1 as a pipeline of rows. Each pass lags behind the previous
// pass by one group of rows (see rowsPerGroup).
func (p *Plan) runAsPipeline(state *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	for next := begin; next < end; { // each iteration: tiles along kept[0], at one position along the other kept axes
		position := next / p.tilesAlongFirstKept
		last := min(end, (position+1)*p.tilesAlongFirstKept) - 1
		lastTile := p.setTile(state, last, ptrs, worker)
		rows := (last-next)*p.tileLen + lastTile.positions
		p.setTile(state, next, ptrs, worker)
		state.rowBase = append(state.rowBase[:0], state.tileBase...)
		p.runPipelinedRows(state, rows)
		next = last + 1
	}
}

// runPipelinedRows runs all passes over consecutive rows. Pass k is k groups of rows behind the first pass. The fused
// loop runs all passes together while all of them have a group; before and after this, runPipelineStep runs them
// separately. The remaining rows, fewer than a group, are processed one at a time.
func (p *Plan) runPipelinedRows(state *State, rows int) {
	lag := p.passesAtOnce - 1 // of the last pass behind the first one, in groups; passesAtOnce is the number of passes
	groups, step := rows/p.rowsPerGroup, 0
	if groups > lag {
		for ; step < lag; step++ { // until all passes have begun
			p.runPipelineStep(state, step, groups)
		}
		p.runFusedRows(state, groups-lag)
		// The fused loop ends with group groups-1 in pass 0, group groups-2 in pass 1, and so on. The later passes over
		// these groups run separately, and need the numbers of the finished passes.
		for group := groups - lag; group < groups; group++ {
			finishedPasses := groups - group
			p.computeNumbers(state, group, finishedPasses)
		}
		step = groups
	}
	for ; step < groups+lag; step++ { // until all passes have ended; all steps if there are too few groups
		p.runPipelineStep(state, step, groups)
	}
	for row := groups * p.rowsPerGroup; row < rows; row++ {
		for k := range p.passes {
			p.runRow(state, row, k)
		}
	}
}

// runFusedRows runs the fused loop for the given number of groups of rows. The last pass begins with the first group;
// the earlier passes are already ahead of it.
func (p *Plan) runFusedRows(state *State, groups int) {
	state.ptrs, state.strides = state.ptrs[:0], state.strides[:0]
	for _, pointer := range p.fused.pointers {
		if pointer.object < 0 {
			state.ptrs, state.strides = append(state.ptrs, nil), append(state.strides, 0)
			continue
		}
		rowStride := p.objects[pointer.object].strides[firstKept]
		row := (p.passesAtOnce-1-pointer.pass)*p.rowsPerGroup + pointer.rowInGroup
		state.ptrs = append(state.ptrs, unsafe.Add(state.rowBase[pointer.object], row*rowStride))
		state.strides = append(state.strides, p.rowsPerGroup*rowStride)
	}
	p.fused.loop.Run(&state.loops, state.ptrs, state.strides, p.reduced[0].length, groups)
}

// computeNumbers runs the computations once per row of the first passes, such as the division for a mean, for a group
// of rows. The fused loop has run these passes, but it does not store the results of these computations. The later
// passes, which run separately, need the results.
func (p *Plan) computeNumbers(state *State, group, passes int) {
	for k := range passes {
		for row := group * p.rowsPerGroup; row < (group+1)*p.rowsPerGroup; row++ {
			p.seekRow(state, row)
			p.runPerRow(state, tile{positions: 1}, &p.passes[k])
		}
	}
}

// runPipelineStep runs each pass k over group step-k of the rows, if this group exists. Later passes run first,
// because each pass overwrites the rows that the next pass reads.
func (p *Plan) runPipelineStep(state *State, step, groups int) {
	firstPass, lastPass := max(0, step-groups+1), min(p.passesAtOnce-1, step)
	for pass := lastPass; pass >= firstPass; pass-- {
		group := step - pass
		for row := group * p.rowsPerGroup; row < (group+1)*p.rowsPerGroup; row++ {
			p.runRow(state, row, pass)
		}
	}
}

// runRow runs a pass over a row of runPipelinedRows.
func (p *Plan) runRow(state *State, row, pass int) {
	p.seekRow(state, row)
	p.runPass(state, tile{positions: 1}, &p.passes[pass])
	p.runPerRow(state, tile{positions: 1}, &p.passes[pass])
}

// seekRow sets state.tileBase to the addresses of a row. The first row of runPipelinedRows has index 0.
func (p *Plan) seekRow(state *State, row int) {
	for k, base := range state.rowBase {
		state.tileBase[k] = base
		if base != nil {
			state.tileBase[k] = unsafe.Add(base, row*p.objects[k].strides[firstKept])
		}
	}
}
