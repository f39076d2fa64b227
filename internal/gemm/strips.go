package gemm

import (
	"sync"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
)

// This file runs the machine code of coded.go for one tile of C and one block of K. A term is the product
// A[i,k]*B[k,j] for one k. Rows of A and columns of B are both called lanes. A panel is a group of adjacent lanes,
// stored contiguously (plan.go). Functions call one another in this order:
//
//	computePanels    all strips of the tile: a strip is a block of rows times a panel of B
//	computeStrip     one strip
//	computeStacks    all stacks of the strip: a stack is a column of register tiles of equal height
//	computeTiles     one call of machine code: adjacent register tiles of a stack
//
// In the example of stacks.go, a strip of 100 rows and 64 columns has a stack of 15 register tiles of 6 rows and a
// stack of 2 register tiles of 5 rows. In plans with few rows (callsSpanPanels), a strip can have several panels. One
// call then computes a row of register tiles, one for each panel.
//
// Addresses and strides are passed in jit.Args, by the operand indices of package tile (tile.In is A, tile.Vec is B and
// tile.Out is C). Args.Ptr has base addresses, Args.Row has offsets from these addresses, and Args.Step has strides,
// all in bytes. computeStrip sets the values that all calls of a strip share, and computeTiles sets the values of one
// call. computeAndCopyPanel replaces the values of B during one call.
//
// In this file, a and b are operandViews: they have the addresses and strides of A and B for this tile and block.
// t.Plan.b describes how all tiles of the plan read B.

// argsPool recycles the arguments of calls, because a plan may run on any number of goroutines and Run must not
// allocate.
var argsPool = sync.Pool{New: func() any { return new(jit.Args) }}

// release returns arguments to the pool, without references to operands.
func release(args *jit.Args) {
	clear(args.Ptr[:])
	argsPool.Put(args)
}

// computePanels computes C[i0:i1, j0:j1] for one block of K. a and b are the terms of A and B in this block. The outer
// loop is over blocks of A that fit L2, and the inner loop is over panels of B.
func (t *tileState) computePanels(args *jit.Args, a, b *operandView, i0, i1, j0, j1 int) {
	panelWidth, block := t.Plan.b.panelWidth, t.rowsPerBlock
	for blockStart := i0; blockStart < i1; blockStart += block {
		blockEnd := min(blockStart+block, i1)
		for j, panels := j0, 1; j < j1; j += panels * panelWidth {
			panels = t.panelsPerCall(j, j1)
			t.computeStrip(args, a, b, strip{row: blockStart, rows: blockEnd - blockStart,
				col: j, cols: min(panelWidth, j1-j), panels: panels})
			if t.isLastBlock {
				t.runEpilogue(blockStart, blockEnd, j, min(j+panels*panelWidth, j1))
			}
			// countMACs counts multiplications, and checks for cancellation from time to time. stripCost is the cost of the
			// preparation.
			if t.recordedTo == nil { // else the calls are recorded and not executed
				t.countMACs(stripCost + (blockEnd-blockStart)*panels*panelWidth*t.kc)
			}
		}
	}
}

// panelsPerCall returns the number of full-width panels of B that one call processes, from column j on. j1 is the end
// of the columns.
func (t *tileState) panelsPerCall(j, j1 int) int {
	panelWidth := t.Plan.b.panelWidth
	if !t.callsSpanPanels {
		return 1
	}
	return max(1, min((j1-j)/panelWidth, callMACs/(t.spec.M*panelWidth*t.kc)))
}

// strip is a part of C: a block of rows, and the columns of a panel of B. If callsSpanPanels is set, it may have the
// columns of several panels.
type strip struct {
	row, rows int // first row, and number of rows
	col, cols int // first column, and number of columns of the first panel
	panels    int // number of panels
}

// tileRun is a run of adjacent register tiles of a stack. One call of machine code computes it.
type tileRun struct {
	stack    tileStack
	count    int // number of tiles
	row, col int // first row and column of the first tile in C
	cols     int // columns of a tile
	store    storeMode
	read     readMode
}

