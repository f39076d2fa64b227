package rowprog

import (
	"slices"
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
// In a pipeline (pipeline.go), a group of one or two rows takes the place of a tile, and one call of the fused loop
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
	return len(passes) >= 2 && hasEnoughTiles && usesWholeRows && !p.hasStaged() &&
		!slices.ContainsFunc(passes, func(pass expr.RowPass) bool { return pass.Code == nil })
}

// rowCopies returns the number of buffers that fused passes need for a stored row, because each pass processes a
// different tile. If only the next pass reads the row, one buffer suffices: the loop overwrites each element right
// after it has read it.
func (p *Plan) rowCopies(row int) int {
	if p.passesAtOnce == 1 {
		return 1
	}
	stored, writingPass, lastReadingPass := expr.Place{Kind: expr.AtRow, N: row}, 0, 0
	for k := range p.program.Passes {
		if slices.Contains(p.program.Passes[k].Out, stored) {
			writingPass = k
		}
		if slices.Contains(p.program.Passes[k].In, stored) {
			lastReadingPass = k
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
		distance := groupRows * fusedPrefetch // in bytes
		prefetch = b.prefetch(in, isFirstPass, groupRows, distance)
	}
	cachedOutputs := b.cachedOutputs(out)
	hasNonTemporal := cachedOutputs != 1<<len(out)-1 // not all outputs have ordinary stores
	options := b.options(hasNonTemporal, prefetch)
	options.CachedOutputs = cachedOutputs
	loop, err := loops.New(exprLoop, options)
	if err != nil || !loop.Compiled() || b.maxLength(b.innerAxis()) > loop.MaxElements() {
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

// fusedTile is a tile that a pass processes while other passes process other tiles.
type fusedTile struct {
	tile
	base []unsafe.Pointer // State.tileBase for this tile
}

// fusedTile returns the entry of a tile in state.fusedTiles, which has the latest passesAtOnce tiles.
func (p *Plan) fusedTile(state *State, index int) *fusedTile {
	return &state.fusedTiles[index%p.passesAtOnce]
}

// runFusedTiles runs all passes over the tiles begin to end-1.
func (p *Plan) runFusedTiles(state *State, begin, end int, ptrs []unsafe.Pointer, worker []byte) {
	for len(state.fusedTiles) < p.passesAtOnce {
		state.fusedTiles = append(state.fusedTiles, fusedTile{})
	}
	// firstTile is the tile of the first pass; pass k processes tile firstTile-k.
	for firstTile := begin; firstTile < end+p.passesAtOnce-1; firstTile++ {
		if firstTile < end {
			next := p.fusedTile(state, firstTile)
			state.tileBase = next.base // memory for the addresses that setTile sets
			next.tile = p.setTile(state, firstTile, ptrs, worker)
			next.base = state.tileBase
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
			current := p.fusedTile(state, firstTile-pass)
			state.tileBase = current.base
			if !isFused {
				p.runPass(state, current.tile, &p.passes[pass])
			}
			p.runPerRow(state, current.tile, &p.passes[pass])
		}
	}
}

// areTilesEqual reports whether the tiles of all passes have the same size.
func (p *Plan) areTilesEqual(state *State) bool {
	for k := range p.passesAtOnce {
		if state.fusedTiles[k].positions != state.fusedTiles[0].positions {
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
		state.ptrs = append(state.ptrs, p.fusedTile(state, firstTile-pointer.pass).base[pointer.object])
		state.strides = append(state.strides, p.objects[pointer.object].strides[firstKept])
	}
	p.fused.loop.Run(&state.loops, state.ptrs, state.strides, p.reduced[0].length, state.fusedTiles[0].positions)
}
