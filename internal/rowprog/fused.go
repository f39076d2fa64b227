package rowprog

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
)

// fusedLoop is one loop that runs all passes over the rows, each over a different tile, which is a range of rows
// (software pipelining). While the first pass processes a tile, the second pass processes the tile before it, and so
// on. For three passes and four tiles:
//
//	step    pass 0    pass 1    pass 2
//	0       tile 0                         separate loops
//	1       tile 1    tile 0               separate loops
//	2       tile 2    tile 1    tile 0     the fused loop
//	3       tile 3    tile 2    tile 1     the fused loop
//	4                 tile 3    tile 2     separate loops
//	5                           tile 3     separate loops
//
// In a pipeline (see canPipeline), a group of one or two rows takes the place of a tile, and one call of the fused loop
// runs all of its steps.
//
// Memory accesses then overlap with computation. Softmax of 4096x4096 takes 3.6 ms instead of 6 ms (Zen 5). Rows of 33
// elements in the cache take 2/3 of the time, because the passes share the overhead of each row.
type fusedLoop struct {
	loop     *loops.Loop
	pointers []fusedPointer // by pointer of the loop
}

// fusedPointer describes a pointer of the fused loop. An object is memory that loops access: an output, an operand, or
// a buffer of the worker.
type fusedPointer struct {
	object     int // the object that the pass uses, or -1 for an output that is not stored
	pass       int // index of the pass
	rowInGroup int // index of the row among the rows that the pass processes together
}

// minTilesPerPass is the minimum number of tiles of a chunk, divided by the number of fused passes. Separate loops
// process the first and the last tiles of a chunk, so in shorter chunks the fused loop would process too few tiles.
const minTilesPerPass = 4

// canFuse reports whether passes can be fused. Every pass must have a loop that processes several rows in a call. Loops
// must use all operands in place. No row may be scanned, or cut into parts. A chunk must have enough tiles.
func (p *Plan) canFuse() bool {
	passes := p.program.Passes
	hasEnoughTiles := min(p.tilesPerChunk, p.tileCount) >= minTilesPerPass*len(passes)
	usesWholeRows := p.severalRowsPerCall && p.partsPerRow <= 1 && !p.program.Scans()
	if len(passes) < 2 || !hasEnoughTiles || !usesWholeRows || p.hasStaged() {
		return false
	}
	for k := range passes {
		if passes[k].Code == nil {
			return false
		}
	}
	return true
}

// minPipelinedRow is the minimum length of a row, in elements, for a pipeline. In measurements, no row of at least
// this length was slower with a pipeline.
const minPipelinedRow = 512

// canPipeline reports whether a pipeline is possible. In a pipeline, one call of the fused loop processes all rows of a
// chunk. Each pass lags by a group of rows instead of a tile. Rows must be long, because the computations once per row
// are called for each row separately. On Emerald Rapids, softmax of 4096x4096 takes 4.2 ms instead of 5 ms, and
// layer_norm of 8192x2048 takes 3.8 ms instead of 4.9 ms.
func (p *Plan) canPipeline(groupRows int) bool {
	for k := range p.program.Rows {
		out := p.program.Rows[k].Out
		isInWorkerMemory := out < 0 || p.hasNonTemporalStores(out)
		if isInWorkerMemory && (p.rowCopies(k) > 1 || groupRows > 1) { // this memory has one row in a pipeline
			return false
		}
	}
	return p.canFuse() && p.rowLen >= minPipelinedRow
}

// rowCopies returns the number of buffers that fused passes need for a stored row, because each pass processes a
// different tile. If only the next pass reads the row, one buffer suffices: the loop overwrites each element right
// after it has read it.
func (p *Plan) rowCopies(row int) int {
	if p.passesAtOnce == 1 {
		return 1
	}
	writingPass, lastReadingPass := 0, 0
	for k := range p.program.Passes {
		for _, place := range p.program.Passes[k].Out {
			if place.Kind == expr.AtRow && place.N == row {
				writingPass = k
			}
		}
		for _, place := range p.program.Passes[k].In {
			if place.Kind == expr.AtRow && place.N == row {
				lastReadingPass = k
			}
		}
	}
	return max(1, lastReadingPass-writingPass)
}