// computeStrip computes one strip.
func (t *tileState) computeStrip(args *jit.Args, a, b *operandView, s strip) {
	t.setOperands(args, a, b, s.col, s.cols)
	store, maxRowsPerCall := t.setStoreMode(args, s.col)
	t.setLinePrefetch(args, b, s.col)
	tiles := tileRun{row: s.row, col: s.col, cols: s.cols, store: store, read: readDirect}
	if t.callsSpanPanels {
		args.Step[tile.VecTile] = b.laneOffset(t.Plan.b.panelWidth) * b.elemBytes
		// The stack has one register tile for each panel, so all its tiles have the same rows.
		tiles.stack, tiles.count = tileStack{height: s.rows, count: s.panels}, s.panels
		t.computeTiles(args, a, tiles)
		return
	}
	// The stacks are kept for the next strip, which usually has the same size.
	if vectors := t.kernels.vectors(s.cols); t.stackedRows != s.rows || t.stackedVectors != vectors {
		t.stackedRows, t.stackedVectors = s.rows, vectors
		t.stacks, t.stackCount = t.Plan.stacks(s.rows, vectors)
	}
	// All stacks with several tiles have the height of the first stack, or one row less.
	tilesPerCall := max(1, maxRowsPerCall/t.stacks[0].height)
	t.computeStacks(args, a, tiles, tilesPerCall)
}

// computeStacks computes the stacks of a strip. A call of machine code computes at most tilesPerCall register tiles.
// `tiles` has the position of the strip, its columns and the modes. computeStacks sets the other fields for each call.
// Calls for different stacks alternate, so that a panel of A stays in the cache until all tiles of the panel are
// computed.
func (t *tileState) computeStacks(args *jit.Args, a *operandView, tiles tileRun, tilesPerCall int) {
	stripRow := tiles.row
	var tilesDone [len(t.stacks)]int // by stack: the number of tiles that are computed
	if isFirstWithPanel := stripRow == t.i0 || t.Plan.b.convertedOnce; t.copyPanels && isFirstWithPanel {
		tiles.stack, tiles.count, tiles.read = t.stacks[0], 1, readAndCopy
		t.computeAndCopyPanel(args, a, tiles)
		tilesDone[0], tiles.read = 1, readCopied
	}
	for unfinished := true; unfinished; {
		unfinished = false
		for i := range t.stackCount {
			stack, first := t.stacks[i], tilesDone[i]
			if first >= stack.count {
				continue
			}
			tilesDone[i] = min(first+tilesPerCall, stack.count)
			tiles.stack, tiles.count = stack, tilesDone[i]-first
			tiles.row = stripRow + stack.firstRow + first*stack.rowStep
			t.computeTiles(args, a, tiles)
			unfinished = unfinished || tilesDone[i] < stack.count
		}
	}
}

// computeAndCopyPanel computes the first register tile of a stack. It reads B in place or in 16-bit floats, and copies
// the panel for the other tiles of the stack. Afterwards, operand B in args is the panel again.
func (t *tileState) computeAndCopyPanel(args *jit.Args, a *operandView, first tileRun) {
	elemBytes, termStride := t.kernels.elemBytes, t.Plan.b.termStride
	panel, panelOffset, panelStep := args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm]
	// Write the copy to the panel.
	args.Ptr[tile.Packed], args.Row[tile.Packed] = panel, panelOffset
	// Read term k0 of B, from the first column on. In place, the columns of a term are contiguous.
	args.Ptr[tile.Vec], args.Row[tile.Vec] = t.memoryB.operand, (t.k0*termStride+first.col)*elemBytes
	args.Step[tile.VecTerm] = termStride * elemBytes
	if t.Plan.b.convertedOnce {
		args.Row[tile.Vec], args.Step[tile.VecTerm] = t.prepackedOffset(first.col), t.Plan.b.panelWidth*t.Plan.b.elemBytes
	} else {
		t.setRowPrefetch(args, first.col)
	}
	t.computeTiles(args, a, first)
	args.Ptr[tile.Vec], args.Row[tile.Vec], args.Step[tile.VecTerm] = panel, panelOffset, panelStep
}

// prepackedOffset returns the offset in bytes, from a prepacked B, of term k0 of the panel at a column.
func (t *tileState) prepackedOffset(column int) int {
	return (column*t.spec.K + t.k0*t.Plan.b.panelWidth) * t.Plan.b.elemBytes
}

