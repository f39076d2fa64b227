package gemm

import (
	"math/bits"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// This file chooses the prefetches of register tiles, and sets the addresses of the prefetches. A panel has some
// adjacent columns of B, packed or in B itself. A term is a step along K. A block of K has kc terms, and a super-block
// has several blocks. The register tiles of a strip multiply different rows of A by the same panel. Together they
// prefetch the next panel or the result. The loop over terms has two forms of prefetches:
//
//	lines  in each iteration, prefetchLines consecutive cache lines of packed panels; an iteration has four terms
//	rows   once in several terms, a row of the next panel in B itself, or a row of the result
//
// Both forms spread the prefetches over the loop, because many prefetches at once would delay the loads of the tile.
// For example, a panel of 64 columns of float32 and 512 terms has 512 rows of 4 cache lines. A strip of 8 register
// tiles executes 8 * 128 iterations. Together, its tiles prefetch the next panel if each prefetches 2 lines in each
// iteration, or a row every 8 terms.
//
// B is read in one of three modes. Tiles of mode readDirect read packed panels, or B in place. If the first tile of a
// strip also copies B into a panel, it has mode readAndCopy. The other tiles of the strip read the copy, and have mode
// readCopied.

const (
	// maxPrefetchLines is the maximum number of cache lines that an iteration prefetches if several tiles read a panel.
	// More prefetches would delay one another.
	maxPrefetchLines = 4
	// prefetchBytes is the prefetch distance in bytes within a panel that only one tile reads.
	prefetchBytes = 16 << 10
)

// linesToPrefetch returns the number of lines that an iteration prefetches (Plan.prefetchLines). If several tiles read
// a panel, each prefetches a part of the next panel. If only one tile reads a panel, it prefetches this panel itself,
// prefetchBytes ahead of its loads. B is often a constant that has left the caches since the previous run, and the
// hardware prefetcher stops at page boundaries.
func (p *Plan) linesToPrefetch(read readMode) int {
	justPacked := p.b.packsPerTile() && read == readDirect // the panels are in the caches
	hasOnePanel := p.spec.N <= p.b.panelWidth
	if p.spec.BInCache || p.b.inPlace || justPacked || hasOnePanel {
		return 0
	}
	tiles := p.tilesPerStrip()
	lines := tile.DefaultUnroll * p.b.panelWidth * p.b.elemBytes / machine.LineBytes // read by an iteration
	if tiles == 1 && read == readDirect {
		return lines // of the tile's own panel
	}
	return min(ceilDiv(lines, tiles), maxPrefetchLines)
}

// rowPrefetches returns the prefetches of rows by register tiles that read B in the given mode, with `vectors` vectors
// and `height` rows.
func (p *Plan) rowPrefetches(read readMode, vectors, height int) []tile.Prefetch {
	elems := vectors * p.kernels.lanes // of a row of the tile
	rowLines := ceilDiv(elems*p.kernels.elemBytes, machine.LineBytes)
	switch {
	case p.prefetchesRowsOfB(read): // each of the strip's n tiles prefetches about kc/n of the kc rows
		return []tile.Prefetch{{Lines: rowLines, Every: p.prefetchInterval}}
	case p.prefetchResultInLoop: // prefetch each of the tile's rows of the result during the kc terms of a block
		return []tile.Prefetch{{Lines: rowLines, Every: powerOfTwoAtMost(p.kc / height)}}
	}
	return nil
}

// prefetchesRowsOfB reports whether register tiles that read B in the given mode prefetch rows of B in place.
func (p *Plan) prefetchesRowsOfB(read readMode) bool { return read != readDirect && !p.b.convertedOnce }

// powerOfTwoAtMost returns the greatest power of two that is at most n. If n is less than DefaultUnroll, the number of
// terms of an iteration, it returns DefaultUnroll.
func powerOfTwoAtMost(n int) int { return 1 << (bits.Len(uint(max(n, tile.DefaultUnroll))) - 1) }

// prefetchesResult reports whether tiles prefetch rows of the result before they write them. Each row of the result
// must be contiguous. The result must exceed half of L2. If B is not prepacked, a smaller result suffices: it must
// exceed a quarter of L2, and result and operands together must exceed L2. If B is prepacked, tiles already prefetch
// lines of B, and prefetching such a smaller result gains nothing.
func (p *Plan) prefetchesResult() bool {
	spec := &p.spec
	exceedsHalfL2 := spec.M*spec.N*p.kernels.elemBytes > machine.L2Bytes/2
	leavesCaches := exceedsHalfL2 ||
		spec.B.Source != Prepacked && p.leavesCache(spec.M*spec.N, machine.L2Bytes/4, machine.L2Bytes)
	return spec.CColStride == 1 && leavesCaches
}

// setLinePrefetch sets the address from which the tiles of a strip prefetch lines. column is the first column of the
// strip's panel.
func (t *tileState) setLinePrefetch(args *jit.Args, b *operandView, column int) {
	panelWidth, lines := t.Plan.b.panelWidth, &t.Plan.prefetchLines
	if lines[readDirect] == 0 && lines[readCopied] == 0 {
		return
	}
	hasNextPanel := column+panelWidth < t.spec.N
	prefetchedColumn, aheadBytes := column, 0 // if there is no next panel, this panel is prefetched again
	switch {
	case t.Plan.prefetchesOwnPanel:
		aheadBytes = prefetchBytes
	case hasNextPanel:
		prefetchedColumn += panelWidth
	}
	args.Ptr[tile.Prefetched] = b.base
	args.Row[tile.Prefetched] = b.laneOffset(prefetchedColumn-t.j0)*b.elemBytes + aheadBytes
	if t.Plan.b.convertedOnce {
		args.Ptr[tile.Prefetched], args.Row[tile.Prefetched] = t.memoryB.operand, t.prepackedOffset(prefetchedColumn)
	}
}

// setRowPrefetch sets the address from which the tiles of a strip prefetch rows of B. column is the first column of the
// strip's panel.
func (t *tileState) setRowPrefetch(args *jit.Args, column int) {
	elemBytes := t.kernels.elemBytes
	args.Ptr[tile.PrefetchOperands] = t.memoryB.operand
	args.Row[tile.PrefetchOperands] = t.nextPanelOffset(column) * elemBytes
	args.Step[tile.PrefetchStep] = t.Plan.b.termStride * elemBytes
}

// nextPanelOffset returns the offset in B, in elements, of the panel that is read after the panel at a column. A tile
// of C has the columns [j0, j1). It reads all its panels for the block of kc terms from k0, then for the next block.
func (t *tileState) nextPanelOffset(column int) int {
	b := &t.Plan.b
	switch nextColumn, nextBlock := column+b.panelWidth, t.k0+t.kc; {
	case nextColumn < t.j1: // the next panel of the block
		return t.k0*b.termStride + nextColumn
	case nextBlock < t.superBlockStart+t.superBlockTerms: // the first panel of the next block
		return nextBlock*b.termStride + t.j0
	case nextColumn < t.spec.N: // the first panel of the next tile of C
		return t.superBlockStart*b.termStride + nextColumn
	}
	return t.k0*b.termStride + column // there is no next panel
}

// advancePrefetches advances the addresses by the lines and rows that the given tiles have prefetched.
func (t *tileState) advancePrefetches(args *jit.Args, tiles tileRun) {
	iterations := t.kc / tile.DefaultUnroll // of a tile
	lines := tiles.count * iterations * t.Plan.prefetchLines[tiles.read]
	args.Row[tile.Prefetched] += lines * machine.LineBytes
	if t.Plan.prefetchesRowsOfB(tiles.read) {
		iterationsPerRow := t.Plan.prefetchInterval / tile.DefaultUnroll
		rows := tiles.count * ceilDiv(iterations, iterationsPerRow)
		args.Row[tile.PrefetchOperands] += rows * args.Step[tile.PrefetchStep]
	}
}