// evictsSharedOperands reports whether fused passes would evict the operands that all rows share, such as a weight,
// from L1. It returns true only for passes that compute little and use non-temporal stores. On Zen 5, layer_norm of
// 4096x4096 takes 4.4 ms with fused passes and 3.4 ms with separate passes. Fused passes are faster with rows of 2048
// elements (2.6 against 3.5 ms). They are also faster with rows of 8192 elements without weight and bias (2.9 against
// 3.2 ms). A fused loop over two rows reads shared operands once for both rows: on Emerald Rapids, layer_norm of
// 4096x4096 takes 4.6 ms with two rows, 5 ms with one row, and 6 ms with separate passes.
func (p *Plan) evictsSharedOperands() bool {
	if p.elementCost > 1 || !p.hasNonTemporalOutput() {
		return false
	}
	hasShared := false
	rowBytes := 0 // bytes that the passes read for a row
	for k := range p.program.Passes {
		for _, place := range p.program.Passes[k].In {
			switch {
			case place.Kind == expr.AtOperand && p.variesInRow(p.outCount+place.N):
				rowBytes += p.metas[p.outCount+place.N].DType.Size() * p.rowLen
				hasShared = hasShared || p.kept[0].strides[p.outCount+place.N] == 0
			case place.Kind == expr.AtRow:
				rowBytes += p.program.Rows[place.N].DType.Size() * p.rowLen
			}
		}
	}
	return hasShared && rowBytes > machine.L1Bytes*3/2
}

// hasNonTemporalOutput reports whether an output is written with non-temporal stores.
func (p *Plan) hasNonTemporalOutput() bool {
	for output := range p.outCount {
		if p.hasNonTemporalStores(output) {
			return true
		}
	}
	return false
}

// fuse compiles the fused loop. b.fused remains nil if the program cannot be fused, a row is too long for one call, or
// there is no machine code for the loop.
func (b *builder) fuse() error {
	if len(b.stagedCopies) > 0 {
		return nil
	}
	code, folds, in, out, err := b.fusedCode()
	if err != nil || code == nil || len(code.In)+len(code.Out) > expr.MaxOperands {
		return err
	}
	exprLoop := b.newExprLoop(code, in)
	exprLoop.Folds, exprLoop.CombinesLanes = folds, len(folds) > 0
	var prefetch loops.Prefetch
	if b.rowsPerGroup == 0 || b.elementCost > 1 { // otherwise the hardware prefetcher suffices
		groupRows := max(1, b.rowsPerGroup)
		// Element is pass*groupRows plus the row in its group.
		isFirstPass := func(place expr.Place) bool { return place.Element < groupRows }
		prefetch = b.prefetch(in, isFirstPass, groupRows, groupRows*fusedPrefetch)
	}
	cachedOutputs := b.cachedOutputs(out)
	hasNonTemporal := cachedOutputs != 1<<len(out)-1 // not all outputs have ordinary stores
	options := b.options(hasNonTemporal, prefetch)
	options.CachedOutputs = cachedOutputs
	loop, err := loops.New(exprLoop, options)
	if err != nil || !loop.Compiled() || b.maxLength(0) > loop.MaxElements() {
		return err
	}
	if pointers, ok := b.fusedPointers(out, in); ok {
		b.fused = &fusedLoop{loop: loop, pointers: pointers}
	}
	return nil
}

// fusedCode returns the code of the fused loop, and the places of its operands and outputs.
func (b *builder) fusedCode() (code *expr.Code, folds []expr.Fold, in, out []expr.Place, err error) {
	if b.rowsPerGroup == 0 {
		return b.program.Overlap()
	}
	isShared := func(operand int) bool { return b.kept[0].strides[b.outCount+operand] == 0 }
	return b.program.Pipeline(b.rowsPerGroup, isShared)
}

// cachedOutputs returns the bit set of the outputs with ordinary stores, not non-temporal ones.
func (b *builder) cachedOutputs(out []expr.Place) (bits uint32) {
	for output, place := range out {
		if place.Kind != expr.AtOutput || !b.hasNonTemporalStores(place.N) {
			bits |= 1 << output
		}
	}
	return bits
}

// fusedPointers returns the pointers of the fused loop: outputs, operands, and the results of folds by pass and then by
// row of the group. ok is false if a fold has accumulators in memory, because the fused loop computes one number for
// each row (CombinesLanes).
func (b *builder) fusedPointers(out, in []expr.Place) (pointers []fusedPointer, ok bool) {
	groupRows := max(1, b.rowsPerGroup)
	for _, list := range [][]expr.Place{out, in} {
		for _, place := range list {
			pointers = append(pointers, fusedPointer{object: b.loopObject(place),
				pass: place.Element / groupRows, rowInGroup: place.Element % groupRows})
		}
	}
	for pass := range b.passes {
		for row := range groupRows {
			for foldIndex := range b.passes[pass].folds {
				passFold := &b.passes[pass].folds[foldIndex]
				if passFold.laneAccs >= 0 {
					return nil, false
				}
				pointers = append(pointers, fusedPointer{object: passFold.result, pass: pass, rowInGroup: row})
			}
		}
	}
	return pointers, true
}