// setOperands sets the addresses of the operands and of the result, for the panel of B at column j. The panel has cols
// columns: whole vectors, and a last vector of LastLanes columns.
func (t *tileState) setOperands(args *jit.Args, a, b *operandView, j, cols int) {
	set := t.kernels
	elemBytes := set.elemBytes
	args.InnerCount = t.kc
	args.Ptr[tile.In] = a.base
	args.Step[tile.InRow], args.Step[tile.InTerm] = a.laneStride*elemBytes, a.termStride*elemBytes
	args.Ptr[tile.Vec], args.Row[tile.Vec] = b.base, b.laneOffset(j-t.j0)*b.elemBytes
	args.Step[tile.VecTerm] = b.termStride * b.elemBytes
	args.Step[tile.LastLanes] = cols - (set.vectors(cols)-1)*set.lanes
	args.Ptr[tile.Out], args.Step[tile.OutRow] = t.ptrC, t.spec.CRowStride*elemBytes
}

// setStoreMode returns the storeMode of the block of K, and the maximum number of rows that a call computes for the
// panel at column j. A call computes at least one register tile, even if the tile has more rows. setStoreMode also sets
// the address of the temporary tile or of the bias, if the mode uses one.
func (t *tileState) setStoreMode(args *jit.Args, j int) (store storeMode, maxRowsPerCall int) {
	store, maxRowsPerCall = addLaterBlock, max(1, callMACs/(t.Plan.b.panelWidth*t.kc))
	switch {
	case t.spec.CColStride != 1: // machine code stores only rows of contiguous elements
		args.Ptr[tile.Out], args.Row[tile.Out], args.Step[tile.OutRow] = t.temporary(), 0, t.kernels.nr*t.kernels.elemBytes
		return storeTemporary, 1 // there is only one temporary tile
	case t.isFirstBlock: // the bias is added only once
		store = storeFirstBlock
		switch t.spec.Bias {
		case BiasRows:
			maxRowsPerCall = 1 // a call has only one address of a bias
			args.Ptr[tile.FirstEpilogueOperand] = t.biasRows()
		case BiasCols:
			args.Ptr[tile.FirstEpilogueOperand] = t.biasCols()
			args.Row[tile.FirstEpilogueOperand] = (j - t.j0) * t.kernels.elemBytes
		}
	}
	return store, maxRowsPerCall
}

// computeTiles computes adjacent register tiles by one call of machine code.
func (t *tileState) computeTiles(args *jit.Args, a *operandView, tiles tileRun) {
	code := t.setTileAddresses(args, a, tiles)
	if t.recordedTo != nil {
		*t.recordedTo = append(*t.recordedTo, callOf(code, args))
	} else if err := code.Call(args); err != nil {
		panic(err) // cannot happen: Call fails only if the code cannot be linked, but the plan has linked the code
	}
	t.advancePrefetches(args, tiles)
	if tiles.store == storeTemporary {
		t.merge(t.temporary(), tiles.row, tiles.col, tiles.stack.height, tiles.cols)
	}
}

// setTileAddresses sets the addresses of register tiles, and returns their code.
func (t *tileState) setTileAddresses(args *jit.Args, a *operandView, tiles tileRun) *jit.Func {
	plan, spec, set := t.Plan, &t.spec, t.kernels
	elemBytes, rowStep := set.elemBytes, tiles.stack.rowStep
	args.Rows = tiles.count
	args.Step[tile.InTile] = a.laneOffset(rowStep) * elemBytes
	args.Step[tile.OutTile] = rowStep * spec.CRowStride * elemBytes
	if plan.callsSpanPanels { // the tiles follow one another in a row of C
		args.Step[tile.OutTile] = plan.b.panelWidth * elemBytes
	}
	args.Row[tile.In] = a.laneOffset(tiles.row-t.i0) * elemBytes
	if tiles.store != storeTemporary {
		args.Row[tile.Out] = (tiles.row*spec.CRowStride + tiles.col) * elemBytes
	}
	if tiles.store == storeFirstBlock && spec.Bias == BiasRows {
		args.Row[tile.FirstEpilogueOperand] = (tiles.row - t.i0) * elemBytes
	}
	// In the other read modes, PrefetchOperands has the address of rows of B.
	if plan.prefetchResultInLoop && !plan.prefetchesRowsOfB(tiles.read) {
		args.Ptr[tile.PrefetchOperands], args.Row[tile.PrefetchOperands] = t.ptrC, args.Row[tile.Out]
		args.Step[tile.PrefetchStep] = spec.CRowStride * elemBytes
	}
	isPartial := tiles.cols%set.lanes > 0
	codes := *plan.codes.entry(tiles.store, tiles.read, isPartial)
	return codes[set.vectors(tiles.cols)][tiles.stack.height]
}