// runFusedTiles runs all passes over the tiles begin to end-1.
func (p *Plan) runFusedTiles(state *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	for len(state.passBases) < p.passesAtOnce {
		state.passBases = append(state.passBases, nil)
		state.tiles = append(state.tiles, tile{})
	}
	// firstTile is the tile of the first pass; pass k processes tile firstTile-k. Tile i has its state in slot
	// i%passesAtOnce.
	for firstTile := begin; firstTile < end+p.passesAtOnce-1; firstTile++ {
		if firstTile < end {
			slot := firstTile % p.passesAtOnce
			state.tileBase = state.passBases[slot]
			state.tiles[slot] = p.setTile(state, firstTile, ptrs, worker)
			state.passBases[slot] = state.tileBase
		}
		// Pass k has a tile if begin <= firstTile-k < end.
		firstPass, lastPass := max(0, firstTile-end+1), min(p.passesAtOnce-1, firstTile-begin)
		// The fused loop needs a tile for each pass, and tiles of equal size.
		everyPassHasTile := firstPass == 0 && lastPass == p.passesAtOnce-1
		isFused := everyPassHasTile && p.areTilesEqual(state)
		if isFused {
			p.runFusedTile(state, firstTile)
		}
		// Later passes run first, because each pass overwrites the rows that the next pass reads.
		for pass := lastPass; pass >= firstPass; pass-- {
			slot := (firstTile - pass) % p.passesAtOnce
			state.tileBase = state.passBases[slot]
			if !isFused {
				p.runPass(state, state.tiles[slot], &p.passes[pass])
			}
			p.runPerRow(state, state.tiles[slot], &p.passes[pass])
		}
	}
}

// areTilesEqual reports whether the tiles of all passes have the same size.
func (p *Plan) areTilesEqual(state *State) bool {
	for k := range p.passesAtOnce {
		if state.tiles[k].positions != state.tiles[0].positions {
			return false
		}
	}
	return true
}

// runFusedTile runs the fused loop over tile firstTile for the first pass, tile firstTile-1 for the second pass, and so
// on.
func (p *Plan) runFusedTile(state *State, firstTile int) {
	state.ptrs, state.strides = state.ptrs[:0], state.strides[:0]
	for _, pointer := range p.fused.pointers {
		if pointer.object < 0 {
			state.ptrs, state.strides = append(state.ptrs, nil), append(state.strides, 0)
			continue
		}
		state.ptrs = append(state.ptrs, state.passBases[(firstTile-pointer.pass)%p.passesAtOnce][pointer.object])
		state.strides = append(state.strides, p.objects[pointer.object].keptStride)
	}
	p.fused.loop.Run(&state.loops, state.ptrs, state.strides, p.reduced[0].length, state.tiles[0].positions)
}

// runAsPipeline runs all passes over the tiles begin to end-1 as a pipeline of rows. Each pass lags behind the previous
// pass by one group of rows (see rowsPerGroup).
func (p *Plan) runAsPipeline(state *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	if len(state.passBases) == 0 {
		state.passBases = append(state.passBases, nil)
	}
	for next := begin; next < end; { // each iteration: the tiles at one position along the kept axes after kept[0]
		position := next / p.tilesAlongFirstKept
		last := min(end, (position+1)*p.tilesAlongFirstKept) - 1
		lastTile := p.setTile(state, last, ptrs, worker)
		rows := (last-next)*p.tileLen + lastTile.positions
		p.setTile(state, next, ptrs, worker)
		state.passBases[0] = append(state.passBases[0][:0], state.tileBase...)
		p.runPipelinedRows(state, rows)
		next = last + 1
	}
}

// runPipelinedRows runs all passes over consecutive rows. Pass k is k groups of rows behind the first pass. The fused
// loop runs all passes together while all of them have a group; before and after this, runPipelineStep runs them
// separately. The remaining rows, fewer than a group, are processed one at a time.
func (p *Plan) runPipelinedRows(state *State, rows int) {
	lag := p.passesAtOnce - 1 // of the last pass behind the first one, in groups
	groups, step := rows/p.rowsPerGroup, 0
	if groups > lag {
		for ; step < lag; step++ { // until all passes have begun
			p.runPipelineStep(state, step, groups)
		}
		p.runFusedRows(state, groups-lag)
		// The fused loop ends with group groups-1 in pass 0, group groups-2 in pass 1, and so on.
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
		rowStride := p.objects[pointer.object].keptStride
		row := (p.passesAtOnce-1-pointer.pass)*p.rowsPerGroup + pointer.rowInGroup
		state.ptrs = append(state.ptrs, unsafe.Add(state.passBases[0][pointer.object], row*rowStride))
		state.strides = append(state.strides, p.rowsPerGroup*rowStride)
	}
	p.fused.loop.Run(&state.loops, state.ptrs, state.strides, p.reduced[0].length, groups)
}

// computeNumbers runs the computations once per row of the first passes over a group of rows. The fused loop has run
// these passes, but it does not store the numbers of rows. The later passes, which run separately, need them.
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
	for k, base := range state.passBases[0] {
		state.tileBase[k] = base
		if base != nil {
			state.tileBase[k] = unsafe.Add(base, row*p.objects[k].keptStride)
		}
	}
}
